"""Volumes where pods of different classes meet on a node.

Slots count pods of one class (`plugins/volume_binding.py`). Pods of several classes share what their node can still
attach of each CSI driver, and a claim that several of them use is attached once for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from bayplan.cluster.volumes.attached import DRIVER_OF_PLUGIN, UNLIMITED, Attached
from bayplan.cluster.volumes.needs import VolumeNeeds


def own_volumes(needs: VolumeNeeds) -> dict[str, int]:
    """By driver, how many volumes each pod attaches for itself."""
    shared = Counter(driver for driver, _ in needs.shared)
    return {driver: number - shared[driver] for driver, number in needs.attached if number > shared[driver]}


def compete(needs: Iterable[VolumeNeeds]) -> bool:
    """True if pods with different needs attach volumes of one driver."""
    asking = Counter(driver for each in needs for driver in {_csi(driver) for driver, _ in each.attached})
    return any(number > 1 for number in asking.values())


class AttachedTogether:
    """What nodes can attach for pods with some of these needs together."""

    def __init__(self, attached: Attached, needs: Sequence[VolumeNeeds]) -> None:
        self._attached = attached
        self._own = [own_volumes(each) for each in needs]
        self._shared = [each.shared for each in needs]
        self._drivers = sorted({driver for each in needs for driver, _ in each.attached})
        self._claims = sorted({claim for shared in self._shared for _, claim in shared})

    def fit(self, row: int, counts: Iterable[tuple[int, int]]) -> bool:
        """True if a node attaches the volumes of so many pods with each of the needs, given by number."""
        if not self._drivers:
            return True
        by_driver: Counter[str] = Counter()
        claims: set[tuple[str, str]] = set()
        for number, pods in counts:
            claims.update(self._shared[number])
            for driver, own in self._own[number].items():
                by_driver[driver] += own * pods
        by_driver.update(driver for driver, claim in claims if row not in self._attached.rows_with(claim))
        return self._have_room(row, by_driver)

    def _have_room(self, row: int, by_driver: Counter[str]) -> bool:
        asked: Counter[str] = Counter()
        rooms: dict[str, int] = {}
        for driver, number in by_driver.items():
            room = self._attached.room_on(driver, row)
            if room != UNLIMITED:
                # An in-tree plugin and the CSI driver that has taken over share one limit.
                asked[_csi(driver)] += number
                rooms[_csi(driver)] = room
        return all(number <= rooms[driver] for driver, number in asked.items())

    def key(self, row: int) -> Hashable:
        """Everything about a node that the answer depends on."""
        rooms = tuple(self._attached.room_on(driver, row) for driver in self._drivers)
        return rooms, tuple(row in self._attached.rows_with(claim) for claim in self._claims)


def _csi(driver: str) -> str:
    return DRIVER_OF_PLUGIN.get(driver, driver)
