"""One scheduler places a gang: report roles with another schedulerName, for which the others would wait endlessly.

A launcher or head template without `schedulerName` is the most common mistake. Templates count only if the template of
the pod at hand matches the pod: a webhook may set the name on pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bayplan.grouping.expressions import path_of
from bayplan.grouping.grouping import InvalidGrouping, InvalidValue
from bayplan.grouping.raw import RawObject, WrongValue, look_up, text_at
from bayplan.grouping.workload import OwningWorkload, RoleSpec

DEFAULT_SCHEDULER = "default-scheduler"


def of_other_schedulers(
    workload: OwningWorkload, own: RoleSpec, pod: RawObject, scheduler_names: Collection[str]
) -> Iterator[InvalidValue]:
    """A problem for each part with another scheduler than `scheduler_names`; `own` is the part of the pod at hand."""
    named = look_up(pod, ("spec", "schedulerName"))
    if not named or _scheduler_of(workload, own) != named:
        return
    ours = sorted({named, *scheduler_names})
    must_be = f'must be "{named}"' if len(ours) == 1 else f"must be one of {', '.join(ours)}"
    # The same text for every pod, so that it is reported once.
    example = next(part for part in workload.parts if _scheduler_of(workload, part) in ours)
    for part in workload.parts:
        other = _scheduler_of(workload, part)
        if other is None or other in ours or part.coming == 0:
            continue
        says = _said_by(workload, part)
        value, missing = (says, "") if says else (None, f"is missing, which means {other}; ")
        allowed = f"{missing}{must_be} as in {example.where}.spec.schedulerName: one scheduler places a gang"
        # A part without required pods does not hold the others back.
        yield InvalidValue(workload.about, f"{part.where}.spec.schedulerName", value, allowed, holds=part.least > 0)


def _scheduler_of(workload: OwningWorkload, part: RoleSpec) -> str | None:
    """The scheduler in a part's template; None without a template."""
    if not part.role.template or look_up(part.source, path_of(part.role.template)) is None:
        return None
    return _said_by(workload, part) or DEFAULT_SCHEDULER


def _said_by(workload: OwningWorkload, part: RoleSpec) -> str:
    """The scheduler's name in a part's template, else that of the workload; empty if there is none.

    Raises `InvalidGrouping` if it is not text.
    """
    template = path_of(part.role.template)
    try:
        said = text_at(part.source, (*template, "spec", "schedulerName"))
        return said or text_at(workload.thing, ("spec", "schedulerName")) or ""
    except WrongValue as wrong:
        field = part.where.removesuffix(part.role.template) + wrong.field
        raise InvalidGrouping(InvalidValue(workload.about, field, wrong.value, wrong.allowed)) from None
