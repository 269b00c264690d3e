"""PodGroups and their members, in whatever order their watch events arrive.

A pod that names a PodGroup of any dialect is decided together with the other members. The roster knows which gangs
exist, which members have arrived, and what a gang still waits for. A gang's key is `namespace/name`, prefixed with its
dialect unless that is bayplan's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from bayplan.cluster.state import pod_key
from bayplan.dialects.own.members import Incomplete
from bayplan.dialects.progress import MemberCounts
from bayplan.dialects.registry import AnyPodGroup, dialect_of_gang, gang_named, gang_of_members, key_of, shown
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.core_v1 import Pod


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

    def gangs(self) -> Iterator[str]:
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

    def set_group(self, written: AnyPodGroup) -> str:
        """Take in a new or changed PodGroup, and return the gang's key."""
        key = key_of(written)
        self.groups[key] = written
        self._unreadable.pop(key, None)
        return key

    def remove_group(self, key: str, unreadable: str = "") -> None:
        """A PodGroup was deleted, or is `unreadable` for this reason; its members wait for it."""
        self.groups.pop(key, None)
        self._unreadable.pop(key, None)
        if unreadable:
            self._unreadable[key] = unreadable

    def set_member(self, pod: Pod) -> str:
        """Take in a new or changed pod, and return the key of its gang; empty if it names none."""
        key, name = pod_key(pod), gang_named(pod)
        self._strangers.remove(key)
        self._members.put(key, name, pod)
        return name

    def set_stranger(self, pod: Pod) -> str:
        """Take in a pod that waits for another scheduler, and return the key of the gang that it names."""
        key, name = pod_key(pod), gang_named(pod)
        self._members.remove(key)
        self._strangers.put(key, name, pod)
        return name

    def remove_member(self, key: str) -> str:
        """Remove a pod, and return the key of the gang that it named."""
        return self._strangers.remove(key) or self._members.remove(key)

    def gang_of(self, key: str) -> str:
        """The gang of a pod; empty if it names none."""
        return self._members.gang_of(key)

    def waiting(self, name: str) -> list[Pod]:
        """Members without a node."""
        return [pod for pod in self._members.of(name).values() if not pod.spec.node_name]

    def running(self, name: str) -> list[Pod]:
        """Members with a node."""
        return [pod for pod in self._members.of(name).values() if pod.spec.node_name]

    def size(self, name: str) -> int:
        """The number of members."""
        return len(self._members.of(name))

    def counts(self, name: str) -> MemberCounts:
        """The number of members that exist, have a node, and run."""
        members = self._members.of(name).values()
        placed = [pod for pod in members if pod.spec.node_name]
        running = sum(pod.status is not None and pod.status.phase == "Running" for pod in placed)
        return MemberCounts(len(members), len(placed), running)

    def group_uid(self, name: str) -> str:
        """The uid of a gang's PodGroup; empty if there is none."""
        written = self.groups.get(name)
        return "" if written is None else written.metadata.uid

    def names(self) -> Iterator[str]:
        """Gangs with members."""
        yield from self._members.gangs()

    def gang(self, name: str) -> Gang | Incomplete:
        """The current gang. Raises `InvalidObject` if its PodGroup or a member is invalid."""
        dialect, written = dialect_of_gang(name), self.groups.get(name)
        if name in self._unreadable:
            raise InvalidObject(ObjectPath(f"PodGroup {shown(name)}"), self._unreadable[name])
        if written is None and dialect.written_as is not None:
            return Incomplete(name, f"waits for PodGroup {shown(name)}, which does not exist")
        gang = gang_of_members(name, written, list(self._members.of(name).values()), self._topologies())
        return naming_strangers(gang, self._strangers.of(name).values())


def naming_strangers(gang: Gang | Incomplete, strangers: Iterable[Pod]) -> Gang | Incomplete:
    """Add to the reason of an incomplete gang which of its pods wait for another scheduler."""
    named = [f'{pod_key(pod)} ("{pod.spec.scheduler_name}")' for pod in strangers]
    if not named or not isinstance(gang, Incomplete):
        return gang
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    return replace(gang, reason=f"{gang.reason}; the schedulerName of pod {named[0]}{more} is another one")
