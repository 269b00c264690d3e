"""Carry out preemption plans: evict the victims through the eviction API, and report it on both sides.

The API server enforces PodDisruptionBudgets. If there are several victims, all evictions are tried as a dry run first,
at once, so that a refused one spares the other victims. Victims are then evicted one by one while the plan holds: if
the preemptor is gone or its nomination was withdrawn, the remaining victims stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dispatch.actions import Stage, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.units import Unit
from bayplan.explain.preemption import AnyPlan, freed_text, nodes_text, victims_text
from bayplan.gangs.preemption.plan import GangPreemption
from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.client import TIME_MAY_HEAL, ApiError, KubeClient, Unreachable
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.preemption.candidates import priority_of
from bayplan.scheduling.preemption.plan import NoPreemption
from bayplan.services.edges.conditions import disruption_target
from bayplan.services.edges.events import EventRecorder, Subject
from bayplan.services.edges.metrics import PreemptionMetrics
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.nominating import NominationWriter

logger = logging.getLogger(__name__)

FIRST_WAIT = 0.2
MAX_WAIT = 5.0
MAX_ATTEMPTS = 5
# Deleted already, or replaced by another pod.
IS_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
# The API server's cause of a 429 that a budget is behind; others are its own load.
BUDGET = "DisruptionBudget"
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
# A plan for a gang may have thousands of victims.
DRY_RUNS_AT_ONCE = 16
# Members of a preempting gang with an event.
MEMBERS_WITH_EVENTS = 8


class EvictionResult(Enum):
    """How an eviction ended."""

    EVICTED = "evicted"
    GONE = "gone"
    REFUSED = "refused"
    SPARED = "spared"


REFUSED = EvictionResult.REFUSED


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod to evict, and what that frees."""

    pod: Pod
    frees: str


@dataclass(frozen=True, slots=True)
class Eviction:
    """A plan with everything that carrying it out needs, so that no part of the cluster's state is read later."""

    unit: Unit
    pods: tuple[Pod, ...]
    plan: AnyPlan
    victims: tuple[Victim, ...]
    nodes: tuple[tuple[Pod, str], ...]

    @property
    def preemptor(self) -> str:
        """`ml/train (priority 1000)`, or `gang ml/train (priority 1000)`."""
        return f"{self.unit} (priority {min(map(priority_of, self.pods))})"


def eviction_of(action: Unschedulable, plan: AnyPlan, state: ClusterState) -> Eviction:
    """What a plan means for pods of the cluster."""
    wanted = {name for pod in action.pods for name in state.classes.of(pod).request.total}
    keys = [each.key for each in plan.victims if each.key in state.bound]
    places = dict(plan.nodes) if isinstance(plan, GangPreemption) else {pod_key(action.pods[0]): plan.node}
    return Eviction(
        action.unit,
        action.pods,
        plan,
        tuple(Victim(state.bound[key], freed_text(state, key, wanted)) for key in keys),
        tuple((pod, places[pod_key(pod)]) for pod in action.pods if pod_key(pod) in places),
    )


