"""The tree above the nodes: datacentre, block, rack, whatever the labels of a Topology name, as slices of one order of nodes.

Nodes are put in the order of their paths, so that every domain of every level is a run of neighbours: sums over domains are one
`np.add.reduceat`, and pods with neighbouring ranks get neighbouring nodes. Several trees may stand over the same nodes, so the columns
keep their own order and each tree has its permutation (`rows`): gathering 50,000 counts through it takes 50 us.

A domain is the *tuple* of its label values from the top; two racks called r1 in different blocks are different, whatever characters
values contain. A node that lacks one of the labels is not in the tree; `outside` says which label it lacks. The node itself is the
lowest level, below it are its NUMA zones, which the kubelets' verdicts look after.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.labels import ABSENT
from bayplan.cluster.state import ClusterState
from bayplan.kube.topology_levels import HOSTNAME

Index = NDArray[np.intp]
Path = tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """Nodes in the order of their paths.

    `levels` are label names, the widest first; the node is the level below them, with number `len(levels)`. `starts[level]` are the
    positions at which the domains of a level begin; `rows` are the cluster's rows by position.
    """

    name: str
    levels: tuple[str, ...]
    rows: Index
    starts: tuple[Index, ...]
    paths: tuple[tuple[Path, ...], ...]
    outside: dict[str, str]

    @property
    def size(self) -> int:
        """How many nodes are in the tree."""
        return len(self.rows)

    @property
    def node_level(self) -> int:
        """The number of the lowest level: each node a domain of its own."""
        return len(self.levels)

    def level_number(self, label: str) -> int | None:
        """The number of a level by its label, None if the tree has no such level."""
        if label == HOSTNAME:
            return self.node_level
        return self.levels.index(label) if label in self.levels else None

    @cached_property
    def domain_at(self) -> tuple[Index, ...]:
        """Per level, the number of the domain at each position."""
        found = []
        for starts in self.starts:
            begins = np.zeros(self.size, dtype=np.intp)
            begins[starts[1:]] = 1
            found.append(np.cumsum(begins))
        return tuple(found)

    def bounds(self, level: int, domain: int) -> tuple[int, int]:
        """First position of a domain, and the one behind its last."""
        starts = self.starts[level]
        end = starts[domain + 1] if domain + 1 < len(starts) else self.size
        return int(starts[domain]), int(end)

    def sums(self, counts: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Sums over the domains of a level of something counted per position."""
        return np.add.reduceat(counts, self.starts[level]) if self.size else counts[:0]

    def distance(self, one: Path, other: Path) -> int:
        """Edges between two places of the tree, each given by its path; a node's path ends with its name."""
        common = 0
        for left, right in zip(one, other, strict=False):
            if left != right:
                break
            common += 1
        return len(one) + len(other) - 2 * common


@dataclass(frozen=True, slots=True)
class Distances:
    """How far some nodes are from each other, in edges of the tree: the largest distance of two, and the mean over all pairs."""

    largest: int
    mean: float


def distances_among(paths: Sequence[Path]) -> Distances:
    """The distances among places of the same depth; a place that is there twice is at no distance from itself.

    Each level that two places do not share adds two edges, so pairs need not be looked at one by one.
    """
    number = len(paths)
    largest = total = 0
    for depth in range(1, len(paths[0]) + 1 if paths else 0):
        beside = Counter(path[:depth] for path in paths)
        largest += 2 * (len(beside) > 1)
        total += number * number - sum(count * count for count in beside.values())
    return Distances(largest, 2 * total / (number * (number - 1)) if number > 1 else 0.0)


def build_tree(state: ClusterState, name: str, levels: Sequence[str]) -> Tree:
    """The tree of these labels over all nodes of a cluster."""
    labels = tuple(label for label in levels if label != HOSTNAME)
    rows = np.fromiter(state.rows.values(), dtype=np.intp, count=len(state.rows))
    outside: dict[str, str] = {}
    for label in labels:
        missing = state.labels.codes(label)[rows] == ABSENT
        outside |= {state.names[row]: label for row in rows[missing] if state.names[row] not in outside}
        rows = rows[~missing]
    names = np.array(_natural_ranks([state.names[row] for row in rows]), dtype=np.intp)
    columns = [_ranks_of(state, label)[state.labels.codes(label)[rows]] for label in labels]
    order = np.lexsort((names, *reversed(columns))) if len(rows) else np.zeros(0, dtype=np.intp)
    rows = rows[order]
    starts, paths = _domains([column[order] for column in columns], state, labels, rows)
    return Tree(name, labels, rows, (*starts, np.arange(len(rows), dtype=np.intp)), paths, outside)


def _domains(
    columns: list[Index], state: ClusterState, labels: tuple[str, ...], rows: Index
) -> tuple[list[Index], tuple[tuple[Path, ...], ...]]:
    """Where the domains of each level begin, and their paths; a level of its own for the nodes comes last."""
    starts: list[Index] = []
    paths: list[tuple[Path, ...]] = []
    differs = np.zeros(max(len(rows) - 1, 0), dtype=np.bool_)
    for depth, column in enumerate(columns, start=1):
        differs |= column[1:] != column[:-1]
        begins = np.flatnonzero(np.concatenate((np.ones(min(len(rows), 1), dtype=np.bool_), differs)))
        starts.append(begins)
        coded = [(state.labels.values(label), state.labels.codes(label)) for label in labels[:depth]]
        paths.append(tuple(tuple(values[codes[row]] for values, codes in coded) for row in rows[begins]))
    last = paths[-1] if paths else ()
    of_node = np.searchsorted(starts[-1], np.arange(len(rows)), side="right") - 1 if starts else None
    paths.append(
        tuple(
            (*(last[of_node[position]] if of_node is not None else ()), state.names[row])
            for position, row in enumerate(rows)
        )
    )
    return starts, tuple(paths)


def _ranks_of(state: ClusterState, label: str) -> Index:
    """The natural rank of each value of a label, by its code."""
    return np.array(_natural_ranks(state.labels.values(label)), dtype=np.intp)


def _natural_ranks(texts: Sequence[str]) -> list[int]:
    """Positions in natural order: r2 comes before r10. Equal texts have equal ranks."""
    rank = {text: number for number, text in enumerate(sorted(set(texts), key=natural_key))}
    return [rank[text] for text in texts]


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """The key by which people sort names with numbers in them: r before r2 before r10. The text decides between 01 and 1."""
    parts = re.split(r"([0-9]+)", text)
    return (*((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts), (-1, 0, text))
