"""Node labels as columns of small numbers, built for the keys that are asked for.

A selector then compares one integer per node instead of looking into one dictionary per node. Columns are built on
first use of a key and kept current as nodes change. Number 0 means that the node does not have the label. Pods may ask
for any key; a key that no node has costs no column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.wire.core_v1 import Node

Column = TypeVar("Column", bound=NDArray[Any])

ABSENT = 0
# A node may have any label. If there are more columns, those that were made first are dropped, and made again when they
# are asked for.
MOST_COLUMNS = 1024
# A node may change a value again and again. A column is made anew when it knows so many more values than there are
# nodes.
SPARE_VALUES = 1024
# Of keys that so few nodes have it is known which: their columns are made without looking at all others. A node may
# have thousands of such keys.
FEW_ROWS = 16
# What Kubernetes compares by Gt and Lt: whole numbers of 64 bits.
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class LabelColumns:
    """Label values of all nodes, encoded per key."""

    def __init__(self, nodes: list[Node | None]) -> None:
        self._nodes = nodes
        self._codes: dict[str, NDArray[np.int32]] = {}
        # The same arrays, read-only: plugins of other packages get them, too.
        self._shown: dict[str, NDArray[np.int32]] = {}
        self._values: dict[str, list[str]] = {}
        self._numbers: dict[str, dict[str, int]] = {}
        self._whole_numbers: dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]] = {}
        # How many nodes have each key, which nodes if they are few, and which keys each of the nodes has that were
        # counted.
        self._having: Counter[str] = Counter()
        self._rows: dict[str, set[int]] = {}
        self._keys: list[tuple[str, ...]] = []
        self._nowhere: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._labels: dict[int, dict[str, str] | None] = {}
        self.version = 0
        """Changes whenever the labels of a row do; most changes of nodes leave their labels alone."""

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self._nodes)

    def codes(self, key: str) -> NDArray[np.int32]:
        """One number per row for a label key, read-only."""
        while len(self._keys) < len(self._nodes):
            self._count(len(self._keys))
        codes = self._codes.get(key)
        if codes is None:
            if not self._having[key]:
                if len(self._nowhere) != len(self._nodes):
                    self._nowhere = _read_only(np.zeros(len(self._nodes), dtype=np.int32))
                return self._nowhere
            if len(self._codes) >= MOST_COLUMNS:
                self._drop(next(iter(self._codes)))
            self._values[key] = [""]
            self._numbers[key] = {}
            codes = self._codes[key] = self._shown[key] = np.zeros(0, dtype=np.int32)
        known = len(codes)
        if known < len(self._nodes):
            new = np.zeros(len(self._nodes) - known, dtype=np.int32)
            for row in self._rows.get(key, range(known, len(self._nodes))):
                if row >= known:
                    new[row - known] = self._encode(key, self._nodes[row])
            codes = self._codes[key] = np.concatenate((codes, new))
            self._shown[key] = _read_only(codes.view())
        return self._shown[key]

    def values(self, key: str) -> list[str]:
        """The text behind each number of `codes(key)`; entry 0 stands for "absent"."""
        self.codes(key)
        return self._values.get(key, [""])

    def codes_among(self, key: str, values: Iterable[str]) -> list[int]:
        """The numbers of those of some values that a node has had."""
        self.codes(key)
        numbers = self._numbers.get(key, {})
        return [numbers[value] for value in values if value in numbers]

    def whole_numbers(self, key: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """By the numbers of `codes(key)`: each value as a whole number, and whether it is one."""
        values = self.values(key)
        known = self._whole_numbers.get(key)
        if known is None or len(known[0]) != len(values):
            parsed = [whole_number(value) for value in values]
            is_number = np.array([number is not None for number in parsed], dtype=np.bool_)
            numbers = np.array([number or 0 for number in parsed], dtype=np.int64)
            known = (_read_only(numbers), _read_only(is_number))
            if key in self._codes:
                self._whole_numbers[key] = known
        return known

    def _drop(self, key: str) -> None:
        del self._codes[key], self._shown[key], self._values[key], self._numbers[key]
        self._whole_numbers.pop(key, None)

    def update(self, row: int) -> None:
        """A node changed: encode its labels again in every column that exists."""
        node = self._nodes[row]
        labels = None if node is None else node.metadata.labels or {}
        if row not in self._labels or self._labels[row] != labels:
            self._labels[row] = labels
            self.version += 1
        if row < len(self._keys):
            self._count(row)
        for key, codes in list(self._codes.items()):
            if row < len(codes):
                codes[row] = self._encode(key, self._nodes[row])
            if not self._having[key] or len(self._values[key]) > 2 * len(self._nodes) + SPARE_VALUES:
                self._drop(key)

    def _count(self, row: int) -> None:
        """Count the keys of a node, which may be the next one or one that changed."""
        node = self._nodes[row]
        keys = tuple((node.metadata.labels or {}) if node else ())
        if row == len(self._keys):
            self._keys.append(keys)
        elif keys != self._keys[row]:
            self._having -= Counter(self._keys[row])
            for key in self._keys[row]:
                if key in self._rows:
                    self._rows[key].discard(row)
                if not self._having[key]:
                    self._rows.pop(key, None)
            self._keys[row] = keys
        else:
            return
        for key in keys:
            if not self._having[key]:
                self._rows[key] = {row}
            elif key in self._rows:
                self._rows[key].add(row)
                if len(self._rows[key]) > FEW_ROWS:
                    del self._rows[key]
        self._having.update(keys)

    def _encode(self, key: str, node: Node | None) -> int:
        value = (node.metadata.labels or {}).get(key) if node else None
        if value is None:
            return ABSENT
        numbers = self._numbers[key]
        number = numbers.get(value)
        if number is None:
            self._values[key].append(value)
            number = numbers[value] = len(numbers) + 1
        return number


def _read_only(array: Column) -> Column:
    array.flags.writeable = False
    return array


def whole_number(text: str) -> int | None:
    """A value as Kubernetes compares it; None if it is no whole number."""
    try:
        number = int(text)
    except ValueError:
        return None
    if "_" in text:  # which Python takes between digits
        return None
    return number if _SMALLEST <= number <= _LARGEST else None
