"""Release a gang that cannot be completed: evict its bound pods one by one, and report what happened.

Like kube-scheduler, bayplan writes the condition `DisruptionTarget` before it deletes a pod, so that a Job's
podFailurePolicy can ignore it. The owner of the pods creates new ones, which wait together. Transient errors are
retried. If a deletion is refused, or would fail the pods' Job (`job_failures.py`), no other pod is deleted: all keep
their nodes, with one event.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

import msgspec

from bayplan.cluster.state import pod_key
from bayplan.dispatch.actions import Release
from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.client import TIME_MAY_HEAL, ApiError, KubeClient, Unreachable
from bayplan.kube.json_text import decode
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.edges.conditions import disruption_target
from bayplan.services.edges.events import EventRecorder, Subject
from bayplan.services.scheduler.job_failures import Job, job_of, would_fail

logger = logging.getLogger(__name__)

FIRST_WAIT = 0.1
MAX_WAIT = 5.0
MAX_REMEMBERED = 50_000
# Deleted already, or replaced by another pod.
IS_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
JOBS = "/apis/batch/v1/namespaces/{}/jobs/{}"
RELEASED = "GangReleased"
# The API server's limit for the message of a condition.


@dataclass(frozen=True, slots=True)
class Released:
    """Pods that are gone or going, and whether deleting the others was refused."""

    left: tuple[Pod, ...] = ()
    refused: bool = False


class Releaser:
    """Evicts the pods of gangs, and calls `on_deleted` for each."""

    def __init__(
        self,
        client: KubeClient,
        events: EventRecorder,
        on_deleted: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._on_deleted = on_deleted
        # The uids of pods with an event that they keep their nodes.
        self._reported: BoundedDict[str, None] = BoundedDict(MAX_REMEMBERED)

    async def release(self, action: Release, holds_lease: Callable[[], bool]) -> Released:
        """Evict the pods while this replica leads: another leader may be completing the gang."""
        why_not = await self._jobs_that_would_fail(action.pods)
        if why_not:
            self._report_kept(action, action.pods, why_not)
            return Released(refused=True)
        left: list[Pod] = []
        deleted = 0
        for pod in action.pods:
            try:
                is_deleted = await self._evict(pod, action, holds_lease)
            except ApiError as error:
                self._report_kept(action, action.pods[len(left) :], error.message)
                return Released(tuple(left), refused=True)
            if is_deleted is None:
                break
            left.append(pod)
            if is_deleted:
                deleted += 1
                self._on_deleted()
                note = f"gang {action.gang} cannot be completed, deleting its pods: {action.reason}"
                self._events.record(Subject.pod(pod), "Warning", RELEASED, "Releasing", note)
        logger.warning("released gang", extra={"gang": action.gang, "deleted": deleted, "problem": action.reason})
        return Released(tuple(left))

    async def _jobs_that_would_fail(self, pods: tuple[Pod, ...]) -> str:
        """Why deleting the pods would fail one of their Jobs; empty if it would not, or if no Job can be read."""
        by_job: dict[str, tuple[str, list[Pod]]] = {}
        for pod in pods:
            owner = job_of(pod)
            if owner is not None:
                path = JOBS.format(quote(pod.metadata.namespace or "default", safe=""), quote(owner.name, safe=""))
                by_job.setdefault(path, (owner.name, []))[1].append(pod)
        for path, (name, members) in by_job.items():
            try:
                job = decode(await self._client.request("GET", path), Job)
            except (ApiError, Unreachable, msgspec.DecodeError) as error:
                logger.info("cannot read Job of gang", extra={"job": name, "problem": str(error)})
                continue
            if why := would_fail(job, name, members):
                return why
        return ""

    async def _evict(self, pod: Pod, action: Release, holds_lease: Callable[[], bool]) -> bool | None:
        """True if deleted, False if already gone, None if the lease is lost. Raises `ApiError` if refused."""
        metadata, backoff = pod.metadata, Backoff(first=FIRST_WAIT, longest=MAX_WAIT)
        namespace = metadata.namespace or "default"
        condition = disruption_target(
            pod, RELEASED, f"gang {action.gang} cannot be completed: {action.reason}", self._clock()
        )
        logged = False
        while holds_lease():
            try:
                await self._client.patch(PODS, metadata.name, condition, namespace, subresource="status")
                await self._client.delete(PODS, metadata.name, namespace, uid=metadata.uid)
            except (ApiError, Unreachable) as error:
                if isinstance(error, ApiError) and error.status in IS_GONE:
                    return False
                if isinstance(error, ApiError) and error.status not in TIME_MAY_HEAL:
                    raise
                if not logged:
                    logged = True
                    logger.warning("failed to delete pod, retrying", extra={"pod": pod_key(pod), "problem": str(error)})
                await asyncio.sleep(backoff.after_failure())
            else:
                return True
        return None

    def _report_kept(self, action: Release, pods: tuple[Pod, ...], problem: str) -> None:
        """Report kept pods once: the deletion is retried from time to time, in case permissions change."""
        unreported = [pod for pod in pods if pod.metadata.uid not in self._reported]
        if not unreported:
            return
        logger.warning("not allowed to release gang", extra={"gang": action.gang, "problem": problem})
        for pod in unreported:
            note = f"gang {action.gang} cannot be completed ({action.reason}), but its pods keep their nodes: {problem}"
            self._events.record(Subject.pod(pod), "Warning", "GangNotReleased", "Releasing", note)
            self._reported[pod.metadata.uid] = None
