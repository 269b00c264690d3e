"""A preemption plan in words: who would go and what that frees.

A plan and the cluster's state come in; sentences for events, for `bayplan why --preempt` and its document go out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.explain.amounts import canonical, count, human, usual_order
from bayplan.explain.documents import Document
from bayplan.gangs.preemption.plan import GangPreemption
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.preemption.candidates import freed_by, priority_of
from bayplan.scheduling.preemption.plan import NoPreemption, Preemption
from bayplan.scheduling.profile import PreemptionMode

AnyPlan = Preemption | GangPreemption
# Victims and nodes that a sentence names; the others are counted.
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Freed:
    """An amount that a victim frees, in a zone by its NUMA id or on the node as a whole."""

    resource: str
    zone: int | None
    amount: int

    def __str__(self) -> str:
        where = "" if self.zone is None else f" in zone {self.zone}"
        return f"{self.resource} {human(self.resource, self.amount)}{where}"


@dataclass(frozen=True, slots=True)
class PreemptionView:
    """The plan for a pod or gang without a place, with what each victim frees, and the mode of its profile.

    `least_important` is a gang's pod whose priority counted, if priorities in the gang differ.
    """

    plan: AnyPlan | NoPreemption
    frees: tuple[tuple[Freed, ...], ...]
    mode: PreemptionMode
    least_important: Pod | None = None


def preemption_lines(view: PreemptionView) -> list[str]:
    """The plan below the answer of `bayplan why --preempt`: who would go, from where, and what that frees."""
    plan, lead = view.plan, "Would evict:  "
    indent = " " * len(lead)
    counted = [] if view.least_important is None else [f"{indent}{_counted_text(view.least_important)}"]
    if isinstance(plan, NoPreemption):
        return [f"{lead}no pod: {_why_none(plan)}", *counted]
    if not plan.victims:
        return [f"{lead}no pod; terminating pods make room on {nodes_text(plan)}"]
    victims = [
        f"{each.key} (priority {each.priority}): frees {_freed_in_words(freed)}"
        for each, freed in zip(plan.victims, view.frees, strict=True)
    ]
    lines = [lead + victims[0], *(indent + each for each in victims[1:])]
    proof = "no cheaper set would do" if plan.proven else "the cheapest set found; a cheaper one is not ruled out"
    lines += [f"{indent}for a place on {nodes_text(plan)}; {proof}", *counted]
    if plan.cost[0]:
        lines.append(f"{indent}PodDisruptionBudget {budgets_text(plan)} forbids that: the plan is not carried out")
    if view.mode is not PreemptionMode.ON:
        lines.append(f"{indent}preemption is {view.mode.value} in its profile, so nothing is evicted")
    return lines


def _counted_text(least_important: Pod) -> str:
    """Which priority in a gang counted."""
    pod = f"{priority_of(least_important)} of pod {pod_key(least_important)}"
    return f"the lowest priority in the gang counts, {pod}: only pods below it may go"


def _why_none(plan: NoPreemption) -> str:
    """Why no eviction helps, for people; events say it in kube-scheduler's words."""
    if plan.reason:
        return plan.reason
    counts = (
        (plan.no_victims, "without victims of lower priority that would make room"),
        (plan.not_helpful, "closed to it for other reasons"),
    )
    (number, text), *others = [(number, text) for number, text in counts if number] or [counts[0]]
    return ", ".join([f"{count(number, 'node')} {text}", *(f"{number} {text}" for number, text in others)])


def preemption_document(view: PreemptionView) -> Document:
    """The same for `-o json`."""
    plan, least = view.plan, view.least_important
    counted = {} if least is None else {"priority": priority_of(least)}
    if isinstance(plan, NoPreemption):
        return {"mode": view.mode.value, **counted, "victims": [], "reason": _why_none(plan)}
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


def budgets_text(plan: AnyPlan) -> str:
    """The PodDisruptionBudgets that cover victims."""
    return _listed(sorted({pdb for each in plan.victims for pdb in each.pdbs}))


def freed_text(state: ClusterState, key: str, wanted: Collection[str]) -> str:
    """What a pod frees of some resources, by zone where that is known: `cpu 8 in zone 1, memory 1Gi`."""
    return _freed_in_words(freed_amounts(state, key, wanted))


def freed_amounts(state: ClusterState, key: str, wanted: Collection[str]) -> tuple[Freed, ...]:
    """What a pod frees of some resources, by zone where that is known."""
    freed = freed_by(state, key)
    report = state.reports[state.pods[key].row]
    amounts: list[Freed] = []
    for name in usual_order(wanted):
        zones = sorted(zone for resource, zone in freed if resource == name and zone is not None)
        if zones and report is not None:
            amounts += [Freed(name, report.zones[zone].id, freed[name, zone]) for zone in zones]
        elif freed.get((name, None)):
            amounts.append(Freed(name, None, freed[name, None]))
    return tuple(amounts)


def _freed_in_words(freed: Sequence[Freed]) -> str:
    return ", ".join(map(str, freed)) or "a place among the node's pods"


def _freed_document(freed: Freed) -> Document:
    return {"resource": freed.resource, "zone": freed.zone, "amount": canonical(freed.resource, freed.amount)}


def _listed(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED + 1:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
