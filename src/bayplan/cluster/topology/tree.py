"""The tree above the nodes: datacentre, block, rack, whatever the labels of a Topology name, as slices of one order of
nodes.

Nodes are put in the order of their paths, so that every domain of every level is a run of neighbours: sums over domains
are one `np.add.reduceat`, and pods with neighbouring ranks get neighbouring nodes. Several trees may stand over the
same nodes, so the columns keep their own order and each tree has its permutation (`rows`): gathering 50,000 counts
through it takes 50 us.

A domain is the *tuple* of its label values from the top; two racks called r1 in different blocks are different,
whatever characters values contain. A node that lacks one of the labels is not in the tree; `outside` says which label
it lacks. The node itself is the lowest level, below it are its NUMA zones, which the kubelets' verdicts look after.

Volcano's HyperNodes make such a tree too, in which the name of a HyperNode stands for the value of a label
(`cluster/topology/hyper_nodes.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.labels import ABSENT
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.hyper_nodes import WITH_OTHER_NODES, Hierarchy
from bayplan.kube.topology_levels import HOSTNAME, NUMA, level_meant

_DIGITS = re.compile("([0-9]+)")
_Number = TypeVar("_Number", np.int64, np.float64)

Index = NDArray[np.intp]
Path = tuple[str, ...]
# A level over all rows: the number of each row's value, and the value behind each number; 0 where there is none.
_Level = tuple[NDArray[np.int32], Sequence[str]]


@dataclass(frozen=True)
class Tree:
    """Nodes in the order of their paths.

    `levels` are label names, the widest first; the node is the level below them, with number `len(levels)`.
    `starts[level]` are the positions at which the domains of a level begin; `rows` are the cluster's rows by position.
    `outside` has what other nodes lack: a label, or something else if the tree is not made of labels.
    """

    name: str
    levels: tuple[str, ...]
    rows: Index
    starts: tuple[Index, ...]
    paths: tuple[tuple[Path, ...], ...]
    outside: dict[str, str]
    by_labels: bool = True

    # Searches ask for these two hundreds of times.
    @cached_property
    def size(self) -> int:
        """How many nodes are in the tree."""
        return len(self.rows)

    @property
    def lead(self) -> str:
        """What comes before an entry of `outside`: `no label example.com/rack`, `no HyperNode`."""
        return "no label " if self.by_labels else "no "

    @property
    def when_empty(self) -> str:
        """What is said about the tree if no node is in it."""
        return "no node carries all labels of the topology" if self.by_labels else "no node is in a HyperNode"

    @cached_property
    def node_level(self) -> int:
        """The number of the lowest level: each node a domain of its own."""
        return len(self.levels)

    def level_number(self, label: str) -> int | None:
        """The number of a level by its label or its short name; None if the tree has no such level, or several.

        NUMA zones are inside of nodes: their number is that of the node.
        """
        meant = level_meant(label, self.levels)
        if meant in (HOSTNAME, NUMA):
            return self.node_level
        return None if meant is None else self.levels.index(meant)

    @cached_property
    def domain_at(self) -> tuple[Index, ...]:
        """Per level, the number of the domain at each position."""
        found = []
        for starts in self.starts:
            begins = np.zeros(self.size, dtype=np.intp)
            begins[starts[1:]] = 1
            found.append(np.cumsum(begins))
        return tuple(found)

    @cached_property
    def members(self) -> tuple[Index, ...]:
        """Per level `[domain, number]`, the positions of each domain's nodes.

        Where a domain has fewer than others, the position behind the last.
        """
        found = []
        for starts in self.starts:
            ends = np.append(starts[1:], self.size)
            at = starts[:, np.newaxis] + np.arange(int((ends - starts).max(initial=0)))
            found.append(np.where(at < ends[:, np.newaxis], at, self.size))
        return tuple(found)

    def bounds(self, level: int, domain: int) -> tuple[int, int]:
        """First position of a domain, and the one behind its last."""
        starts = self.starts[level]
        end = starts[domain + 1] if domain + 1 < len(starts) else self.size
        return int(starts[domain]), int(end)

    def inside(self, first: int, end: int) -> Tree:
        """The tree over the nodes of one domain, between two positions; wider levels have that one domain."""
        starts, paths = [], []
        for level, begins in enumerate(self.starts):
            low, high = (int(at) for at in np.searchsorted(begins, (first, end)))
            low = low if low < high and begins[low] == first else low - 1
            starts.append(np.maximum(begins[low:high] - first, 0))
            paths.append(self.paths[level][low:high])
        return replace(self, rows=self.rows[first:end], starts=tuple(starts), paths=tuple(paths))

    def sums(self, counts: NDArray[_Number], level: int) -> NDArray[_Number]:
        """Sums over the domains of a level of something counted per position."""
        return np.add.reduceat(counts, self.starts[level]) if self.size else counts[:0]


def distance(one: Path, other: Path) -> int:
    """Edges between two places of a tree, each given by its path; a node's path ends with its name."""
    common = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        common += 1
    return len(one) + len(other) - 2 * common


