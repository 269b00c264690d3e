"""Node labels as columns of small numbers, built for the keys that somebody asks about.

A selector then compares one integer per node instead of looking into one dictionary per node. Columns are made on first
use of a key and kept current as nodes change. Number 0 means: the node does not have the label.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.core_v1 import Node

ABSENT = 0
# Pods may ask for any label. Columns of labels that no node has had are all alike, and quickly made: no more of them are kept.
MOST_UNUSED = 256


class LabelColumns:
    """Label values of all nodes, encoded per key."""

    def __init__(self, nodes: list[Node | None]) -> None:
        self._nodes = nodes
        self._codes: dict[str, NDArray[np.int32]] = {}
        self._values: dict[str, list[str]] = {}
        self._numbers: dict[str, dict[str, int]] = {}

    def codes(self, key: str) -> NDArray[np.int32]:
        """One number per row for a label key."""
        codes = self._codes.get(key)
        if codes is None:
            self._drop_unused()
            self._values[key] = [""]
            self._numbers[key] = {}
            codes = self._codes[key] = np.zeros(0, dtype=np.int32)
        known = len(codes)
        if known < len(self._nodes):
            new = [self._encode(key, node) for node in self._nodes[known:]]
            codes = self._codes[key] = np.concatenate((codes, np.array(new, dtype=np.int32)))
        return codes

    def values(self, key: str) -> list[str]:
        """The text behind each number of `codes(key)`; entry 0 stands for "absent"."""
        self.codes(key)
        return self._values[key]

    def _drop_unused(self) -> None:
        """If there are too many columns of labels that no node has had, make them again when they are asked for."""
        unused = [key for key, values in self._values.items() if len(values) == 1]
        if len(unused) >= MOST_UNUSED:
            for key in unused:
                del self._codes[key], self._values[key], self._numbers[key]

    def update(self, row: int) -> None:
        """A node changed: encode its labels again in every column that exists."""
        for key, codes in self._codes.items():
            if row < len(codes):
                codes[row] = self._encode(key, self._nodes[row])

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
