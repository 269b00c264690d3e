"""A preemption plan in words: who would go and what that frees.

A plan and the cluster's state come in; sentences for events, for `bayplan why --preempt` and its document go out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bayplan.cluster.dry_run import departure_from
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.explain.amounts import canonical, count, human, usual_order
from bayplan.explain.documents import Document
from bayplan.explain.why import NO_CHANGE
from bayplan.gangs.preemption.plan import GangPreemption
from bayplan.kube.visible import visible, visible_lines
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.preemption.candidates import ObstacleKind, freed_by, priority_of
from bayplan.scheduling.preemption.obstacles import Obstacle
from bayplan.scheduling.preemption.plan import NoPreemption, Preemption
from bayplan.scheduling.profile import PreemptionMode

AnyPlan = Preemption | GangPreemption
# Victims and nodes that a sentence names; the others are counted.
MOST_NAMED = 3
NO_CHANGE_ALONE = "No change to the pod alone would let it in."

_OBSTACLES = {
    ObstacleKind.PRIORITY: "where only pods of equal or higher priority would make room",
    ObstacleKind.PROTECTED: "where a protected pod would have to go",
    ObstacleKind.STATIC: "where a static pod would have to go, which its kubelet would create again",
    ObstacleKind.BUDGETS: "where a pod under several budgets would have to go, which the eviction API refuses",
    ObstacleKind.REFUSED: "where a pod would have to go whose eviction the API server has just refused",
    ObstacleKind.GANG: "where a gang would fall below its minimum",
    ObstacleKind.STUCK: "where a terminating pod does not end",
    ObstacleKind.ZONES_UNKNOWN: "whose pods' zones are not reported, so that no set of them is sure to make room",
    ObstacleKind.NO_ROOM: "without enough room for it even if all pods there left",
    ObstacleKind.CLOSED: "closed to it by filters that no eviction changes",
    ObstacleKind.AFFINITY: "closed to it by affinity, anti-affinity or spread with pods that may run on other nodes",
    ObstacleKind.NOT_EXAMINED: "not looked at, because the search limit was reached",
}


@dataclass(frozen=True, slots=True)
class Freed:
    """An amount that a victim frees, in a zone by its NUMA id or on the node as a whole.

    `hidden` if it is in a zone, but not known in which.
    """

    resource: str
    zone: int | None
    amount: int
    hidden: bool = False

    def __str__(self) -> str:
        return f"{self.resource} {human(self.resource, self.amount)}"


@dataclass(frozen=True, slots=True)
class Unevictable:
    """A pod that several budgets cover, so that the eviction API refuses to evict it."""

    pod: str
    budgets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreemptionView:
    """The plan for a pod or gang without a place, with what each victim frees, and the mode of its profile.

    Without a plan, `obstacles` say why; with one, `unevictable` are pods that were passed over. `least_important` is a
    gang's pod whose priority counted, if priorities in the gang differ. `outdated` are the budgets of victims whose
    status is older than their spec.
    """

    plan: AnyPlan | NoPreemption
    frees: tuple[tuple[Freed, ...], ...]
    mode: PreemptionMode
    obstacles: tuple[Obstacle, ...] = ()
    unevictable: tuple[Unevictable, ...] = ()
    least_important: Pod | None = None
    outdated: tuple[str, ...] = ()


def preemption_lines(view: PreemptionView) -> list[str]:
    """The plan below the answer of `bayplan why --preempt`: who would go, from where, and what that frees."""
    plan, lead = view.plan, "Would evict:  "
    indent = " " * len(lead)
    counted = [] if view.least_important is None else [f"{indent}{_counted_text(view.least_important)}"]
    if isinstance(plan, NoPreemption):
        first, *others = _why_none(view)
        return [f"{lead}no pod: {first}", *(" " * len(f"{lead}no pod: ") + each for each in others), *counted]
    if not plan.victims:
        return [f"{lead}no pod; terminating pods make room on {nodes_text(plan)}"]
    victims = [
        f"{each.key} (priority {each.priority}): frees {_freed_in_words(freed)}"
        for each, freed in zip(plan.victims, view.frees, strict=True)
    ]
    lines = [lead + victims[0], *(indent + each for each in victims[1:])]
    proof = "no cheaper set would do" if plan.proven else "the cheapest set found; a cheaper one is not ruled out"
    wherever = (
        ", whichever zones its victims are in" if any(each.hidden for freed in view.frees for each in freed) else ""
    )
    lines += [f"{indent}for a place on {nodes_text(plan)}{wherever}; {proof}", *counted]
    if plan.cost[0]:
        kind = "PodDisruptionBudget" if len(_covering(plan)) == 1 else "PodDisruptionBudgets"
        lines.append(f"{indent}{kind} {forbidden_by(plan)}: the plan is not carried out")
    if view.outdated:
        lines.append(f"{indent}{_outdated_text(view.outdated)}")
    if view.unevictable:
        lines += [indent + _passed_over(view.unevictable)]
    if view.mode is not PreemptionMode.ON:
        lines.append(f"{indent}preemption is {view.mode.value} in its profile, so nothing is evicted")
    return lines


def _counted_text(least_important: Pod) -> str:
    """Which priority in a gang counted."""
    pod = f"{priority_of(least_important)} of pod {pod_key(least_important)}"
    return f"the lowest priority in the gang counts, {pod}: only pods below it may go"


def with_plan(text: str, view: PreemptionView) -> str:
    """The answer of `bayplan why` with the plan below it."""
    lines = text.split("\n")
    if not isinstance(view.plan, NoPreemption):
        lines = [NO_CHANGE_ALONE if line == NO_CHANGE else line for line in lines]
    return visible_lines([*lines, *preemption_lines(view)])


def with_plans(text: str, views: Mapping[str, PreemptionView], units: int) -> str:
    """The answer of `bayplan place` about so many gangs and pods, with the plans for those without a place below it."""
    if units == 1 and views:
        return with_plan(text, next(iter(views.values())))
    names: dict[int, list[str]] = {}
    for name, view in views.items():
        names.setdefault(id(view), []).append(name)
    lines = [text]
    for first, *others in names.values():
        same = f"; the same for {count(len(others), 'equal pod')}, each by itself" if others else ""
        lines += ["", visible(f"{first}{same}"), *map(visible, preemption_lines(views[first]))]
    return "\n".join(lines)


def _why_none(view: PreemptionView) -> list[str]:
    """Why no eviction helps, for people, one cause per line; events say it in kube-scheduler's words."""
    reason = view.plan.reason if isinstance(view.plan, NoPreemption) else ""
    return [reason] if reason else [_obstacle_text(each) for each in view.obstacles] or ["there is no node"]


