"""Preferences: optional segments of a gang. As many as fit together are kept.

A preference is one layer of segments of one group, or one running segment that members join later
(`gangs/ranks/late_segments.py`). All are tried first, then each alone: what does not fit alone never fits. The rest are
kept one by one, group after group, wide segments before narrow ones. Finally larger choices are tried, up to a limit.
Fewer preferences are never harder to satisfy, which spares most attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice

from bayplan.gangs.attempt import FOUND, PartTrial
from bayplan.gangs.model import Group, Segments
from bayplan.gangs.outline import Tried
from bayplan.gangs.relations.members import MemberClass
from bayplan.kube.wire.core_v1 import Pod

# Limit on choices beyond those one by one: enough for all choices of six preferences. Most need no attempt.
MOST_COMBINATIONS = 64

ClassOf = Callable[[Pod], MemberClass]


@dataclass(frozen=True)
class Preference:
    """A group's preferred segments; without `segments`, its preference to be in one domain."""

    group: str
    segments: Segments | None = None

    @property
    def text(self) -> str:
        """`segments of 4`, `segments of 4 in group b`, `segment 1`."""
        if self.segments is None:
            return self.group
        return f"segments of {self.segments.size}{f' in group {self.group}' if self.group else ''}"

    def is_kept_by(self, group: Group) -> bool:
        """True if the group, as placed, satisfies this preference."""
        return group.required is not None if self.segments is None else self.segments in group.segments


@dataclass(frozen=True, slots=True)
class Kept:
    """A part of a gang with the preferences it keeps; not `proven` if it might keep more."""

    root: Group
    tried: Tried
    proven: bool = True


def preferences_of(root: Group) -> Iterator[Preference]:
    """Yield all preferences of a gang: group after group, wide segments before narrow ones."""
    for group in root.every_group():
        if _is_preference(group):
            yield Preference(group.name)
        yield from (Preference(group.name, each) for each in group.segments if not each.required)


def without_preferences(root: Group) -> Group:
    """Return the same groups without their preferences."""
    return _granted(root, {group.name: group for group in root.every_group()}, frozenset())


def most_preferences(parts: PartTrial, part: Group, tried: Tried, root: Group) -> Kept:
    """Return a part that fits without preferences, with as many preferences of the whole as fit together."""
    pods = {group.name: len(group.pods) for group in part.every_group()}
    preferences = [each for each in preferences_of(root) if each.group in pods and _divides(each, pods[each.group])]
    trial = _PreferenceTrial(Kept(part, tried), root, parts)
    alike = _alike(part, root, preferences, parts.attempt.class_of)
    if trial.kept(preferences) is not None:
        alike, most = [], preferences
    else:
        alike = [same for same in alike if trial.kept(same[:1]) is not None]
        most = _one_by_one(trial, alike, preferences.index)
    larger = _larger_choices(alike, len(most), preferences.index)
    found = next((choice for choice in islice(larger, MOST_COMBINATIONS) if trial.kept(choice) is not None), None)
    best = trial.kept(most if found is None else found)
    assert best is not None
    is_most = found is not None or next(larger, None) is None
    return replace(best, proven=is_most and not trial.gave_up)


def _one_by_one(
    trial: _PreferenceTrial, alike: Sequence[Sequence[Preference]], order: Callable[[Preference], int]
) -> list[Preference]:
    """Keep each preference, in order, that fits together with those before it; found by bisection."""
    class_of = {preference: number for number, same in enumerate(alike) for preference in same}
    kept: list[Preference] = []
    # If one does not fit, no other of its kind does.
    hopeless: set[int] = set()
    runs = [sorted(class_of, key=order)]
    while runs:
        run = [preference for preference in runs.pop() if class_of[preference] not in hopeless]
        middle = len(run) // 2
        if trial.kept([*kept, *run]) is not None:
            kept += run
        elif len(run) == 1:
            hopeless.add(class_of[run[0]])
        else:
            runs += [run[middle:], run[:middle]]
    return kept


def _larger_choices(
    alike: Sequence[Sequence[Preference]], number: int, order: Callable[[Preference], int]
) -> Iterator[Sequence[Preference]]:
    """Yield choices of more than `number` preferences, the largest first; of equal preferences always the first."""
    for many in range(sum(map(len, alike)) - 1, number, -1):
        choices = [sorted(choice, key=order) for choice in islice(_choices(alike, many), MOST_COMBINATIONS + 1)]
        yield from sorted(choices, key=lambda choice: [order(preference) for preference in choice])


