"""Plans: which part of a gang starts if not all of it can.

Drops, in this order: preferred segments (`gangs/preferences.py`), members beyond a group's minimum, groups beyond the
minimum of groups. So as many groups as possible start, in the fewest preferred domains; then groups grow beyond their
minimum, lowest ranks first; then as many preferences as possible are kept.

Equal groups are interchangeable: with 50 replicas of which 40 must start there are 11 plans, not billions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby

from bayplan.cluster.state import pod_key
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.attempt import FOUND, GangAttempt
from bayplan.gangs.model import Group, LaterSeat
from bayplan.gangs.outline import Tried
from bayplan.gangs.preferences import (
    ClassOf,
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
    tried: list[PartOutcome] = []
    choices = _choices(least, trial.attempt.class_of)
    for _, equally_many in groupby(choices, key=_number_of_groups):
        found: list[PartOutcome] = []
        for choice in equally_many:
            if len(tried) == MOST_CHOICES or (tried and trial.budget.is_spent):
                return _without_the_largest(least, trial)
            tried.append(PartOutcome(choice, trial.place(choice)))
            found += tried[-1:] if tried[-1].found else []
        if found:
            return min(found, key=lambda outcome: outcome.tried.domains)
    unsure = any(outcome.tried.status is Status.LIMIT_REACHED for outcome in tried)
    return replace(tried[-1], complete=not unsure)


def _choices(least: Group, class_of: ClassOf) -> Iterator[Group]:
    """Yield every way to leave groups out, most groups first, without ways that differ only in names."""
    order = count()
    waiting = [(-_number_of_groups(least), next(order), least)]
    kinds = GroupKinds(class_of)
    known = {kinds.of(least)}
    while waiting:
        _, _, choice = heapq.heappop(waiting)
        yield choice
        for fewer in _one_group_less(choice):
            kind = kinds.of(fewer)
            if kind not in known:
                known.add(kind)
                heapq.heappush(waiting, (-_number_of_groups(fewer), next(order), fewer))


def _one_group_less(group: Group) -> Iterator[Group]:
    """Yield every way to leave out one more group, the last first. Its running members move to the parent."""
    for index in reversed(range(len(group.groups))):
        before, inner, behind = group.groups[:index], group.groups[index], group.groups[index + 1 :]
        if group.minimum_groups is not None and group.minimum_groups < len(group.groups):
            running = tuple(pod for each in inner.every_group() for pod in each.running)
            yield replace(group, groups=(*before, *behind), running=(*group.running, *running))
        for smaller in _one_group_less(inner):
            yield replace(group, groups=(*before, smaller, *behind))


def _without_the_largest(least: Group, trial: PartTrial) -> PartOutcome:
    """Leave out the fewest of the largest groups, by bisection: there are too many choices to try them all."""
    choices = [least]
    while (smaller := min(_one_group_less(choices[-1]), key=_number_of_pods, default=None)) is not None:
        choices.append(smaller)
    outcome = PartOutcome(choices[-1], trial.place(choices[-1]), complete=False)
    low, high = 0, len(choices) - 1
    while outcome.found and low < high:
        middle = (low + high) // 2
        larger = PartOutcome(choices[middle], trial.place(choices[middle]), complete=False)
        if larger.found:
            outcome, high = larger, middle
        else:
            low = middle + 1
    return outcome


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
