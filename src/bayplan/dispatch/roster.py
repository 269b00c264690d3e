"""PodGroups and their members, in whatever order their watch events arrive.

A pod that names a PodGroup of any dialect is decided together with the other members. The roster knows which gangs
exist, which members have arrived, and what a gang still waits for. A gang's key is `namespace/name`, prefixed with its
dialect unless that is bayplan's own. A PodGroup can be a part of another object (`hierarchy.py`): the outermost object
is the gang then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from bayplan.cluster.state import pod_key
from bayplan.dialects.dialect import Dialect, GroupContents
from bayplan.dialects.members import Incomplete
from bayplan.dialects.progress import MemberCounts
from bayplan.dialects.registry import (
    AnyPodGroup,
    dialect_of_gang,
    gang_named,
    gang_of_members,
    is_untold,
    key_of,
    parent_of,
    shown,
)
from bayplan.dispatch.hierarchy import GroupHierarchy
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.k8s_scheduling_v1alpha3 import MOST_LEVELS


class _PodsByGang:
    """Pods by the gang that they name."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._gang_of: dict[str, str] = {}

    def put(self, key: str, gang: str, pod: Pod) -> None:
        if self._gang_of.get(key, gang) != gang:
            self.remove(key)
        if gang:
            self._gang_of[key] = gang
            self._pods.setdefault(gang, {})[key] = pod

    def remove(self, key: str) -> str:
        """Remove a pod, and return the gang that it named."""
        gang = self._gang_of.pop(key, "")
        if gang:
            del self._pods[gang][key]
            if not self._pods[gang]:
                del self._pods[gang]
        return gang

    def gang_of(self, key: str) -> str:
        return self._gang_of.get(key, "")

    def of(self, gang: str) -> dict[str, Pod]:
        return self._pods.get(gang, {})

    def groups(self) -> Iterator[str]:
        yield from self._pods


