"""Optional groups: which groups of a gang are left out if not all of them fit.

As few as possible; of several ways, the one in the fewest preferred domains. Groups that do not fit alone are left out
first: no part contains them. Then the ways to leave more out are tried, most groups first. If there are too many, only
the largest groups are left out, the fewest of them that is found by bisection.

Bisection relies on this: leaving groups out never takes a place away from the others. It holds for levels, segments,
`apart` and running members (they stay, in the group around), which all only forbid. Spread constraints and affinity to
other groups also demand: two pods in one rack need two more in the other, workers need their chief. With such rules,
parts are tried one after another, from the most groups that have room without them.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import count, groupby
from operator import itemgetter

from bayplan.engine.gangs.problem import Status
from bayplan.gangs.attempt import PartTrial
from bayplan.gangs.model import Group
from bayplan.gangs.parts import MOST_PARTS, PartOutcome, fewest_left_out
from bayplan.gangs.preferences import GroupKinds


def most_groups(least: Group, trial: PartTrial) -> PartOutcome:
    """Return the part with the most groups that fits; of several, the one in the fewest preferred domains."""
    everything = PartOutcome(least, trial.place(least))
    if everything.found or not any(map(_spare_groups, least.every_group())):
        return everything
    kinds = GroupKinds(trial.attempt.class_of)
    if not _are_alike(least, kinds):
        refused = _hopeless(least, kinds, trial)
        gone = _cannot_start(least, {name for name, _ in refused})
        if least.name in gone:
            return refused[0][1]
        least = _without(least, gone)
    if _are_alike(least, kinds):
        return _without_the_largest(least, trial, is_only_way=True)
    return _by_choice(least, kinds, trial)


def _by_choice(least: Group, kinds: GroupKinds, trial: PartTrial) -> PartOutcome:
    """Try the ways to leave groups out, most groups first, as far as the limit and the budget go."""
    tried: list[PartOutcome] = []
    for _, equally_many in groupby(_choices(least, kinds), key=_number_of_groups):
        found: list[PartOutcome] = []
        for choice in equally_many:
            if len(tried) == MOST_PARTS or (tried and trial.budget.is_spent):
                return _uncompared(found) if found else _without_the_largest(least, trial, is_only_way=False)
            tried.append(PartOutcome(choice, trial.place(choice)))
            found += tried[-1:] if tried[-1].found else []
            if found and not found[0].tried.domains:
                return found[0]
        if found:
            return min(found, key=lambda outcome: outcome.tried.domains)
    unsure = any(outcome.tried.status is Status.LIMIT_REACHED for outcome in tried)
    return replace(tried[-1], is_largest=not unsure)


def _uncompared(found: list[PartOutcome]) -> PartOutcome:
    """Return the best of equally large parts that were not all tried."""
    best = min(found, key=lambda outcome: outcome.tried.domains)
    solution = replace(best.tried.solution, status=Status.FEASIBLE)
    return replace(best, tried=replace(best.tried, solution=solution))


# -- groups that cannot start ----------------------------------------------------------------------------------------


def _hopeless(least: Group, kinds: GroupKinds, trial: PartTrial) -> list[tuple[str, PartOutcome]]:
    """Return the groups that do not fit alone, with the refusal; smaller kinds first, as far as limit and budget go."""
    alike: dict[tuple[str, int], list[Group]] = {}
    for around in least.every_group():
        for inner in around.groups:
            alike.setdefault((around.name, kinds.of(inner)), []).append(inner)
    # Alone, a group may break a rule that it satisfies with others.
    relaxed = trial.only_forbidding()
    found: list[tuple[str, PartOutcome]] = []
    for same in sorted(alike.values(), key=lambda groups: len(groups[0].pods))[:MOST_PARTS]:
        if trial.budget.is_spent:
            break
        alone = _alone(least, same[0].name)
        outcome = PartOutcome(alone, relaxed.place(alone))
        if outcome.tried.status is Status.INFEASIBLE:
            trial.refused.append((alone, outcome.tried))
            found += ((group.name, outcome) for group in same)
    return found


def _alone(group: Group, name: str) -> Group:
    """Return the pods of one group and of those around it."""
    if group.name == name:
        return replace(group, groups=())
    around = next(inner for inner in group.groups if any(each.name == name for each in inner.every_group()))
    return replace(group, groups=(_alone(around, name),))


def _cannot_start(group: Group, hopeless: Collection[str]) -> set[str]:
    """Return the groups that cannot start because they, or too many inside them, are hopeless."""
    inside = [_cannot_start(inner, hopeless) for inner in group.groups]
    left = sum(inner.name not in gone for inner, gone in zip(group.groups, inside, strict=True))
    is_lost = group.name in hopeless or left < len(group.groups) - _spare_groups(group)
    return set().union(*inside, {group.name} if is_lost else ())


# -- ways to leave groups out ----------------------------------------------------------------------------------------


def _are_alike(group: Group, kinds: GroupKinds) -> bool:
    """True if only the number of groups matters: groups without others inside, all of one kind."""
    return len({kinds.of(inner) for inner in group.groups}) == 1 and not any(inner.groups for inner in group.groups)


def _choices(least: Group, kinds: GroupKinds) -> Iterator[Group]:
    """Yield ways to leave groups out, most groups first, without ways that differ only in names.

    All of them, up to one more than `MOST_PARTS`.
    """
    known = {kinds.of(least)}
    waiting = [(-_number_of_groups(least), 0, least)]
    for number in range(MOST_PARTS + 1):
        if not waiting:
            return
        fewest, _, choice = heapq.heappop(waiting)
        yield choice
        # Others that come first may be enough already: a thousand groups have a million pairs.
        if number + sum(1 for other, _, _ in waiting if other <= fewest + 1) > MOST_PARTS:
            continue
        for _, name in heapq.nsmallest(MOST_PARTS + 1, _dispensable(choice, kinds), key=itemgetter(0)):
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


# -- the largest first -----------------------------------------------------------------------------------------------


def _without_the_largest(least: Group, trial: PartTrial, *, is_only_way: bool) -> PartOutcome:
    """Leave out the fewest of the largest groups; the part is the largest if there is no other way."""
    names = _largest_first(least)
    parts = {0: least}

    def without(number: int, trial: PartTrial = trial) -> PartOutcome:
        if number not in parts:
            parts[number] = _without(least, set(names[:number]))
        return PartOutcome(parts[number], trial.place(parts[number]), is_only_way)

    if trial.attempt.is_monotone:
        return fewest_left_out(without, len(names), trial.budget, is_monotone=True)
    relaxed = trial.only_forbidding()
    bound = fewest_left_out(lambda number: without(number, relaxed), len(names), trial.budget, is_monotone=True)
    if not bound.found:
        return bound  # nor would it with them
    fewest = next(number for number, part in parts.items() if part is bound.part)
    walked = fewest_left_out(
        lambda number: without(fewest + number), len(names) - fewest, trial.budget, is_monotone=False
    )
    return replace(walked, is_largest=walked.is_largest and not relaxed.undecided)


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
