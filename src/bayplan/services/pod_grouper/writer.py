"""Writes of the grouper: PodGroups (server-side apply), labels on pods, the condition `Grouped`, deletions.

All writes are idempotent across replicas: names follow from the owner, and a patch carries its object's uid. The last
manifest of each gang is remembered, so a thousand pods cost one apply. Unmanaged PodGroups are never written.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from weakref import WeakValueDictionary

from bayplan.dialects.own.members import GROUP, POD_GROUP
from bayplan.dialects.registry import AnyPodGroup, dialect_written_as
from bayplan.gangs.ranks.ranks import RANK
from bayplan.grouping.raw import RawObject
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.resources import POD_GROUPS, PODS
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.conditions import apply_status, timestamp
from bayplan.services.pod_grouper.cache import GrouperCache
from bayplan.services.pod_grouper.contents import (
    NO_CONDITION,
    POD_GROUPER,
    condition,
    condition_of,
    is_current,
    is_managed,
    keeping,
    made_for,
    strays,
    with_mark,
)

logger = logging.getLogger(__name__)

GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class PodGroupWriter:
    """Writes PodGroups and pods. All methods raise what the client raises."""

    def __init__(self, client: KubeClient, cache: GrouperCache, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock
        # Writes about one gang are serialized; a lock exists while it is in use.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Conditions in flight, by the uid of their PodGroup.
        self._noted: dict[str, tuple[str, str]] = {}

    def key_of(self, manifest: RawObject) -> str:
        """The key of a manifest's gang."""
        metadata = manifest["metadata"]
        name = f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
        return dialect_written_as(self._cache.resource.type).key(name)

    async def ensure(self, manifest: RawObject) -> bool:
        """Apply the manifest if necessary; True if it replaces another manifest."""
        key, manifest = self.key_of(manifest), with_mark(manifest)
        async with self._locks.setdefault(key, asyncio.Lock()):
            before, written = self._cache.wanted.manifests.get(key), self._cache.groups.get(key)
            if written is not None and not is_managed(written):
                return False
            if before == manifest and (written is None or is_current(written, manifest)):
                return False
            await self._apply(key, manifest)
            return before != manifest

    async def repair(self, key: str) -> None:
        """Revert changes of other writers to a PodGroup, and record the owner on a new one."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            written, manifest = self._cache.groups.get(key), self._cache.wanted.manifests.get(key)
            if written is None or manifest is None or not is_managed(written):
                return
            if not is_current(written, manifest):
                logger.info("reverting changes to PodGroup", extra={"gang": key})
                await self._apply(key, manifest)
        if isinstance(written, PodGroup) and condition_of(written) == NO_CONDITION:
            await self.note(written, made_for(manifest), holds=True)

    async def _apply(self, key: str, manifest: RawObject) -> None:
        metadata, manifests = manifest["metadata"], self._cache.wanted.manifests
        before = manifests.get(key)
        # Before the write: from now on, no pod is placed by the outdated PodGroup.
        manifests[key] = manifest
        try:
            await self._remove_strays(key, manifest)
            await self._client.patch(
                self._cache.resource,
                metadata["name"],
                keeping(self._cache.groups.get(key), manifest),
                metadata.get("namespace"),
                kind="apply",
                field_manager=POD_GROUPER,
                force=True,
            )
        except BaseException:
            if before is None:
                manifests.pop(key, None)
            else:
                manifests[key] = before
            raise

    async def _remove_strays(self, key: str, manifest: RawObject) -> None:
        """Remove fields that other managers added to the gang's definition: an apply keeps them."""
        written = self._cache.groups.get(key)
        added = strays(written, manifest)
        if written is None or not added:
            return
        metadata = written.metadata
        patch = {"metadata": {"uid": metadata.uid}, "spec": added}
        await _unless_gone(
            self._client.patch(
                self._cache.resource,
                metadata.name,
                patch,
                metadata.namespace,
                kind="merge",
                field_manager=POD_GROUPER,
            )
        )

    async def label(self, pod: Pod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        """Write a pod's place in its gang on the pod, unless it is there or the pod is gone."""
        metadata = pod.metadata
        missing = not labels.items() <= (metadata.labels or {}).items()
        if not missing and annotations.items() <= (metadata.annotations or {}).items():
            return
        await self._patch_pod(pod, labels=dict(labels), annotations=dict(annotations))

    async def unlabel(self, pod: Pod) -> None:
        """Remove a pod's place in a gang."""
        await self._patch_pod(pod, labels=dict.fromkeys((POD_GROUP, GROUP, RANK)))

    async def _patch_pod(self, pod: Pod, **changes: RawObject) -> None:
        metadata = pod.metadata
        patch = {"metadata": {"uid": metadata.uid, **changes}}
        await _unless_gone(
            self._client.patch(PODS, metadata.name, patch, metadata.namespace, kind="merge", field_manager=POD_GROUPER)
        )

    async def note(self, written: PodGroup, message: str, *, holds: bool) -> None:
        """Write the condition `Grouped` if it changes."""
        metadata, wanted = written.metadata, ("True" if holds else "False", message)
        if wanted in (condition_of(written), self._noted.get(metadata.uid)):
            return
        self._noted[metadata.uid] = wanted
        try:
            status = {"conditions": [condition(message, timestamp(self._clock()), holds=holds)]}
            await _unless_gone(apply_status(self._client, POD_GROUPS, metadata, status, POD_GROUPER))
        finally:
            self._noted.pop(metadata.uid, None)

    async def delete(self, key: str, written: AnyPodGroup) -> None:
        """Delete a PodGroup, by uid."""
        metadata = written.metadata
        await _unless_gone(
            self._client.delete(self._cache.resource, metadata.name, metadata.namespace, uid=metadata.uid)
        )
        self._cache.wanted.forget(key)


async def _unless_gone(write: Awaitable[object]) -> None:
    """Ignore that the object is gone or was replaced."""
    try:
        await write
    except ApiError as error:
        if error.status not in GONE:
            raise