class Evictor:
    """Carries out plans of the dispatcher; `may_write` says whether this replica still leads."""

    def __init__(
        self,
        client: KubeClient,
        dispatcher: Dispatcher,
        events: EventRecorder,
        nominees: NominationWriter,
        *,
        metrics: PreemptionMetrics,
        clock: Callable[[], float],
        side_thread: SideThread,
        may_write: Callable[[], bool],
    ) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._events = events
        self._nominees = nominees
        self._metrics = metrics
        self._clock = clock
        self._side_thread = side_thread
        self._may_write = may_write

    def withdraw_nominations(self) -> None:
        """Clear `nominatedNodeName` where it no longer holds; called after each decision."""
        for pod in self._dispatcher.preempting.nominations.take_outdated():
            self._nominees.nominate(pod, None)

    def take(self, action: Unschedulable) -> Coroutine[None, None, None] | None:
        """The evictions of a unit whose plan is new, if any."""
        plan = action.preemption
        if plan is not None and action.stage is not Stage.UNDER_WAY:
            self._metrics.attempts.inc()
        if plan is None or isinstance(plan, NoPreemption) or action.stage is not Stage.CARRY_OUT:
            return None
        if plan.victims:
            self._metrics.victims.observe(len(plan.victims))
        return self._carry_out(eviction_of(action, plan, self._dispatcher.state))

    async def _carry_out(self, eviction: Eviction) -> None:
        refused = [pod_key(each.pod) for each in eviction.victims]
        try:
            refused = await self._evict_all(eviction)
        finally:
            # Also after a bug: the room would be kept for nothing.
            await self._side_thread.idle()
            if refused:
                self._dispatcher.not_evicted(refused, self._clock())

    async def _evict_all(self, eviction: Eviction) -> list[str]:
        """Evict all victims and nominate the preemptor; the pods whose eviction was refused."""
        refused = await self._refused_in_dry_run(eviction)
        evicted: list[Victim] = []
        for victim in () if refused else eviction.victims:
            ending = await self._evict(eviction, victim, dry_run=False)
            self._metrics.evictions.labels(ending.value).inc()
            if ending is EvictionResult.SPARED:
                logger.info("plan no longer holds, sparing victims", extra={"preemptor": str(eviction.unit)})
                return []
            if ending is REFUSED:
                refused.append(victim)
                break
            if ending is EvictionResult.EVICTED:
                evicted.append(victim)
                await self._report_evicted(eviction, victim)
        if evicted:
            self._report_preempting(eviction)
        # Victims without a grace period are gone at once, and the preemptor may be on its way to its node.
        if not refused and await self._still_holds(eviction):
            for pod, node in eviction.nodes:
                self._nominees.nominate(pod, node)
        return [pod_key(each.pod) for each in refused]

    async def _refused_in_dry_run(self, eviction: Eviction) -> list[Victim]:
        """The victims whose eviction would be refused. A single victim has no others to spare."""
        victims = eviction.victims if len(eviction.victims) > 1 else ()
        endings: list[EvictionResult] = []
        for start in range(0, len(victims), DRY_RUNS_AT_ONCE):
            some = victims[start : start + DRY_RUNS_AT_ONCE]
            endings += await asyncio.gather(*(self._evict(eviction, each, dry_run=True) for each in some))
        return [victim for victim, ending in zip(victims, endings, strict=True) if ending is REFUSED]

    async def _still_holds(self, eviction: Eviction) -> bool:
        """False if the preemptor is gone, another unit took its room, or another replica leads."""
        await self._side_thread.idle()
        nomination = self._dispatcher.preempting.nominations.get(eviction.unit)
        return self._may_write() and nomination is not None and nomination.plan is eviction.plan

    async def _evict(self, eviction: Eviction, victim: Victim, *, dry_run: bool) -> EvictionResult:
        """Evict one pod. Transient errors are retried a few times; a refusal is reported on both sides."""
        metadata, backoff = victim.pod.metadata, Backoff(first=FIRST_WAIT, longest=MAX_WAIT)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            if not await self._still_holds(eviction):
                return EvictionResult.SPARED
            try:
                await self._client.evict(metadata.namespace or "default", metadata.name, metadata.uid, dry_run=dry_run)
            except (ApiError, Unreachable) as error:
                if isinstance(error, ApiError) and error.status in IS_GONE:
                    return EvictionResult.GONE
                if attempt == MAX_ATTEMPTS or not _is_transient(error):
                    self._report_refused(eviction, victim, error)
                    return REFUSED
                await asyncio.sleep(backoff.after_failure())
            else:
                return EvictionResult.EVICTED
        raise AssertionError("the last attempt returns")

    async def _report_evicted(self, eviction: Eviction, victim: Victim) -> None:
        """An event on the victim, and the preemptor in its condition, which names only the eviction API so far."""
        note = f"preempted by {eviction.preemptor}: frees {victim.frees}"
        logger.info(
            "evicted pod", extra={"pod": pod_key(victim.pod), "preemptor": str(eviction.unit), "frees": victim.frees}
        )
        self._events.record(Subject.pod(victim.pod), "Normal", "Preempted", "Preempting", note)
        if victim.pod.spec.termination_grace_period_seconds == 0:
            return  # the pod is gone already
        metadata = victim.pod.metadata
        body = disruption_target(victim.pod, "PreemptionByScheduler", note, self._clock())
        try:
            await self._client.patch(PODS, metadata.name, body, metadata.namespace, subresource="status")
        except (ApiError, Unreachable) as error:
            # The API server's own condition is enough.
            logger.debug("condition not written", extra={"pod": pod_key(victim.pod), "problem": str(error)})

    def _report_preempting(self, eviction: Eviction) -> None:
        note = f"evicted {victims_text(eviction.plan)}; nominated to {nodes_text(eviction.plan)}"
        for pod in eviction.pods[:MEMBERS_WITH_EVENTS]:
            self._events.record(Subject.pod(pod), "Normal", "Preempting", "Preempting", note)

    def _report_refused(self, eviction: Eviction, victim: Victim, error: ApiError | Unreachable) -> None:
        problem = error.message if isinstance(error, ApiError) else str(error)
        causes = (error.details.causes or ()) if isinstance(error, ApiError) and error.details is not None else ()
        why = " ".join([problem, *(cause.message for cause in causes if cause.message)])
        extra = {"pod": pod_key(victim.pod), "preemptor": str(eviction.unit), "problem": why}
        logger.warning("eviction refused", extra=extra)
        note = f"cannot evict {pod_key(victim.pod)} for {eviction.preemptor}: {why}"
        for pod in eviction.pods[:MEMBERS_WITH_EVENTS]:
            self._events.record(Subject.pod(pod), "Warning", "PreemptionFailed", "Preempting", note)


def _is_transient(error: ApiError | Unreachable) -> bool:
    """Whether a retry may succeed soon: not if a budget refuses, nor if several budgets cover the pod (a 500)."""
    if isinstance(error, Unreachable):
        return True
    causes = (error.details.causes or ()) if error.details is not None else ()
    by_budget = any(cause.reason == BUDGET for cause in causes) or SEVERAL_BUDGETS in error.message
    return error.status in TIME_MAY_HEAL and not by_budget
