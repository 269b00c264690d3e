"""Who belongs to which gang: PodGroups and their members, as news about either arrives in any order.

A pod that names a group, in whatever dialect, is decided about together with the others or not at all. The roster knows which gangs exist, who has
arrived, and what a gang waits for before anybody looks for a place: its PodGroup, or its pods. It decides nothing. Gangs are
known by a key: `namespace/name`, and the dialect in front of it where that is not bayplan's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bayplan.cluster.state import pod_key
from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.dialects.table import AnyPodGroup, dialect_of_gang, gang_named, key_of, shown
from bayplan.scheduling.gang import Gang
from bayplan.scheduling.gang_members import Incomplete
from bayplan.scheduling.trees import Topologies


@dataclass(frozen=True, slots=True)
class Tally:
    """How many pods a gang has, how many of them have nodes, and how many of those run."""

    members: int = 0
    scheduled: int = 0
    running: int = 0


NOBODY = Tally()


class GangRoster:
    """PodGroups by key and members by gang; `topologies` tells the Topologies and HyperNodes that exist now."""

    def __init__(self, topologies: Callable[[], Topologies] = Topologies) -> None:
        self.groups: dict[str, AnyPodGroup] = {}
        self._topologies = topologies
        self._members: dict[str, dict[str, Pod]] = {}
        self._gang_of: dict[str, str] = {}

    def set_group(self, written: AnyPodGroup) -> str:
        """A PodGroup came or changed; the gang's key."""
        key = key_of(written)
        self.groups[key] = written
        return key

    def remove_group(self, key: str) -> None:
        """A PodGroup is gone; its members wait for it to return."""
        self.groups.pop(key, None)

    def set_member(self, pod: Pod) -> str:
        """A pod came or changed; the key of its gang, empty if it is in none."""
        key, name = pod_key(pod), gang_named(pod)
        before = self._gang_of.get(key)
        if before is not None and before != name:
            self.remove_member(key)
        if name:
            self._gang_of[key] = name
            self._members.setdefault(name, {})[key] = pod
        return name

    def remove_member(self, key: str) -> str:
        """A pod is gone; the key of the gang that it was in."""
        name = self._gang_of.pop(key, "")
        if name:
            members = self._members[name]
            del members[key]
            if not members:
                del self._members[name]
        return name

    def gang_of(self, key: str) -> str:
        """The gang of a pod; empty if it stands alone."""
        return self._gang_of.get(key, "")

    def waiting(self, name: str) -> list[Pod]:
        """Members without a node."""
        return [pod for pod in self._members.get(name, {}).values() if not pod.spec.node_name]

    def running(self, name: str) -> list[Pod]:
        """Members with a node."""
        return [pod for pod in self._members.get(name, {}).values() if pod.spec.node_name]

    def tally(self, name: str) -> Tally:
        """How many members are how far."""
        members = self._members.get(name, {}).values()
        placed = [pod for pod in members if pod.spec.node_name]
        running = sum(pod.status is not None and pod.status.phase == "Running" for pod in placed)
        return Tally(len(members), len(placed), running)

    def names(self) -> Iterator[str]:
        """Gangs that have members."""
        yield from self._members

    def gang(self, name: str) -> Gang | Incomplete:
        """The gang as it stands now; raises `InvalidObject` if its PodGroup or a member says what cannot be."""
        dialect, written = dialect_of_gang(name), self.groups.get(name)
        if written is None and dialect.written_as is not None:
            return Incomplete(name, f"waits for PodGroup {shown(name)}, which does not exist")
        return dialect.gang_of(written, list(self._members.get(name, {}).values()), self._topologies())
