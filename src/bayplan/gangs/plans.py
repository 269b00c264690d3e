"""Plans: which part of a gang starts, if not all of it can. In comes a gang and a way to try, out goes the best part that has a place.

Three things may be given up, in this order: segments that are only wished for (`gangs/preferences.py`), members beyond a group's minimum, groups beyond the
minimum of groups. So as many groups as possible start (of equally many those in the fewest preferred domains); then they grow
beyond their minimum, group after group, lowest ranks first, each as far as it can; then as many wishes are kept as is still possible.

Equal groups are interchangeable, so of fifty replicas of which forty must start there are eleven plans, not billions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby

from bayplan.cluster.state import pod_key
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.attempt import FOUND, GangAttempt
from bayplan.gangs.equal_groups import ClassOf, Kinds
from bayplan.gangs.model import Group
from bayplan.gangs.numbers import Tried
from bayplan.gangs.preferences import PartTrial, most_wishes, wishes_of, without_wishes
from bayplan.kube.wire.core_v1 import Pod

# Ways to leave groups out that are tried; beyond that only the largest groups are left out, one after another.
MOST_CHOICES = 100


@dataclass(frozen=True)
class Outcome:
    """The part of a gang that was tried and what came of it; not `complete` if a larger part may have a place, for all that is known."""

    whole: Group
    tried: Tried
    complete: bool = True

    @property
    def found(self) -> bool:
        """True if this part has a place."""
        return self.tried.status in FOUND

    @property
    def status(self) -> Status:
        """How much is known: where a larger part may have a place, this one is not called the best."""
        if self.complete:
            return self.tried.status
        return Status.FEASIBLE if self.found else Status.LIMIT_REACHED

    def left_out(self, whole: Group) -> tuple[str, ...]:
        """The pods of the whole gang that are not in this part."""
        if self.whole is whole:
            return ()
        return tuple(sorted(_names(whole) - _names(self.whole)))

    def relaxed(self, whole: Group) -> tuple[str, ...]:
        """The wishes of groups of this part that were given up."""
        if self.whole is whole:
            return ()
        kept = {group.name: group for group in self.whole.every_group()}
        wishes = (wish for wish in wishes_of(whole) if wish.group in kept)
        return tuple(wish.text for wish in wishes if not wish.is_kept_by(kept[wish.group]))


def _names(whole: Group) -> set[str]:
    return {pod_key(pod) for group in whole.every_group() for pod in group.pods}


def best_part(attempt: GangAttempt) -> Outcome:
    """The largest part of a gang that has a place; if there is none, what was said of the smallest part."""
    whole = attempt.whole
    everything = Outcome(whole, attempt.place(whole))
    if everything.found or not _is_optional(whole):
        return everything
    trial = PartTrial(attempt, undecided=everything.tried.status is Status.LIMIT_REACHED)
    outcome = _most_groups(_least(without_wishes(whole)), trial)
    if not outcome.found:
        return outcome
    outcome = _grown(outcome, whole, trial)
    if not _number_of_pods(outcome.whole):
        return _why_nobody(everything, trial.refused, complete=outcome.complete and not trial.undecided)
    kept = most_wishes(trial, outcome.whole, outcome.tried, whole)
    return Outcome(kept.whole, kept.tried, outcome.complete and kept.proven and not trial.undecided)


def _why_nobody(everything: Outcome, refused: Sequence[tuple[Group, Tried]], *, complete: bool) -> Outcome:
    """No pod must start and none can: the outcome of the smallest part that has any pods."""
    tried = min(refused, key=lambda each: _number_of_pods(each[0]), default=(everything.whole, everything.tried))
    return Outcome(*tried, complete)


def _is_optional(whole: Group) -> bool:
    """True if anything may be given up."""
    return any(
        group.least < len(group.pods) or (group.minimum_groups is not None and group.minimum_groups < len(group.groups))
        for group in whole.every_group()
    ) or any(True for _ in wishes_of(whole))


def _least(group: Group) -> Group:
    """The group with its minimum of members."""
    return replace(
        group,
        pods=group.pods[: group.least],
        minimum=group.least,
        groups=tuple(_least(inner) for inner in group.groups),
    )


# -- groups ------------------------------------------------------------------------------------------------------------------


def _most_groups(least: Group, trial: PartTrial) -> Outcome:
    """Of the choices with the most groups that have a place, the one in the fewest preferred domains."""
    tried: list[Outcome] = []
    choices = _choices(least, trial.attempt.class_of)
    for _, equally_many in groupby(choices, key=_number_of_groups):
        found: list[Outcome] = []
        for choice in equally_many:
            if len(tried) == MOST_CHOICES or (tried and trial.budget.is_spent):
                return _without_the_largest(least, trial)
            tried.append(Outcome(choice, trial.place(choice)))
            found += tried[-1:] if tried[-1].found else []
        if found:
            return min(found, key=lambda outcome: outcome.tried.domains)
    unsure = any(outcome.tried.status is Status.LIMIT_REACHED for outcome in tried)
    return replace(tried[-1], complete=not unsure)


def _choices(least: Group, class_of: ClassOf) -> Iterator[Group]:
    """Every way to leave groups out, those with the most groups first; of ways that differ only in names one."""
    order = count()
    waiting = [(-_number_of_groups(least), next(order), least)]
    kinds = Kinds(class_of)
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
    """Every way to leave out one group more, the last first. Members of it that run already stay members of what is around it."""
    for index in reversed(range(len(group.groups))):
        before, inner, behind = group.groups[:index], group.groups[index], group.groups[index + 1 :]
        if group.minimum_groups is not None and group.minimum_groups < len(group.groups):
            running = tuple(pod for each in inner.every_group() for pod in each.running)
            yield replace(group, groups=(*before, *behind), running=(*group.running, *running))
        for smaller in _one_group_less(inner):
            yield replace(group, groups=(*before, smaller, *behind))


def _without_the_largest(least: Group, trial: PartTrial) -> Outcome:
    """There are too many choices to try them all: leave out the largest groups, as few of them as will do, found by halving."""
    choices = [least]
    while (smaller := min(_one_group_less(choices[-1]), key=_number_of_pods, default=None)) is not None:
        choices.append(smaller)
    outcome = Outcome(choices[-1], trial.place(choices[-1]), complete=False)
    low, high = 0, len(choices) - 1
    while outcome.found and low < high:
        middle = (low + high) // 2
        larger = Outcome(choices[middle], trial.place(choices[middle]), complete=False)
        if larger.found:
            outcome, high = larger, middle
        else:
            low = middle + 1
    return outcome


def _number_of_groups(group: Group) -> int:
    return sum(1 for _ in group.every_group())


def _number_of_pods(group: Group) -> int:
    return sum(len(each.pods) for each in group.every_group())


# -- members -----------------------------------------------------------------------------------------------------------------


def _grown(outcome: Outcome, whole: Group, trial: PartTrial) -> Outcome:
    """Groups take members beyond their minimum, in whole segments, one group after another, as many as have a place."""
    originals = {group.name: group for group in whole.every_group()}
    for name in [group.name for group in outcome.whole.every_group()]:
        original = originals[name]
        unit = next((each.size for each in original.slices if each.required), 1)
        low, high = 0, (len(original.pods) - original.least) // unit
        middle = high  # all of them is the likeliest
        while low < high:
            if trial.budget.is_spent:
                return replace(outcome, complete=False)
            larger = _with_pods(outcome.whole, name, original.pods[: original.least + middle * unit])
            tried = trial.place(larger)
            if tried.status in FOUND:
                low, outcome = middle, replace(outcome, whole=larger, tried=tried)
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
    return outcome


def _with_pods(group: Group, name: str, pods: tuple[Pod, ...]) -> Group:
    inner = tuple(_with_pods(each, name, pods) for each in group.groups)
    return replace(group, groups=inner, pods=pods if group.name == name else group.pods)