def _choices(alike: Sequence[Sequence[Preference]], number: int) -> Iterator[list[Preference]]:
    """Yield every choice of `number` preferences. Iterative: a gang may have thousands of groups."""
    behind = [0, *accumulate(map(len, reversed(alike)))][::-1]
    unfinished: list[tuple[int, list[Preference]]] = [(0, [])]
    while unfinished:
        index, chosen = unfinished.pop()
        if index == len(alike):
            yield chosen
            continue
        same, missing = alike[index], number - len(chosen)
        shares = range(max(missing - behind[index + 1], 0), min(missing, len(same)) + 1)
        unfinished += [(index + 1, [*chosen, *same[:share]]) for share in shares]


def _alike(part: Group, root: Group, preferences: Sequence[Preference], class_of: ClassOf) -> list[list[Preference]]:
    """Group interchangeable preferences: the only ones of sibling groups that differ in names alone."""
    originals = {group.name: group for group in root.every_group()}
    beside = {group.name: (around.name, group) for around in part.every_group() for group in around.groups}
    numbers = Counter(preference.group for preference in preferences)
    classes: dict[Hashable, list[Preference]] = {}
    kinds = GroupKinds(class_of)
    for preference in preferences:
        key: Hashable = preference
        if preference.group in beside:
            around, group = beside[preference.group]
            if sum(numbers[each.name] for each in group.every_group()) == 1:
                original = originals[preference.group]
                key = (around, kinds.of(group), original.segments, original.required, original.apart)
        classes.setdefault(key, []).append(preference)
    return list(classes.values())


def _is_preference(group: Group) -> bool:
    """True if a group's requirement is optional, and a pod in it waits."""
    return group.optional and group.required is not None and any(each.pods for each in group.every_group())


def _divides(preference: Preference, pods: int) -> bool:
    return preference.segments is None or pods % preference.segments.size == 0


class _PreferenceTrial:
    """Tries each choice of preferences once, skips supersets of refused ones, and gives up when the budget is spent."""

    def __init__(self, without: Kept, root: Group, parts: PartTrial) -> None:
        self.gave_up = False
        self._without = without
        self._originals = {group.name: group for group in root.every_group()}
        self._parts = parts
        self._found: dict[frozenset[Preference], Kept] = {frozenset(): without}
        self._refused: list[frozenset[Preference]] = []

    def kept(self, preferences: Sequence[Preference]) -> Kept | None:
        """Return the part with these preferences, if it fits."""
        choice = frozenset(preferences)
        if choice in self._found or any(refused <= choice for refused in self._refused):
            return self._found.get(choice)
        if self._parts.budget.is_spent:
            self.gave_up = True
        else:
            group = _granted(self._without.root, self._originals, choice)
            tried = self._parts.place(group)
            if tried.status in FOUND:
                self._found[choice] = Kept(group, tried)
            else:
                self._refused.append(choice)
        return self._found.get(choice)


def _granted(group: Group, originals: Mapping[str, Group], preferences: frozenset[Preference]) -> Group:
    """Return a group and those inside it with only these of their original preferences."""
    original = originals[group.name]
    is_bound = not _is_preference(original) or Preference(group.name) in preferences
    return replace(
        group,
        segments=tuple(
            each for each in original.segments if each.required or Preference(group.name, each) in preferences
        ),
        required=original.required if is_bound else None,
        apart=original.apart if is_bound else None,
        groups=tuple(_granted(each, originals, preferences) for each in group.groups),
    )


class GroupKinds:
    """Numbers the kinds of a gang's groups: groups that differ only in names are interchangeable.

    Plans share most inner groups, so kinds are cached: recomputing them took three minutes for 78 groups of 3 to 51
    pods.
    """

    def __init__(self, class_of: ClassOf) -> None:
        self._class_of = class_of
        # Holding the group keeps its id from being reused.
        self._known: dict[int, tuple[Group, int]] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(self, group: Group) -> int:
        """Return the kind of a group: everything but names, inner groups in any order."""
        known = self._known.get(id(group))
        if known is None:
            number = self._numbers.setdefault(self._key(group), len(self._numbers))
            known = self._known[id(group)] = group, number
        return known[1]

    def _key(self, group: Group) -> Hashable:
        return (
            tuple(map(self._class_of, group.pods)),
            (group.required, group.preferred, group.minimum, group.minimum_groups, group.segments),
            (group.apart, group.optional),
            tuple(pod.spec.node_name for pod in group.running),
            frozenset(Counter(self.of(inner) for inner in group.groups).items()),
        )
