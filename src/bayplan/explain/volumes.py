"""What is in the way of a pod's claims: for each one, why no volume of its class serves it.

In come the class of a pod and the state, out go lines for `why.py`. Claims of equal pods are told apart by what they
ask for, not by name.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.cluster.volumes.needs import UnboundClaim
from bayplan.cluster.volumes.static import claim_of, size_of
from bayplan.explain.amounts import count, human
from bayplan.explain.topology.hostlist import hostlist
from bayplan.kube.wire.core_v1_volumes import PersistentVolume
from bayplan.plugins.volume_binding import CAUSES, NO_VOLUME_FOUND, attachable_slots, volume_slots
from bayplan.scheduling.decision import Shortfall

MOST_VOLUMES = 3
# Phases of volumes whose claim is gone.
GIVEN_UP = ("Released", "Failed")
WIDTH_OF_NODES = 40


def volumes_behind(state: ClusterState, pod: PodClass, shortfall: Shortfall) -> tuple[str, ...]:
    """Why claims find no volume, and which claim another pod holds, if that keeps nodes closed."""
    causes = {cause.cause for cause in shortfall.causes}
    found = [
        f"claim {claim} is in use by {user}" for claim in pod.volumes.in_use for user in state.volumes.holders_of(claim)
    ]
    if CAUSES[NO_VOLUME_FOUND] in causes:
        searching = (claim for claim in pod.volumes.unbound if not claim.selected)
        found += dict.fromkeys(_why_none(state, claim) for claim in searching)
    return tuple(found)


def volumes_that_limit(
    state: ClusterState, pod: PodClass, slots: NDArray[np.int64], rows: NDArray[np.intp]
) -> tuple[str, ...]:
    """On how many nodes volumes keep more pods of a class away, of those that have slots for some."""
    most = volume_slots(state, pod)
    if most is None:
        return ()
    limited = (slots > 0) & (slots == most[rows])
    by_attaching = limited & (attachable_slots(state, pod)[rows] == slots)

    def told(nodes: NDArray[np.bool_], verb: str) -> str:
        more = count(int(slots[nodes].max()), "more such pod")
        return f"{int(nodes.sum())} of {count(len(rows), 'node')} can {verb} at most {more}"

    drivers = ", ".join(driver for driver, _ in pod.volumes.attached)
    found = [f"{told(by_attaching, 'attach those of')} ({drivers})"] if by_attaching.any() else []
    by_volumes = limited & ~by_attaching
    return (*found, told(by_volumes, "reach free ones for")) if by_volumes.any() else tuple(found)


def _why_none(state: ClusterState, claim: UnboundClaim) -> str:
    allowed, _ = state.volumes.provisioned_on(claim)
    wanted = f'{human("storage", claim.size)} of class "{claim.storage_class}"'
    provisioner = state.volumes.provisioner_of(claim.storage_class)
    if not provisioner:
        made = "it has no provisioner"
    elif allowed.any():
        made = f"{provisioner} provisions on some nodes only (allowedTopologies)"
    else:
        made = f"{provisioner} provisions on no node (allowedTopologies)"
    volumes = sorted(state.volumes.static.of_class(claim.storage_class), key=lambda each: each.metadata.name)
    open_ones = [each for each in volumes if not claim_of(each) or each.status.phase in GIVEN_UP]
    told = [f"{volume.metadata.name} {_why_not(state, volume, claim)}" for volume in open_ones[:MOST_VOLUMES]]
    if len(open_ones) > MOST_VOLUMES:
        told.append(f"and {len(open_ones) - MOST_VOLUMES} more")
    return f"{wanted}: {made}; {', '.join(told) or 'no free volume is of the class'}"


def _why_not(state: ClusterState, volume: PersistentVolume, claim: UnboundClaim) -> str:
    """What keeps a volume of the class from a claim."""
    size = size_of(volume)
    if volume.metadata.deletion_timestamp:
        return "is being deleted"
    if volume.status.phase not in ("", "Available"):
        return f"is {volume.status.phase}"
    if size < claim.size:
        return f"has only {human('storage', size)}"
    missing = [mode for mode in claim.modes if mode not in (volume.spec.access_modes or ())]
    if missing:
        return f"is not {' or '.join(missing)}"
    if (volume.spec.volume_mode or "Filesystem") != claim.volume_mode:
        return f"has volumeMode {volume.spec.volume_mode or 'Filesystem'}"
    rows, usable = state.volumes.static.rows_of(volume), state.volumes.static.usable_for(claim)
    if not len(rows):
        return "is reached by no node"
    if volume.metadata.name not in {state.volumes.static.name(number) for number, _ in usable}:
        return "is taken, or has other labels"
    return f"is reached only by {hostlist([state.names[row] for row in rows], WIDTH_OF_NODES)}"
