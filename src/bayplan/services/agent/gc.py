"""Garbage collection of abandoned reports: reports of deleted nodes are deleted, and reports that no agent renews are marked.

Input: the names of all nodes (watched) and, every few minutes, all reports. Output: deletes and marks. A report names its node as owner, so the API
server usually removes it by itself; this handles reports of other agents and those written without an owner. Before a delete, the node is
looked up once more by name, and the delete applies only to the exact object that was seen.

A report is stale if its timestamp (`bayplan.io/made-at`) is older than several heartbeats: the agent or its kubelet is in trouble. It keeps its
amounts, which are the best known, and gets the annotation `bayplan.io/stale-since`; once it is fresh again, the annotation is removed. Reports without
a timestamp (other agents write none) are never marked stale, because their age is unknown.

A problem that prevents a round is reported once (`troubles.py`) and retried with the next round.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import msgspec

from bayplan.cluster.reports import inventory
from bayplan.cluster.reports.two_reports import STALE_AFTER
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.client.versions import cannot_read, list_served
from bayplan.kube.client.watch import Changes, follow
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, Resource
from bayplan.kube.wire.core_v1 import Metadata, WireStruct
from bayplan.kube.wire.topology_v1alpha2 import Attribute
from bayplan.services.agent.heads import NODE_HEADS
from bayplan.services.agent.publisher import INSTALL
from bayplan.services.agent.troubles import Troubles

logger = logging.getLogger(__name__)

FIELD_MANAGER = "bayplan-agent-gc"
INTERVAL = 600.0
ROUND, WRITES = "round", "writes"  # kinds of trouble
GRACE = 30.0  # seconds after a node went in which it may be registered anew


class _ReportHead(WireStruct, frozen=True):
    """What matters of a report here; zones are not looked at."""

    metadata: Metadata = Metadata()
    attributes: list[Attribute] | None = None


REPORTS: Resource[_ReportHead] = Resource(
    NODE_RESOURCE_TOPOLOGIES.api_version,
    NODE_RESOURCE_TOPOLOGIES.plural,
    NODE_RESOURCE_TOPOLOGIES.kind,
    _ReportHead,
    namespaced=False,
    other_versions=NODE_RESOURCE_TOPOLOGIES.other_versions,
)


@dataclass(frozen=True, slots=True)
class Report:
    """A report as far as it matters here; `made_at` None: it does not say when it was true."""

    name: str
    uid: str
    made_at: float | None
    marked: bool


@dataclass(frozen=True, slots=True)
class GcPlan:
    """What a round would do, as names."""

    delete: tuple[Report, ...]
    mark: tuple[Report, ...]
    unmark: tuple[Report, ...]
    stale: int


@dataclass(frozen=True, slots=True)
class Round:
    """What a round did, and how many reports are stale after it; None: not all of them were looked at."""

    deleted: tuple[str, ...]
    marked: tuple[str, ...]
    unmarked: tuple[str, ...]
    stale: int | None
    failures: tuple[str, ...]


def plan(reports: Iterable[Report], nodes: frozenset[str], *, now: float, stale_after: float) -> GcPlan:
    """Which reports to delete and which are stale."""
    delete, mark, unmark, stale = [], [], [], 0
    for report in reports:
        is_stale = report.made_at is not None and now - report.made_at > stale_after
        if report.name not in nodes:
            delete.append(report)
            continue
        stale += is_stale
        if is_stale and not report.marked:
            mark.append(report)
        elif report.marked and not is_stale:
            unmark.append(report)
    return GcPlan(tuple(delete), tuple(mark), tuple(unmark), stale)


class NotServed(Exception):
    """The API server has no reports in a version that bayplan reads."""

    def __init__(self, unreadable: tuple[str, ...]) -> None:
        group, _, _ = REPORTS.api_version.partition("/")
        missing = f"the API server does not know {REPORTS.kind}: {INSTALL[group]}"
        super().__init__(cannot_read(REPORTS, unreadable) if unreadable else missing)


class Collector:
    """Goes its rounds. `now` counts from 1970, in seconds."""

    def __init__(
        self,
        client: KubeClient,
        *,
        interval: float = INTERVAL,
        stale_after: float = STALE_AFTER,
        grace: float = GRACE,
        page: int = 200,
        now: Callable[[], float] = time.time,
        on_round: Callable[[Round], None] = lambda _: None,
        troubles: Troubles | None = None,
    ) -> None:
        self._client = client
        self._interval = interval
        self._stale_after = stale_after
        self._grace = grace
        self._page = page
        self._now = now
        self._on_round = on_round
        self._troubles = troubles or Troubles()
        self._has_made_a_round = False
        self._reports = REPORTS  # in the version that is served

    @property
    def problem(self) -> str | None:
        """Why it does not do its work; None if it does."""
        if self._troubles.current:
            return "; ".join(trouble.message for trouble in self._troubles.current.values())
        return None if self._has_made_a_round else "no round has been made yet"

    async def run(self) -> None:
        """Run a round now and then every interval, until cancelled; the report of a deleted node is handled soon."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_nodes(group))
            while True:
                await self._round_or_trouble()
                await asyncio.sleep(self._interval)

    async def round(self) -> Round:
        """One round; raises ApiError, Unreachable or NotServed if nodes or reports cannot be listed."""
        nodes = await self._client.list(NODE_HEADS, page=self._page)
        names = frozenset([each.metadata.name for each in nodes.items] + [each.name for each in nodes.broken])
        listed, found = await list_served(self._client, REPORTS, page=self._page)
        if found.readable is None:
            raise NotServed(found.unreadable)
        self._reports = found.readable
        planned = plan([_report(each) for each in listed.items], names, now=self._now(), stale_after=self._stale_after)
        failures: list[str] = []
        deleted = [each.name for each in planned.delete if await self._tried(self._delete(each), failures)]
        marked = [each.name for each in planned.mark if await self._tried(self._mark(each), failures)]
        unmarked = [each.name for each in planned.unmark if await self._tried(self._unmark(each), failures)]
        done = Round(tuple(deleted), tuple(marked), tuple(unmarked), planned.stale, tuple(failures))
        self._on_round(done)
        return done

    async def _round_or_trouble(self) -> None:
        try:
            done = await self.round()
        except (ApiError, Unreachable, NotServed) as error:
            self._troubles.note(ROUND, *what_is_wrong(error))
            return
        self._has_made_a_round = True
        self._troubles.over(ROUND)
        facts = {"deleted": list(done.deleted), "stale": list(done.marked), "fresh_again": list(done.unmarked)}
        if any(facts.values()):
            logger.info("a round", extra={name: ",".join(names) for name, names in facts.items() if names})
        if done.failures:
            self._troubles.note(WRITES, "refused", "; ".join(done.failures))
        else:
            self._troubles.over(WRITES)

    async def _follow_nodes(self, group: asyncio.TaskGroup) -> None:
        async for news in follow(self._client, NODE_HEADS):
            if isinstance(news, Changes):
                for change in news.changes:
                    if change.kind == "DELETED":
                        group.create_task(self._node_gone(change.object.metadata.name))

    async def _node_gone(self, name: str) -> None:
        """Remove the report of one node, once it had time to be registered anew or to take its report with it."""
        await asyncio.sleep(self._grace)
        try:
            if await self._delete(_report(await self._client.get(self._reports, name))):
                self._on_round(Round((name,), (), (), None, ()))
                logger.info("deleted the report of a node that is gone", extra={"node": name})
        except ApiError as error:
            if error.status != 404:
                logger.warning("not deleted: %s", error)
        except (Unreachable, msgspec.ValidationError) as error:
            logger.warning("not deleted: %s", error)  # the next round tries again

    async def _tried(self, attempt: Awaitable[bool], failures: list[str]) -> bool:
        try:
            return await attempt
        except (ApiError, Unreachable) as error:
            failures.append(str(error))
            return False

    async def _delete(self, report: Report) -> bool:
        """Delete a report unless its node exists after all, or the report has been deleted or replaced meanwhile."""
        try:
            await self._client.get(NODE_HEADS, report.name)
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            return False
        try:
            await self._client.delete(self._reports, report.name, uid=report.uid)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True

    async def _mark(self, report: Report) -> bool:
        return await self._annotate(report, inventory.stale_mark(report.made_at or 0.0))

    async def _unmark(self, report: Report) -> bool:
        return await self._annotate(report, None)

    async def _annotate(self, report: Report, value: str | None) -> bool:
        body = {"metadata": {"uid": report.uid, "annotations": {inventory.STALE_SINCE: value}}}
        try:
            await self._client.patch(self._reports, report.name, body, kind="merge", field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True


def _report(head: _ReportHead) -> Report:
    metadata = head.metadata
    annotations = metadata.annotations or {}  # in v1alpha1, which has no attributes, the moment is among these
    attributes = {each.name: each.value for each in head.attributes or ()}
    try:
        made_at = inventory.read_moment({**annotations, **attributes})
    except inventory.NotUnderstood:
        made_at = None
    return Report(metadata.name, metadata.uid, made_at, inventory.STALE_SINCE in annotations)


def what_is_wrong(error: ApiError | Unreachable | NotServed) -> tuple[str, str]:
    """Cause and sentence for a round that could not be made."""
    if isinstance(error, Unreachable):
        return "unreachable", f"the API server does not answer: {error}"
    if isinstance(error, NotServed):
        return "kind-missing", str(error)
    match error.status:
        case 403:
            return "forbidden", f"the collector may not read nodes or reports (deploy/agent/gc-role.yaml): {error}"
        case _:
            return "error", f"the API server does not tell nodes or reports: {error}"
