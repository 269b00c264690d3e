"""Pods of any kind with a grouping rule, with the labels by which the rule finds roles and ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayplan.grouping.expressions import amount_of, path_of
from bayplan.grouping.grouping import InvalidGrouping, InvalidValue
from bayplan.grouping.raw import RawObject, Reference, WrongValue, look_up
from bayplan.grouping.rules import rule_for
from bayplan.grouping.workload import EVERYBODY_ELSE, OwningWorkload, RoleSpec, described
from bayplan.workloads.planned import Around, PlannedPod, Template, name_of, pod_from, template_at

ONLY_GANG = "0"


def by_rule(thing: RawObject, around: Around) -> Iterator[PlannedPod]:
    """`night-0`, or `night-worker-0` where there are roles."""
    for part, template in templates_by_rule(thing, around):
        yield from numbered_pods(thing, around, part, template)


def templates_by_rule(thing: RawObject, around: Around) -> Iterator[tuple[RoleSpec, Template]]:
    """Each part of a workload with its pod template. Raises `WrongValue` if there is none."""
    for part in workload_by_rule(thing, around).parts:
        if not part.role.template:
            raise WrongValue("spec", None, f"its rule names no template{_of(part)}: what do its pods look like?")
        yield part, template_at(part.source, part.role.template, part.where)


def workload_by_rule(thing: RawObject, around: Around) -> OwningWorkload:
    """The workload that the rule for an object's kind makes. Raises `WrongValue` if the object is invalid."""
    rule = rule_for(around.rules, Reference.of(thing))
    if rule is None:
        raise WrongValue("kind", thing.get("kind"), "has no rule")
    try:
        return described(thing, rule)
    except InvalidGrouping as refused:
        raise _as_wrong(refused.problem) from None


def numbered_pods(
    thing: RawObject, around: Around, part: RoleSpec, template: Template, labels: Mapping[str, str] | None = None
) -> Iterator[PlannedPod]:
    """The numbered pods of one part, with further `labels`."""
    workload = workload_by_rule(thing, around)
    prefix = f"{name_of(thing)}-{part.name}" if part.name else name_of(thing)
    own = dict(labels or {})
    if not workload.is_flat and part.value != EVERYBODY_ELSE:
        own[workload.rule.role_label[0]] = part.value
    if workload.rule.one_gang_per:
        own[workload.rule.one_gang_per] = ONLY_GANG
    first = _first_index(workload, part)
    for index in range(part.size):
        yield pod_from(template, f"{prefix}-{index}", [thing], {**own, **_ranks(part, index + first)})


def _first_index(workload: OwningWorkload, part: RoleSpec) -> int:
    if workload.rule.ranks_of_whole:
        return part.first_rank
    return int(bool(part.role.from_one) and look_up(part.source, path_of(part.role.from_one)) is True)


def _ranks(part: RoleSpec, index: int) -> dict[str, str]:
    """An index in the labels of the rule; all but the last count by their `times`."""
    found: dict[str, str] = {}
    for rank in part.role.rank[:-1]:
        times = max(amount_of(rank.times).value(part.source) or 1, 1)
        outer, index = divmod(index, times)
        found[rank.label] = str(outer)
    if part.role.rank:
        found[part.role.rank[-1].label] = str(index)
    return found


def _of(part: RoleSpec) -> str:
    return f" for {part.name}" if part.name else ""


def _as_wrong(problem: InvalidValue) -> WrongValue:
    return WrongValue(problem.field, problem.value, problem.allowed)
