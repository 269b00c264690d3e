"""What the grouper writes: PodGroups (server-side apply), labels on pods, the condition `Grouped`, and deletions of its own groups.

All writes are idempotent, by this instance or the next: names follow from the owner, `apply` creates what does not exist and leaves correct objects
unchanged, and a patch of a pod carries the pod's uid, so that a successor of the same name never gets it. This instance remembers its last write
(`Books.means`), so that a thousand pods of a gang cost one apply. A PodGroup without the grouper's label has another owner, or was taken over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from weakref import WeakValueDictionary

from bayplan.dialects.own.members import GROUP, POD_GROUP
from bayplan.dialects.registry import AnyPodGroup, dialect_written_as
from bayplan.gangs.ranks.ranks import RANK
from bayplan.grouping.raw import RawObject
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.resources import POD_GROUPS, PODS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.podgroup_v1alpha1 import PodGroup
from bayplan.services.pod_grouper.books import Books
from bayplan.services.pod_grouper.contents import (
    NOT_SAID,
    POD_GROUPER,
    condition,
    condition_of,
    is_managed,
    keeping,
    made_for,
    says,
    strays,
    with_mark,
)

logger = logging.getLogger(__name__)

GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class Writer:
    """Writes, and knows what it has written. All methods raise what the client raises."""

    def __init__(self, client: KubeClient, books: Books, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._books = books
        self._clock = clock
        # One write about a gang at a time; a lock exists as long as it is held or waited for.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Conditions that are on their way, by the uid of their PodGroup.
        self._noted: dict[str, tuple[str, str]] = {}

    def key_of(self, manifest: RawObject) -> str:
        """The gang that a manifest describes, as pods' labels lead to it."""
        metadata = manifest["metadata"]
        name = f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
        return dialect_written_as(self._books.resource.type).key(name)

    async def ensure(self, manifest: RawObject) -> bool:
        """See to it that the PodGroup says this; True if it said something else before."""
        key, manifest = self.key_of(manifest), with_mark(manifest)
        async with self._locks.setdefault(key, asyncio.Lock()):
            before, written = self._books.meant(key), self._books.groups.get(key)
            if written is not None and not is_managed(written):
                return False
            if before == manifest and (written is None or says(written, manifest)):
                return False
            await self._apply(key, manifest)
            return before != manifest

    async def mend(self, key: str) -> None:
        """Revert foreign changes to a PodGroup that this instance wrote, and record the owner on a new one."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            written, manifest = self._books.groups.get(key), self._books.meant(key)
            if written is None or manifest is None or not is_managed(written):
                return
            if not says(written, manifest):
                logger.info("putting a PodGroup back as its owner means it", extra={"gang": key})
                await self._apply(key, manifest)
        if isinstance(written, PodGroup) and condition_of(written) == NOT_SAID:
            await self.note(written, made_for(manifest), holds=True)

    def forget(self, key: str) -> None:
        """Forget a deleted PodGroup; it is written anew when needed."""
        self._books.means(key, None)

    async def _apply(self, key: str, manifest: RawObject) -> None:
        metadata, before = manifest["metadata"], self._books.meant(key)
        # Meant from now on: until the PodGroup says so, no pod is placed by what it said before.
        self._books.means(key, manifest)
        try:
            await self._remove_strays(key, manifest)
            await self._client.patch(
                self._books.resource,
                metadata["name"],
                keeping(self._books.groups.get(key), manifest),
                metadata.get("namespace"),
                kind="apply",
                field_manager=POD_GROUPER,
                force=True,
            )
        except BaseException:
            self._books.means(key, before)
            raise

    async def _remove_strays(self, key: str, manifest: RawObject) -> None:
        """Remove foreign additions that the owner did not ask for: an apply leaves other managers' fields as they are."""
        written = self._books.groups.get(key)
        added = strays(written, manifest)
        if written is None or not added:
            return
        metadata = written.metadata
        patch = {"metadata": {"uid": metadata.uid}, "spec": added}
        await _unless_gone(
            self._client.patch(
                self._books.resource,
                metadata.name,
                patch,
                metadata.namespace,
                kind="merge",
                field_manager=POD_GROUPER,
            )
        )

    async def label(self, pod: Pod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        """Write a pod's place in its gang on the pod, if it is not there already; a pod that is gone needs none."""
        metadata = pod.metadata
        missing = not labels.items() <= (metadata.labels or {}).items()
        if not missing and annotations.items() <= (metadata.annotations or {}).items():
            return
        await self._patch_pod(pod, labels=dict(labels), annotations=dict(annotations))

    async def unlabel(self, pod: Pod) -> None:
        """Take a pod's place in a gang off the pod; one that is gone has none."""
        await self._patch_pod(pod, labels=dict.fromkeys((POD_GROUP, GROUP, RANK)))

    async def _patch_pod(self, pod: Pod, **changes: RawObject) -> None:
        """Change this very pod's metadata."""
        metadata = pod.metadata
        patch = {"metadata": {"uid": metadata.uid, **changes}}
        await _unless_gone(
            self._client.patch(PODS, metadata.name, patch, metadata.namespace, kind="merge", field_manager=POD_GROUPER)
        )

    async def note(self, written: PodGroup, message: str, *, holds: bool) -> None:
        """Write the condition `Grouped`, unless it says so already or is about to."""
        metadata, wanted = written.metadata, ("True" if holds else "False", message)
        if wanted in (condition_of(written), self._noted.get(metadata.uid)):
            return
        self._noted[metadata.uid] = wanted
        try:
            await self._note(written, message, holds=holds)
        finally:
            # From here on the PodGroup itself shows it.
            self._noted.pop(metadata.uid, None)

    async def _note(self, written: PodGroup, message: str, *, holds: bool) -> None:
        metadata = written.metadata
        since = datetime.fromtimestamp(self._clock(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": POD_GROUPS.api_version,
            "kind": POD_GROUPS.kind,
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
            "status": {"conditions": [condition(message, since, holds=holds)]},
        }
        await _unless_gone(
            self._client.patch(
                POD_GROUPS,
                metadata.name,
                body,
                metadata.namespace,
                subresource="status",
                kind="apply",
                field_manager=POD_GROUPER,
                force=True,
            )
        )

    async def delete(self, key: str, written: AnyPodGroup) -> None:
        """Delete this very PodGroup."""
        metadata = written.metadata
        await _unless_gone(
            self._client.delete(self._books.resource, metadata.name, metadata.namespace, uid=metadata.uid)
        )
        self.forget(key)


async def _unless_gone(write: Awaitable[object]) -> None:
    """Write about an object; one that is gone, or that another one has the name of now, needs nothing."""
    try:
        await write
    except ApiError as error:
        if error.status not in GONE:
            raise
