"""Delete managed PodGroups that no pod names any more."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.dialects.registry import AnyPodGroup
from bayplan.grouping.raw import Reference, metadata_of
from bayplan.services.pod_grouper.cache import GrouperCache
from bayplan.services.pod_grouper.owners import OwnerFetcher, Unreadable
from bayplan.services.pod_grouper.writer import PodGroupWriter

logger = logging.getLogger(__name__)

# An unused group is deleted after this many seconds if its owner is gone, and in any case after the maximum: its pods
# may be between two attempts.
UNUSED_AT_LEAST = 5.0
UNUSED_AT_MOST = 600.0


class UnusedGroups:
    """Follows since when groups are unused, and which their owners no longer ask for."""

    def __init__(self, cache: GrouperCache, owners: OwnerFetcher, writer: PodGroupWriter) -> None:
        self._cache = cache
        self._owners = owners
        self._writer = writer
        self._since: dict[str, float] = {}
        self._not_asked_for: set[str] = set()

    def asked_for(self, gang: str) -> None:
        """An owner asks for a gang."""
        self._since.pop(gang, None)
        self._not_asked_for.discard(gang)

    def not_asked_for(self, gang: str) -> None:
        """The owner of a gang no longer asks for it."""
        self._not_asked_for.add(gang)

    def due(self, now: float) -> Iterator[tuple[str, AnyPodGroup]]:
        """Groups that have been unused for a while."""
        self._not_asked_for.intersection_update(self._cache.groups)
        unused = self._cache.unused_groups()
        self._since = {key: self._since.get(key, now) for key in unused}
        return ((key, group) for key, group in unused.items() if now - self._since[key] >= UNUSED_AT_LEAST)

    async def may_delete(self, key: str, written: AnyPodGroup, now: float) -> bool:
        """Whether no pod names the group, and its owner is gone or no longer asks for it, or it was unused for long."""
        owner = next(iter(written.metadata.owner_references or ()), None)
        is_old = now - self._since.get(key, now) >= UNUSED_AT_MOST
        if owner is not None and key not in self._not_asked_for and not is_old:
            namespace = written.metadata.namespace or "default"
            about = Reference(owner.api_version, owner.kind, namespace, owner.name, owner.uid)
            try:
                found = await self._owners.fetch(about, no_older_than=0.0)
            except Unreadable:
                return False
            stays = found is not None and not metadata_of(found).get("deletionTimestamp")
            if stays and not _is_beyond_replicas(written, found):
                return False
        return not self._cache.members(key)

    async def delete(self, key: str, written: AnyPodGroup) -> None:
        """Delete a group."""
        logger.info("deleting unused PodGroup", extra={"gang": key})
        await self._writer.delete(key, written)
        self._not_asked_for.discard(key)


def _is_beyond_replicas(written: AnyPodGroup, owner: Mapping[str, Any] | None) -> bool:
    """Whether a group is that of a replica which its LeaderWorkerSet, scaled down, no longer has."""
    if owner is None or owner.get("kind") != "LeaderWorkerSet":
        return False
    replicas = (owner.get("spec") or {}).get("replicas", 1)
    index = written.metadata.name.rpartition("-")[2]
    return isinstance(replicas, int) and index.isdecimal() and int(index) >= replicas
