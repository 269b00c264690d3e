"""Plans: which part of a gang starts if not all of it can.

Drops, in this order: preferred segments (`gangs/preferences.py`), members beyond a group's minimum, groups beyond the
minimum of groups (`gangs/optional_groups.py`). So as many groups as possible start, in the fewest preferred domains;
then groups grow beyond their minimum, lowest ranks first; then as many preferences as possible are kept.

Equal groups are interchangeable: with 50 replicas of which 40 must start there are 11 plans, not billions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bayplan.engine.gangs.problem import Status
from bayplan.gangs.attempt import GangAttempt, PartTrial
from bayplan.gangs.model import Group
from bayplan.gangs.optional_groups import most_groups
from bayplan.gangs.outline import Tried
from bayplan.gangs.parts import PartOutcome, fewest_left_out
from bayplan.gangs.preferences import most_preferences, preferences_of, without_preferences
from bayplan.kube.wire.core_v1 import Pod


def best_part(attempt: GangAttempt) -> PartOutcome:
    """Return the largest part of a gang that fits; if none does, the result for the smallest part."""
    root = attempt.root
    everything = PartOutcome(root, attempt.place(root))
    if everything.found or not _is_optional(root):
        return everything
    trial = PartTrial(attempt, undecided=everything.tried.status is Status.LIMIT_REACHED)
    outcome = _started(without_preferences(root), trial)
    if not outcome.found:
        return outcome
    outcome = _grown(outcome, root, trial)
    is_largest = outcome.is_largest and not trial.undecided
    if not _number_of_pods(outcome.part):
        return _smallest_refused(everything, trial.refused, is_largest=is_largest)
    kept = most_preferences(trial, outcome.part, outcome.tried, root)
    return PartOutcome(kept.root, kept.tried, is_largest and kept.proven and not trial.undecided)


def _started(required: Group, trial: PartTrial) -> PartOutcome:
    """Return the part with the most groups that fits with the fewest members, or with all of them."""
    outcome = most_groups(_least(required), trial)
    has_more = any(group.least < len(group.pods) for group in required.every_group())
    if outcome.found or not has_more or _is_monotone(required, trial):
        return outcome
    bound = most_groups(_least(required), trial.only_forbidding())
    if bound.status is Status.INFEASIBLE:
        return bound
    # More members may be spread evenly where the fewest cannot.
    return replace(most_groups(_all_pods(required), trial), is_largest=False)


def _smallest_refused(
    everything: PartOutcome, refused: Sequence[tuple[Group, Tried]], *, is_largest: bool
) -> PartOutcome:
    """Return the outcome of the smallest part with pods, for a gang without a minimum of which no pod fits."""
    tried = min(refused, key=lambda each: _number_of_pods(each[0]), default=(everything.part, everything.tried))
    return PartOutcome(*tried, is_largest)


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


def _all_pods(group: Group) -> Group:
    """Return the group with all its members required."""
    return replace(group, minimum=None, groups=tuple(map(_all_pods, group.groups)))


def _number_of_pods(group: Group) -> int:
    return sum(len(each.pods) for each in group.every_group())


# -- members ---------------------------------------------------------------------------------------------------------


def _grown(outcome: PartOutcome, root: Group, trial: PartTrial) -> PartOutcome:
    """Grow groups beyond their minimum, in whole segments, one group after another, as far as they fit."""
    originals = {group.name: group for group in root.every_group()}
    for group in outcome.part.every_group():
        if len(group.pods) < len(originals[group.name].pods):
            if trial.budget.is_spent:
                return replace(outcome, is_largest=False)
            outcome = _with_more_pods(outcome, originals[group.name], len(group.pods), trial)
    return outcome


def _with_more_pods(outcome: PartOutcome, original: Group, now: int, trial: PartTrial) -> PartOutcome:
    """Grow one group, which has `now` pods, as far as it fits."""
    size = next((each.size for each in original.segments if each.required), 1)
    most = (len(original.pods) - now) // size

    def without(number: int) -> PartOutcome:
        if number == most:
            return outcome
        larger = _with_pods(outcome.part, original.name, original.pods[: now + (most - number) * size])
        return replace(outcome, part=larger, tried=trial.place(larger))

    return fewest_left_out(without, most, trial.budget, is_monotone=_is_monotone(outcome.part, trial))


def _is_monotone(part: Group, trial: PartTrial) -> bool:
    """True if fewer members fit wherever more do. Spread constraints allow that only for equal pods by themselves."""
    alike = not part.groups and not part.segments and len(set(map(trial.attempt.class_of, part.pods))) <= 1
    return alike or trial.attempt.is_monotone


def _with_pods(group: Group, name: str, pods: tuple[Pod, ...]) -> Group:
    inner = tuple(_with_pods(each, name, pods) for each in group.groups)
    return replace(group, groups=inner, pods=pods if group.name == name else group.pods)
