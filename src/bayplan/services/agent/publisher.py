"""Write reports to the API server: when their content changes, rate-limited, and periodically as a heartbeat.

In come reports (`offer`), one for each scan; out go server-side applies of the newest. An unchanged report is written
only as a heartbeat, with its newer timestamp (`bayplan.io/made-at`), so that readers can tell an idle node from a dead
agent. A failed scan offers nothing. `watch_over` detects a report that was deleted or changed, and writes it again.

Each failure (server unreachable, kind not installed, forbidden) is reported once (`troubles.py`) and retried with
backoff. A server that does not answer counts as unreachable within half a heartbeat.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from bayplan.cluster.reports import inventory
from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.resources import Resource
from bayplan.services.agent.heads import NODE_HEADS, REPORT_HEADS, Head, head_of, last_writer
from bayplan.services.agent.report import Document, substance
from bayplan.services.agent.settings import HEARTBEAT
from bayplan.services.agent.troubles import Troubles

_Answer = TypeVar("_Answer")

FIELD_MANAGER = "bayplan-agent"
MIN_GAP = 1.0  # seconds between two writes
MAX_PATIENCE = 15.0  # seconds until an answer; a busy API server queues requests for some of them
MIN_PATIENCE = 1.0
FIRST_PAUSE = 1.0
MAX_PAUSE = 60.0
JITTER = 0.1  # of the heartbeat and of the checks
START_SPREAD = 2.0  # seconds over which agents that start together write their first report
# An API server compares an apply with the last one, in that one's version. v1alpha1 has no attributes, so the
# comparison fails; a patch makes the server forget the last apply, and removes the fields that only v1alpha1 has.
NOT_IN_LAST_VERSION = "last applied version"
NOTHING_APPLIED = {
    "metadata": {"managedFields": [{}], "annotations": {inventory.MADE_AT: None}},
    "topologyPolicies": None,
}
API, NODE, REPORT = "api", "node", "report"
# What to do if a kind is missing or writing it is forbidden, by API group.
INSTALL = {
    "topology.node.k8s.io": "install deploy/crds/noderesourcetopologies.topology.node.k8s.io.yaml",
    "nodeinfo.volcano.sh": "it comes with Volcano",
}
ROLES = {
    "topology.node.k8s.io": "deploy/agent/agent-role.yaml",
    "nodeinfo.volcano.sh": "deploy/agent/numatopology-role.yaml",
}


class NodeMissing(Exception):
    """There is no Node of this name: it was deleted, or not registered yet."""


@dataclass(frozen=True, slots=True)
class PublishedReport:
    """A report that the API server accepted."""

    reason: str  # first, changed, heartbeat or again
    bytes: int
    at: float  # monotonic


class _ReportStore:
    """The report of one node on the API server; every request has a deadline."""

    def __init__(self, client: KubeClient, node: str, troubles: Troubles, patience: float) -> None:
        self._client = client
        self._node = node
        self._troubles = troubles
        self._patience = patience
        self._owner: dict[str, str] | None = None

    async def head(self, api_version: str) -> Head | None:
        """The metadata of the report; None if there is no report."""
        try:
            return await self._answer(self._client.get(REPORT_HEADS[api_version], self._node))
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def write(self, document: Document, *, find_owner: bool) -> tuple[Head | None, int]:
        """Apply a report; returns the metadata in the answer, and the size of the report."""
        if self._owner is None or find_owner:
            await self._find_owner()
        metadata = {"ownerReferences": [self._owner], **document["metadata"]} if self._owner else document["metadata"]
        body = msgspec.json.encode({**document, "metadata": metadata})
        return head_of(await self._answer(self._apply(REPORT_HEADS[document["apiVersion"]], body))), len(body)

    async def _answer(self, coming: Awaitable[_Answer]) -> _Answer:
        try:
            async with asyncio.timeout(self._patience):
                return await coming
        except TimeoutError:
            raise Unreachable(f"no answer within {self._patience:g} s") from None

    async def _apply(self, resource: Resource[Head], body: bytes) -> bytes:
        try:
            return await self._apply_once(resource, body)
        except ApiError as error:
            if NOT_IN_LAST_VERSION not in error.message:
                raise
        await self._client.patch(resource, self._node, NOTHING_APPLIED, kind="merge", field_manager=FIELD_MANAGER)
        return await self._apply_once(resource, body)

    async def _apply_once(self, resource: Resource[Head], body: bytes) -> bytes:
        return await self._client.patch(
            resource, self._node, body, kind="apply", field_manager=FIELD_MANAGER, force=True
        )

    async def _find_owner(self) -> None:
        try:
            node = await self._answer(self._client.get(NODE_HEADS, self._node))
        except ApiError as error:
            if error.status == 404:
                raise NodeMissing(f"node {self._node} is not registered: no report is written for it") from None
            if error.status != 403:
                raise
            # Optional: without an owner, only `bayplan agent-gc` removes the report of a deleted node.
            self._troubles.note(NODE, "forbidden", f"the report has no owner: {error}")
            self._owner = None
            return
        self._troubles.over(NODE)
        self._owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node.metadata.uid}


class Publisher:
    """Writes the reports of one node; `run` it beside the component that offers them. `chance` draws from 0 to 1."""

    def __init__(
        self,
        client: KubeClient,
        node: str,
        troubles: Troubles,
        *,
        heartbeat: float = HEARTBEAT,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        on_written: Callable[[PublishedReport], None] = lambda _: None,
    ) -> None:
        patience = max(MIN_PATIENCE, min(MAX_PATIENCE, (heartbeat or HEARTBEAT) / 2))
        self._store = _ReportStore(client, node, troubles, patience)
        self._troubles = troubles
        self._heartbeat = heartbeat
        self._clock = clock
        self._chance = chance
        self._on_written = on_written
        self._newest: Document | None = None
        self._waiting: Document | None = None
        # Write the next report even if it is unchanged.
        self._again = False
        self._news = asyncio.Event()
        self._written_substance: bytes | None = None
        self._next_heartbeat = 0.0
        self._retry_after = 0.0
        self._head: Head | None = None  # of the last write
        self.written: PublishedReport | None = None

    @property
    def waits(self) -> bool:
        """Whether a report is not on the server yet."""
        return self._waiting is not None

    def offer(self, document: Document) -> None:
        """Publish the newest report, in place of one that still waits."""
        self._newest = document
        if self._is_due(document):
            self._waiting = document
            self._news.set()
        else:
            self._waiting = None  # the server already has the same content
            self._news.clear()

    def doubt(self) -> None:
        """Write the next report even if it is unchanged, and look its owner up."""
        self._again = True

    async def watch_over(self, interval: float) -> None:
        """Check the report on the server from time to time, until cancelled."""
        while True:
            await asyncio.sleep(interval * (1 - JITTER + 2 * JITTER * self._chance()))
            await self.check_report()

    async def check_report(self) -> None:
        """Write the report again if it was deleted or changed, or went with a node that was registered anew."""
        written = self.written
        if written is None or self._newest is None or self._is_superseded(written):
            return
        try:
            found = await self._store.head(self._newest["apiVersion"])
        except ApiError:
            return
        except Unreachable as error:
            self._troubles.note(API, *_explain(error, self._newest))
            return
        if self._is_superseded(written):
            return
        self._troubles.over(API)
        if found is None:
            self._troubles.note(REPORT, "deleted", "the report was deleted from the API server: writing it again")
        elif self._head is not None and not found.is_same_as(self._head):
            manager = last_writer(found)
            self._troubles.note(REPORT, "changed", f"another client changed the report ({manager}): writing it again")
        else:
            self._troubles.over(REPORT)
            return
        self.doubt()
        self.offer(self._newest)

    def _is_superseded(self, since: PublishedReport) -> bool:
        """Whether a newer report waits or was written."""
        return self.waits or self.written is not since

    def _is_due(self, document: Document) -> bool:
        if self._again or substance(document) != self._written_substance:
            return True
        return bool(self._heartbeat) and self._clock() >= self._next_heartbeat

    async def run(self) -> None:
        """Write reports until cancelled."""
        await self._news.wait()
        await asyncio.sleep(START_SPREAD * self._chance())
        backoff = Backoff(first=FIRST_PAUSE, longest=MAX_PAUSE, chance=self._chance)
        while True:
            await self._news.wait()
            if await self.write():
                backoff.reset()
                await asyncio.sleep(MIN_GAP)
            else:
                await asyncio.sleep(max(backoff.after_failure(), min(self._retry_after, MAX_PAUSE)))

    async def write(self) -> bool:
        """Write the waiting report, if any, once; False if that failed."""
        document = self._waiting
        if document is None:
            return True
        # The server's state is unknown until it answers: a report that is offered meanwhile must be written too.
        before, self._written_substance = self._written_substance, None
        try:
            # The node may have been registered anew since the last heartbeat.
            find_owner = self._again or self._clock() >= self._next_heartbeat
            self._head, size = await self._store.write(document, find_owner=find_owner)
        except (ApiError, Unreachable) as error:
            self._troubles.note(API, *_explain(error, document))
            self._retry_after = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
            return False
        except NodeMissing as error:
            self._troubles.note(NODE, "missing", str(error))
            return False
        self._troubles.over(API)
        self._remember(document, before, size)
        return True

    def _remember(self, document: Document, before: bytes | None, size: int) -> None:
        content = substance(document)
        if self.written is None:
            reason = "first"
        elif self._again:
            reason = "again"
        else:
            reason = "heartbeat" if content == before else "changed"
        self._again = False
        self._written_substance = content
        self._next_heartbeat = self._clock() + self._heartbeat * (1 - JITTER + 2 * JITTER * self._chance())
        if self._waiting is document:  # no newer one was offered meanwhile
            self._waiting = None
            self._news.clear()
        self.written = PublishedReport(reason, size, self._clock())
        self._on_written(self.written)


def _explain(error: ApiError | Unreachable, document: Document) -> tuple[str, str]:
    """Cause and message."""
    group = document["apiVersion"].partition("/")[0]
    if isinstance(error, Unreachable):
        return "unreachable", f"the API server does not answer: {error}"
    match error.status:
        case 401:
            return "unauthorized", f"the API server rejects this agent's credentials: {error}"
        case 403:
            return "forbidden", f"the agent is not allowed to write reports ({ROLES[group]}): {error}"
        case 404:
            kind, version = document["kind"], document["apiVersion"]
            return "kind-missing", f"the API server does not know {kind} ({version}): {INSTALL[group]}"
        case 400 | 413 | 422:
            return "refused", f"the API server rejects the report: {error}"
        case _:
            return "error", f"the API server cannot write the report: {error}"
