"""Sentences about waiting units, for events and conditions.

Explaining a "no" costs more than finding it, and a thousand waiting replicas share one reason. So texts are cached by
pod class until something in the cluster changes.
"""

from __future__ import annotations

from datetime import UTC, datetime

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.dispatch.actions import Stage, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.explain.preemption import forbidden_by, nodes_text, victims_text
from bayplan.explain.refusal import because, event_text, refusal_of
from bayplan.gangs.model import GangDecision
from bayplan.kube.errors import InvalidObject
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.preemption.plan import NoPreemption
from bayplan.scheduling.profile import PASSES
from bayplan.scheduling.relations import incoming_pod
from bayplan.scheduling.shortfall import shortfall_of

MAX_BYTES = 1024
MAX_CACHED = 1000
# Filters that close a node whatever room it has.
CLOSES_NODES = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity")


class Sentences:
    """Why units wait, in words."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._cached: dict[tuple[str, PodClass], tuple[tuple[int, int], str]] = {}

    def of(self, refusal: Unschedulable) -> str:
        """At most 1 KiB: the answer first, then kube-scheduler's counts."""
        if refusal.reason:
            return _cut(refusal.reason)
        if refusal.gang is None:
            text = self._of_pod(refusal)
        else:
            text = gang_sentence(refusal.gang) + self._kept_room_from_gang(refusal) + self._closed_nodes(refusal)
        preemption = preemption_sentence(refusal)
        if not preemption:
            return _cut(text)
        return f"{_cut(text.rstrip('.'), MAX_BYTES - len(preemption.encode()) - 2)}. {preemption}"

    @staticmethod
    def must_search(refusal: Unschedulable) -> bool:
        """Whether the reasons must be found first, which may take long."""
        return not refusal.reason

    def _closed_nodes(self, refusal: Unschedulable) -> str:
        """Which nodes taints and selectors close to the members of a gang: it needs more room than the others have."""
        gang, state = refusal.gang, self._dispatcher.state
        if gang is None or gang.waits or gang.problem or gang.style or not refusal.pods:
            return ""
        profile = self._dispatcher.profiles.get(refusal.pods[0].spec.scheduler_name or "")
        try:
            pod_class = state.classes.of(refusal.pods[0])
        except InvalidObject:
            return ""
        if profile is None:
            return ""
        answer = self._dispatcher.answers.for_class(pod_class, profile)
        found = shortfall_of(state, pod_class, profile, answer, most=0)
        if (answer.blocked != PASSES).all():
            # Not even one member has a place.
            return f"; {refusal_of(state, pod_class, profile, Decision(gang.gang, None, shortfall=found), ()).sentence}"
        closed = tuple(cause for cause in found.causes if cause.plugin in CLOSES_NODES)
        if not closed:
            return ""
        number = sum(len(cause.nodes) for cause in closed)
        causes = ", ".join(f"{len(cause.nodes)} {cause.cause}{because(cause)}" for cause in closed)
        return f"; {number} of {found.nodes} nodes are closed to its pods: {causes}"

    def _kept_room_from_gang(self, refusal: Unschedulable) -> str:
        gang, late = refusal.gang, self._dispatcher.late
        if gang is None or gang.waits or gang.problem or not refusal.pods or not late.members:
            return ""
        try:
            pod_class = self._dispatcher.state.classes.of(refusal.pods[0])
        except InvalidObject:
            return ""
        return self._kept_room(pod_class, refusal.gang_name)

    def _kept_room(self, pod_class: PodClass, own: str = "") -> str:
        """Which gang keeps room that such a pod could use otherwise, and until when; empty if none does."""
        rooms, names = self._dispatcher.late.kept_from(pod_class, own), self._dispatcher.state.names
        if not rooms:
            return ""
        room, rows = rooms[0]
        nodes = names[rows[0]] if len(rows) == 1 else f"{names[rows[0]]} and {len(rows) - 1} more"
        until = datetime.fromtimestamp(room.until, UTC).strftime("%H:%M:%S")
        members = "1 member" if len(room.every_seat) == 1 else f"{len(room.every_seat)} members"
        others = f", and more for {len(rooms) - 1} other gangs" if len(rooms) > 1 else ""
        return f"; room on {nodes} is kept for {room.gang}: {members} to come, until {until} UTC{others}"

    def _of_pod(self, refusal: Unschedulable) -> str:
        dispatcher, pod = self._dispatcher, refusal.pods[0]
        state = dispatcher.state
        profile = dispatcher.profiles[pod.spec.scheduler_name or ""]
        version = (state.usage_log.end, state.node_log.end)
        try:
            pod_class = state.classes.of(pod)
            # Texts about pods with affinity terms are not shared.
            is_unique = incoming_pod(state, pod, pod_class) is not None
            key = (profile.name, pod_class)
            cached = None if is_unique else self._cached.get(key)
            if cached is not None and cached[0] == version:
                return cached[1]
            decision = schedule_one(state, pod, profile, dispatcher.answers)
        except InvalidObject as error:
            return str(error)
        text = self._text(decision, pod_class, refusal)
        if is_unique:
            return text
        if len(self._cached) >= MAX_CACHED:
            self._cached.clear()
        self._cached[key] = (version, text)
        return text

    def _text(self, decision: Decision, pod_class: PodClass, refusal: Unschedulable) -> str:
        if decision.shortfall is None:
            return decision.held_back or "a place became free meanwhile; retrying"
        profile = self._dispatcher.profiles[refusal.pods[0].spec.scheduler_name or ""]
        words = refusal_of(self._dispatcher.state, pod_class, profile, decision, ())
        return f"{words.sentence}{self._kept_room(pod_class)}. {event_text(decision.shortfall)}"


def gang_sentence(decision: GangDecision) -> str:
    """Why a gang waits, and whether that is proven."""
    if decision.waits:
        return decision.waits
    if decision.style:
        return f"the gang {decision.bound}"
    if decision.problem:  # no placement was attempted
        return f"the gang has no place: {decision.problem}"
    return f"the gang has no place ({decision.status.value}): {decision.bound}"


def preemption_sentence(refusal: Unschedulable) -> str:
    """What preemption does for a unit; empty if its profile does not preempt."""
    plan = refusal.preemption
    if plan is None or isinstance(plan, NoPreemption):
        return "" if plan is None else str(plan)
    nodes, victims = nodes_text(plan), victims_text(plan)
    if refusal.stage is not Stage.PLANNED:
        return f"preemption: nominated to {nodes}, waits for {victims or 'pods'} to leave"
    if plan.cost[0]:
        return f"preemption: {victims} on {nodes} would have to go, but {forbidden_by(plan)}"
    return f"preemption (dry run): evicting {victims or 'nothing'} would make room on {nodes}"


def _cut(text: str, most: int = MAX_BYTES) -> str:
    raw = text.encode()
    return text if len(raw) <= most else raw[: most - 3].decode(errors="ignore") + "..."
