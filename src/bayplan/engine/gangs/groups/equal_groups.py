"""Equal groups of equal pods are slices of one gang: 64 groups of 8 that each need a rack are 512 pods in slices of 8.

Slices are counted (`equal_pods.py`), which takes a tenth of the time of searching a domain for each group, and is exact by every goal.
In comes a problem of one shape, out come the layers of slices that say the same, or None if its groups are not that simple.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.engine.gangs.equal.slices import Layer
from bayplan.engine.gangs.problem import WHOLE_TREE, Part, Problem


def slices_of(problem: Problem) -> tuple[Layer, ...] | None:
    """The layers of slices that say the same as the groups of a gang, the widest first; None if there are none."""
    whole = problem.parts[0]
    if whole.standing or any(part.preferred is not None for part in problem.parts[1:]):
        return None
    inside: list[list[int]] = [[] for _ in problem.parts]
    for number, part in enumerate(problem.parts[1:], start=1):
        inside[part.parent].append(number)
    required = WHOLE_TREE if whole.required is None else whole.required
    return _layers(problem, inside, [0], required)


def _layers(
    problem: Problem, inside: Sequence[Sequence[int]], around: Sequence[int], level: int
) -> tuple[Layer, ...] | None:
    """The layers inside some equal parts, each of which is in one domain of a level."""
    parts = problem.parts
    inner = [number for part in around for number in inside[part]]
    if all(_adds_nothing(problem, inside, number, level) for number in inner):
        return ()
    if any(parts[number].pods for number in around):
        return None
    first = parts[inner[0]]
    size, wanted = sum(problem.totals[inner[0]].values()), first.required
    if wanted is None or wanted <= level or not all(_is_like(problem, number, first, size) for number in inner):
        return None
    if first.apart is not None and len(around) > 1:
        return None
    deeper = _layers(problem, inside, inner, wanted)
    return None if deeper is None else (Layer(wanted, size, first.apart is not None), *deeper)


def _is_like(problem: Problem, number: int, first: Part, size: int) -> bool:
    part = problem.parts[number]
    same = part.required == first.required and part.apart == first.apart and not part.standing
    return same and sum(problem.totals[number].values()) == size


def _adds_nothing(problem: Problem, inside: Sequence[Sequence[int]], number: int, level: int) -> bool:
    """True if a part, and those inside it, ask for no more than to be in one domain of a level, as what is around them is."""
    part = problem.parts[number]
    if part.apart is not None or (part.required is not None and part.required > level):
        return False
    return all(_adds_nothing(problem, inside, each, level) for each in inside[number])
