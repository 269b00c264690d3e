"""Carries writes out: many objects at once, each object's writes in their order, the newest instead of all that it replaces.

In come `Write`s from the state machine, out go requests. Trouble that time heals (no answer, 429, 5xx, missing rights) is tried again with
growing pauses until it works or a newer write replaces it; an object that is gone or has a successor needs no write any more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, PODS
from bayplan.services.kubelets.objects import owner
from bayplan.services.kubelets.writes import DeletePod, PublishTopology, SetPodStatus, Write

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
GONE = 404
CONFLICT = 409
# The server has understood and will say the same next time.
POINTLESS_TO_REPEAT = frozenset({400, 413, 422})


class StatusWriter:
    """`put` writes at any time; `work` carries them out until it is cancelled. `owners` are the nodes' uids."""

    def __init__(
        self, client: KubeClient, owners: Mapping[str, str], on_trouble: Callable[[str], None], *, workers: int = 64
    ) -> None:
        self._client = client
        self._owners = owners
        self._on_trouble = on_trouble
        self._workers = workers
        self._newest: dict[tuple[str, str], Write] = {}
        self._busy: set[tuple[str, str]] = set()
        self._ready: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._idle = asyncio.Event()
        self._idle.set()
        self.done: Counter[str] = Counter()

    def put(self, writes: Iterable[Write]) -> None:
        """Carry these out soon; a write to the same object that has not been sent yet is replaced."""
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
                group.create_task(self._write_one_after_another())

    async def _write_one_after_another(self) -> None:
        while True:
            key = await self._ready.get()
            self._busy.add(key)
            backoff = Backoff(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
            # What is newest may change while an attempt is under way or while we wait for the next one.
            while (write := self._newest.pop(key, None)) is not None:
                if not await self._carried_out(write):
                    self._newest.setdefault(key, write)
                    await asyncio.sleep(backoff.after_failure())
            self._busy.discard(key)
            if not self._newest and not self._busy:
                self._idle.set()

    async def _carried_out(self, write: Write) -> bool:
        """Whether a write is settled: done, or not needed any more. False: it should be tried again."""
        try:
            await self._send(write)
        except Unreachable as trouble:
            self._on_trouble(str(trouble))
            return False
        except ApiError as error:
            if error.status in (GONE, CONFLICT):
                return True
            self._on_trouble(str(error))
            return error.status in POINTLESS_TO_REPEAT
        self.done[type(write).__name__] += 1
        return True

    async def _send(self, write: Write) -> None:
        match write:
            case SetPodStatus():
                # The uid makes the server refuse a status that was meant for a predecessor of the same name.
                body = {"metadata": {"uid": write.uid}, "status": write.status}
                await self._client.patch(PODS, write.name, body, write.namespace, subresource="status")
            case DeletePod():
                await self._client.delete(PODS, write.name, write.namespace, uid=write.uid, grace=0)
            case PublishTopology():
                await self._publish(write)

    async def _publish(self, write: PublishTopology) -> None:
        """Create a report or change it, whichever is right; it may differ from what was known."""
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
