"""Group objects inside others, for the commands.

A CompositePodGroup with its PodGroups is one gang, as in the scheduler.

In: the group objects of files, of a dump or of a cluster. Out: the outermost object around each, and the gang of all
its pods. Next: `gangs.py` places it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from bayplan.dialects.members import Incomplete
from bayplan.dialects.registry import AnyPodGroup, dialect_of_gang, gang_named, key_of, parent_of
from bayplan.dispatch.hierarchy import GroupHierarchy
from bayplan.dispatch.roster import GangRoster
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Topologies
from bayplan.kube.wire.core_v1 import Pod


class GroupTrees:
    """Group objects by key, each in the namespace given if it names none; the last one of a key counts."""

    def __init__(self, groups: Iterable[AnyPodGroup], namespace: str | None = None) -> None:
        self._namespace = namespace or "default"
        self._groups = {self.key_of(each): _in_namespace(each, self._namespace) for each in groups}
        self._hierarchy = GroupHierarchy()
        for key, written in self._groups.items():
            self._hierarchy.put(key, parent_of(written))

    def key_of(self, written: AnyPodGroup) -> str:
        """The key of a group object."""
        return key_of(_in_namespace(written, self._namespace))

    def outermost(self, key: str) -> str:
        """The key of the object that a group is decided with: its own if it is inside no other."""
        return self._hierarchy.outermost(key)

    def gang_of(self, pod: Pod) -> str:
        """The key of the gang that a pod belongs to; empty if it names none."""
        return self.outermost(gang_named(pod))

    def is_nested(self, key: str) -> bool:
        """True if a group object of this key has others inside it, or is made for that."""
        return bool(self._hierarchy.inside(key)) or dialect_of_gang(key).gang_of_groups is not None

    def written(self, key: str) -> AnyPodGroup | None:
        """The object of a key."""
        return self._groups.get(key)

    def gang(
        self,
        key: str,
        pods: Iterable[Pod],
        topologies: Topologies,
        is_stranger: Callable[[Pod], bool] = lambda _: False,
    ) -> Gang | Incomplete:
        """The gang of an outermost object, with its members among `pods`. Raises `InvalidObject` if it is invalid."""
        roster = GangRoster(lambda: topologies)
        for written in self._groups.values():
            roster.set_group(written)
        for pod in pods:
            if self.gang_of(pod) == key:
                (roster.set_stranger if is_stranger(pod) else roster.set_member)(pod)
        gang = roster.gang(key)
        return replace(gang, gang=key.rpartition(" ")[2]) if isinstance(gang, Incomplete) else gang


def _in_namespace(written: AnyPodGroup, namespace: str) -> AnyPodGroup:
    metadata = written.metadata
    named = msgspec.structs.replace(metadata, namespace=metadata.namespace or namespace)
    return msgspec.structs.replace(written, metadata=named)
