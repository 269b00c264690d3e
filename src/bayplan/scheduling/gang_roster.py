"""Who belongs to which gang: PodGroups and their members, as news about either arrives in any order.

A pod that names a PodGroup is decided about together with the others or not at all. The roster knows which gangs exist, who has
arrived, and what a gang waits for before anybody looks for a place: its PodGroup, or its pods. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.cluster.state import pod_key
from bayplan.kube import podgroup_v2alpha2 as kai
from bayplan.kube.core_v1 import Pod
from bayplan.kube.podgroup_v1alpha1 import PodGroup
from bayplan.scheduling.gang import Gang
from bayplan.scheduling.gang_members import Incomplete, gang_label, gang_of_members
from bayplan.scheduling.gang_reader import KAI_POD_GROUP, gang_of_kai

AnyPodGroup = PodGroup | kai.PodGroup


def gang_name(pod: Pod) -> str:
    """`namespace/name` of the gang that a pod belongs to, in bayplan's words or in KAI's; empty if it stands alone."""
    named = gang_label(pod)
    if named:
        return named
    in_kai = (pod.metadata.annotations or {}).get(KAI_POD_GROUP, "")
    return f"{pod.metadata.namespace or 'default'}/{in_kai}" if in_kai else ""


class GangRoster:
    """PodGroups by name and members by gang."""

    def __init__(self) -> None:
        self.groups: dict[str, AnyPodGroup] = {}
        self._members: dict[str, dict[str, Pod]] = {}
        self._gang_of: dict[str, str] = {}

    def set_group(self, written: AnyPodGroup) -> str:
        """A PodGroup came or changed; the gang's name."""
        name = f"{written.metadata.namespace or 'default'}/{written.metadata.name}"
        self.groups[name] = written
        return name

    def remove_group(self, name: str) -> None:
        """A PodGroup is gone; its members wait for it to return."""
        self.groups.pop(name, None)

    def set_member(self, pod: Pod) -> str:
        """A pod came or changed; the name of its gang, empty if it is in none."""
        key, name = pod_key(pod), gang_name(pod)
        before = self._gang_of.get(key)
        if before is not None and before != name:
            self.remove_member(key)
        if name:
            self._gang_of[key] = name
            self._members.setdefault(name, {})[key] = pod
        return name

    def remove_member(self, key: str) -> str:
        """A pod is gone; the name of the gang that it was in."""
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

    def names(self) -> Iterator[str]:
        """Gangs that have members."""
        yield from self._members

    def gang(self, name: str) -> Gang | Incomplete:
        """The gang as it stands now; raises `InvalidObject` if its PodGroup or a member says what cannot be."""
        written = self.groups.get(name)
        members = self._members.get(name, {})
        if written is None:
            return Incomplete(name, f"waits for PodGroup {name}, which does not exist")
        if isinstance(written, PodGroup):
            return gang_of_members(written, members.values())
        gang = gang_of_kai(written, members.values())
        lacking = next((group for group in gang.whole.every_group() if group.least > len(group.pods)), None)
        if lacking is not None:
            here = f"{len(lacking.pods)} of {lacking.least}"
            where = f" in group {lacking.name}" if lacking.name else ""
            return Incomplete(name, f"waits for pods: {here}{where} have arrived")
        return gang
