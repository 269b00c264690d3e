"""Run virtual kubelets on a real API server.

`run_kubelets` registers the nodes and follows the pods bound to them. The state machine (`fleet.py`) decides,
`writer.py` sends its writes. When cancelled, it removes what it registered.
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
from bayplan.services.kubelets.heartbeat import OBSERVED_NODES, Heartbeats
from bayplan.services.kubelets.model import (
    OURS_LABEL,
    KubeletsSettings,
    News,
    Ready,
    Refused,
    Registered,
    Removed,
    Removing,
    SetPodStatus,
    Summary,
    Trouble,
    Write,
)
from bayplan.services.kubelets.registration import NO_ANSWER_AFTER, Progress, Registration
from bayplan.services.kubelets.writer import StatusWriter

# Seconds between lookups of a missing kind.
LOOK_FOR_REPORTS_EVERY = 2.0
# Between two summaries:
MAX_REFUSALS_SHOWN = 10
MAX_TROUBLES_SHOWN = 5


class _Named(WireStruct, frozen=True):
    """A report without its content."""

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
    """Run the nodes until cancelled.

    `ready` is set once all nodes are registered, existing pods are admitted again and first reports are written (if the
    API server knows them). Raises `ApiError`, `Unreachable` or `NotOurs` if registering fails; later errors are
    retried.
    """
    service = _Service(client, settings, tell)
    try:
        await service.register(progress)
        await service.serve(ready)
    finally:
        if not settings.keep:
            await service.remove(progress)


class _Service:
    """The parts of one run."""

    def __init__(self, client: KubeClient, settings: KubeletsSettings, tell: Callable[[News], None]) -> None:
        self._client = client
        self._settings = settings
        self._tell = tell
        self._fleet = Fleet(settings)
        self._troubles: Counter[str] = Counter()
        self._refusals_shown = 0
        self._registration = Registration(
            client, settings.nodes, self._fleet.agents, heartbeat=settings.heartbeat, on_error=self._note_trouble
        )
        self._heartbeats = Heartbeats(
            client,
            self._fleet.agents,
            self._registration.uids,
            self._fleet.reports,
            period=settings.heartbeat,
            on_error=self._note_trouble,
        )
        self._writer = StatusWriter(client, self._registration.uids, self._note_trouble, workers=settings.writers)
        self._woken = asyncio.Event()
        self._pods_known = asyncio.Event()
        self._reports_known = asyncio.Event()

    async def register(self, progress: Progress) -> None:
        """Register all nodes."""
        began = time.monotonic()
        await self._registration.register(progress)
        self._tell(Registered(len(self._settings.nodes), time.monotonic() - began, self._settings.kinds))

    async def serve(self, ready: asyncio.Event | None) -> None:
        """Run all tasks until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._writer.work())
            group.create_task(self._follow_pods())
            group.create_task(self._follow_reports())
            group.create_task(self._run_timers())
            group.create_task(self._follow_nodes())
            group.create_task(self._heartbeats.keep_alive())
            group.create_task(self._summarise())
            await self._pods_known.wait()
            await self._reports_known.wait()
            await self._writer.idle()
            reports = self._writer.done["PublishTopology"] if self._fleet.reports.known_kind else None
            self._tell(Ready(self._fleet.holding, reports))
            if ready is not None:
                ready.set()

    async def remove(self, progress: Progress) -> None:
        """Remove everything registered."""
        registered = len(self._registration.uids)
        if registered:
            self._tell(Removing(registered, NO_ANSWER_AFTER))
            removed = await self._registration.remove(progress)
            self._show_troubles()
            self._tell(Removed(removed, registered))

    async def _follow_nodes(self) -> None:
        watch = follow(self._client, OBSERVED_NODES, label_selector=OURS_LABEL, on_error=self._note_trouble)
        async for news in watch:
            now = time.time()
            match news:
                case Listed(items=nodes):
                    self._heartbeats.listed(nodes, now)
                case Changes(changes=changes):
                    for change in changes:
                        if change.kind == "DELETED":
                            self._heartbeats.gone(change.object.metadata.name)
                        else:
                            self._heartbeats.changed(change.object, now)
                case Absent():
                    pass  # every API server has nodes
            self._woken.set()

    async def _follow_pods(self) -> None:
        fleet = self._fleet
        # Unbound pods concern no kubelet.
        async for news in follow(self._client, PODS, field_selector="spec.nodeName!=", on_error=self._note_trouble):
            now = time.time()
            match news:
                case Listed(items=pods, broken=broken):
                    unreadable = {f"{each.namespace}/{each.name}" for each in broken}
                    self._send(fleet.pods_listed(pods, now, unreadable))
                    self._note_broken(broken)
                    self._pods_known.set()
                case Changes(changes=changes, broken=broken):
                    for change in changes:
                        if change.kind == "DELETED":
                            fleet.pod_gone(f"{change.object.metadata.namespace}/{change.object.metadata.name}", now)
                        else:
                            self._send(fleet.pod_changed(change.object, now))
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
        async for news in follow(self._client, _REPORTS, settings=settings, on_error=self._note_trouble):
            now = time.time()
            match news:
                case Absent():
                    reports.absent()
                case Listed(items=items):
                    reports.listed((item.metadata.name for item in items), now)
                    self._send(self._fleet.due(now))
                case Changes(changes=changes):
                    for change in changes:
                        name = change.object.metadata.name
                        if change.kind == "DELETED":
                            reports.gone(name, now)
                        else:
                            reports.appeared(name)
            self._reports_known.set()
            self._woken.set()

    async def _run_timers(self) -> None:
        """Do everything due, and sleep until the next time or event."""
        while True:
            self._woken.clear()
            self._send(self._fleet.due(time.time()))
            moment = self._fleet.next_moment
            try:
                async with asyncio.timeout(None if moment is None else max(moment - time.time(), 0.0)):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _send(self, writes: list[Write]) -> None:
        self._writer.put(writes)
        for write in writes:
            if isinstance(write, SetPodStatus) and write.refusal is not None:
                self._refusals_shown += 1
                if self._refusals_shown <= MAX_REFUSALS_SHOWN:
                    self._tell(Refused(write.refusal))

    def _note_trouble(self, problem: str) -> None:
        self._troubles[problem] += 1

    async def _summarise(self) -> None:
        """Show a summary periodically, if something happened."""
        last = self._summary()
        while True:
            await asyncio.sleep(self._settings.summary_every)
            self._refusals_shown = 0
            self._show_troubles()
            summary = self._summary()
            if summary != last:
                self._tell(summary)
                last = summary

    def _summary(self) -> Summary:
        tally = self._fleet.tally
        reports = self._writer.done["PublishTopology"]
        return Summary(self._fleet.holding, tally.admitted, dict(tally.refused), tally.deleted, reports)

    def _show_troubles(self) -> None:
        """Show each problem once with its count; of many, the most frequent."""
        for remark in self._fleet.remarks:
            self._note_trouble(remark)
        self._fleet.remarks.clear()
        for problem, times in self._troubles.most_common(MAX_TROUBLES_SHOWN):
            self._tell(Trouble(problem, times))
        if len(self._troubles) > MAX_TROUBLES_SHOWN:
            self._tell(Trouble(f"and {len(self._troubles) - MAX_TROUBLES_SHOWN:,} other problems"))
        self._troubles.clear()
