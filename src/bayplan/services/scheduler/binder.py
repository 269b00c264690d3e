"""Binding: the one write that counts. Concurrent over nodes, in order on each of them, and never in doubt.

A kubelet admits pods in the order in which they reach it; what was decided for the second pod on a node supposes the first. So binds
to one node are sent one after another, and those to different nodes at the same time.

A bind that is answered with 201 is done. Without an answer nobody knows, so the same bind is sent again: the API server takes it once
and says 409 from then on, and the pod itself tells whose bind it was. Only when the outcome is certain does anybody hear of it: what was
assumed must not be given back while the pod may yet appear on the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

from bayplan.kube.backoff import Backoff
from bayplan.kube.client import ApiError, KubeClient, Unreachable
from bayplan.kube.core_v1 import Pod
from bayplan.kube.resources import PODS

# A server that says "later" or "my fault" is asked this often.
USUAL_TRIES = 4
# A member of a gang is worth more patience, whatever the server says: others have their nodes already, and its place is kept while it tries.
PATIENT_TRIES = 12
FIRST_WAIT = 0.05
LONGEST_WAIT = 5.0
NOT_WANTED = "its place was taken back before the bind was sent"
LATER = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT)


class Ending(Enum):
    """What came of a bind."""

    BOUND = "bound"
    GONE = "gone"
    ELSEWHERE = "elsewhere"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The ending, and the server's words where it refused."""

    ending: Ending
    message: str = ""
    passing: bool = False
    """True if the refusal may well be over in a moment: the server was in trouble, not the request."""


class Binder:
    """Sends binds."""

    def __init__(self, client: KubeClient, *, at_once: int = 64, still_wanted: Callable[[Pod, str], bool]) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(at_once)
        self._still_wanted = still_wanted
        self._last_on: dict[str, asyncio.Event] = {}

    async def bind(self, pod: Pod, node: str, annotations: Mapping[str, str], *, patient: bool = False) -> Outcome:
        """Bind one pod, after those that were sent to the same node before it."""
        before = self._last_on.get(node)
        mine = self._last_on[node] = asyncio.Event()
        try:
            if before is not None:
                await before.wait()
            async with self._slots:
                return await self._bind(pod, node, annotations, patient=patient)
        finally:
            mine.set()
            if self._last_on.get(node) is mine:
                del self._last_on[node]

    async def _bind(self, pod: Pod, node: str, annotations: Mapping[str, str], *, patient: bool) -> Outcome:
        metadata = pod.metadata
        namespace = metadata.namespace or "default"
        backoff = Backoff(first=FIRST_WAIT, longest=LONGEST_WAIT)
        refusals = 0
        while True:
            if not self._still_wanted(pod, node):
                return await self._look(pod, node, Outcome(Ending.REFUSED, NOT_WANTED, passing=True))
            try:
                await self._client.bind(namespace, metadata.name, metadata.uid, node, annotations)
            except Unreachable:
                await asyncio.sleep(backoff.after_failure())
            except ApiError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    return Outcome(Ending.GONE)
                refusals += 1
                later = error.status in LATER or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
                conflict = error.status == HTTPStatus.CONFLICT
                outcome = Outcome(Ending.REFUSED, error.message, passing=later or conflict)
                last = refusals >= (PATIENT_TRIES if patient else USUAL_TRIES) or not (later or patient)
                if last or conflict:
                    outcome = await self._look(pod, node, outcome)
                if last or outcome.ending is not Ending.REFUSED:
                    return outcome
                await asyncio.sleep(max(backoff.after_failure(), error.retry_after or 0.0))
            else:
                return Outcome(Ending.BOUND)

    async def _look(self, pod: Pod, node: str, otherwise: Outcome) -> Outcome:
        """Ask the pod itself where it is; `otherwise` if it has no node. Asks until there is an answer."""
        metadata = pod.metadata
        found = await persistently(lambda: self._client.get(PODS, metadata.name, metadata.namespace or "default"))
        if found is None or found.metadata.uid != metadata.uid:
            return Outcome(Ending.GONE)
        if found.spec.node_name == node:
            return Outcome(Ending.BOUND)
        if found.spec.node_name:
            return Outcome(Ending.ELSEWHERE, f"somebody else bound it to {found.spec.node_name}")
        return Outcome(Ending.GONE) if found.metadata.deletion_timestamp else otherwise


async def persistently(ask: Callable[[], Awaitable[Pod]]) -> Pod | None:
    """The answer to a question that must be answered; None if there is no such thing."""
    backoff = Backoff(first=FIRST_WAIT, longest=LONGEST_WAIT)
    while True:
        try:
            return await ask()
        except Unreachable:
            await asyncio.sleep(backoff.after_failure())
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            await asyncio.sleep(max(backoff.after_failure(), error.retry_after or 0.0))
