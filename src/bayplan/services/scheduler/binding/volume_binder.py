"""Bind the claims of a unit before its pods: write what the decision says, and wait for controllers and provisioners.

* A free volume gets the claim's reference, and the controller for volumes does the rest, as with kube-scheduler.
* A claim to provision gets the annotation `volume.kubernetes.io/selected-node`. A provisioner that fails removes it.
* Pods of a gang may share a claim: it is written once, for the node that the decision chose, and all wait for it.
* Units wait side by side, without turns on their nodes. Other decisions see the room and the volumes as taken.
* After a failure the node is avoided, and the annotation is taken back so that the claim can go elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

import msgspec

from bayplan.cluster.state import pod_key
from bayplan.cluster.volumes.claims import BOUND_BY_CONTROLLER, SELECTED_NODE
from bayplan.dispatch.actions import Assignment, Bind
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.resources import CLAIMS, VOLUMES
from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.kube.wire.core_v1_volumes import PersistentVolumeClaim
from bayplan.plugins.volume_binding import VolumeBinding
from bayplan.services.edges.side_thread import SideThread

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.1
# Several claims of a large gang are looked at less often.
LOOK_PER_CLAIM = 0.001
MAX_WRITES = 16
TRIES = 3


class _Written(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()


@dataclass
class _Unit:
    """The claims of one unit on their way: what is written and taken back, once for all pods that share a claim."""

    pods: int
    problems: list[str] = field(default_factory=list)
    writes: dict[str, asyncio.Task[int]] = field(default_factory=dict)
    taken_back: set[str] = field(default_factory=set)

    async def written(self, key: str, write: Callable[[], Coroutine[None, None, int]]) -> int:
        """Write a claim, unless another pod does; returns the version that was written, or 0."""
        if key not in self.writes:
            self.writes[key] = asyncio.create_task(write())
        return await asyncio.shield(self.writes[key])


class VolumeBinder:
    """Binds claims; `still_wanted` says whether this replica leads and the pod keeps its place."""

    def __init__(
        self,
        client: KubeClient,
        dispatcher: Dispatcher,
        *,
        clock: Callable[[], float],
        side_thread: SideThread,
        still_wanted: Callable[[Pod, str], bool],
    ) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._clock = clock
        self._side_thread = side_thread
        self._still_wanted = still_wanted
        self._writes = asyncio.Semaphore(MAX_WRITES)

    async def bind(self, action: Bind) -> str:
        """Bind all claims of a unit; returns what went wrong, or an empty text."""
        asked = [each for each in action.assignments if each.decision.volumes]
        unit = _Unit(len(asked))
        await asyncio.gather(*(self._bind_one(each, unit) for each in asked))
        return unit.problems[0] if unit.problems else ""

    async def _bind_one(self, assignment: Assignment, unit: _Unit) -> None:
        """Bind the claims of one pod, unless another pod of the unit fails first."""
        try:
            written = await self._write(assignment, unit)
            problem = await self._wait(assignment, written, unit)
        except _Failed as failed:
            problem = str(failed)
        if problem:
            unit.problems.append(problem)
            logger.warning("binding volumes failed", extra={"pod": pod_key(assignment.pod), "problem": problem})
        if unit.problems:
            await self._roll_back(assignment, unit, failed_here=bool(problem))

    async def _write(self, assignment: Assignment, unit: _Unit) -> dict[str, int]:
        """Write all references and annotations; returns the version of each claim that was written."""
        plan, versions = assignment.decision.volumes, {}
        for key, volume_name in plan.bindings:
            versions[key] = await unit.written(key, partial(self._write_reference, assignment, key, volume_name))
        for key in plan.provisions:
            versions[key] = await unit.written(key, partial(self._select_node, assignment, key))
        return versions

    async def _write_reference(self, assignment: Assignment, key: str, volume_name: str) -> int:
        """Give a volume the reference of its claim; the claim stays as it is."""
        await self._side_thread.idle()
        claim, volume = self._claim(key), self._dispatcher.state.volumes.static.get(volume_name)
        if volume is None:
            raise _Failed(f'persistentvolume "{volume_name}" not found')
        reference = {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "namespace": claim.metadata.namespace,
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
        }
        kept = volume.spec.claim_ref
        if kept is not None and kept.uid == claim.metadata.uid:
            return 0
        metadata: dict[str, object] = {"resourceVersion": volume.metadata.resource_version}
        if kept is None:
            metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        body = {"metadata": metadata, "spec": {"claimRef": reference}}
        await self._patch(assignment, partial(self._client.patch, VOLUMES, volume_name, body, kind="merge"))
        return 0

    async def _select_node(self, assignment: Assignment, key: str) -> int:
        """Tell the provisioner of a claim its node; returns the version of the claim."""
        await self._side_thread.idle()
        claim, node = self._claim(key), self._node_for(key, assignment)
        if (claim.metadata.annotations or {}).get(SELECTED_NODE) == node:
            return 0
        answer = await self._annotate(assignment, claim, node)
        version = msgspec.json.decode(answer, type=_Written).metadata.resource_version
        return int(version) if version.isdecimal() else 0

    def _node_for(self, key: str, assignment: Assignment) -> str:
        """The node that a claim is provisioned for: that of its pod, or of one of the pods that share it."""
        return self._dispatcher.state.volumes.provisioned_for(key) or assignment.node

    async def _annotate(self, assignment: Assignment, claim: PersistentVolumeClaim, node: str | None) -> bytes:
        metadata = claim.metadata
        body = {"metadata": {"resourceVersion": metadata.resource_version, "annotations": {SELECTED_NODE: node}}}
        namespace = metadata.namespace or "default"
        return await self._patch(
            assignment, partial(self._client.patch, CLAIMS, metadata.name, body, namespace, kind="merge")
        )

    async def _patch(self, assignment: Assignment, send: Callable[[], Awaitable[bytes]]) -> bytes:
        problem = ""
        for attempt in range(TRIES):
            if not self._still_wanted(assignment.pod, assignment.node):
                raise _Failed("the pod lost its place")
            try:
                async with self._writes:
                    answer: bytes = await send()
                    return answer
            except ApiError as error:
                if error.status < HTTPStatus.INTERNAL_SERVER_ERROR and error.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise _Failed(error.message) from None
                problem = error.message
            except Unreachable as error:
                problem = str(error)
            await asyncio.sleep(LOOK_EVERY * 2**attempt)
        raise _Failed(problem)

    async def _wait(self, assignment: Assignment, written: dict[str, int], unit: _Unit) -> str:
        """Wait until all claims are bound, or another pod of the unit has problems.

        Returns why they will not be bound.
        """
        seconds = self._timeout(assignment.pod)
        end = self._clock() + seconds
        while True:
            await self._side_thread.idle()
            if unit.problems:
                return ""  # The unit is decided again, with what is bound by then.
            if not self._still_wanted(assignment.pod, assignment.node):
                return "the pod lost its place"
            claims = assignment.decision.volumes.claims
            states = [self._state_of(assignment, key, written.get(key, 0)) for key in claims]
            problem = next(filter(None, states), "")
            if problem or not any(state is None for state in states):
                return problem
            if self._clock() > end:
                late = ", ".join(key for key, state in zip(claims, states, strict=True) if state is None)
                return f"timed out after {seconds} s waiting for {late} to be bound"
            await asyncio.sleep(LOOK_EVERY + LOOK_PER_CLAIM * unit.pods)

    def _state_of(self, assignment: Assignment, key: str, version: int) -> str | None:
        """Empty once a claim is bound, None while it is not, or why it will not be."""
        volumes = self._dispatcher.state.volumes
        claim = volumes.claim(key)
        if claim is None or claim.metadata.deletion_timestamp:
            return f'persistentvolumeclaim "{key}" was deleted'
        shown = claim.metadata.resource_version
        if shown.isdecimal() and int(shown) < version:
            return None
        if key in assignment.decision.volumes.provisions:
            if (claim.metadata.annotations or {}).get(SELECTED_NODE) != self._node_for(key, assignment):
                return f'provisioning failed for PVC "{claim.metadata.name}"'
        else:
            name = dict(assignment.decision.volumes.bindings)[key]
            volume = volumes.static.get(name)
            if volume is None:
                return f'persistentvolume "{name}" not found'
            kept = volume.spec.claim_ref
            if kept is not None and kept.uid not in ("", claim.metadata.uid):
                return f'persistentvolume "{name}" was bound to another claim'
        if not volumes.is_bound(key):
            return None
        volume = volumes.static.get(claim.spec.volume_name)
        row = self._dispatcher.state.rows.get(assignment.node)
        if volume is None or row is None:
            return None
        if row not in volumes.static.rows_of(volume):
            return f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{assignment.node}"'
        return ""

    async def _roll_back(self, assignment: Assignment, unit: _Unit, *, failed_here: bool) -> None:
        """Take the annotation back from claims that are not bound, and avoid the node if it failed here."""
        await self._side_thread.idle()
        volumes = self._dispatcher.state.volumes
        for key in assignment.decision.volumes.provisions:
            claim = volumes.claim(key)
            if claim is None or claim.spec.volume_name:
                continue
            node = self._node_for(key, assignment)
            if failed_here:
                volumes.avoid(key, node)
            if (claim.metadata.annotations or {}).get(SELECTED_NODE) == node and key not in unit.taken_back:
                unit.taken_back.add(key)
                try:
                    await self._annotate(assignment, claim, None)
                except _Failed as failed:
                    logger.warning("rolling back claim failed", extra={"claim": key, "problem": str(failed)})

    def _claim(self, key: str) -> PersistentVolumeClaim:
        claim = self._dispatcher.state.volumes.claim(key)
        if claim is None:
            raise _Failed(f'persistentvolumeclaim "{key}" was deleted')
        return claim

    def _timeout(self, pod: Pod) -> int:
        filters = self._dispatcher.profiles[pod.spec.scheduler_name or ""].filters
        return next((each.bind_timeout for each in filters if isinstance(each, VolumeBinding)), 600)


class _Failed(Exception):
    """Claims cannot be bound, for the reason given."""