def _obstacle_text(obstacle: Obstacle) -> str:
    """`2 nodes where a protected pod would have to go: ml/web on n1 (label volcano.sh/preemptable: "false")`."""
    text = f"{count(obstacle.nodes, 'node')} {_cause_text(obstacle)}"
    if not obstacle.pod:
        lead = ":" if obstacle.nodes == 1 else ", such as"
        return f"{text}{lead} {obstacle.node}" if obstacle.node else text
    detail = f" ({obstacle.detail})" if obstacle.detail else ""
    return f"{text}: {obstacle.pod} on {obstacle.node}{detail}"


def _cause_text(obstacle: Obstacle) -> str:
    if obstacle.cause is ObstacleKind.NO_ROOM and obstacle.detail:
        return f"that would refuse it even without {'its' if obstacle.nodes == 1 else 'their'} pods ({obstacle.detail})"
    return _OBSTACLES[obstacle.cause]


def _outdated_text(budgets: Sequence[str]) -> str:
    return f"until its controller has counted again, nothing may go: the status of {_listed(budgets)} is outdated"


def _passed_over(pods: Sequence[Unevictable]) -> str:
    budgets = _listed(sorted({budget for each in pods for budget in each.budgets}))
    covered = _listed([each.pod for each in pods])
    return f"not evictable: {covered}, because the eviction API refuses pods under several budgets ({budgets})"


