"""The sentence about a pod that waits; what is written on one that is bound is in `annotations.py`.

Finding the reasons of a "no" costs more than finding the "no", and a thousand replicas that wait have one reason. So texts are kept
per class of pods for as long as nothing in the cluster has changed.
"""

from __future__ import annotations

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.dispatch.actions import Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.explain.event import event_text
from bayplan.explain.refusal import refusal_of
from bayplan.gangs.model import GangDecision
from bayplan.kube.errors import InvalidObject
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.relations import incoming_pod

LONGEST = 1024
MOST_KEPT = 1000


class Sentences:
    """Why units wait, in words for an event or a condition."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._kept: dict[tuple[str, PodClass], tuple[tuple[int, int], str]] = {}

    def of(self, refusal: Unschedulable) -> str:
        """At most 1 KB: the answer first, then kube-scheduler's counts."""
        if refusal.reason:
            return _cut(refusal.reason)
        if refusal.gang is not None:
            return _cut(gang_sentence(refusal.gang))
        return _cut(self._of_pod(refusal))

    @staticmethod
    def must_search(refusal: Unschedulable) -> bool:
        """Whether the reasons have to be found first, which may take long."""
        return not refusal.reason and refusal.gang is None

    def _of_pod(self, refusal: Unschedulable) -> str:
        dispatcher, pod = self._dispatcher, refusal.pods[0]
        state = dispatcher.state
        profile = dispatcher.profiles[pod.spec.scheduler_name or ""]
        version = (state.usage_log.end, state.node_log.end)
        try:
            pod_class = state.classes.of(pod)
            # Pods whose neighbours matter are each a case of their own.
            by_itself = incoming_pod(state, pod, pod_class) is not None
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

    def _text(self, decision: Decision, pod_class: PodClass, refusal: Unschedulable) -> str:
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
    if decision.problem:  # No placement was attempted, so nothing is proven.
        return f"the gang has no place: {decision.problem}"
    return f"the gang has no place ({decision.status.value}): {decision.bound}"


def _cut(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= LONGEST else raw[: LONGEST - 3].decode(errors="ignore") + "..."
