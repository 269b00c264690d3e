"""What KAI's admission webhook says about the sub-groups of a PodGroup; bayplan hears of those that it let in."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.kube.wire.kai_scheduling_v2alpha2 import SubGroup


def sub_groups_problem(sub_groups: Sequence[SubGroup]) -> str | None:
    """What KAI's admission webhook has against these sub-groups: a name twice, a parent that is missing, a cycle."""
    by_name: dict[str, SubGroup] = {}
    for sub_group in sub_groups:
        if sub_group.name in by_name:
            return f"duplicate subgroup name {sub_group.name}"
        by_name[sub_group.name] = sub_group
    for sub_group in sub_groups:
        if sub_group.parent is not None and sub_group.parent not in by_name:
            return f"parent {sub_group.parent} of {sub_group.name} was not found"
    rooted = {name for name, sub_group in by_name.items() if sub_group.parent is None}
    for name in by_name:
        way = []
        at: str | None = name
        while at is not None and at not in rooted:
            if at in way:
                return "cycle detected in subgroups"
            way.append(at)
            at = by_name[at].parent
        rooted.update(way)
    return None
