"""Has anything grown that a parked gang could use?

`look` returns what matters to a gang as a *sight*. Two sights are equal unless something grew in between; fewer slots
change nothing. `waking.py` keeps the sight of each parked gang and wakes the gang when a later one differs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import count
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import FloatColumn
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree
from bayplan.gangs.attempt import LEAST_SLOTS_COUNTED
from bayplan.gangs.model import BAYPLAN, Gang
from bayplan.gangs.scheduler import GangScheduler

Sight = tuple[Hashable, ...]

# A number for each observed growth, never reused.
_growths = count()


class GangWatch:
    """Watches what parked gangs of one profile could use; equal classes share a watch."""

    def __init__(self, scheduler: GangScheduler) -> None:
        self._scheduler = scheduler
        self._slots: dict[tuple[str, PodClass], _SlotWatch] = {}
        self._room: dict[tuple[str, ...], _RoomWatch] = {}
        self._classes: WeakKeyDictionary[Gang, tuple[PodClass, ...]] = WeakKeyDictionary()
        # Watches are kept if a parked gang used them in this pass over all of them.
        self._pass = 0

    def look(self, gang: Gang) -> Sight:
        """What a gang could use now; equal to its last sight if nothing grew."""
        trees = self._scheduler.trees
        name = trees.name_for(gang)
        tree = trees.get(name)
        if tree is None:
            return (name, *trees.names)
        classes = self._classes_of(gang)
        most = max(len(gang.pods), LEAST_SLOTS_COUNTED)
        sight = [self._slots_of(name, pod).look(self._scheduler, pod, tree, most) for pod in classes]
        if len(classes) > 1 or gang.style != BAYPLAN:
            sight.append(self._room_for(classes).look())
        return (name, *trees.names, *sight)

    def _classes_of(self, gang: Gang) -> tuple[PodClass, ...]:
        known = self._classes.get(gang)
        if known is None:
            of = self._scheduler.state.classes.of
            known = self._classes[gang] = tuple(dict.fromkeys(of(pod) for pod in gang.pods))
        return known

    def _slots_of(self, tree: str, pod: PodClass) -> _SlotWatch:
        watch = self._slots.setdefault((tree, pod), _SlotWatch())
        watch.used_in = self._pass
        return watch

    def _room_for(self, classes: Sequence[PodClass]) -> _RoomWatch:
        asked = {PODS, *(name for pod in classes for name, amount in pod.request.total.items() if amount)}
        names = tuple(sorted(asked))
        known = self._room.get(names)
        if known is None:
            known = self._room[names] = _RoomWatch(self._scheduler.state, names)
        known.used_in = self._pass
        return known

    def start_pass(self) -> None:
        """From now on, all parked gangs look."""
        self._pass += 1

    def forget_unused(self) -> None:
        """All parked gangs have looked: drop the watches that none of them used."""
        self._slots = {key: watch for key, watch in self._slots.items() if watch.used_in == self._pass}
        self._room = {key: watch for key, watch in self._room.items() if watch.used_in == self._pass}


def _moment(state: ClusterState) -> tuple[int, int]:
    return state.node_log.end, state.usage_log.end


class _SlotWatch:
    """The slots of one class in one tree."""

    def __init__(self) -> None:
        self._growth = -1
        self._tree: Tree | None = None
        self._most = 0
        self._counts: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._seen_at = (-1, -1)
        self.used_in = 0

    def look(self, scheduler: GangScheduler, pod: PodClass, tree: Tree, most: int) -> int:
        """The number of the last growth; a node that is new or has moved in the tree grew by all its slots."""
        moment = _moment(scheduler.state)
        if moment == self._seen_at and most <= self._most and tree is self._tree:
            return self._growth
        counted_to, self._most = self._most, max(most, self._most)
        counts = scheduler.slots(pod, tree, self._most).astype(np.int32)
        # Slots beyond the last limit of counting may have existed before.
        if self._has_grown(tree, np.minimum(counts, np.int32(counted_to))):
            self._growth = next(_growths)
        self._tree, self._counts, self._seen_at = tree, counts, moment
        return self._growth

    def _has_grown(self, tree: Tree, counts: NDArray[np.int32]) -> bool:
        before = self._tree
        if tree is before:
            return bool((counts > self._counts).any())
        if before is None or tree.levels != before.levels:
            return True
        slots_before = dict(zip(before.paths[-1], self._counts.tolist(), strict=True))
        return any(
            slots > slots_before.get(path, 0) for path, slots in zip(tree.paths[-1], counts.tolist(), strict=True)
        )


class _RoomWatch:
    """The free amounts of some resources, on nodes and in their zones."""

    def __init__(self, state: ClusterState, resources: tuple[str, ...]) -> None:
        self._state = state
        self._resources = resources
        self._growth = -1
        self._seen_at = (-1, -1)
        self.used_in = 0
        self._free: FloatColumn = np.zeros((0, 0))
        self._in_zones: FloatColumn = np.zeros((0, 0, 0))

    def look(self) -> int:
        """The number of the last growth; a new node or zone counts as growth."""
        state, columns = self._state, self._state.columns
        indexes = columns.indexes(self._resources)
        node_cursor, usage_cursor = self._seen_at
        nodes, usage = state.node_log.since(node_cursor), state.usage_log.since(usage_cursor)
        self._seen_at = _moment(state)
        shape = (len(indexes), columns.zone_available.shape[1], columns.size)
        if nodes is None or usage is None or shape != self._in_zones.shape:
            self._free = columns.free[indexes, : columns.size]
            self._in_zones = columns.zone_available[indexes, :, : columns.size]
            self._growth = next(_growths)
            return self._growth
        rows = np.union1d(nodes, usage)
        free = columns.free[np.ix_(indexes, rows)]
        in_zones = columns.zone_available[indexes][:, :, rows]
        if (free > self._free[:, rows]).any() or (in_zones > self._in_zones[:, :, rows]).any():
            self._growth = next(_growths)
        self._free[:, rows] = free
        self._in_zones[:, :, rows] = in_zones
        return self._growth
