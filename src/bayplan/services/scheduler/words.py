"""What the scheduler writes down about its decisions: annotations on a pod that is bound, and the sentence about one that waits.

Finding the reasons of a "no" costs more than finding the "no", and a thousand replicas that wait have one reason. So texts are kept
per class of pods for as long as nothing in the cluster has changed.
"""

from __future__ import annotations

import msgspec

from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.pod_request import CPU
from bayplan.cluster.pod_zones import NUMA_ZONES
from bayplan.cluster.state import ClusterState
from bayplan.explain.amounts import canonical
from bayplan.explain.event import event_text
from bayplan.explain.refusal import refusal_of
from bayplan.kube.errors import InvalidObject
from bayplan.kube.volcano_annotations import decision_annotations, policy_in
from bayplan.plugins.node_resource_topology_match import demand
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.dispatcher import Dispatcher
from bayplan.scheduling.gang import GangDecision
from bayplan.scheduling.ranks import RANK, SEGMENT
from bayplan.scheduling.relations import newcomer_of
from bayplan.scheduling.todo import Assignment, Refusal

NUMA_AMOUNTS = "bayplan.io/numa-amounts"
PATH = "bayplan.io/path"
LONGEST = 1024
MOST_KEPT = 1000


def annotations_of(assignment: Assignment) -> dict[str, str]:
    """What is written on the pod with the bind: its zones and, for a member of a gang, rank, segment and path in the tree."""
    written: dict[str, str] = {}
    zones = {each.container: each.zones for each in assignment.decision.containers if each.zones}
    if zones:
        written[NUMA_ZONES] = msgspec.json.encode(zones).decode()
    seat = assignment.seat
    if seat is not None:
        written[RANK] = str(seat.rank)
        written[PATH] = "/".join(seat.path)
        if seat.segment is not None:
            written[SEGMENT] = str(seat.segment)
    return written


def numa_amounts_of(assignment: Assignment, state: ClusterState) -> dict[str, str]:
    """What is written beside that on a pod in zones: how much of what each container takes there.

    Only what the node reports by zone is named. Of a container in several zones the sum is what kubelets promise, too.
    """
    decision = assignment.decision
    zones_of = {each.container: each.zones for each in decision.containers if each.zones}
    if not zones_of:
        return {}
    by_zone = {state.columns.resource_names[charge.resource] for charge in decision.charges}
    amounts = {
        step.container: {
            "zones": zones_of[step.container],
            "amounts": {name: canonical(name, want) for name, want in step.wants if name in by_zone},
        }
        for step in demand(state.classes.of(assignment.pod)).container_steps
        if step.container in zones_of
    }
    return {NUMA_AMOUNTS: msgspec.json.encode(amounts).decode()}


def topology_decision_of(assignment: Assignment, state: ClusterState) -> dict[str, str]:
    """What is written beside that on a pod that asks for a policy in Volcano's way: the amounts that it takes in each zone."""
    decision = assignment.decision
    report = state.reports[decision.row] if decision.row >= 0 else None
    if report is None or policy_in(assignment.pod.metadata.annotations) in ("", "none"):
        return {}
    decided: dict[int, dict[str, str]] = {}
    for charge in decision.charges:
        name, amount = state.columns.resource_names[charge.resource], int(charge.amount)
        if charge.zone < len(report.zones):
            decided.setdefault(report.zones[charge.zone].id, {})[name] = f"{amount}m" if name == CPU else str(amount)
    return decision_annotations(decided)


class Sentences:
    """Why units wait, in words for an event or a condition."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._kept: dict[tuple[str, PodClass], tuple[tuple[int, int], str]] = {}

    def of(self, refusal: Refusal) -> str:
        """At most 1 KB: the answer first, then kube-scheduler's counts."""
        if refusal.reason:
            return _cut(refusal.reason)
        if refusal.gang is not None:
            return _cut(gang_sentence(refusal.gang))
        return _cut(self._of_pod(refusal))

    def _of_pod(self, refusal: Refusal) -> str:
        dispatcher, pod = self._dispatcher, refusal.pods[0]
        state = dispatcher.state
        profile = dispatcher.profiles[pod.spec.scheduler_name or ""]
        version = (state.usage_log.end, state.node_log.end)
        try:
            pod_class = state.classes.of(pod)
            # Pods whose neighbours matter are each a case of their own.
            by_itself = newcomer_of(state, pod, pod_class) is not None
            key = (profile.name, pod_class)
            kept = None if by_itself else self._kept.get(key)
            if kept is not None and kept[0] == version:
                return kept[1]
            decision = schedule_one(state, pod, profile, dispatcher.answers)
        except InvalidObject as error:
            return str(error)
        text = self._text(decision, pod_class, refusal)
        if by_itself:
            return text
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = (version, text)
        return text

    def _text(self, decision: Decision, pod_class: PodClass, refusal: Refusal) -> str:
        if decision.shortfall is None:
            return decision.held_back or "a place has become free meanwhile; it is tried again"
        profile = self._dispatcher.profiles[refusal.pods[0].spec.scheduler_name or ""]
        words = refusal_of(self._dispatcher.state, pod_class, profile, decision, ())
        return f"{words.sentence}. {event_text(decision.shortfall)}"


def gang_sentence(decision: GangDecision) -> str:
    """Why a gang waits: what its answer rests on, and whether that is proven."""
    if decision.waits:
        return decision.waits
    if decision.style:
        return f"the gang {decision.bound}"
    if decision.problem:  # Nobody has looked for a place, so nothing is proven.
        return f"the gang has no place: {decision.problem}"
    return f"the gang has no place ({decision.status.value}): {decision.bound}"


def _cut(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= LONGEST else raw[: LONGEST - 3].decode(errors="ignore") + "..."