class GangRoster:
    """PodGroups by key and members by gang; `topologies` returns the current Topologies and HyperNodes."""

    def __init__(self, topologies: Callable[[], Topologies] = Topologies) -> None:
        self.groups: dict[str, AnyPodGroup] = {}
        self._topologies = topologies
        self._members = _PodsByGang()
        # Why existing PodGroups cannot be read.
        self._unreadable: dict[str, str] = {}
        # Pods that name a gang and wait for another scheduler.
        self._strangers = _PodsByGang()
        self._hierarchy = GroupHierarchy()
        # Dialects whose group objects the API server does not serve.
        self._not_served: set[str] = set()

    def set_group(self, written: AnyPodGroup) -> set[str]:
        """Take in a new or changed PodGroup, and return the keys of the gangs that this affects."""
        key = key_of(written)
        affected = self._gangs_below(key)
        self.groups[key] = written
        self._unreadable.pop(key, None)
        self._hierarchy.put(key, parent_of(written))
        return affected | self._gangs_below(key)

    def remove_group(self, key: str, unreadable: str = "") -> set[str]:
        """A PodGroup was deleted, or is `unreadable` for this reason; its members wait for it.

        Returns the keys of the gangs that this affects.
        """
        affected = self._gangs_below(key)
        self.groups.pop(key, None)
        self._unreadable.pop(key, None)
        self._hierarchy.remove(key)
        if unreadable:
            self._unreadable[key] = unreadable
        return affected | self._gangs_below(key)

    def set_served(self, dialect: str, *, served: bool) -> None:
        """Note whether the API server serves the group objects of a dialect."""
        if served:
            self._not_served.discard(dialect)
        else:
            self._not_served.add(dialect)

    def _gangs_below(self, key: str) -> set[str]:
        return {self._hierarchy.outermost(each) for each in self._hierarchy.below(key)}

    def groups_in(self, name: str) -> list[str]:
        """The keys of a gang's group objects, the outermost first."""
        return [each for each in self._hierarchy.below(name) if self._hierarchy.outermost(each) == name]

    def _pods(self, name: str) -> list[Pod]:
        """The members of a gang."""
        return [pod for key in self.groups_in(name) for pod in self._members.of(key).values()]

    def set_member(self, pod: Pod) -> str:
        """Take in a new or changed pod, and return the key of its gang; empty if it names none."""
        key, name = pod_key(pod), gang_named(pod)
        self._strangers.remove(key)
        self._members.put(key, name, pod)
        return self._hierarchy.outermost(name)

    def set_stranger(self, pod: Pod) -> str:
        """Take in a pod that waits for another scheduler, and return the key of its gang."""
        key, name = pod_key(pod), gang_named(pod)
        self._members.remove(key)
        self._strangers.put(key, name, pod)
        return self._hierarchy.outermost(name)

    def remove_member(self, key: str) -> str:
        """Remove a pod, and return the key of its gang."""
        return self._hierarchy.outermost(self._strangers.remove(key) or self._members.remove(key))

    def gang_of(self, key: str) -> str:
        """The gang of a pod; empty if it names none."""
        return self._hierarchy.outermost(self._members.gang_of(key))

    def waiting(self, name: str) -> list[Pod]:
        """Members without a node."""
        return [pod for pod in self._pods(name) if not pod.spec.node_name]

    def running(self, name: str) -> list[Pod]:
        """Members with a node."""
        return [pod for pod in self._pods(name) if pod.spec.node_name]

    def size(self, name: str) -> int:
        """The number of members."""
        return sum(len(self._members.of(key)) for key in self.groups_in(name))

    def counts(self, key: str) -> MemberCounts:
        """The number of pods in a group object that exist, have a node, and run."""
        members = [pod for each in self._hierarchy.below(key) for pod in self._members.of(each).values()]
        placed = [pod for pod in members if pod.spec.node_name]
        running = sum(pod.status is not None and pod.status.phase == "Running" for pod in placed)
        return MemberCounts(len(members), len(placed), running)

    def group_uid(self, name: str) -> str:
        """The uid of a gang's PodGroup; empty if there is none."""
        written = self.groups.get(name)
        return "" if written is None else written.metadata.uid

    def names(self) -> Iterator[str]:
        """Gangs with members."""
        yield from {self._hierarchy.outermost(key): None for key in self._members.groups()}

    def gang(self, name: str) -> Gang | Incomplete:
        """The current gang. Raises `InvalidObject` if its PodGroup or a member is invalid."""
        dialect, written = dialect_of_gang(name), self.groups.get(name)
        kind = _kind(name)
        for key in self.groups_in(name):
            if key in self._unreadable:
                raise InvalidObject(ObjectPath(f"{_kind(key)} {shown(key)}"), self._unreadable[key])
        if self._hierarchy.parent(name):
            problem = f"is inside itself, or inside more than {MOST_LEVELS - 1} others"
            raise InvalidObject(ObjectPath(f"{kind} {shown(name)}"), problem)
        if written is None and dialect.written_as is not None and not is_untold(name):
            why = f"; the API server does not serve {dialect.resource}" if dialect.name in self._not_served else ""
            return Incomplete(name, f"waits for {kind} {shown(name)}, which does not exist{why}")
        gang = self._read(dialect, name, written)
        return naming_strangers(gang, [pod for key in self.groups_in(name) for pod in self._strangers.of(key).values()])

    def _read(self, dialect: Dialect[Any], name: str, written: AnyPodGroup | None) -> Gang | Incomplete:
        if dialect.gang_of_groups is None or is_untold(name):
            return gang_of_members(name, written, list(self._members.of(name).values()), self._topologies())
        keys = self.groups_in(name)
        inside = GroupContents(
            {key: [self.groups[each] for each in self._hierarchy.inside(key) if each in self.groups] for key in keys},
            {key: list(self._members.of(key).values()) for key in keys},
        )
        return dialect.gang_of_groups(written, inside, self._topologies())


def _kind(key: str) -> str:
    resource = dialect_of_gang(key).resource
    return resource.kind if resource is not None else "PodGroup"


def naming_strangers(gang: Gang | Incomplete, strangers: Iterable[Pod]) -> Gang | Incomplete:
    """Add to the reason of an incomplete gang which of its pods wait for another scheduler."""
    named = [f'{pod_key(pod)} ("{pod.spec.scheduler_name}")' for pod in strangers]
    if not named or not isinstance(gang, Incomplete):
        return gang
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    return replace(gang, reason=f"{gang.reason}; the schedulerName of pod {named[0]}{more} is another one")
