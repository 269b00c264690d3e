"""VolumeBinding and VolumeZone: whether a node can reach the volumes of a pod, or gets new ones.

Bound claims: the node affinity and the zone labels of their volumes. Claims that wait for their pod: the smallest free
volume that fits, else a provisioner that may serve the node and has room. The rules and the words are kube-scheduler
1.36's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.cluster.volumes.claims import GA_LABELS, ZONE_LABELS
from bayplan.cluster.volumes.needs import UnboundClaim
from bayplan.cluster.volumes.static import NO_VOLUME, selector_from
from bayplan.engine.numa.rows import Codes, Mask, Rows, count
from bayplan.plugins.base import FilterPlugin

NOT_REACHED, NO_VOLUME_FOUND, NO_SPACE, FAILED_BEFORE = 1, 2, 3, 4
CAUSES = {
    NOT_REACHED: "node(s) didn't match PersistentVolume's node affinity",
    NO_VOLUME_FOUND: "node(s) didn't find available persistent volumes to bind",
    NO_SPACE: "node(s) did not have enough free storage",
    FAILED_BEFORE: "node(s) failed to provision a volume for the pod before",
}
UNLIMITED = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class VolumeBinding(FilterPlugin):
    """Filter on bound volumes, free volumes and provisioners. `bind_timeout` is how many seconds binding may take."""

    bind_timeout: int = 600
    name: str = "VolumeBinding"
    reads_usage: bool = True

    def applies(self, pod: PodClass) -> bool:
        """True for pods with claims."""
        return bool(pod.volumes.bound or pod.volumes.unbound)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return the code of the first claim that a node cannot satisfy."""
        codes = _unbound_refusals(state, pod.volumes.unbound)[rows]
        for each in pod.volumes.bound:
            if each.affinity:
                codes[~state.terms.matching(selector_from(each.affinity), rows)] = NOT_REACHED
        return codes

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """Check one node, without choosing volumes for the others."""
        one = slice(row, row + 1)
        for each in pod.volumes.bound:
            if each.affinity and not state.terms.matching(selector_from(each.affinity), one)[0]:
                return NOT_REACHED
        searching = [claim for claim in pod.volumes.unbound if not claim.selected]
        chosen = state.volumes.static.choices_on(row, searching)
        if not any(claim.selected or claim.avoided for claim in pod.volumes.unbound) and NO_VOLUME not in chosen:
            return 0
        return int(_unbound_refusals(state, pod.volumes.unbound)[row])

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return CAUSES[code]


@dataclass(frozen=True, slots=True)
class VolumeZone(FilterPlugin):
    """Filter on the zone and region labels of bound volumes. Nodes without any such label pass."""

    name: str = "VolumeZone"
    reads_usage: bool = False

    def applies(self, pod: PodClass) -> bool:
        """True for pods with a bound volume that has zone labels."""
        return any(each.zones for each in pod.volumes.bound)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """Return 1 for nodes in another zone."""
        has_zone = np.zeros(count(rows), dtype=np.bool_)
        for key in ZONE_LABELS:
            has_zone |= state.terms.has_label(key, rows)
        refused = np.zeros(count(rows), dtype=np.bool_)
        for key, values in {zone for each in pod.volumes.bound for zone in each.zones}:
            matches = state.terms.has_value(key, values, rows)
            if key in GA_LABELS:
                renamed = state.terms.has_value(GA_LABELS[key], values, rows)
                matches |= renamed & ~state.terms.has_label(key, rows)
            refused |= ~matches
        return (refused & has_zone).astype(np.uint8)

    def cause(self, pod: PodClass, code: int) -> str:
        """Return kube-scheduler's message."""
        return "node(s) had no available volume zone"


def volume_slots(state: ClusterState, pod: PodClass) -> NDArray[np.int64] | None:
    """Return how many pods of a class find volumes on each row; None if volumes do not limit it.

    Free volumes are counted like devices. Those of one class are nested by size, so it is enough to count, for each
    size, the volumes that are at least so large. A volume that several nodes reach counts on each of them; taking a
    seat takes the volume, and the next one is judged without it. What all pods of the class share counts once.
    """
    slots = attachable_slots(state, pod)
    by_kind: dict[tuple[object, ...], list[UnboundClaim]] = {}
    for claim in pod.volumes.unbound:
        if not (claim.reserved or claim.selected):
            kind = claim.storage_class, claim.modes, claim.volume_mode, claim.selector, claim.attributes_class
            by_kind.setdefault(kind, []).append(claim)
    for claims in by_kind.values():
        own = sorted((claim for claim in claims if not claim.shared), reverse=True)
        if not own:
            continue
        allowed, room = state.volumes.provisioned_on(own[0])
        most = np.full(len(slots), UNLIMITED, dtype=np.int64)
        for number, claim in enumerate(own, start=1):
            larger = sum(each.shared != "" and each.size >= claim.size for each in claims)
            free = state.volumes.static.free_on_rows(claim) - np.where(allowed, 0, larger)
            most = np.minimum(most, np.maximum(free, 0) // number)
        asked = sum(claim.size for claim in own)
        provisioned = np.where(allowed, room // max(asked, 1), 0)
        slots = np.minimum(slots, most + np.minimum(provisioned, UNLIMITED))
    return slots if (slots < UNLIMITED).any() else None


def attachable_slots(state: ClusterState, pod: PodClass) -> NDArray[np.int64]:
    """Return how many pods of a class each row can attach the volumes of."""
    slots = np.full(state.columns.size, UNLIMITED, dtype=np.int64)
    attached = state.volumes.attached
    for driver, number in pod.volumes.attached:
        room = attached.room(driver, len(slots))
        shared = [claim for of_driver, claim in pod.volumes.shared if of_driver == driver]
        together = np.full(len(slots), len(shared), dtype=np.int64)
        for claim in shared:
            together[list(attached.rows_with(claim))] -= 1
        own = number - len(shared)
        each = np.maximum(room - together, 0) // own if own else np.full(len(slots), UNLIMITED, dtype=np.int64)
        slots = np.minimum(slots, np.where(together > np.maximum(room, 0), 0, each))
    return slots


def _unbound_refusals(state: ClusterState, claims: tuple[UnboundClaim, ...]) -> Codes:
    """Return the code of each row for claims that are bound with their pod."""
    size = state.columns.size
    codes: Codes = np.zeros(size, dtype=np.uint8)
    if not claims:
        return codes
    searching = [claim for claim in claims if not claim.selected]
    choices = state.volumes.static.choices(searching)
    unmatched: NDArray[np.int64] = np.full(size, NO_VOLUME, dtype=np.int64)
    pairs = [*zip(searching, choices, strict=True), *((claim, unmatched) for claim in claims if claim.selected)]
    for claim, choice in pairs:
        allowed, room = state.volumes.provisioned_on(claim)
        missing: Mask = choice == NO_VOLUME
        codes[missing & (room < claim.size) & (codes == 0)] = NO_SPACE
        codes[missing & ~allowed] = NO_VOLUME_FOUND
        for node in claim.avoided:
            row = state.rows.get(node)
            if row is not None and codes[row] == 0:
                codes[row] = FAILED_BEFORE
        if claim.selected:
            elsewhere = np.ones(size, dtype=np.bool_)
            elsewhere[[state.rows[node] for node in claim.selected if node in state.rows]] = False
            codes[elsewhere] = NO_VOLUME_FOUND
    return codes
