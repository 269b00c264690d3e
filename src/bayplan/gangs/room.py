"""Room for later members: a gang that starts below its full size goes where the others will fit too.

The tightest rack for the present pods would trap the others, which must follow them into it. So the search runs again
with the later members (`Group.coming`, `Group.absent`). Present pods take their seats there; those of later members can
be kept (`dispatch/kept/late_room.py`). This never costs anything now: no pod, no preference and no additional preferred
domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.problem import Solution, Spots, Status, around
from bayplan.gangs.attempt import FOUND, GangAttempt
from bayplan.gangs.model import Group, LaterSeat
from bayplan.gangs.outline import Outline, Tried
from bayplan.gangs.parts import PartOutcome
from bayplan.kube.wire.core_v1 import Pod

_Found = TypeVar("_Found")


def with_room(attempt: GangAttempt, outcome: PartOutcome) -> PartOutcome:
    """Move the pods to where as many later members as possible have room; the bound says how many."""
    if not outcome.found or not any(group.coming or group.absent for group in outcome.part.every_group()):
        return outcome
    everybody = list(_with_absent(outcome.part))
    coming = sum(len(group.coming) for group in everybody)
    if not coming or not any(map(_asks_for_a_level, everybody)):
        return outcome
    if attempt.relations.fellows.depend_on_all:
        return outcome  # what holds with later members need not hold without them

    def with_later(number: int) -> tuple[Tried, Tried] | None:
        larger = attempt.place(_joined(outcome.part, _Share(number)))
        seated = _of_members(outcome.tried, larger) if larger.status in FOUND else None
        return None if seated is None else (seated, larger)

    found = _most(coming, with_later, attempt.budget)
    if found is None:
        return replace(outcome, tried=_with_room_in_bound(outcome.tried, 0, coming))
    seated, larger = found
    room = larger.outline.pods - seated.outline.pods
    return replace(outcome, tried=_with_room_in_bound(seated, room, coming), later=LaterSeats(larger, seated.outline))


def room_for(attempt: GangAttempt) -> Sequence[LaterSeat]:
    """Return seats for as many as possible of the later members of a gang that has started and has no waiting pods."""
    everybody = list(_with_absent(attempt.root))
    if not any(map(_asks_for_a_level, everybody)):
        return ()

    def with_later(number: int) -> Tried | None:
        tried = attempt.place(_joined(attempt.root, _Share(number)))
        return tried if tried.status in FOUND else None

    tried = _most(sum(len(group.coming) for group in everybody), with_later, attempt.budget)
    return () if tried is None else LaterSeats(tried)


def _most(highest: int, attempt: Callable[[int], _Found | None], budget: Budget) -> _Found | None:
    """What an attempt finds for the highest number that it succeeds for, by bisection; most likely for all."""
    best: _Found | None = None
    low, high, number = 0, highest, highest
    while low < high and not budget.is_spent:
        found = attempt(number)
        if found is not None:
            low, best = number, found
        else:
            high = number - 1
        number = (low + high + 1) // 2
    return best


def as_later(group: Group) -> Group:
    """Return a started gang whose waiting pods are later members, too."""
    return replace(
        group,
        pods=(),
        minimum=None,
        coming=(*group.pods, *group.coming),
        groups=tuple(as_later(each) for each in group.groups),
    )


def _asks_for_a_level(group: Group) -> bool:
    return bool(group.required or group.preferred or group.segments)


def _with_room_in_bound(tried: Tried, room: int, coming: int) -> Tried:
    more = f"with room for {room} more" if room == coming else f"room was found for {room} of {coming} more"
    bound = f"{tried.solution.bound}; {more} that are still to come"
    return replace(tried, solution=replace(tried.solution, bound=bound))


def _with_absent(group: Group) -> Iterator[Group]:
    """Yield a group and all groups inside it, including absent ones."""
    yield group
    for each in (*group.groups, *group.absent):
        yield from _with_absent(each)


class _Share:
    """A number of later members, dealt out to groups in order."""

    def __init__(self, number: int) -> None:
        self._left = number

    def of(self, coming: Sequence[Pod], segment_size: int) -> tuple[Pod, ...]:
        """Take the share of one group, in whole segments."""
        share = min(self._left, len(coming))
        self._left -= share
        return tuple(coming[: share - share % segment_size])


def _joined(group: Group, share: _Share) -> Group:
    """Return a group and its inner groups with a share of the later members; every pod is now required."""
    segment_size = max((each.size for each in group.segments), default=1)
    return replace(
        group,
        pods=(*group.pods, *share.of(group.coming, segment_size)),
        minimum=None,
        minimum_groups=None,
        groups=tuple(_joined(each, share) for each in (*group.groups, *group.absent)),
        coming=(),
        absent=(),
    )


class LaterSeats(Sequence[LaterSeat]):
    """The seats of later members in an answer for everybody, built lazily: not every answer is carried out."""

    def __init__(self, tried: Tried, present: Outline | None = None) -> None:
        self._tried = tried
        self._present = present

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> LaterSeat: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LaterSeat]: ...
    def __getitem__(self, index: int | slice) -> LaterSeat | Sequence[LaterSeat]:
        return self._made[index]

    @cached_property
    def _made(self) -> tuple[LaterSeat, ...]:
        tried, tree = self._tried, self._tried.problem.tree
        parts = () if self._present is None else self._present.pods_of
        present = {id(pod) for pods_of in parts for pods in pods_of.by_shape.values() for pod in pods}
        paths = tree.paths[tree.node_level]
        return tuple(
            LaterSeat(pods_of.group, pod, paths[position][-1])
            for number, pods_of in enumerate(tried.outline.pods_of)
            for pod, position in _places_of(tried, number)
            if id(pod) not in present
        )


# -- seats of present members ----------------------------------------------------------------------------------------


def _of_members(members: Tried, larger: Tried) -> Tried | None:
    """Seat present members where the larger answer has them; None if that is no good place for them alone."""
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
    """Yield every pod and its position in the tree; present members come first, and ranks follow the tree."""
    for number in range(len(tried.outline.pods_of)):
        yield from _places_of(tried, number)


def _places_of(tried: Tried, number: int) -> Iterator[tuple[Pod, int]]:
    pods_of, placed = tried.outline.pods_of[number], tried.solution.placed[number]
    for shape, pods in pods_of.by_shape.items():
        positions = np.repeat(placed[shape].positions, placed[shape].counts)
        yield from zip(pods, _fullest_first(tried, number, positions).tolist(), strict=True)


def _fullest_first(tried: Tried, number: int, positions: NDArray[np.intp]) -> NDArray[np.intp]:
    """Order a part's positions so that the first are in few preferred domains. Segments stay as they are."""
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
    """True if every kubelet also admits present members alone: a pod may only fit after another one."""
    if seated.mixes is None:
        return True
    mix_at: dict[int, dict[int, int]] = {}
    for part in seated.solution.placed:
        for shape, spots in part.items():
            for position, count in zip(spots.positions.tolist(), spots.counts.tolist(), strict=True):
                mix = mix_at.setdefault(position, {})
                mix[shape] = mix.get(shape, 0) + count
    return all(seated.mixes.order(position, tuple(sorted(mix.items()))) is not None for position, mix in mix_at.items())
