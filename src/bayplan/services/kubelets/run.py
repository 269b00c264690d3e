"""Virtual kubelets on a real API server: the way in to this folder.

`run_kubelets` registers the nodes, then follows the pods that are bound to them and lets the state machine (`fleet.py`) decide; what
comes out is carried out by `writer.py`. It runs until it is cancelled, and then removes what it registered. One asyncio loop, no threads;
whatever the API server does in between (restart, silence, 410) is between it and `kube/client/watch.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence

from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.decoding import Broken
from bayplan.kube.client.watch import Absent, Changes, Listed, WatchSettings, follow
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, PODS, Resource
from bayplan.kube.wire.core_v1 import Metadata, WireStruct
from bayplan.services.kubelets.fleet import Fleet
from bayplan.services.kubelets.news import News, Ready, Refused, Registered, Removed, Removing, Summary, Trouble
from bayplan.services.kubelets.registration import NO_ANSWER_AFTER, Progress, Registration
from bayplan.services.kubelets.settings import KubeletsSettings
from bayplan.services.kubelets.writer import StatusWriter
from bayplan.services.kubelets.writes import SetPodStatus, Write

# How soon a kind that was not installed is noticed.
LOOK_FOR_REPORTS_EVERY = 2.0
# Between two summaries:
MOST_REFUSALS_TOLD = 10
MOST_TROUBLES_TOLD = 5


class _Named(WireStruct, frozen=True):
    """A report of which only its being there matters."""

    metadata: Metadata = Metadata()


_REPORTS: Resource[_Named] = Resource(
    NODE_RESOURCE_TOPOLOGIES.api_version,
    NODE_RESOURCE_TOPOLOGIES.plural,
    NODE_RESOURCE_TOPOLOGIES.kind,
    _Named,
    namespaced=False,
)


async def run_kubelets(
    client: KubeClient,
    settings: KubeletsSettings,
    ready: asyncio.Event | None = None,
    tell: Callable[[News], None] = lambda _: None,
    progress: Progress = lambda _done, _of: None,
) -> None:
    """Stand for the settings' nodes until cancelled.

    `ready` is set when all nodes are registered, pods that were there are admitted again and first reports are written (if the API
    server knows them). Raises `ApiError`, `Unreachable` or `NotOurs` if the nodes cannot be registered; later trouble is told and outlived.
    """
    service = _Service(client, settings, tell)
    try:
        await service.register(progress)
        await service.serve(ready)
    finally:
        if not settings.keep:
            await service.say_goodbye(progress)


class _Service:
    """The parts of one run and what flows between them."""

    def __init__(self, client: KubeClient, settings: KubeletsSettings, tell: Callable[[News], None]) -> None:
        self._client = client
        self._settings = settings
        self._tell = tell
        self._fleet = Fleet(settings)
        self._troubles: Counter[str] = Counter()
        self._refusals_told = 0
        self._registration = Registration(
            client, settings.nodes, self._fleet.agents, heartbeat=settings.heartbeat, on_trouble=self._note_trouble
        )
        self._writer = StatusWriter(client, self._registration.uids, self._note_trouble, workers=settings.writers)
        self._woken = asyncio.Event()
        self._pods_known = asyncio.Event()
        self._reports_known = asyncio.Event()

    async def register(self, progress: Progress) -> None:
        """All nodes into the API server."""
        began = time.monotonic()
        await self._registration.register(progress)
        self._tell(Registered(len(self._settings.nodes), time.monotonic() - began, self._settings.kinds))

    async def serve(self, ready: asyncio.Event | None) -> None:
        """Everything that goes on at the same time."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._writer.work())
            group.create_task(self._follow_pods())
            group.create_task(self._follow_reports())
            group.create_task(self._let_time_pass())
            group.create_task(self._registration.keep_alive())
            group.create_task(self._summarise())
            await self._pods_known.wait()
            await self._reports_known.wait()
            await self._writer.idle()
            reports = self._writer.done["PublishTopology"] if self._fleet.reports.known_kind else None
            self._tell(Ready(self._fleet.holding, reports))
            if ready is not None:
                ready.set()

    async def say_goodbye(self, progress: Progress) -> None:
        """Remove what was registered."""
        registered = len(self._registration.uids)
        if registered:
            self._tell(Removing(registered, NO_ANSWER_AFTER))
            removed = await self._registration.remove(progress)
            self._tell_troubles()
            self._tell(Removed(removed, registered))

    async def _follow_pods(self) -> None:
        fleet = self._fleet
        # A pod without a node concerns no kubelet; the server need not send it.
        async for news in follow(self._client, PODS, field_selector="spec.nodeName!=", on_trouble=self._note_trouble):
            now = time.time()
            match news:
                case Listed(items=pods, broken=broken):
                    unreadable = {f"{each.namespace}/{each.name}" for each in broken}
                    self._carry_out(fleet.pods_listed(pods, now, unreadable))
                    self._note_broken(broken)
                    self._pods_known.set()
                case Changes(changes=changes, broken=broken):
                    for change in changes:
                        if change.kind == "DELETED":
                            fleet.pod_gone(f"{change.object.metadata.namespace}/{change.object.metadata.name}", now)
                        else:
                            self._carry_out(fleet.pod_changed(change.object, now))
                    for each in broken:
                        if each.deleted:
                            fleet.pod_gone(f"{each.namespace}/{each.name}", now)
                    self._note_broken(broken)
                case Absent():
                    pass  # every API server has pods
            self._woken.set()

    def _note_broken(self, broken: Sequence[Broken]) -> None:
        for each in broken:
            self._note_trouble(f"Pod {each.namespace}/{each.name}: {each.problem}")

    async def _follow_reports(self) -> None:
        reports = self._fleet.reports
        settings = WatchSettings(absent_retry=LOOK_FOR_REPORTS_EVERY)
        async for news in follow(self._client, _REPORTS, settings=settings, on_trouble=self._note_trouble):
            now = time.time()
            match news:
                case Absent():
                    reports.absent()
                case Listed(items=items):
                    reports.listed((item.metadata.name for item in items), now)
                    self._carry_out(self._fleet.due(now))
                case Changes(changes=changes):
                    for change in changes:
                        name = change.object.metadata.name
                        if change.kind == "DELETED":
                            reports.gone(name, now)
                        else:
                            reports.appeared(name)
            self._reports_known.set()
            self._woken.set()

    async def _let_time_pass(self) -> None:
        """Do what is due, and sleep until the next thing is or something happens."""
        while True:
            self._woken.clear()
            self._carry_out(self._fleet.due(time.time()))
            moment = self._fleet.next_moment
            try:
                async with asyncio.timeout(None if moment is None else max(moment - time.time(), 0.0)):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _carry_out(self, writes: list[Write]) -> None:
        self._writer.put(writes)
        for write in writes:
            if isinstance(write, SetPodStatus) and write.refusal is not None:
                self._refusals_told += 1
                if self._refusals_told <= MOST_REFUSALS_TOLD:
                    self._tell(Refused(write.refusal))

    def _note_trouble(self, problem: str) -> None:
        self._troubles[problem] += 1

    async def _summarise(self) -> None:
        """From time to time what has happened, if anything has."""
        last = self._summary()
        while True:
            await asyncio.sleep(self._settings.summary_every)
            self._refusals_told = 0
            self._tell_troubles()
            summary = self._summary()
            if summary != last:
                self._tell(summary)
                last = summary

    def _summary(self) -> Summary:
        tally = self._fleet.tally
        reports = self._writer.done["PublishTopology"]
        return Summary(self._fleet.holding, tally.admitted, dict(tally.refused), tally.deleted, reports)

    def _tell_troubles(self) -> None:
        """Troubles that repeat themselves are told once, with how often; of very many, the most frequent."""
        for remark in self._fleet.remarks:
            self._note_trouble(remark)
        self._fleet.remarks.clear()
        for problem, times in self._troubles.most_common(MOST_TROUBLES_TOLD):
            self._tell(Trouble(problem, times))
        if len(self._troubles) > MOST_TROUBLES_TOLD:
            self._tell(Trouble(f"and {len(self._troubles) - MOST_TROUBLES_TOLD:,} other troubles"))
        self._troubles.clear()
