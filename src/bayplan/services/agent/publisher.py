"""Writes reports to the API server: when their content changes, rate-limited, and periodically as a heartbeat.

Input: reports (`offer`), one for each look at the node. Output: server-side applies of the newest one. A report with the same content as the one on
the server is dropped until the heartbeat is due; then it is written with its newer timestamp (`bayplan.io/made-at`), so that readers can tell an idle
node from an agent that is gone. A failed look offers nothing, so a heartbeat always means that the agent looked and nothing changed.
The next round of `watch_over`, which fetches only the head, detects a report that was deleted or changed, and it is written again.

The API server may be away for minutes, the kind may not be installed, permissions may be missing: each is reported once (`troubles.py`) and retried with
a growing backoff. Only the newest report is written in the end, not all that there were. A server that accepts connections but does not answer is
detected within half a heartbeat, because readers would take the silence for an agent that is gone.
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
LEAST_GAP = 1.0  # seconds between two writes
LONGEST_PATIENCE = 15.0  # seconds in which the API server has to answer; a busy one lets requests wait for some of them
LEAST_PATIENCE = 1.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
JITTER = 0.1  # of the heartbeat, and of the rounds in which the report is looked for
START_SPREAD = 2.0  # seconds over which agents that start together write their first report
# An API server compares with what was applied last, in the version of that. If this was v1alpha1 it fails over attributes, which that does not have; it has to
# forget, and what only v1alpha1 has must go by name.
NOT_IN_LAST_VERSION = "last applied version"
NOTHING_APPLIED = {
    "metadata": {"managedFields": [{}], "annotations": {inventory.MADE_AT: None}},
    "topologyPolicies": None,
}
API, NODE, REPORT = "api", "node", "report"
# What to do if a kind is missing or writing it is forbidden, by the apiVersion's group.
INSTALL = {
    "topology.node.k8s.io": "install deploy/crds/noderesourcetopologies.topology.node.k8s.io.yaml",
    "nodeinfo.volcano.sh": "it comes with Volcano",
}
ROLES = {
    "topology.node.k8s.io": "deploy/agent/agent-role.yaml",
    "nodeinfo.volcano.sh": "deploy/agent/numatopology-role.yaml",
}


@dataclass(frozen=True, slots=True)
class PublishedReport:
    """A report that the API server has taken."""

    reason: str  # first, changed, heartbeat or again
    bytes: int
    at: float  # monotonic


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
        self._client = client
        self._node = node
        self._troubles = troubles
        self._heartbeat = heartbeat
        self._patience = max(LEAST_PATIENCE, min(LONGEST_PATIENCE, (heartbeat or HEARTBEAT) / 2))
        self._clock = clock
        self._chance = chance
        self._on_written = on_written
        self._owner: dict[str, str] | None = None
        self._newest: Document | None = None
        self._waiting: Document | None = None
        self._again = False
        self._news = asyncio.Event()
        self._written_substance: bytes | None = None
        self._next_heartbeat = 0.0
        self._asked_to_wait = 0.0
        self._head: Head | None = None  # of what was written, as the server answered
        self.written: PublishedReport | None = None

    @property
    def waits(self) -> bool:
        """Whether there is a report that the server does not have yet."""
        return self._waiting is not None

    def offer(self, document: Document) -> None:
        """The newest report. It takes the place of one that still waits."""
        self._newest = document
        if self._is_due(document):
            self._waiting = document
            self._news.set()
        else:
            self._waiting = None  # what waited is not so any more, and the server has what is
            self._news.clear()

    def doubt(self) -> None:
        """Assume that the server's state is unknown: the next report is written whatever its content, and its owner looked up."""
        self._again = True
        self._owner = None

    async def watch_over(self, interval: float) -> None:
        """Check the report on the server from time to time, until cancelled."""
        while True:
            await asyncio.sleep(interval * (1 - JITTER + 2 * JITTER * self._chance()))
            await self.look_for_report()

    async def look_for_report(self) -> None:
        """Write the report again if the server's is not ours: it was deleted or changed, or it went with a node that was registered anew."""
        written = self.written
        if written is None or self._newest is None or self._has_gone_on(written):
            return
        try:
            found = await self._answer(self._client.get(REPORT_HEADS[self._newest["apiVersion"]], self._node))
        except ApiError as error:
            if error.status != 404:
                return
            found = None
        except Unreachable as error:
            self._troubles.note(API, *_what_is_wrong(error, self._newest))
            return
        if self._has_gone_on(written):
            return
        self._troubles.over(API)
        if found is None:
            self._troubles.note(REPORT, "deleted", "the report is gone from the API server: it is written again")
        elif self._head is not None and not found.is_same_as(self._head):
            who = last_writer(found)
            self._troubles.note(REPORT, "changed", f"somebody else changed the report ({who}): it is written again")
        else:
            self._troubles.over(REPORT)
            return
        self.doubt()
        self.offer(self._newest)

    def _has_gone_on(self, since: PublishedReport) -> bool:
        """Whether another report waits, is on its way, or came there since."""
        return self.waits or self.written is not since

    def _is_due(self, document: Document) -> bool:
        if self._again or substance(document) != self._written_substance:
            return True
        return bool(self._heartbeat) and self._clock() >= self._next_heartbeat

    async def run(self) -> None:
        """Write reports until cancelled."""
        await self._news.wait()
        await asyncio.sleep(START_SPREAD * self._chance())
        backoff = Backoff(first=FIRST_PAUSE, longest=LONGEST_PAUSE, chance=self._chance)
        while True:
            await self._news.wait()
            if await self.write():
                backoff.reset()
                await asyncio.sleep(LEAST_GAP)
            else:
                await asyncio.sleep(max(backoff.after_failure(), min(self._asked_to_wait, LONGEST_PAUSE)))

    async def write(self) -> bool:
        """Write what waits, once; False if it did not work. Nothing waits: nothing is done."""
        document = self._waiting
        if document is None:
            return True
        # The server's state is unknown until it answers, so any report offered meanwhile must be written after this one.
        before, self._written_substance = self._written_substance, None
        try:
            await self._find_owner()
            body = self._owned(document)
            answer = await self._answer(self._apply(REPORT_HEADS[document["apiVersion"]], body))
        except (ApiError, Unreachable) as error:
            self._troubles.note(API, *_what_is_wrong(error, document))
            self._asked_to_wait = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
            return False
        except NodeMissing as error:
            self._troubles.note(NODE, "missing", str(error))
            return False
        self._troubles.over(API)
        self._head = head_of(answer)
        self._remember(document, before, len(body))
        return True

    async def _answer(self, coming: Awaitable[_Answer]) -> _Answer:
        """What the server answers, if it does so soon."""
        try:
            async with asyncio.timeout(self._patience):
                return await coming
        except TimeoutError:
            raise Unreachable(f"nothing came within {self._patience:g} s") from None

    async def _apply(self, resource: Resource[Head], body: bytes) -> bytes:
        """Apply a report; the server's answer."""
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

    def _remember(self, document: Document, before: bytes | None, size: int) -> None:
        says = substance(document)
        if self.written is None:
            reason = "first"
        elif self._again:
            reason = "again"
        else:
            reason = "heartbeat" if says == before else "changed"
        self._again = False
        self._written_substance = says
        self._next_heartbeat = self._clock() + self._heartbeat * (1 - JITTER + 2 * JITTER * self._chance())
        if self._waiting is document:  # no newer one was offered meanwhile
            self._waiting = None
            self._news.clear()
        self.written = PublishedReport(reason, size, self._clock())
        self._on_written(self.written)

    async def _find_owner(self) -> None:
        """The node as the report's owner, looked up with the first write and with every heartbeat: it may have been registered anew."""
        if self._owner is not None and self._clock() < self._next_heartbeat:
            return
        try:
            node = await self._answer(self._client.get(NODE_HEADS, self._node))
        except ApiError as error:
            if error.status == 404:
                raise NodeMissing(f"node {self._node} is not registered: no report is written for it") from None
            if error.status != 403:
                raise
            # It can be done without; then nothing but `bayplan agent-gc` removes the report of a node that is gone.
            self._troubles.note(NODE, "forbidden", f"the report has no owner: {error}")
            self._owner = None
            return
        self._troubles.over(NODE)
        self._owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node.metadata.uid}

    def _owned(self, document: Document) -> bytes:
        metadata = {"ownerReferences": [self._owner], **document["metadata"]} if self._owner else document["metadata"]
        return msgspec.json.encode({**document, "metadata": metadata})


class NodeMissing(Exception):
    """There is no Node of this name: it was deleted, or not registered yet."""


def _what_is_wrong(error: ApiError | Unreachable, document: Document) -> tuple[str, str]:
    """Cause and sentence."""
    group = document["apiVersion"].partition("/")[0]
    if isinstance(error, Unreachable):
        return "unreachable", f"the API server does not answer: {error}"
    match error.status:
        case 401:
            return "unauthorized", f"the API server does not know this agent: {error}"
        case 403:
            return "forbidden", f"the agent may not write reports ({ROLES[group]}): {error}"
        case 404:
            kind, version = document["kind"], document["apiVersion"]
            return "kind-missing", f"the API server does not know {kind} ({version}): {INSTALL[group]}"
        case 400 | 413 | 422:
            return "refused", f"the API server does not take the report: {error}"
        case _:
            return "error", f"the API server cannot write the report: {error}"
