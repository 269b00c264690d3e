"""A gang that cannot be completed makes room: its bound pods are deleted one by one, and only what actually happened is reported.

The owner of the pods creates new ones, which wait together. Transient errors are retried, because a half-released gang is of no use. If a
deletion is refused, no other pod is deleted: without the permission (`deploy/base/release-role.yaml` is left out), all pods keep their nodes, and
each is told so once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from bayplan.cluster.state import pod_key
from bayplan.dispatch.actions import Release
from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.client import TIME_MAY_HEAL, ApiError, KubeClient, Unreachable
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.events import EventRecorder, Subject

logger = logging.getLogger(__name__)

FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0
MOST_REMEMBERED = 50_000
# It has left by itself, or another pod has its name.
IS_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


@dataclass(frozen=True, slots=True)
class Released:
    """Pods that have left or are about to, and whether deleting the others was refused."""

    left: tuple[Pod, ...] = ()
    refused: bool = False


class Releaser:
    """Deletes the pods of gangs; `on_deleted` hears of each one that was deleted."""

    def __init__(self, client: KubeClient, events: EventRecorder, on_deleted: Callable[[], None]) -> None:
        self._client = client
        self._events = events
        self._on_deleted = on_deleted
        # The uids of pods that were told that they keep their nodes.
        self._told: dict[str, None] = {}

    async def release(self, action: Release, holds_lease: Callable[[], bool]) -> Released:
        """Each only while the lease is ours: another leader may be completing the gang."""
        left: list[Pod] = []
        deleted = 0
        for pod in action.pods:
            try:
                is_deleted = await self._delete(pod, holds_lease)
            except ApiError as error:
                self._tell_who_stays(action, action.pods[len(left) :], error.message)
                return Released(tuple(left), refused=True)
            if is_deleted is None:
                break
            left.append(pod)
            if is_deleted:
                deleted += 1
                self._on_deleted()
                note = f"gang {action.gang} cannot be completed, its pods make room: {action.reason}"
                self._events.record(Subject.pod(pod), "Warning", "GangReleased", "Releasing", note)
        logger.warning("released a gang", extra={"gang": action.gang, "deleted": deleted, "problem": action.reason})
        return Released(tuple(left))

    async def _delete(self, pod: Pod, holds_lease: Callable[[], bool]) -> bool | None:
        """True if this deleted it, False if it was gone before, None if the lease is lost. Raises `ApiError` where deleting is refused for good."""
        metadata, backoff = pod.metadata, Backoff(first=FIRST_WAIT, longest=LONGEST_WAIT)
        told = False
        while holds_lease():
            try:
                await self._client.delete(PODS, metadata.name, metadata.namespace or "default", uid=metadata.uid)
            except (ApiError, Unreachable) as error:
                if isinstance(error, ApiError) and error.status in IS_GONE:
                    return False
                if isinstance(error, ApiError) and error.status not in TIME_MAY_HEAL:
                    raise
                if not told:
                    told = True
                    logger.warning(
                        "tried again until it is deleted", extra={"pod": pod_key(pod), "problem": str(error)}
                    )
                await asyncio.sleep(backoff.after_failure())
            else:
                return True
        return None

    def _tell_who_stays(self, action: Release, pods: tuple[Pod, ...], problem: str) -> None:
        """Once: that it is tried again from time to time, in case that rights were given, is no news."""
        untold = [pod for pod in pods if pod.metadata.uid not in self._told]
        if not untold:
            return
        logger.warning(
            "a gang cannot be completed, but keeps its nodes", extra={"gang": action.gang, "problem": problem}
        )
        for pod in untold:
            note = f"gang {action.gang} cannot be completed ({action.reason}), but its pods keep their nodes: {problem}"
            self._events.record(Subject.pod(pod), "Warning", "GangNotReleased", "Releasing", note)
            self._told[pod.metadata.uid] = None
        while len(self._told) > MOST_REMEMBERED:
            self._told.pop(next(iter(self._told)))
