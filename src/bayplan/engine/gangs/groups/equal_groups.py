"""Equal groups of equal pods are segments of one gang: 64 groups of 8 that need a rack each are 512 pods in segments.

Segments are counted (`equal/equal_pods.py`), which takes a tenth of the time of searching a domain for each group. It
is exact about whether they fit, and about all goals if the table over the tree is small enough. In comes a problem of
one shape, out come the layers of segments that say the same, or None if its groups are not that simple.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from bayplan.engine.gangs.equal.segments import SegmentLayer
from bayplan.engine.gangs.problem import WHOLE_TREE, Part, Problem, Solution, Spots, within


def segment_layers_of(problem: Problem) -> tuple[SegmentLayer, ...] | None:
    """The layers of segments that say the same as the groups of a gang, the widest first; None if there are none."""
    whole = problem.parts[0]
    if whole.running_at or any(part.preferred is not None for part in problem.parts[1:]):
        return None
    inside: list[list[int]] = [[] for _ in problem.parts]
    for number, part in enumerate(problem.parts[1:], start=1):
        inside[part.parent].append(number)
    required = WHOLE_TREE if whole.required is None else whole.required
    return _layers(problem, inside, [0], required)


def _layers(
    problem: Problem, inside: Sequence[Sequence[int]], around: Sequence[int], level: int
) -> tuple[SegmentLayer, ...] | None:
    """The layers inside some equal parts, each of which is in one domain of a level."""
    parts = problem.parts
    inner = [number for part in around for number in inside[part]]
    if all(_adds_nothing(problem, inside, number, level) for number in inner):
        return ()
    if any(parts[number].pods for number in around):
        return None
    first, totals = parts[inner[0]], problem.totals
    pods, wanted = totals[inner[0]], first.required
    if wanted is None or wanted <= level or (first.apart is not None and len(around) > 1):
        return None
    if any(parts[number].required != wanted or totals[number] != pods for number in inner):
        return None
    if any(parts[number].apart != first.apart or parts[number].running_at for number in inner):
        return None
    deeper = _layers(problem, inside, inner, wanted)
    return None if deeper is None else (SegmentLayer(wanted, sum(pods.values()), first.apart is not None), *deeper)


def _adds_nothing(problem: Problem, inside: Sequence[Sequence[int]], number: int, level: int) -> bool:
    """True if a part and its inner parts only require one domain of a level, as the part around them does."""
    part = problem.parts[number]
    if part.apart is not None or (part.required is not None and part.required > level):
        return False
    return all(_adds_nothing(problem, inside, each, level) for each in inside[number])


def in_order_of_ranks(problem: Problem, solution: Solution) -> Solution:
    """The solution with equal groups in the order of the tree; groups with running members keep their domain."""
    if not solution.found or len(problem.parts) < 3:
        return solution
    placed = list(solution.placed)
    # Inner groups first: outer ones then move as a whole.
    for subtrees in reversed(_alike(problem.parts)):
        places = [[placed[number] for number in subtree] for subtree in subtrees]
        places.sort(key=_first_position)
        for subtree, place in zip(subtrees, places, strict=True):
            for number, spots in zip(subtree, place, strict=True):
                placed[number] = spots
    return replace(solution, placed=tuple(placed))


def _alike(parts: Sequence[Part]) -> list[list[list[int]]]:
    """Sets of two or more equal sibling parts, each with its inner parts; outer ones first."""
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
    """What makes parts equal: everything but their names, and the parts inside in their order.

    None for those that cannot be moved.
    """
    inside: list[list[Hashable]] = [[] for _ in parts]
    kinds: list[Hashable] = [None] * len(parts)
    for number in range(len(parts) - 1, -1, -1):
        part = parts[number]
        if part.home is None and not part.running_at and None not in inside[number]:
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
