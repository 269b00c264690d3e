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
from msgspec import Raw

from bayplan.cluster.pods.pod_class import LARGE
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import WatchSettings
from bayplan.kube.errors import InvalidObject
from bayplan.kube.visible import visible
from bayplan.kube.wire.extender_v1 import (
    ABSENT,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
)
from bayplan.scheduling.profile import Profile
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.extender.binding import ExtenderBinder
from bayplan.services.extender.candidates import RecentCandidates
from bayplan.services.extender.cluster import AskedPod, ExtenderCluster
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
        self._last_asked: tuple[Raw, AskedPod | None] = ABSENT, None
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
        if self.listed.is_set():
            return None
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
        try:
            asked = await self._asked(arguments)
        except InvalidObject as error:
            return _encoder.encode(ExtenderFilterResult(error=visible(str(error))))
        if asked.depends_on_others:
            await self._in_flight.wait_for_others(asked.pod.metadata.uid)
        filtered = await self._run(
            arguments, lambda: filter_nodes(self.cluster, self._reasons, asked, self._recent.of(arguments))
        )
        self._metrics.filtered(*filtered.counts)
        if filtered.passed:
            self.cluster.remember(asked.pod)
            self._expect_bind(asked)
        return _encoder.encode(filtered.result)

    async def prioritize(self, body: bytes) -> bytes:
        """Scores of the nodes."""
        arguments = decoded(_arguments, body)
        try:
            asked = await self._asked(arguments)
        except InvalidObject as error:
            raise BadRequest(str(error)) from None
        answer = await self._run(
            arguments,
            lambda: prioritize(self.cluster, asked, self._recent.of(arguments), spread=self.settings.spread_scores),
        )
        self._expect_bind(asked)
        return answer

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

    async def _asked(self, arguments: ExtenderArgs) -> AskedPod:
        """The pod of a request. `prioritize` repeats that of `filter`, and what judges it is still the same."""
        raw, asked = self._last_asked
        if asked is None or raw != arguments.pod:
            pod = pod_in(arguments.pod)
            asked = await self._run(arguments, lambda: self.cluster.asked(pod))
            self._last_asked = arguments.pod, asked
        return asked

    async def _run(self, arguments: ExtenderArgs, answer: Callable[[], Result]) -> Result:
        """Answer in place, or in the side thread if the pod is very large."""
        if len(memoryview(arguments.pod)) > LARGE:
            return await self._side_thread.run(answer)
        await self._side_thread.idle()
        return answer()

    def _expect_bind(self, asked: AskedPod) -> None:
        """The next pod waits for this one, unless this one takes no zones."""
        if asked.takes_zones:
            self._in_flight.passed(asked.pod.metadata.uid)