@dataclass(frozen=True, slots=True)
class Distances:
    """How far some nodes are from each other, in edges of the tree: the largest distance of two, and the mean over all
    pairs.
    """

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
    """The tree of these labels over all nodes of a cluster; an empty label counts as a missing one."""
    labels = tuple(label for label in levels if label != HOSTNAME)
    coded = [(state.labels.codes(label), state.labels.values(label)) for label in labels]
    rows = _all_rows(state)
    outside: dict[str, str] = {}
    for label, (codes, _) in zip(labels, coded, strict=True):
        # A domain without a name could not be told from none.
        missing = np.isin(codes[rows], (ABSENT, *state.labels.codes_among(label, ("",))))
        outside |= {state.names[row]: label for row in rows[missing] if state.names[row] not in outside}
        rows = rows[~missing]
    return _tree(state, name, labels, coded, rows, outside)


def build_hyper_tree(state: ClusterState, name: str, hierarchy: Hierarchy) -> Tree:
    """The tree of HyperNodes over all nodes of a cluster. `name` says whether nodes in no HyperNode are included."""
    rows = _all_rows(state)
    positions = hierarchy.positions([node for row in rows if (node := state.nodes[row]) is not None])
    outside: dict[str, str] = {}
    if name != WITH_OTHER_NODES:
        inside = np.array([not position.lacks for position in positions], dtype=np.bool_)
        outside = {state.names[row]: each.lacks for row, each in zip(rows, positions, strict=True) if each.lacks}
        rows, positions = rows[inside], [position for position in positions if not position.lacks]
    levels = tuple(tier.level for tier in hierarchy.tiers)
    coded = [_coded(state, rows, [position.path[level] for position in positions]) for level in range(len(levels))]
    return replace(_tree(state, name, levels, coded, rows, outside), by_labels=False)


def _all_rows(state: ClusterState) -> Index:
    return np.fromiter(state.rows.values(), dtype=np.intp, count=len(state.rows))


def _coded(state: ClusterState, rows: Index, values: Sequence[str]) -> _Level:
    """Values of some rows as numbers, as labels have them."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values), start=ABSENT + 1)}
    codes = np.full(len(state.names), ABSENT, dtype=np.int32)
    codes[rows] = [numbers[value] for value in values]
    return codes, ["", *numbers]


def _tree(
    state: ClusterState,
    name: str,
    levels: tuple[str, ...],
    coded: Sequence[_Level],
    rows: Index,
    outside: dict[str, str],
) -> Tree:
    """The tree over rows that have a value at every level."""
    names = np.array(_natural_ranks([state.names[row] for row in rows]), dtype=np.intp)
    columns = [np.array(_natural_ranks(values), dtype=np.intp)[codes[rows]] for codes, values in coded]
    order = np.lexsort((names, *reversed(columns))) if len(rows) else np.zeros(0, dtype=np.intp)
    rows = rows[order]
    starts, paths = _domains([column[order] for column in columns], state, coded, rows)
    return Tree(name, levels, rows, (*starts, np.arange(len(rows), dtype=np.intp)), paths, outside)


def _domains(
    columns: list[Index], state: ClusterState, coded: Sequence[_Level], rows: Index
) -> tuple[list[Index], tuple[tuple[Path, ...], ...]]:
    """Where the domains of each level begin, and their paths; a level of its own for the nodes comes last."""
    starts: list[Index] = []
    paths: list[tuple[Path, ...]] = []
    differs = np.zeros(max(len(rows) - 1, 0), dtype=np.bool_)
    for depth, column in enumerate(columns, start=1):
        differs |= column[1:] != column[:-1]
        begins = np.flatnonzero(np.concatenate((np.ones(min(len(rows), 1), dtype=np.bool_), differs)))
        starts.append(begins)
        paths.append(tuple(tuple(values[codes[row]] for codes, values in coded[:depth]) for row in rows[begins]))
    last = paths[-1] if paths else ()
    of_node = np.searchsorted(starts[-1], np.arange(len(rows)), side="right") - 1 if starts else None
    paths.append(
        tuple(
            (*(last[of_node[position]] if of_node is not None else ()), state.names[row])
            for position, row in enumerate(rows)
        )
    )
    return starts, tuple(paths)


def _natural_ranks(texts: Sequence[str]) -> list[int]:
    """Positions in natural order: r2 comes before r10. Equal texts have equal ranks."""
    rank = {text: number for number, text in enumerate(sorted(set(texts), key=natural_key))}
    return [rank[text] for text in texts]


def natural_key(text: str) -> tuple[list[str | int], str]:
    """The key by which people sort names with numbers in them: r before r2 before r10.

    The text decides between 01 and 1.
    """
    # Texts and numbers alternate, beginning with a text, so that equal places of two keys can be compared.
    parts: list[str | int] = [*_DIGITS.split(text)]
    parts[1::2] = map(int, parts[1::2])
    return parts, text
