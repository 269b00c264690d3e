"""Wishes: segments that a gang would like and can do without. As many are kept as can be kept together.

A wish is one layer of segments of one group, or, for members that join later, one segment that runs already (`late_segments.py`). All of them are tried
first, then each by itself: what cannot be had alone cannot be had at all. Of the others one after another is kept if it can be had with those before
it: group after group, wide segments before narrow ones. Where that leaves some out, larger choices are tried; if there are too many of
them, the answer is not called the best.

Fewer wishes are never harder than more of them, which makes this order right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from bayplan.engine.gangs.problem import Status
from bayplan.scheduling.gang import Group, Slices
from bayplan.scheduling.gang_numbers import Tried

# Choices of wishes that are tried after those one by one; with six wishes there are never more.
MOST_CHOICES = 64

FOUND = (Status.OPTIMAL, Status.FEASIBLE)

Attempt = Callable[[Group], Tried]


@dataclass(frozen=True)
class Wish:
    """What a group would like: segments, or, without any, to be in one domain itself."""

    group: str
    slices: Slices | None = None

    @property
    def text(self) -> str:
        """`segments of 4`, `segments of 4 in group b`, `segment 1`."""
        if self.slices is None:
            return self.group
        return f"segments of {self.slices.size}{f' in group {self.group}' if self.group else ''}"

    def is_kept_by(self, group: Group) -> bool:
        """True if the group, as it was placed, has what it wished for."""
        return group.required is not None if self.slices is None else self.slices in group.slices


@dataclass(frozen=True, slots=True)
class Kept:
    """A part of a gang with the wishes that were kept; not `proven` if more of them might have been."""

    whole: Group
    tried: Tried
    proven: bool = True


def wishes_of(whole: Group) -> Iterator[Wish]:
    """All wishes of a gang: group after group, wide segments before narrow ones."""
    for group in whole.every_group():
        if _is_wish(group):
            yield Wish(group.name)
        yield from (Wish(group.name, each) for each in group.slices if not each.required)


def without_wishes(whole: Group) -> Group:
    """The same groups, with nothing that is only wished for."""
    return _granted(whole, {group.name: group for group in whole.every_group()}, frozenset())


def most_wishes(part: Group, tried: Tried, whole: Group, attempt: Attempt) -> Kept:
    """A part of a gang, which has a place without any wish, with as many wishes of the whole as have a place together."""
    pods = {group.name: len(group.pods) for group in part.every_group()}
    wishes = [wish for wish in wishes_of(whole) if wish.group in pods and _divides(wish, pods[wish.group])]
    if not wishes:
        return Kept(part, tried)
    trial = _Trial(part, whole, attempt)
    all_of_them = trial.of(wishes)
    if all_of_them is not None:
        return all_of_them
    possible = [wish for wish in wishes if trial.of([wish]) is not None]
    one_by_one: list[Wish] = []
    for wish in possible:
        if trial.of([*one_by_one, wish]) is not None:
            one_by_one.append(wish)
    best = (trial.of(one_by_one) if one_by_one else None) or Kept(part, tried)
    larger = (
        choice for number in range(len(possible) - 1, len(one_by_one), -1) for choice in combinations(possible, number)
    )
    for choice in islice(larger, MOST_CHOICES):
        kept = trial.of(choice)
        if kept is not None:
            return kept
    return replace(best, proven=next(larger, None) is None)


def _is_wish(group: Group) -> bool:
    """True if what a group requires is only wished for, and somebody in it waits for a place."""
    return group.wished and group.required is not None and any(each.pods for each in group.every_group())


def _divides(wish: Wish, pods: int) -> bool:
    return wish.slices is None or pods % wish.slices.size == 0


class _Trial:
    """Tries choices of wishes, each once."""

    def __init__(self, part: Group, whole: Group, attempt: Attempt) -> None:
        self._part = part
        self._originals = {group.name: group for group in whole.every_group()}
        self._attempt = attempt
        self._known: dict[frozenset[Wish], Kept | None] = {}

    def of(self, wishes: Sequence[Wish]) -> Kept | None:
        """The part with these wishes, if it has a place."""
        choice = frozenset(wishes)
        if choice not in self._known:
            group = _granted(self._part, self._originals, choice)
            tried = self._attempt(group)
            self._known[choice] = Kept(group, tried) if tried.status in FOUND else None
        return self._known[choice]


def _granted(group: Group, originals: Mapping[str, Group], wishes: frozenset[Wish]) -> Group:
    """A group, and those inside it, with these wishes out of all that they have originally."""
    original = originals[group.name]
    is_bound = not _is_wish(original) or Wish(group.name) in wishes
    return replace(
        group,
        slices=tuple(each for each in original.slices if each.required or Wish(group.name, each) in wishes),
        required=original.required if is_bound else None,
        apart=original.apart if is_bound else None,
        groups=tuple(_granted(each, originals, wishes) for each in group.groups),
    )
