"""`bayplan agent-gc`: delete reports of deleted nodes, and mark stale ones.

The API server usually deletes a report with its owner, the node. This handles reports without an owner and those of
other agents. Before a delete, the node is looked up again, and the delete names the report's uid.

A report is stale if its timestamp (`bayplan.io/made-at`) is older than several heartbeats. It keeps its amounts and
gets the annotation `bayplan.io/stale-since` until it is fresh again. Reports without a timestamp are never marked.
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
from bayplan.kube.wire.node_resource_topology_v1alpha2 import Attribute
from bayplan.services.agent.heads import NODE_HEADS
from bayplan.services.agent.publisher import INSTALL
from bayplan.services.agent.troubles import Troubles

logger = logging.getLogger(__name__)

FIELD_MANAGER = "bayplan-agent-gc"
INTERVAL = 600.0
ROUND, WRITES = "round", "writes"  # kinds of trouble
GRACE = 30.0  # seconds in which a deleted node may be registered anew


class _ReportHead(WireStruct, frozen=True):
    """A report without its zones."""

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
    """A report; `made_at` is None if it has no timestamp."""

    name: str
    uid: str
    made_at: float | None
    marked: bool


@dataclass(frozen=True, slots=True)
class GcPlan:
    """The reports that a round deletes, marks and unmarks."""

    delete: tuple[Report, ...]
    mark: tuple[Report, ...]
    unmark: tuple[Report, ...]
    stale: int


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a round; `stale` is None if it did not cover all reports."""

    deleted: tuple[str, ...]
    marked: tuple[str, ...]
    unmarked: tuple[str, ...]
    stale: int | None
    failures: tuple[str, ...]


def plan(reports: Iterable[Report], nodes: frozenset[str], *, now: float, stale_after: float) -> GcPlan:
    """Find reports to delete, to mark and to unmark."""
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
    """The API server serves no version of the report that bayplan reads."""

    def __init__(self, unreadable: tuple[str, ...]) -> None:
        group, _, _ = REPORTS.api_version.partition("/")
        missing = f"the API server does not know {REPORTS.kind}: {INSTALL[group]}"
        super().__init__(cannot_read(REPORTS, unreadable) if unreadable else missing)


class Collector:
    """Collects garbage periodically. `now` is seconds since the epoch."""

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
        self._completed_round = False
        self._reports = REPORTS  # in the version that is served

    @property
    def problem(self) -> str | None:
        """Why it is not ready, or None."""
        if self._troubles.current:
            return "; ".join(trouble.message for trouble in self._troubles.current.values())
        return None if self._completed_round else "the first round is not complete"

    async def run(self) -> None:
        """Run a round every interval until cancelled; handle deleted nodes soon."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_nodes(group))
            while True:
                await self._round_or_trouble()
                await asyncio.sleep(self._interval)

    async def round(self) -> Round:
        """Run one round; raises ApiError, Unreachable or NotServed if nodes or reports cannot be listed."""
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
            self._troubles.note(ROUND, *explain(error))
            return
        self._completed_round = True
        self._troubles.over(ROUND)
        facts = {"deleted": list(done.deleted), "stale": list(done.marked), "fresh_again": list(done.unmarked)}
        if any(facts.values()):
            logger.info("completed round", extra={name: ",".join(names) for name, names in facts.items() if names})
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
        """Delete the report of a deleted node after a grace period."""
        await asyncio.sleep(self._grace)
        try:
            if await self._delete(_report(await self._client.get(self._reports, name))):
                self._on_round(Round((name,), (), (), None, ()))
                logger.info("deleted report", extra={"node": name})
        except ApiError as error:
            if error.status != 404:
                logger.warning("failed to delete report", extra={"node": name, "problem": str(error)})
        except (Unreachable, msgspec.ValidationError) as error:
            logger.warning("failed to delete report", extra={"node": name, "problem": str(error)})

    async def _tried(self, attempt: Awaitable[bool], failures: list[str]) -> bool:
        try:
            return await attempt
        except (ApiError, Unreachable) as error:
            failures.append(str(error))
            return False

    async def _delete(self, report: Report) -> bool:
        """Delete a report; False if its node exists, or the report was deleted or replaced meanwhile."""
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
    annotations = metadata.annotations or {}  # v1alpha1 has the timestamp here
    attributes = {each.name: each.value for each in head.attributes or ()}
    try:
        made_at = inventory.read_moment({**annotations, **attributes})
    except inventory.NotUnderstood:
        made_at = None
    return Report(metadata.name, metadata.uid, made_at, inventory.STALE_SINCE in annotations)


def explain(error: ApiError | Unreachable | NotServed) -> tuple[str, str]:
    """Cause and message of a failed round."""
    if isinstance(error, Unreachable):
        return "unreachable", f"the API server does not answer: {error}"
    if isinstance(error, NotServed):
        return "kind-missing", str(error)
    match error.status:
        case 403:
            return (
                "forbidden",
                f"the collector is not allowed to read nodes or reports (deploy/agent/gc-role.yaml): {error}",
            )
        case _:
            return "error", f"the API server does not list nodes or reports: {error}"
