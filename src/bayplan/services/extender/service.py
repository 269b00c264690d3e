"""The extender without its HTTP server: bytes of a request in, bytes of the answer out. Start reading here.

    decode -> wait for the last pod's bind -> filter_nodes / prioritize / preempt / bind -> encode

Answers come from the columns that the watches keep up to date; only `bind` talks to the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import msgspec

from bayplan.cluster.pods.pod_class import LARGE
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import WatchSettings
from bayplan.kube.errors import InvalidObject
from bayplan.kube.visible import visible
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.extender_v1 import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    HostPriority,
)
from bayplan.scheduling.profile import Profile
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.extender.binding import ExtenderBinder
from bayplan.services.extender.candidates import Candidates, RecentCandidates
from bayplan.services.extender.cluster import ExtenderCluster
from bayplan.services.extender.filtering import filter_nodes
from bayplan.services.extender.in_flight import PodsInFlight
from bayplan.services.extender.metrics import ExtenderMetrics
from bayplan.services.extender.preempting import preempt, proposals_in
from bayplan.services.extender.reasons import Reasons
from bayplan.services.extender.requests import BadRequest, decoded, pod_in
from bayplan.services.extender.scores import prioritize
from bayplan.services.scheduler.intake import WatchIntake
from bayplan.services.scheduler.watching import ClusterWatcher

Result = TypeVar("Result")

_arguments = msgspec.json.Decoder(ExtenderArgs)
_preemption_arguments = msgspec.json.Decoder(ExtenderPreemptionArgs)
_binding_arguments = msgspec.json.Decoder(ExtenderBindingArgs)
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """How requests are answered. `timeout` must be below kube-scheduler's `httpTimeout`."""

    timeout: float = 4.0
    wait_for_bind: float = 0.1
    spread_scores: bool = False


class ExtenderService:
    """One extender: the watched cluster and the verbs."""

    def __init__(
        self,
        client: KubeClient,
        profiles: dict[str, Profile],
        settings: ExtenderSettings,
        *,
        metrics: ExtenderMetrics,
        clock: Callable[[], float],
        side_thread: SideThread | None = None,
        watching: WatchSettings = WatchSettings(),  # noqa: B008 - immutable
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.listed = asyncio.Event()
        self._in_flight = PodsInFlight(settings.wait_for_bind)
        self.cluster = ExtenderCluster(profiles, self._in_flight.settled)
        self._side_thread = side_thread or SideThread(threaded=False)
        self._metrics = metrics
        self._reasons = Reasons(self.cluster.state)
        self._recent = RecentCandidates(self.cluster.state)
        self.watcher = ClusterWatcher(
            client,
            WatchIntake(self.cluster.entries()),
            metrics=metrics.cluster,
            clock=clock,
            side_thread=self._side_thread,
            on_news=self._note_lists,
            listener=lambda *_: (),
            settings=watching,
        )
        self.binder = ExtenderBinder(client, self.cluster, self._in_flight, self._side_thread, metrics.binds)

    def why_not_ready(self) -> str | None:
        """Which lists are missing; None once requests can be answered."""
        waiting = list(self.watcher.intake.not_listed_yet())
        return f"waiting for {', '.join(waiting)}" if waiting else None

    def _note_lists(self) -> None:
        if self.watcher.intake.ready:
            self.listed.set()

    async def follow(self) -> None:
        """Process the cluster's watch events until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.watcher.follow())
            tasks.create_task(self._resync())

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self.cluster.reports.resync_period)
            self._side_thread.when_idle(lambda: self.cluster.resync(self.clock()))

    # -- verbs ----------------------------------------------------------------------------------------------------

    async def filter(self, body: bytes) -> bytes:
        """Which nodes would admit the pod, and why the others would not."""
        arguments = decoded(_arguments, body)
        pod = pod_in(arguments.pod)
        await self._in_flight.wait_for_others(pod.metadata.uid)
        try:
            candidates = await self._candidates(arguments)
            result = await self._run(arguments, partial(filter_nodes, self.cluster, self._reasons, pod, candidates))
        except InvalidObject as error:
            return _encoder.encode(ExtenderFilterResult(error=visible(str(error))))
        self._count(result, len(candidates.names))
        if result.node_names or (result.nodes and result.nodes.items):
            self.cluster.remember(pod)
            self._expect_bind(pod)
        return _encoder.encode(result)

    async def prioritize(self, body: bytes) -> bytes:
        """Scores of the nodes."""
        arguments = decoded(_arguments, body)
        pod = pod_in(arguments.pod)
        try:
            candidates = await self._candidates(arguments)
            score = partial(prioritize, self.cluster, pod, candidates, spread=self.settings.spread_scores)
            result: list[HostPriority] = await self._run(arguments, score)
        except InvalidObject as error:
            raise BadRequest(str(error)) from None
        self._expect_bind(pod)
        return _encoder.encode(result)

    async def preempt(self, body: bytes) -> bytes:
        """The candidates whose victims make room in the zones that the pod needs."""
        arguments = decoded(_preemption_arguments, body)
        pod = pod_in(arguments.pod)
        check = partial(preempt, self.cluster, pod, proposals_in(arguments))
        try:
            return _encoder.encode(await self._side_thread.run(check))
        except InvalidObject as error:
            raise BadRequest(str(error)) from None

    async def bind(self, body: bytes) -> bytes:
        """Bind the pod to the node that the scheduler chose."""
        asked = decoded(_binding_arguments, body)
        for name, value in (("PodName", asked.pod_name), ("PodNamespace", asked.pod_namespace), ("Node", asked.node)):
            if not value:
                raise BadRequest(f"{name}: is missing")
        error = await self.binder.bind(asked, self.settings.timeout)
        return _encoder.encode(ExtenderBindingResult(visible(error)))

    async def _candidates(self, arguments: ExtenderArgs) -> Candidates:
        await self._side_thread.idle()
        return self._recent.of(arguments)

    async def _run(self, arguments: ExtenderArgs, answer: Callable[[], Result]) -> Result:
        """Answer in place, or in the side thread if the pod is very large."""
        return await self._side_thread.run(answer) if len(memoryview(arguments.pod)) > LARGE else answer()

    def _expect_bind(self, pod: Pod) -> None:
        """The next pod waits for this one, unless this one takes no zones."""
        topology = self.cluster.profile_of(pod).topology
        if topology is not None and topology.applies(self.cluster.state.classes.of(pod)):
            self._in_flight.passed(pod.metadata.uid)

    def _count(self, result: ExtenderFilterResult, asked: int) -> None:
        nodes = result.node_names if result.nodes is None else result.nodes.items
        passed, failed, unresolvable = (
            len(each or ()) for each in (nodes, result.failed_nodes, result.failed_and_unresolvable_nodes)
        )
        counts = self._metrics.nodes
        counts.labels("passed").inc(passed)
        counts.labels("failed").inc(failed)
        counts.labels("unresolvable").inc(unresolvable)
        counts.labels("unverified").inc(max(asked - passed - failed - unresolvable, 0))
