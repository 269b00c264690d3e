"""The cluster as arrays: one row per node, the node axis last and contiguous.

`zone_available[resource, zone, node]` and its neighbours hold exact integers in float64 (comparisons are exact below
2^53; larger amounts are refused where they enter). Zones of a node are in ascending NUMA id, so "the first zone" of a
row is the one the kubelet prefers. This module only stores and grows; `cluster/state.py` decides what is written.

Layout measured at 5,000 nodes x 8 zones x 6 resources: 51 us for one feasibility test, 966 us with [node, zone,
resource].
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.sparse import copy_into, write_row, zeros
from bayplan.cluster.limits import MOST_CELLS, MOST_NAMES_IN_ALL
from bayplan.cluster.pods.request import CPU, MEMORY, PODS
from bayplan.cluster.reports.kubelet_version import NEWEST

FloatColumn = NDArray[np.float64]

# Up to NO_TOPOLOGY: the node has no report. A new node's first one is expected any moment.
TOPOLOGY_EXPECTED = -1
NO_TOPOLOGY = 0
TOPOLOGY_USABLE = 1
TOPOLOGY_INVALID = 2
TOPOLOGY_STALE = 3
# The report contradicts nothing, but does not say by what its kubelet refuses pods.
TOPOLOGY_UNCLEAR = 4
UNKNOWN = -1

# These have the same index in every cluster.
FIRST_RESOURCES = (CPU, MEMORY, PODS)

# Combinations of resources whose indexes are kept.
MOST_KEPT = 4096
# Cells of the largest report whose places are kept.
MOST_CELLS_KEPT = 1024

# Columns of which it is worth knowing whether all nodes agree: then one test answers for the whole cluster.
TALLIED = (
    "topology",
    "policy",
    "scope",
    "upstream_policy",
    "upstream_scope",
    "cpu_static",
    "cpu_group",
    "memory_static",
    "kubelet",
    "zone_count",
    "hardware_class",
)


class ZoneCells(NamedTuple):
    """Where the amounts of a report go: index and position of each, in its order; the indexes of all names, and the
    zones that report each name as bits.
    """

    indexes: NDArray[np.intp]
    positions: NDArray[np.intp]
    reported: NDArray[np.intp]
    bits: NDArray[np.uint64]


class Columns:
    """All arrays, sized for `rows` nodes; `size` of them are in use. Row order is the order of insertion.

    It is wide because each column is an attribute that kernels read by name, and all of them grow together.
    """

    def __init__(self, rows: int = 16, zones: int = 2, resources: int = 8) -> None:
        self.size = 0
        self.resource_names: list[str] = []
        self.resource_index: dict[str, int] = {}
        # Columns without a name, and a number that changes whenever a name gets or loses its column.
        self._free_indexes: list[int] = []
        self.names_version = 0
        # Columns that are referenced by number, apart from those of resources that nodes have.
        self.referred: Callable[[], Collection[int]] = tuple
        self._indexes: dict[tuple[str, ...], NDArray[np.intp]] = {}
        # Of reports, by the names in their zones: index and position of each amount, and where each name is reported.
        self._cells: dict[tuple[tuple[str, ...], ...], ZoneCells] = {}
        # By resource that no node has, what pods that were bound all the same take of it, by row.
        self._taken_of_nothing: dict[str, dict[int, float]] = {}

        # Per resource and node.
        self.allocatable: FloatColumn = zeros((resources, rows))
        self.free: FloatColumn = zeros((resources, rows))
        self.offered: NDArray[np.bool_] = zeros((resources, rows), np.bool_)

        # CPU and memory of each node that scores count for containers without requests.
        self.unrequested: FloatColumn = zeros((2, rows))

        # Per resource, zone and node; the sums and bits over zones are kept beside them because most tests need only
        # those.
        self.zone_available: FloatColumn = zeros((resources, zones, rows))
        self.zone_total: FloatColumn = zeros((resources, zones, rows))
        # What an empty node offers to pods: the totals without reserved CPUs and broken devices.
        self.zone_offered: FloatColumn = zeros((resources, zones, rows))
        self.zone_available_sum: FloatColumn = zeros((resources, rows))
        self.zone_total_largest: FloatColumn = zeros((resources, rows))
        self.zone_reported: NDArray[np.uint64] = zeros((resources, rows), np.uint64)
        self.zone_aligned: NDArray[np.bool_] = zeros((resources, rows), np.bool_)
        self._rows_aligning: list[int] = []

        # Per node.
        self.present: NDArray[np.bool_] = np.zeros(rows, dtype=np.bool_)
        self.unschedulable: NDArray[np.bool_] = np.zeros(rows, dtype=np.bool_)
        # What the node's condition says. The node controller adds taints for it, and filters look only at those.
        self.ready: NDArray[np.bool_] = np.ones(rows, dtype=np.bool_)
        self.topology: NDArray[np.int8] = np.zeros(rows, dtype=np.int8)
        self.policy: NDArray[np.int8] = np.zeros(rows, dtype=np.int8)
        self.scope: NDArray[np.int8] = np.zeros(rows, dtype=np.int8)
        # The same as scheduler-plugins reads them; they differ where it ignores a name that kubelets' users understand.
        self.upstream_policy: NDArray[np.int8] = np.zeros(rows, dtype=np.int8)
        self.upstream_scope: NDArray[np.int8] = np.zeros(rows, dtype=np.int8)
        self.max_numa_nodes: NDArray[np.int16] = np.full(rows, 8, dtype=np.int16)
        self.cpu_static: NDArray[np.int8] = np.full(rows, UNKNOWN, dtype=np.int8)
        self.memory_static: NDArray[np.int8] = np.full(rows, UNKNOWN, dtype=np.int8)
        self.cpu_group: NDArray[np.int8] = np.ones(rows, dtype=np.int8)
        # The minor version of the kubelet that a node is judged by.
        self.kubelet: NDArray[np.int8] = np.full(rows, NEWEST, dtype=np.int8)
        self.zone_count: NDArray[np.int8] = np.zeros(rows, dtype=np.int8)
        self.hardware_class: NDArray[np.int32] = np.zeros(rows, dtype=np.int32)
        self.taint_set: NDArray[np.int32] = np.zeros(rows, dtype=np.int32)
        # Bits of `cluster/pods/declared_features.py`.
        self.features: NDArray[np.uint8] = np.zeros(rows, dtype=np.uint8)
        self._tallies: dict[str, dict[int, int]] = {name: {} for name in TALLIED}
        # Whatever follows from the tallies alone may be kept here; it is emptied when a node's nature changes.
        self.layout_cache: dict[Hashable, Any] = {}
        self._total_reach: dict[int, FloatColumn] = {}
        for name in FIRST_RESOURCES:
            self.resource(name)
        # Pods may ask for anything. What no node has needs no column of its own: one of zeros answers for all of that.
        self.of_no_node = self._new_column("")

    def without_room(self, names: Collection[str]) -> list[str]:
        """Those of some names that have no column and may get none.

        Columns of names that no node has any more are given up for new ones.
        """
        new = [name for name in names if name not in self.resource_index]
        if len(new) > self._spare():
            self.free_unused()
            new = [name for name in names if name not in self.resource_index]
        return new[self._spare() :]

    def _spare(self) -> int:
        zones: int = self.zone_available.shape[1]
        most = min(MOST_NAMES_IN_ALL, MOST_CELLS // zones)
        return max(most - len(self.resource_index), 0)

    def has_room_for_zones(self, count: int) -> bool:
        """Whether a node may have so many zones."""
        return count <= self.zone_available.shape[1] or count * len(self.resource_index) <= MOST_CELLS

    def free_unused(self) -> None:
        """Give up the columns of names that no node has any more."""
        offered, reported = self.offered[:, : self.size], self.zone_reported[:, : self.size]
        used: NDArray[np.bool_] = np.logical_or(offered.any(axis=1), reported.any(axis=1))
        unused = [
            name for name, index in self.resource_index.items() if not used[index] and name not in FIRST_RESOURCES
        ]
        if not unused:
            return
        referred = set(self.referred())
        for name in unused:
            index = self.resource_index[name]
            if index in referred:
                continue
            # What pods take of it all the same is kept by name.
            taken = {int(row): -float(self.free[index, row]) for row in np.flatnonzero(self.free[index])}
            if taken:
                self._taken_of_nothing[name] = taken
            del self.resource_index[name]
            self.resource_names[index] = ""
            self._rows_aligning[index] = 0
            for column in (self.allocatable, self.free, self.zone_available_sum, self.zone_total_largest):
                column[index, np.flatnonzero(column[index])] = 0
            for column in (self.zone_available, self.zone_total, self.zone_offered):
                column[index][np.nonzero(column[index])] = 0
            self.zone_aligned[index, np.flatnonzero(self.zone_aligned[index])] = False
            self._free_indexes.append(index)
        self._names_changed()

    def _names_changed(self) -> None:
        self.names_version += 1
        self._indexes.clear()
        self._cells.clear()
        self.layout_cache.clear()
        self.totals_changed()

    def resource(self, name: str) -> int:
        """The index of a resource that a node has, added if it is new. Whether it may be, `without_room` says."""
        index = self.resource_index.get(name)
        if index is None:
            index = self.resource_index[name] = self._new_column(name)
            self.names_version += 1
            self._indexes.clear()
            self._cells.clear()
            self.layout_cache.clear()
            for row, amount in self._taken_of_nothing.pop(name, {}).items():
                self.free[index, row] -= amount
        return index

    def _new_column(self, name: str) -> int:
        if self._free_indexes:
            index = self._free_indexes.pop()
            self.resource_names[index] = name
            return index
        index = len(self.resource_names)
        if index == self.allocatable.shape[0]:
            self._grow(resources=max(min(2 * index, MOST_NAMES_IN_ALL + 1), index + 1))
        self.resource_names.append(name)
        self._rows_aligning.append(0)
        return index

    def index_of(self, name: str) -> int:
        """The index of a resource that a pod asks for; of one that no node has, a column of zeros."""
        return self.resource_index.get(name, self.of_no_node)

    def put_allocatable(self, row: int, allocatable: Mapping[str, int]) -> None:
        """What a node offers from now on; what is used of it stays used."""
        # Names first: an unknown one makes the arrays grow.
        indexes = [self.resource(name) for name in allocatable]
        used = self.allocatable[:, row] - self.free[:, row]
        amounts = np.zeros(len(used))
        amounts[indexes] = list(allocatable.values())
        offered = np.zeros(len(used), dtype=np.bool_)
        offered[indexes] = True
        write_row(self.allocatable, row, amounts)
        write_row(self.offered, row, offered)
        write_row(self.free, row, amounts - used)

    def clear_allocatable(self, row: int) -> None:
        """A row without a node offers nothing."""
        for column in (self.allocatable, self.free, self.offered):
            write_row(column, row, 0)

    def take(self, resource: str, row: int, amount: float) -> None:
        """Take an amount from what a node has free; a negative one is given back."""
        index = self.resource_index.get(resource)
        if index is not None:
            self.free[index, row] -= amount
            return
        taken = self._taken_of_nothing.setdefault(resource, {})
        taken[row] = taken.get(row, 0.0) + amount
        if not taken[row]:
            del taken[row]
        if not taken:
            del self._taken_of_nothing[resource]

    def indexes(self, names: tuple[str, ...]) -> NDArray[np.intp]:
        """`index_of` for several resources."""
        known = self._indexes.get(names)
        if known is None:
            if len(self._indexes) > MOST_KEPT:
                self._indexes.clear()
            known = np.array([self.index_of(name) for name in names], dtype=np.intp)
            if len(names) <= MOST_NAMES_IN_ALL:
                self._indexes[names] = known
        return known

    def cells(self, names: tuple[tuple[str, ...], ...]) -> ZoneCells:
        """Where the amounts of a report go, by the resource names of each of its zones; new names get a column."""
        known = self._cells.get(names)
        if known is None:
            indexes = [self.resource(name) for zone in names for name in zone]
            positions = [position for position, zone in enumerate(names) for _ in zone]
            bits: dict[int, int] = {}
            for index, position in zip(indexes, positions, strict=True):
                bits[index] = bits.get(index, 0) | 1 << position
            known = ZoneCells(
                np.array(indexes, dtype=np.intp),
                np.array(positions, dtype=np.intp),
                np.array(list(bits), dtype=np.intp),
                np.array(list(bits.values()), dtype=np.uint64),
            )
            if len(self._cells) > MOST_KEPT:
                self._cells.clear()
            if len(indexes) <= MOST_CELLS_KEPT:
                self._cells[names] = known
        return known

    def add_row(self) -> int:
        """A new row at the end; everything in it is zero."""
        if self.size == self.present.shape[0]:
            self._grow(rows=2 * self.size)
        self.size += 1
        self.layout_cache.clear()
        for name, tally in self._tallies.items():
            _count(tally, int(getattr(self, name)[self.size - 1]), 1)
        return self.size - 1

    def put(self, name: str, row: int, value: int) -> None:
        """Write one of the tallied columns."""
        column = getattr(self, name)
        # As plain numbers: comparing an element of an array with an Enum takes 2.5 us, this 0.1.
        before, value = column.item(row), int(value)
        if before == value:
            return
        self.layout_cache.clear()
        _count(self._tallies[name], before, -1)
        _count(self._tallies[name], value, 1)
        column[row] = value

    def put_aligned(self, resource: int, row: int, *, aligned: bool) -> None:
        """Write whether a node's zones have a resource at all, so that its kubelet aligns to it."""
        if self.zone_aligned[resource, row] != aligned:
            self.layout_cache.clear()
            self._rows_aligning[resource] += 1 if aligned else -1
            self.zone_aligned[resource, row] = aligned

    def everywhere(self, name: str) -> int | None:
        """The value that every row of a tallied column has, or None if they differ."""
        tally = self._tallies[name]
        return next(iter(tally)) if len(tally) == 1 else None

    def aligned_everywhere(self, resource: int) -> bool:
        """True if the zones of every node have the resource."""
        return self._rows_aligning[resource] == self.size

    def total_reach(self, resource: int) -> FloatColumn:
        """[k, node]: the most that k + 1 zones of a node have in total, whichever they are.

        Totals change only when hardware does, so this is kept; sorting 5,000 nodes takes 0.5 ms a resource.
        """
        reach = self._total_reach.get(resource)
        if reach is None or reach.shape[1] < self.size:
            largest_first = -np.sort(-self.zone_total[resource, :, : self.size], axis=0)
            reach = self._total_reach[resource] = np.cumsum(largest_first, axis=0)
        return reach

    def totals_changed(self) -> None:
        """Some zone's total is not what it was."""
        self._total_reach.clear()

    def recount(self) -> None:
        """Count again after columns were filled in bulk."""
        self.layout_cache.clear()
        self.totals_changed()
        for name, tally in self._tallies.items():
            values, counts = np.unique(getattr(self, name)[: self.size], return_counts=True)
            tally.clear()
            tally.update(zip(values.tolist(), counts.tolist(), strict=True))
        for resource in range(len(self.resource_names)):
            self._rows_aligning[resource] = int(self.zone_aligned[resource, : self.size].sum())

    def require_zones(self, count: int) -> None:
        """Make room for nodes with `count` zones."""
        if count > self.zone_available.shape[1]:
            self._grow(zones=count)

    def _grow(self, *, rows: int | None = None, zones: int | None = None, resources: int | None = None) -> None:
        old_resources, old_zones, old_rows = self.zone_available.shape
        larger = Columns(rows or old_rows, zones or old_zones, resources or old_resources)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                target = getattr(larger, name)
                if value.ndim == 1:
                    target[: len(value)] = value
                else:
                    copy_into(target, value)
                setattr(self, name, target)
        self.totals_changed()


def _count(tally: dict[int, int], value: int, change: int) -> None:
    tally[value] = tally.get(value, 0) + change
    if not tally[value]:
        del tally[value]
