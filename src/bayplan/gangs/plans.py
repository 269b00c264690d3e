"""Plans: which part of a gang starts if not all of it can.

Drops, in this order: preferred segments (`gangs/preferences.py`), members beyond a group's minimum, groups beyond the
minimum of groups. So as many groups as possible start, in the fewest preferred domains; then groups grow beyond their
minimum, lowest ranks first; then as many preferences as possible are kept.

Equal groups are interchangeable: with 50 replicas of which 40 must start there are 11 plans, not billions.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from operator import itemgetter

from bayplan.cluster.state import pod_key
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.attempt import FOUND, GangAttempt
from bayplan.gangs.model import Group, LaterSeat
from bayplan.gangs.outline import Tried
from bayplan.gangs.preferences import (
    GroupKinds,
    PartTrial,
    most_preferences,
    preferences_of,
    without_preferences,
)
from bayplan.kube.wire.core_v1 import Pod

# Limit on ways to leave groups out; beyond it only the largest groups are left out, one after another.
MOST_CHOICES = 100


@dataclass(frozen=True)
class PartOutcome:
    """A part of a gang and its search result; not `complete` if a larger part may fit as well.

    `later` are places for members that are still to come.
    """

    part: Group
    tried: Tried
    complete: bool = True
    later: Sequence[LaterSeat] = ()

    @property
    def found(self) -> bool:
        """True if this part fits."""
        return self.tried.status in FOUND

    @property
    def status(self) -> Status:
        """The status; never `OPTIMAL` if a larger part may fit."""
        if self.complete:
            return self.tried.status
        return Status.FEASIBLE if self.found else Status.LIMIT_REACHED

    def left_out(self, root: Group) -> tuple[str, ...]:
        """Return the pods of the whole gang that are not in this part."""
        if self.part is root:
            return ()
        return tuple(sorted(_names(root) - _names(self.part)))

    def relaxed(self, root: Group) -> tuple[str, ...]:
        """Return the dropped preferences of groups in this part."""
        if self.part is root:
            return ()
        kept = {group.name: group for group in self.part.every_group()}
        preferences = (each for each in preferences_of(root) if each.group in kept)
        return tuple(each.text for each in preferences if not each.is_kept_by(kept[each.group]))


def _names(root: Group) -> set[str]:
    return {pod_key(pod) for group in root.every_group() for pod in group.pods}


def best_part(attempt: GangAttempt) -> PartOutcome:
    """Return the largest part of a gang that fits; if none does, the result for the smallest part."""
    root = attempt.root
    everything = PartOutcome(root, attempt.place(root))
    if everything.found or not _is_optional(root):
        return everything
    trial = PartTrial(attempt, undecided=everything.tried.status is Status.LIMIT_REACHED)
    outcome = _most_groups(_least(without_preferences(root)), trial)
    if not outcome.found:
        return outcome
    outcome = _grown(outcome, root, trial)
    if not _number_of_pods(outcome.part):
        return _smallest_refused(everything, trial.refused, complete=outcome.complete and not trial.undecided)
    kept = most_preferences(trial, outcome.part, outcome.tried, root)
    return PartOutcome(kept.root, kept.tried, outcome.complete and kept.proven and not trial.undecided)


def _smallest_refused(
    everything: PartOutcome, refused: Sequence[tuple[Group, Tried]], *, complete: bool
) -> PartOutcome:
    """Return the outcome of the smallest part with pods, for a gang without a minimum of which no pod fits."""
    tried = min(refused, key=lambda each: _number_of_pods(each[0]), default=(everything.part, everything.tried))
    return PartOutcome(*tried, complete)


def _is_optional(root: Group) -> bool:
    """True if anything can be dropped."""
    return any(
        group.least < len(group.pods) or (group.minimum_groups is not None and group.minimum_groups < len(group.groups))
        for group in root.every_group()
    ) or any(True for _ in preferences_of(root))


def _least(group: Group) -> Group:
    """Return the group with its minimum of members."""
    return replace(
        group,
        pods=group.pods[: group.least],
        minimum=group.least,
        groups=tuple(_least(inner) for inner in group.groups),
    )


# -- groups ----------------------------------------------------------------------------------------------------------


def _most_groups(least: Group, trial: PartTrial) -> PartOutcome:
    """Return the plan with the most groups that fits; of several, the one in the fewest preferred domains."""
    kinds = GroupKinds(trial.attempt.class_of)
    if _are_alike(least, kinds):
        return _without_the_largest(least, trial, complete=True)
    tried: list[PartOutcome] = []
    for _, equally_many in groupby(_choices(least, kinds), key=_number_of_groups):
        found: list[PartOutcome] = []
        for choice in equally_many:
            if len(tried) == MOST_CHOICES or (tried and trial.budget.is_spent):
                return _without_the_largest(least, trial, complete=False)
            tried.append(PartOutcome(choice, trial.place(choice)))
            found += tried[-1:] if tried[-1].found else []
        if found:
            return min(found, key=lambda outcome: outcome.tried.domains)
    unsure = any(outcome.tried.status is Status.LIMIT_REACHED for outcome in tried)
    return replace(tried[-1], complete=not unsure)


def _are_alike(group: Group, kinds: GroupKinds) -> bool:
    """True if only the number of groups matters: groups without others inside, all of one kind."""
    return len({kinds.of(inner) for inner in group.groups}) == 1 and not any(inner.groups for inner in group.groups)


def _choices(least: Group, kinds: GroupKinds) -> Iterator[Group]:
    """Yield ways to leave groups out, most groups first, without ways that differ only in names.

    All of them, up to one more than `MOST_CHOICES`.
    """
    known = {kinds.of(least)}
    waiting = [(-_number_of_groups(least), 0, least)]
    for number in range(MOST_CHOICES + 1):
        if not waiting:
            return
        fewest, _, choice = heapq.heappop(waiting)
        yield choice
        # Others that come first may be enough already: a thousand groups have a million pairs.
        if number + sum(1 for other, _, _ in waiting if other <= fewest + 1) > MOST_CHOICES:
            continue
        for _, name in heapq.nsmallest(MOST_CHOICES + 1, _dispensable(choice, kinds), key=itemgetter(0)):
            fewer = _without(choice, {name})
            kind = kinds.of(fewer)
            if kind not in known:
                known.add(kind)
                heapq.heappush(waiting, (-_number_of_groups(fewer), len(known), fewer))


def _dispensable(group: Group, kinds: GroupKinds) -> Iterator[tuple[int, str]]:
    """Yield the size and name of each group that may be left out next, of equal siblings only the last."""
    seen: set[int] = set()
    for inner in reversed(group.groups):
        kind = kinds.of(inner)
        if kind in seen:
            continue
        seen.add(kind)
        if _spare_groups(group):
            yield _number_of_groups(inner), inner.name
        yield from _dispensable(inner, kinds)


def _spare_groups(group: Group) -> int:
    """How many of the groups directly inside may be left out."""
    return 0 if group.minimum_groups is None else max(len(group.groups) - group.minimum_groups, 0)


def _without(group: Group, left_out: Collection[str]) -> Group:
    """Return the group without some of those inside it. Their running members move to the parent."""
    if not group.groups:
        return group
    gone = [inner for inner in group.groups if inner.name in left_out]
    running = [pod for inner in gone for each in inner.every_group() for pod in each.running]
    stay = tuple(_without(inner, left_out) for inner in group.groups if inner.name not in left_out)
    return replace(group, groups=stay, running=(*group.running, *running))


def _without_the_largest(least: Group, trial: PartTrial, *, complete: bool) -> PartOutcome:
    """Leave out the fewest of the largest groups, by bisection; `complete` if there is no other way."""
    names = _largest_first(least)

    def without(number: int) -> PartOutcome:
        part = _without(least, set(names[:number]))
        return PartOutcome(part, trial.place(part), complete)

    outcome = without(len(names))
    low, high = 0, len(names)
    while outcome.found and low < high:
        middle = (low + high) // 2
        larger = without(middle)
        if larger.found:
            outcome, high = larger, middle
        else:
            low = middle + 1
    return outcome


def _largest_first(least: Group) -> list[str]:
    """The names of all groups that may be left out one after another, those with the most pods first."""
    names: list[str] = []
    spare: dict[str, int] = {}
    waiting: list[tuple[int, int, Group, str]] = []
    order = count()

    def look_inside(group: Group) -> None:
        spare[group.name] = _spare_groups(group)
        for inner in reversed(group.groups):
            heapq.heappush(waiting, (-_number_of_pods(inner), next(order), inner, group.name))

    look_inside(least)
    while waiting:
        _, _, group, around = heapq.heappop(waiting)
        if spare[around]:
            spare[around] -= 1
            names.append(group.name)
        else:
            look_inside(group)  # it stays, but groups inside it need not
    return names


def _number_of_groups(group: Group) -> int:
    return sum(1 for _ in group.every_group())


def _number_of_pods(group: Group) -> int:
    return sum(len(each.pods) for each in group.every_group())


# -- members ---------------------------------------------------------------------------------------------------------


def _grown(outcome: PartOutcome, root: Group, trial: PartTrial) -> PartOutcome:
    """Grow groups beyond their minimum, in whole segments, one group after another, as far as they fit."""
    originals = {group.name: group for group in root.every_group()}
    for name in [group.name for group in outcome.part.every_group()]:
        original = originals[name]
        segment_size = next((each.size for each in original.segments if each.required), 1)
        low, high = 0, (len(original.pods) - original.least) // segment_size
        middle = high  # most likely all fit
        while low < high:
            if trial.budget.is_spent:
                return replace(outcome, complete=False)
            larger = _with_pods(outcome.part, name, original.pods[: original.least + middle * segment_size])
            tried = trial.place(larger)
            if tried.status in FOUND:
                low, outcome = middle, replace(outcome, part=larger, tried=tried)
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
    return outcome


def _with_pods(group: Group, name: str, pods: tuple[Pod, ...]) -> Group:
    inner = tuple(_with_pods(each, name, pods) for each in group.groups)
    return replace(group, groups=inner, pods=pods if group.name == name else group.pods)