def preemption_document(view: PreemptionView) -> Document:
    """The same for `-o json`."""
    plan, least = view.plan, view.least_important
    counted = {} if least is None else {"priority": priority_of(least)}
    if isinstance(plan, NoPreemption):
        causes = [_obstacle_document(each) for each in view.obstacles]
        reason = "; ".join(_why_none(view))
        return {"mode": view.mode.value, **counted, "victims": [], "reason": reason, "causes": causes}
    victims = [
        {
            "pod": each.key,
            "priority": each.priority,
            "frees": _freed_in_words(freed),
            "freed": [_freed_document(amount) for amount in freed],
            "budgets": list(each.pdbs),
        }
        for each, freed in zip(plan.victims, view.frees, strict=True)
    ]
    return {
        "mode": view.mode.value,
        **counted,
        "victims": victims,
        "nodes": nodes_of(plan),
        "violatedBudgets": plan.cost[0],
        "proven": plan.proven,
        "notEvictable": [{"pod": each.pod, "budgets": list(each.budgets)} for each in view.unevictable],
    }


def _obstacle_document(obstacle: Obstacle) -> Document:
    example = {"pod": obstacle.pod or None, "node": obstacle.node, "detail": obstacle.detail or None}
    return {
        "cause": obstacle.cause.value,
        "nodes": obstacle.nodes,
        "example": example if obstacle.node else None,
    }


def nodes_of(plan: AnyPlan) -> list[str]:
    """The nodes that the preemptor is to get, each once."""
    return [plan.node] if isinstance(plan, Preemption) else list(dict.fromkeys(node for _, node in plan.nodes))


def victims_text(plan: AnyPlan) -> str:
    """`ml/web (priority 0), ml/log (priority 3) and 2 more`."""
    return _listed([f"{each.key} (priority {each.priority})" for each in plan.victims])


def nodes_text(plan: AnyPlan) -> str:
    """`n1, n2 and n3`."""
    return _listed(nodes_of(plan))


def forbidden_by(plan: AnyPlan) -> str:
    """Which PodDisruptionBudgets forbid the plan: `a/logs forbids that`, `a/logs and a/web forbid that`."""
    budgets = _covering(plan)
    return f"{_listed(budgets)} {'forbids' if len(budgets) == 1 else 'forbid'} that"


def _covering(plan: AnyPlan) -> list[str]:
    """The PodDisruptionBudgets that cover victims."""
    return sorted({pdb for each in plan.victims for pdb in each.pdbs})


def freed_text(state: ClusterState, key: str, wanted: Collection[str]) -> str:
    """What a pod frees of some resources, by zone where that is known: `in zone 1: cpu 8, memory 1Gi`."""
    return _freed_in_words(freed_amounts(state, key, wanted))


def freed_amounts(state: ClusterState, key: str, wanted: Collection[str]) -> tuple[Freed, ...]:
    """What a pod frees of some resources, by zone where that is known."""
    freed, row = freed_by(state, key), state.pods[key].row
    report, arrangements = state.reports[row], departure_from(state, row).arrangements
    hidden = {name for name, *_ in arrangements.most_freed_by(key)} if arrangements is not None else set()
    amounts: list[Freed] = []
    for name in usual_order(wanted):
        zones = sorted(zone for resource, zone in freed if resource == name and zone is not None)
        if zones and report is not None:
            amounts += [Freed(name, report.zones[zone].id, freed[name, zone]) for zone in zones]
        elif freed.get((name, None)):
            amounts.append(Freed(name, None, freed[name, None], name in hidden))
    return tuple(amounts)


def _freed_in_words(freed: Sequence[Freed]) -> str:
    """`in zone 0: cpu 8, memory 64Gi; in zone 1: cpu 4`."""
    zones = sorted({each.zone for each in freed if each.zone is not None})
    groups = [(f"in zone {zone}: ", [each for each in freed if each.zone == zone]) for zone in zones]
    groups.append(("in a zone that is not reported: ", [each for each in freed if each.hidden]))
    rest = [each for each in freed if each.zone is None and not each.hidden]
    groups.append(("on the node: " if any(of_group for _, of_group in groups) else "", rest))
    words = [where + ", ".join(map(str, of_group)) for where, of_group in groups if of_group]
    return "; ".join(words) or "a place among the node's pods"


def _freed_document(freed: Freed) -> Document:
    return {"resource": freed.resource, "zone": freed.zone, "amount": canonical(freed.resource, freed.amount)}


def _listed(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED + 1:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
