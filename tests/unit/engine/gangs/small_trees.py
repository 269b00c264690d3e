"""Trees and problems in one line each: `b1/r1: 4 2` is a rack with two nodes that have four slots and two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree, build_tree
from bayplan.engine.gangs.problem import Counts, Part, Problem
from tests.builders.objects import node

BLOCK, RACK, NODE = 0, 1, 2
NO_SUMS = (np.zeros((1, 0)), np.zeros((0, 0)))


def racks(*lines: str) -> tuple[Tree, Counts]:
    """A tree of blocks, racks and nodes (named n1, n2, ... as they are written), and the slots by position."""
    state = ClusterState()
    slots: dict[str, int] = {}
    for line in lines:
        path, _, numbers = line.partition(":")
        block, _, rack = path.partition("/")
        for number in numbers.split():
            name = f"n{len(slots) + 1}"
            slots[name] = int(number)
            state.set_node(node(name, labels={"block": block, "rack": rack}))
    tree = build_tree(state, "network", ("block", "rack"))
    return tree, np.array([slots[path[-1]] for path in tree.paths[NODE]], dtype=np.int64)


def equal_pods(tree: Tree, slots: Counts, *parts: Part) -> Problem:
    """A problem of one shape; the first part is the gang itself."""
    return Problem(tree, parts, (slots,), *NO_SUMS)


def pods_of(*counts: int) -> dict[int, int]:
    """So many pods of each shape."""
    return {shape: count for shape, count in enumerate(counts) if count}


def gang(pods: int = 0, required: int | None = None, preferred: int | None = None) -> Part:
    return Part("", -1, pods_of(pods), required, preferred)


def group(name: str, pods: int, required: int | None = None, parent: int = 0) -> Part:
    return Part(name, parent, pods_of(pods), required)


def by_rack(tree: Tree, counts: Counts | Sequence[int]) -> dict[str, int]:
    """Pods by rack, only racks that have any."""
    sums = tree.sums(np.asarray(counts, dtype=np.int64), RACK)
    return {"/".join(path): int(pods) for path, pods in zip(tree.paths[RACK], sums, strict=True) if pods}
