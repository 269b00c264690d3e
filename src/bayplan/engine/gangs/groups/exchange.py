"""Which of several equal groups gets which place: as ranks follow groups, neighbours among them should be neighbours in the tree.

The search places equal groups in whatever order was quickest. They can be exchanged for one another without anybody noticing: nodes
hold as many pods of every shape as before, and so do domains. So here the first of them gets the first place in the tree's order, the second the
second, and so on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from bayplan.engine.gangs.problem import Part, Problem, Solution, Spots, within


def in_order_of_ranks(problem: Problem, solution: Solution) -> Solution:
    """The solution with equal groups in the order of the tree; groups that members have a home in stay where they are."""
    if not solution.found or len(problem.parts) < 3:
        return solution
    placed = list(solution.placed)
    # Groups inside groups first: what is around them is then moved as a whole.
    for subtrees in reversed(_alike(problem.parts)):
        places = [[placed[number] for number in subtree] for subtree in subtrees]
        places.sort(key=_first_position)
        for subtree, place in zip(subtrees, places, strict=True):
            for number, spots in zip(subtree, place, strict=True):
                placed[number] = spots
    return replace(solution, placed=tuple(placed))


def _alike(parts: Sequence[Part]) -> list[list[list[int]]]:
    """Sets of two or more equal parts beside each other, each with the parts inside it; outer ones first."""
    kinds = _kinds(parts)
    sets: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number, part in enumerate(parts):
        if number and kinds[number] is not None:
            sets[part.parent, kinds[number]].append(number)
    parents = {part.parent for part in parts}
    return [
        [within(parts, number) if number in parents else [number] for number in members]
        for members in sets.values()
        if len(members) > 1
    ]


def _kinds(parts: Sequence[Part]) -> list[Hashable]:
    """What makes parts equal: everything but their names, and the parts inside in their order. None for those that cannot be moved."""
    inside: list[list[Hashable]] = [[] for _ in parts]
    kinds: list[Hashable] = [None] * len(parts)
    for number in range(len(parts) - 1, -1, -1):
        part = parts[number]
        if part.home is None and not part.standing and None not in inside[number]:
            kinds[number] = (
                tuple(sorted(part.pods.items())),
                part.required,
                part.preferred,
                part.apart,
                tuple(inside[number]),
            )
        if number:
            inside[part.parent].append(kinds[number])
    return kinds


def _first_position(place: Sequence[Mapping[int, Spots]]) -> tuple[int, int]:
    """Where the pods of a group begin and end in the tree's order; a group without pods comes last."""
    runs = [spots.positions for shapes in place for spots in shapes.values() if len(spots.positions)]
    if not runs:
        return (1 << 62, 0)
    return int(min(run[0] for run in runs)), int(max(run[-1] for run in runs))
