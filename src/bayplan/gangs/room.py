"""Room for members still to come: a gang that starts with fewer pods than its size goes where the others will have a place too.

Two of four pods may start, or a leader before its workers. The tightest rack that holds the present pods would be a trap: the others
must follow them into it and cannot. So once it is known which pods start, the same search runs again with those still to come
(`Group.coming`, `Group.absent`), and only the seats of the present pods are used. If there is not enough room for all the others, there
is room for as many as possible.

Room for later never costs anything now: no pod that could start is left out for it, no preference is given up, and no additional
preferred domain is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.gangs.problem import Solution, Spots, Status, around
from bayplan.gangs.attempt import FOUND, GangAttempt
from bayplan.gangs.model import Group
from bayplan.gangs.numbers import Tried
from bayplan.gangs.plans import Outcome
from bayplan.kube.wire.core_v1 import Pod


def with_room(attempt: GangAttempt, outcome: Outcome) -> Outcome:
    """The same pods where as many as possible of those that are still to come will have room; the bound says how many."""
    everybody = list(_everybody(outcome.whole))
    coming = sum(len(group.coming) for group in everybody)
    if not outcome.found or not coming or not any(map(_asks_for_a_level, everybody)):
        return outcome
    best, room = outcome.tried, 0
    low, high = 0, coming
    number = coming  # all of them is the likeliest
    while low < high and not attempt.budget.is_spent:
        larger = attempt.place(_joined(outcome.whole, _Share(number)))
        seated = _of_members(outcome.tried, larger) if larger.status in FOUND else None
        if seated is not None:
            low, best, room = number, seated, larger.outline.pods - seated.outline.pods
        else:
            high = number - 1
        number = (low + high + 1) // 2
    return replace(outcome, tried=_saying(best, room, coming))


def _asks_for_a_level(group: Group) -> bool:
    return bool(group.required or group.preferred or group.slices)


def _saying(tried: Tried, room: int, coming: int) -> Tried:
    """The same answer, with a bound that tells for how many more there is room."""
    more = f"with room for {room} more" if room == coming else f"room was found for {room} of {coming} more"
    bound = f"{tried.solution.bound}; {more} that are still to come"
    return replace(tried, solution=replace(tried.solution, bound=bound))


def _everybody(group: Group) -> Iterator[Group]:
    """A group and all inside it, those too that are absent."""
    yield group
    for each in (*group.groups, *group.absent):
        yield from _everybody(each)


class _Share:
    """So many members that are still to come, dealt out to groups in their order."""

    def __init__(self, number: int) -> None:
        self._left = number

    def of(self, coming: Sequence[Pod], unit: int) -> tuple[Pod, ...]:
        """Those of one group, in whole segments."""
        share = min(self._left, len(coming))
        self._left -= share
        return tuple(coming[: share - share % unit])


def _joined(group: Group, share: _Share) -> Group:
    """A group and its inner groups, with a share of the members still to come; every pod is now required."""
    unit = max((each.size for each in group.slices), default=1)
    return replace(
        group,
        pods=(*group.pods, *share.of(group.coming, unit)),
        minimum=None,
        minimum_groups=None,
        groups=tuple(_joined(each, share) for each in (*group.groups, *group.absent)),
        coming=(),
        absent=(),
    )


# -- seats of those who are there ----------------------------------------------------------------------------------------------


def _of_members(members: Tried, larger: Tried) -> Tried | None:
    """Those who are there at the places that they have in the answer for more of them; None if that is no good place for them alone."""
    position_of = {id(pod): position for pod, position in _places(larger)}
    placed = tuple(
        {shape: _spots([position_of[id(pod)] for pod in pods]) for shape, pods in pods_of.by_shape.items()}
        for pods_of in members.outline.pods_of
    )
    both = {members.status, larger.status}
    status = Status.OPTIMAL if both == {Status.OPTIMAL} else Status.FEASIBLE
    solution = Solution(status, placed, larger.solution.bound, members.solution.gap)
    seated = replace(members, solution=solution)
    return seated if seated.domains <= members.domains and _are_admitted(seated) else None


def _places(tried: Tried) -> Iterator[tuple[Pod, int]]:
    """Every pod and its position in the tree; those who are there come first, and ranks follow the tree."""
    for number, (pods_of, placed) in enumerate(zip(tried.outline.pods_of, tried.solution.placed, strict=True)):
        for shape, pods in pods_of.by_shape.items():
            positions = np.repeat(placed[shape].positions, placed[shape].counts)
            yield from zip(pods, _fullest_first(tried, number, positions).tolist(), strict=True)


def _fullest_first(tried: Tried, number: int, positions: NDArray[np.intp]) -> NDArray[np.intp]:
    """Positions of a part's pods so that the first of them are in few preferred domains. Segments stay as they are."""
    levels = [part.preferred for part in around(tried.outline.parts, number) if part.preferred is not None]
    if not levels or tried.outline.layers:
        return positions
    domains = tried.problem.tree.domain_at[levels[0]][positions]
    _, of_each, members = np.unique(domains, return_inverse=True, return_counts=True)
    ordered: NDArray[np.intp] = positions[np.lexsort((positions, domains, -members[of_each]))]
    return ordered


def _spots(positions: list[int]) -> Spots:
    used, counts = np.unique(np.array(positions, dtype=np.intp), return_counts=True)
    return Spots(used, counts.astype(np.int64))


def _are_admitted(seated: Tried) -> bool:
    """True if every kubelet also admits those who are there without the others: a pod may only fit behind another one."""
    if seated.mixes is None:
        return True
    mix_at: dict[int, dict[int, int]] = {}
    for part in seated.solution.placed:
        for shape, spots in part.items():
            for position, count in zip(spots.positions.tolist(), spots.counts.tolist(), strict=True):
                mix = mix_at.setdefault(position, {})
                mix[shape] = mix.get(shape, 0) + count
    return all(seated.mixes.order(position, tuple(sorted(mix.items()))) is not None for position, mix in mix_at.items())
