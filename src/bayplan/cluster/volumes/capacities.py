"""How much CSI drivers can still provision, by class and row.

A driver that keeps volumes on its node reports one CSIStorageCapacity per node, and changes it with every volume. So a
change repairs the rows that its selector matches, and a decision reads one array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.labels import LabelColumns
from bayplan.cluster.columns.node_terms import NodeTerms
from bayplan.cluster.volumes.static import bytes_in
from bayplan.kube.wire.core_v1 import LabelSelector, NodeSelector, NodeSelectorTerm, SelectorRequirement
from bayplan.kube.wire.storage_v1 import CSIStorageCapacity

NOTHING = -1

Room = NDArray[np.int64]


class Capacities:
    """All CSIStorageCapacities. `on_change` gets the rows for which an answer may change."""

    def __init__(
        self, labels: LabelColumns, terms: NodeTerms, on_change: Callable[[Iterable[int]], None] = lambda _: None
    ) -> None:
        self._labels = labels
        self._terms = terms
        self._on_change = on_change
        self._objects: dict[str, CSIStorageCapacity] = {}
        self._version = -1
        self._rows: dict[str, list[int]] = {}
        # By class: the largest volume that each row can have, and by row the objects that say so.
        self._room: dict[str, Room] = {}
        self._on_row: dict[str, dict[int, set[str]]] = {}

    def set(self, key: str, capacity: CSIStorageCapacity) -> None:
        """Take in a new or changed object."""
        self._refresh()
        self._take_out(key)
        self._objects[key] = capacity
        self._put_in(key)

    def remove(self, key: str) -> None:
        """An object is gone."""
        self._refresh()
        self._take_out(key)
        self._objects.pop(key, None)

    def room(self, storage_class: str) -> Room:
        """The largest volume of a class that each row can have, in bytes; -1 where none is reported.

        Not to be written to.
        """
        self._refresh()
        known = self._room.get(storage_class)
        return np.full(self._labels.size, NOTHING, dtype=np.int64) if known is None else known

    def _refresh(self) -> None:
        """Work everything out again after labels have changed."""
        if self._version != self._labels.version:
            self._version = self._labels.version
            self._rows, self._room, self._on_row = {}, {}, {}
            for key in self._objects:
                self._put_in(key)

    def _put_in(self, key: str) -> None:
        capacity = self._objects[key]
        name, most = capacity.storage_class_name, _largest(capacity)
        rows = self._rows[key] = self._matching(capacity)
        room = self._room.get(name)
        if room is None:
            room = self._room[name] = np.full(self._labels.size, NOTHING, dtype=np.int64)
        room[rows] = np.maximum(room[rows], most)
        on_row = self._on_row.setdefault(name, {})
        for row in rows:
            on_row.setdefault(row, set()).add(key)
        self._on_change(rows)

    def _take_out(self, key: str) -> None:
        capacity = self._objects.get(key)
        if capacity is None:
            return
        name, rows = capacity.storage_class_name, self._rows.pop(key, [])
        for row in rows:
            left = self._on_row[name][row]
            left.discard(key)
            self._room[name][row] = max((_largest(self._objects[each]) for each in left), default=NOTHING)
        self._on_change(rows)

    def _matching(self, capacity: CSIStorageCapacity) -> list[int]:
        if capacity.node_topology is None:
            return []
        selector = _as_node_selector(capacity.node_topology)
        if selector is None:
            return list(range(self._labels.size))
        rows: list[int] = np.flatnonzero(self._terms.matching(selector, slice(0, self._labels.size))).tolist()
        return rows

    def copied(self, labels: LabelColumns, terms: NodeTerms) -> Capacities:
        """A copy that can change by itself; it works everything out again."""
        copy = Capacities(labels, terms)
        copy._objects = dict(self._objects)
        return copy


def _largest(capacity: CSIStorageCapacity) -> int:
    """The largest volume; the capacity if the driver does not say."""
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return NOTHING if limit is None else bytes_in(limit)


def _as_node_selector(selector: LabelSelector) -> NodeSelector | None:
    """The same demand as node terms; None if it matches every node."""
    requirements = [
        *(SelectorRequirement(key=k, operator="In", values=[v]) for k, v in (selector.match_labels or {}).items()),
        *(selector.match_expressions or ()),
    ]
    return (
        NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=requirements)]) if requirements else None
    )
