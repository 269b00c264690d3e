"""Volumes where pods of different classes meet on a node.

Slots count pods of one class (`plugins/volume_binding.py`). Pods of several classes share what their node can still
attach of each CSI driver, where a claim that several of them use counts once, and they share the free volumes that the
node reaches and what can be provisioned there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.volumes.attached import DRIVER_OF_PLUGIN, UNLIMITED
from bayplan.cluster.volumes.catalogue import Volumes
from bayplan.cluster.volumes.needs import UnboundClaim, VolumeNeeds
from bayplan.cluster.volumes.sharing import distinct

Column = NDArray[np.int64]
ANY_SIZE = np.iinfo(np.int64).max


def own_volumes(needs: VolumeNeeds) -> dict[str, int]:
    """By driver, how many volumes each pod attaches for itself."""
    shared = Counter(driver for driver, _ in needs.shared)
    return {driver: number - shared[driver] for driver, number in needs.attached if number > shared[driver]}


def compete(volumes: Volumes, needs: Sequence[VolumeNeeds]) -> bool:
    """True if pods with different needs can be in each other's way on a node."""
    drivers = Counter(driver for each in needs for driver in {_csi(driver) for driver, _ in each.attached})
    return any(number > 1 for number in drivers.values()) or bool(_contested(volumes, needs))


def _contested(volumes: Volumes, needs: Sequence[VolumeNeeds]) -> set[str]:
    """The storage classes of which pods with different needs ask for volumes, and which do not have enough for all."""
    by_class: dict[str, list[UnboundClaim]] = {}
    for each in needs:
        for claim in {claim.storage_class: claim for claim in _own_claims(each)}.values():
            by_class.setdefault(claim.storage_class, []).append(claim)
    return {
        name for name, claims in by_class.items() if len(claims) > 1 and not all(_is_ample(volumes, c) for c in claims)
    }


def _own_claims(needs: VolumeNeeds) -> list[UnboundClaim]:
    """The claims that each pod has for itself and that have no volume yet."""
    return [claim for claim in needs.unbound if not (claim.shared or claim.reserved or claim.selected)]


def _is_ample(volumes: Volumes, claim: UnboundClaim) -> bool:
    """True if however many volumes can be provisioned, or none at all can be had."""
    allowed, room = volumes.provisioned_on(claim)
    unlimited = bool((room[allowed] == ANY_SIZE).all())
    return unlimited and (bool(allowed.all()) or next(volumes.static.usable_for(claim), None) is None)


def volume_sums(volumes: Volumes, needs: Sequence[VolumeNeeds], size: int) -> Iterator[tuple[str, list[int], Column]]:
    """Yield what different pods take of the same: its name, how much each takes, and how much each row has at most."""
    own = [own_volumes(each) for each in needs]
    for driver in sorted({driver for each in own for driver in each}):
        takes = [each.get(driver, 0) for each in own]
        if sum(number > 0 for number in takes) > 1:
            yield f"volumes of {driver}", takes, np.maximum(volumes.attached.room(driver, size), 0)
    for name in sorted(_contested(volumes, needs)):
        waiting = [[claim for claim in _own_claims(each) if claim.storage_class == name] for each in needs]
        claims = {claim for each in waiting for claim in each}
        if not any(volumes.provisioned_on(claim)[0].any() for claim in claims):
            yield f"volumes of class {name}", [len(each) for each in waiting], volumes.static.free_for_any(claims)


class VolumesTogether:
    """What nodes have for pods with some of these needs together, as long as the state stays as it is."""

    def __init__(self, volumes: Volumes, needs: Sequence[VolumeNeeds]) -> None:
        self._volumes = volumes
        self._own = [own_volumes(each) for each in needs]
        self._shared = [each.shared for each in needs]
        self._drivers = sorted({driver for each in needs for driver, _ in each.attached})
        self._claims = sorted({claim for shared in self._shared for _, claim in shared})
        contested = _contested(volumes, needs)
        self._waiting = [[claim for claim in _own_claims(each) if claim.storage_class in contested] for each in needs]
        self._provisioned: dict[UnboundClaim, tuple[NDArray[np.bool_], NDArray[np.int64]]] = {}

    def fit(self, row: int, counts: Sequence[tuple[int, int]]) -> bool:
        """True if a node has volumes for so many pods with each of the needs, given by number."""
        return self._attaches(row, counts) and self._has_free(row, counts)

    def key(self, row: int) -> Hashable:
        """Everything about a node that the answer depends on."""
        attached = self._volumes.attached
        rooms = tuple(attached.room_on(driver, row) for driver in self._drivers)
        has = tuple(row in attached.rows_with(claim) for claim in self._claims)
        return rooms, has, row if any(self._waiting) else None

    def _attaches(self, row: int, counts: Sequence[tuple[int, int]]) -> bool:
        attached = self._volumes.attached
        by_driver: Counter[str] = Counter()
        for number, pods in counts:
            for driver, own in self._own[number].items():
                by_driver[driver] += own * pods
        claims = {claim for number, _ in counts for claim in self._shared[number]}
        by_driver.update(driver for driver, claim in claims if row not in attached.rows_with(claim))
        asked: Counter[str] = Counter()
        rooms: dict[str, int] = {}
        for driver, number in by_driver.items():
            room = attached.room_on(driver, row)
            if room != UNLIMITED:
                # An in-tree plugin and the CSI driver that has taken over share one limit.
                asked[_csi(driver)] += number
                rooms[_csi(driver)] = room
        return all(number <= rooms[driver] for driver, number in asked.items())

    def _has_free(self, row: int, counts: Sequence[tuple[int, int]]) -> bool:
        """Give as many bytes as possible to free volumes; the rest must be provisioned."""
        claims = sorted((claim for number, pods in counts for claim in self._waiting[number] * pods), reverse=True)
        if not claims:
            return True
        usable = {claim: self._volumes.static.usable_on(row, claim) for claim in dict.fromkeys(claims)}
        found = distinct({number: usable[claim] for number, claim in enumerate(claims)})
        left: dict[str, int] = {}
        for number, claim in enumerate(claims):
            if number not in found:
                allowed, room = self._provisioning(claim)
                before = left.get(claim.storage_class, int(room[row]))
                left[claim.storage_class] = before if room[row] == ANY_SIZE else before - claim.size
                if not allowed[row] or left[claim.storage_class] < 0:
                    return False
        return True

    def _provisioning(self, claim: UnboundClaim) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        if claim not in self._provisioned:
            self._provisioned[claim] = self._volumes.provisioned_on(claim)
        return self._provisioned[claim]


def _csi(driver: str) -> str:
    return DRIVER_OF_PLUGIN.get(driver, driver)
