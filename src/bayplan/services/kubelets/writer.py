"""Send writes: many objects concurrently, each object's writes in order, only the newest of each.

Transient errors (no answer, 429, 5xx, missing permissions) are retried with backoff until the write succeeds or a newer
one replaces it. Writes to objects that are gone or were replaced are dropped.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, PODS
from bayplan.services.kubelets.model import Body, DeletePod, PublishTopology, SetPodStatus, Write
from bayplan.services.kubelets.objects import owner

FIRST_PAUSE = 0.2
MAX_PAUSE = 10.0
GONE = 404
CONFLICT = 409
INVALID = 422
# The server would answer the same next time.
PERMANENT = frozenset({400, 413, INVALID})


class StatusWriter:
    """`put` writes at any time; `work` sends them until cancelled. `owners` are the nodes' uids."""

    def __init__(
        self, client: KubeClient, owners: Mapping[str, str], on_error: Callable[[str], None], *, workers: int = 64
    ) -> None:
        self._client = client
        self._owners = owners
        self._on_error = on_error
        self._workers = workers
        self._newest: dict[tuple[str, str], Write] = {}
        self._busy: set[tuple[str, str]] = set()
        self._ready: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._idle = asyncio.Event()
        self._idle.set()
        self.done: Counter[str] = Counter()

    def put(self, writes: Iterable[Write]) -> None:
        """Queue writes; each replaces an unsent write to the same object."""
        for write in writes:
            key = write.key
            waiting = key in self._newest or key in self._busy
            self._newest[key] = write
            self._idle.clear()
            if not waiting:
                self._ready.put_nowait(key)

    async def idle(self) -> None:
        """Wait until everything has been written."""
        await self._idle.wait()

    async def work(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            key = await self._ready.get()
            self._busy.add(key)
            backoff = Backoff(first=FIRST_PAUSE, longest=MAX_PAUSE)
            # A newer write may arrive during an attempt or a pause.
            while (write := self._newest.pop(key, None)) is not None:
                if not await self._is_settled(write):
                    self._newest.setdefault(key, write)
                    await asyncio.sleep(backoff.after_failure())
            self._busy.discard(key)
            if not self._newest and not self._busy:
                self._idle.set()

    async def _is_settled(self, write: Write) -> bool:
        """Send a write; False if it should be retried."""
        try:
            await self._send(write)
        except Unreachable as trouble:
            self._on_error(str(trouble))
            return False
        except ApiError as error:
            if error.status in (GONE, CONFLICT) or _is_about_a_predecessor(error):
                return True
            self._on_error(str(error))
            return error.status in PERMANENT
        self.done[type(write).__name__] += 1
        return True

    async def _send(self, write: Write) -> None:
        match write:
            case SetPodStatus():
                # With the uid, the server refuses a status that was meant for a predecessor.
                body = {"metadata": {"uid": write.uid}, "status": write.status}
                await self._client.patch(PODS, write.name, body, write.namespace, subresource="status")
            case DeletePod():
                if write.status is not None:
                    await self._send_last_status(write, write.status)
                await self._client.delete(PODS, write.name, write.namespace, uid=write.uid, grace=0)
            case PublishTopology():
                await self._publish(write)

    async def _send_last_status(self, write: DeletePod, status: Body) -> None:
        """Write a pod's last status; one that the server calls invalid does not keep the pod."""
        body = {"metadata": {"uid": write.uid}, "status": status}
        try:
            await self._client.patch(PODS, write.name, body, write.namespace, subresource="status")
        except ApiError as error:
            if error.status not in PERMANENT:
                raise
            if not _is_about_a_predecessor(error):
                self._on_error(str(error))

    async def _publish(self, write: PublishTopology) -> None:
        """Create or change a report; `exists` may be outdated."""
        if write.node not in self._owners:  # deleted meanwhile
            return
        report = dict(write.report)
        report["metadata"] = {**report["metadata"], "ownerReferences": [owner(write.node, self._owners[write.node])]}
        if write.exists:
            try:
                await self._client.patch(NODE_RESOURCE_TOPOLOGIES, write.node, report, kind="merge")
            except ApiError as error:
                if error.status != GONE:
                    raise
            else:
                return
        try:
            await self._client.create(NODE_RESOURCE_TOPOLOGIES, report)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            await self._client.patch(NODE_RESOURCE_TOPOLOGIES, write.node, report, kind="merge")


def _is_about_a_predecessor(error: ApiError) -> bool:
    """True if the server refuses a status because the pod has another uid: it was deleted and made again."""
    causes = (error.details.causes or ()) if error.details is not None else ()
    return error.status == INVALID and any(cause.field == "metadata.uid" for cause in causes)
