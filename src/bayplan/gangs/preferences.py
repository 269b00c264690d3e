"""Wishes: segments that a gang would like and can do without. As many are kept as can be kept together.

A wish is one layer of segments of one group, or, for members that join later, one segment that runs already (`gangs/ranks/late_segments.py`). All of them are tried
first, then each by itself: what cannot be had alone cannot be had at all. Of the others one after another is kept if it can be had with those before
it: group after group, wide segments before narrow ones. Where that leaves some out, larger choices are tried; if there are too many of
them, the answer is not called the best.

Fewer wishes are never harder than more of them, which makes this order right, and spares most of the attempts. Of groups that differ only in
names it does not matter whose wish is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.attempt import FOUND, GangAttempt
from bayplan.gangs.equal_groups import ClassOf, Kinds
from bayplan.gangs.model import Group, Slices
from bayplan.gangs.numbers import Tried

# Choices beyond those one by one that are thought of; of six wishes there are never more. Most of them need no attempt.
MOST_CHOICES = 64


@dataclass
class PartTrial:
    """Tries parts of a gang and remembers what came of it: parts that were refused, and whether any was left undecided."""

    attempt: GangAttempt
    undecided: bool = False
    refused: list[tuple[Group, Tried]] = field(default_factory=list)

    @property
    def budget(self) -> Budget:
        """What is left for the decision."""
        return self.attempt.budget

    def place(self, part: Group) -> Tried:
        """Search a place for a part."""
        tried = self.attempt.place(part)
        self.undecided |= tried.status is Status.LIMIT_REACHED
        if tried.status not in FOUND:
            self.refused.append((part, tried))
        return tried


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


def most_wishes(parts: PartTrial, part: Group, tried: Tried, whole: Group) -> Kept:
    """A part of a gang, which has a place without any wish, with as many wishes of the whole as have a place together."""
    pods = {group.name: len(group.pods) for group in part.every_group()}
    wishes = [wish for wish in wishes_of(whole) if wish.group in pods and _divides(wish, pods[wish.group])]
    trial = _Trial(Kept(part, tried), whole, parts)
    alike = _alike(part, whole, wishes, parts.attempt.class_of)
    if trial.kept(wishes) is not None:
        alike, most = [], wishes
    else:
        alike = [same for same in alike if trial.kept(same[:1]) is not None]
        most = _one_by_one(trial, alike, wishes.index)
    larger = _larger_choices(alike, len(most), wishes.index)
    found = next((choice for choice in islice(larger, MOST_CHOICES) if trial.kept(choice) is not None), None)
    best = trial.kept(most if found is None else found)
    assert best is not None
    is_most = found is not None or next(larger, None) is None
    return replace(best, proven=is_most and not trial.gave_up)


def _one_by_one(trial: _Trial, alike: Sequence[Sequence[Wish]], order: Callable[[Wish], int]) -> list[Wish]:
    """Wishes that are kept if each of them, in their order, is kept with those before it; asked about by halves."""
    class_of = {wish: number for number, same in enumerate(alike) for wish in same}
    kept: list[Wish] = []
    # Where one has no place, no other that is like it has.
    hopeless: set[int] = set()
    runs = [sorted(class_of, key=order)]
    while runs:
        run = [wish for wish in runs.pop() if class_of[wish] not in hopeless]
        middle = len(run) // 2
        if trial.kept([*kept, *run]) is not None:
            kept += run
        elif len(run) == 1:
            hopeless.add(class_of[run[0]])
        else:
            runs += [run[middle:], run[:middle]]
    return kept


def _larger_choices(
    alike: Sequence[Sequence[Wish]], number: int, order: Callable[[Wish], int]
) -> Iterator[Sequence[Wish]]:
    """Choices of more than so many wishes, the largest first; of wishes that are alike always the first."""
    for many in range(sum(map(len, alike)) - 1, number, -1):
        choices = [sorted(choice, key=order) for choice in islice(_choices(alike, many), MOST_CHOICES + 1)]
        yield from sorted(choices, key=lambda choice: [order(wish) for wish in choice])


def _choices(alike: Sequence[Sequence[Wish]], number: int) -> Iterator[list[Wish]]:
    """Every way to choose so many wishes. Not by recursion: a gang may have thousands of groups."""
    behind = [0, *accumulate(map(len, reversed(alike)))][::-1]
    unfinished: list[tuple[int, list[Wish]]] = [(0, [])]
    while unfinished:
        index, chosen = unfinished.pop()
        if index == len(alike):
            yield chosen
            continue
        same, missing = alike[index], number - len(chosen)
        shares = range(max(missing - behind[index + 1], 0), min(missing, len(same)) + 1)
        unfinished += [(index + 1, [*chosen, *same[:share]]) for share in shares]


def _alike(part: Group, whole: Group, wishes: Sequence[Wish], class_of: ClassOf) -> list[list[Wish]]:
    """Wishes that it makes no difference which of them are kept: the only ones of groups side by side that differ in names alone."""
    originals = {group.name: group for group in whole.every_group()}
    beside = {group.name: (around.name, group) for around in part.every_group() for group in around.groups}
    numbers = Counter(wish.group for wish in wishes)
    classes: dict[Hashable, list[Wish]] = {}
    kinds = Kinds(class_of)
    for wish in wishes:
        key: Hashable = wish
        if wish.group in beside:
            around, group = beside[wish.group]
            if sum(numbers[each.name] for each in group.every_group()) == 1:
                original = originals[wish.group]
                key = (around, kinds.of(group), original.slices, original.required, original.apart)
        classes.setdefault(key, []).append(wish)
    return list(classes.values())


def _is_wish(group: Group) -> bool:
    """True if a group's requirement is only a preference, and a pod in it waits for a place."""
    return group.wished and group.required is not None and any(each.pods for each in group.every_group())


def _divides(wish: Wish, pods: int) -> bool:
    return wish.slices is None or pods % wish.slices.size == 0


class _Trial:
    """Tries choices of wishes, each once, and none that is more than one without a place. It gave up if its time was spent before."""

    def __init__(self, without: Kept, whole: Group, parts: PartTrial) -> None:
        self.gave_up = False
        self._without = without
        self._originals = {group.name: group for group in whole.every_group()}
        self._parts = parts
        self._found: dict[frozenset[Wish], Kept] = {frozenset(): without}
        self._refused: list[frozenset[Wish]] = []

    def kept(self, wishes: Sequence[Wish]) -> Kept | None:
        """The part with these wishes, if it has a place."""
        choice = frozenset(wishes)
        if choice in self._found or any(refused <= choice for refused in self._refused):
            return self._found.get(choice)
        if self._parts.budget.is_spent:
            self.gave_up = True
        else:
            group = _granted(self._without.whole, self._originals, choice)
            tried = self._parts.place(group)
            if tried.status in FOUND:
                self._found[choice] = Kept(group, tried)
            else:
                self._refused.append(choice)
        return self._found.get(choice)


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
