"""The pod grouper's view of the cluster: pods to examine, pods in no gang, gangs and their members. No I/O, no clock.

Watch events come in with `take_in_steps`. The grouper asks `to_examine`. The scheduler asks `expects_group` before it
places a pod by itself, and `wanted.why_gang_waits` before it places a gang.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from bayplan.cluster.state import pod_key
from bayplan.dialects.dialect import full_name
from bayplan.dialects.kai import pod_group as kai
from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.members import has_place, succeeded
from bayplan.dialects.own.members import GROUP, POD_GROUP, size_of
from bayplan.dialects.registry import AnyPodGroup, dialect_written_as, gang_named, key_of
from bayplan.gangs.ranks.ranks import RANK
from bayplan.grouping.group import GROUPED, GroupingSettings, asks_by_itself, may_have_group
from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.client.watch import Absent
from bayplan.kube.resources import KAI_POD_GROUPS, KUBERNETES_WORKLOADS, POD_GROUPS, PODS, Resource
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.k8s_scheduling_v1beta1 import Workload
from bayplan.services.pod_grouper.contents import WantedGroups, is_managed

News = Listed[Any] | Changes[Any] | Absent

# While all pods of a large gang are deleted one by one, members that stay are not looked for among all that go.
MOST_LOOKED_AT = 64
# Labels and annotations that the grouper itself writes on pods, in bayplan's form and in KAI's.
WRITTEN_BY_GROUPER = frozenset((POD_GROUP, GROUP, RANK, GROUPED, kai.POD_GROUP, kai.SUB_GROUP))


class Membership:
    """Which pod names which gang, by key; which gangs have fewer pods than they should, and which have lost one."""

    def __init__(self) -> None:
        self.gangs: dict[str, str] = {}
        self.members: dict[str, dict[str, None]] = {}
        self.sizes: dict[str, int] = {}
        self.shrunk: dict[str, None] = {}

    def set(self, pod: str, gang: str) -> None:
        """A pod names this gang now, or none if it is empty."""
        before = self.gangs.pop(pod, "")
        if before and before != gang:
            self.shrunk[before] = None
            self.members[before].pop(pod)
            if not self.members[before]:
                del self.members[before], self.shrunk[before]
        if gang:
            self.gangs[pod] = gang
            self.members.setdefault(gang, {})[pod] = None

    def is_short(self, gang: str) -> bool:
        """True if fewer pods name a gang than its size; KAI's PodGroups have none, only a least number."""
        return len(self.members.get(gang, ())) < self.sizes.get(gang, 0)


class GrouperCache:
    """Pods of some schedulers, PodGroups of the kind that this mode writes, and Kubernetes' Workloads."""

    def __init__(self, settings: GroupingSettings, scheduler_names: Collection[str]) -> None:
        self.settings = replace(settings, scheduler_names=frozenset(scheduler_names))
        self.resource: Resource[Any] = KAI_POD_GROUPS if settings.mode == "kai" else POD_GROUPS
        self.pods: dict[str, Pod] = {}
        self.groups: dict[str, AnyPodGroup] = {}
        self.managed: set[str] = set()
        self.workloads = KubernetesWorkloads()
        self.wanted = WantedGroups(self.resource)
        self.on_news: Callable[[], None] = lambda: None
        self._dialect = dialect_written_as(self.resource.type)
        self._listed: set[Resource[Any]] = set()
        # New and changed pods, in order of arrival.
        self._to_examine: dict[str, None] = {}
        self._alone: set[str] = set()  # uids
        self.membership = Membership()
        # Managed PodGroups that changed or went.
        self._changed_groups: dict[str, None] = {}

    @property
    def followed(self) -> tuple[Resource[Any], ...]:
        """The resources to watch."""
        return (PODS, self.resource, KUBERNETES_WORKLOADS)

    @property
    def ready(self) -> bool:
        """True once every followed resource is listed or absent."""
        return set(self.followed) <= self._listed

    # -- watch events ---------------------------------------------------------------------------------------------

    def take_in_steps(self, resource: Resource[Any], news: News) -> Iterator[None]:
        """Apply watch events object by object; other resources are ignored."""
        put: Callable[[Any], None]
        drop: Callable[[str], None]
        if resource == PODS:
            put, drop = self._put_pod, self._drop_pod
        elif resource == self.resource:
            put, drop = self._put_group, self._drop_group
        elif resource == KUBERNETES_WORKLOADS:
            put, drop = self._put_workload, self.workloads.remove
        else:
            return
        if isinstance(news, Changes):
            for change in news.changes:
                if change.kind == "DELETED":
                    drop(_key(change.object))
                else:
                    put(change.object)
                yield
        else:
            items = news.items if isinstance(news, Listed) else []
            here = {_key(item) for item in items}
            for key in self._known(resource):
                if key not in here:
                    drop(key)
                    yield
            for item in items:
                put(item)
                yield
            self._listed.add(resource)
        self.on_news()

    def _known(self, resource: Resource[Any]) -> list[str]:
        if resource == PODS:
            return list(self.pods)
        if resource == KUBERNETES_WORKLOADS:
            return list(self.workloads.names())
        # A group that was written and deleted during a gap in the watch is only in `wanted`.
        return list(self.groups | self.wanted.manifests)

    def _put_pod(self, pod: Pod) -> None:
        key = pod_key(pod)
        known = self.pods.get(key)
        if known is not None and known.metadata.uid != pod.metadata.uid:
            self._drop_pod(key)
            known = None
        if pod.spec.scheduler_name not in self.settings.scheduler_names:
            return
        self.pods[key] = pod
        gang = gang_named(pod)
        self.membership.set(key, gang)
        if not is_waiting(pod):
            self._to_examine.pop(key, None)
        elif known is None or _is_changed(known, pod) or (self._may_manage(gang) and gang not in self.groups):
            self._alone.discard(pod.metadata.uid)
            self._to_examine[key] = None

    def _drop_pod(self, key: str) -> None:
        pod = self.pods.pop(key, None)
        self._to_examine.pop(key, None)
        self.membership.set(key, "")
        if pod is not None:
            self._alone.discard(pod.metadata.uid)

    def _put_group(self, written: AnyPodGroup) -> None:
        key = key_of(written)
        self.groups[key] = written
        self.managed.discard(key)
        self.membership.sizes.pop(key, None)
        if is_managed(written):
            self.managed.add(key)
            self._changed_groups[key] = None
            if isinstance(written, PodGroup):
                self.membership.sizes[key] = size_of(written)

    def _drop_group(self, key: str) -> None:
        if self.groups.pop(key, None) is not None or key in self.wanted.manifests:
            self.managed.discard(key)
            self.membership.sizes.pop(key, None)
            self.wanted.not_examined(key)
            self._changed_groups[key] = None

    def _put_workload(self, workload: Workload) -> None:
        """Waiting pods are examined again if a user creates their Workload after them; controllers create it first."""
        metadata, reference = workload.metadata, workload.spec.controller_ref
        is_late = self.ready and full_name(metadata) not in self.workloads and not metadata.owner_references
        self.workloads.put(workload)
        if not is_late or reference is None:
            return
        prefix = f"{metadata.namespace or 'default'}/"
        for key in [key for key in self.pods if key.startswith(prefix)]:
            pod = self.pods[key]
            # Everything that an owner creates is named after it, down to the pod's own owner.
            owners = (each.name for each in pod.metadata.owner_references or ())
            is_own = any(name.startswith(reference.name) for name in owners)
            if is_own and is_waiting(pod):
                self._alone.discard(pod.metadata.uid)
                self._to_examine[key] = None

    # -- questions ------------------------------------------------------------------------------------------------

    def expects_group(self, pod: Pod) -> bool:
        """Whether a pod may still be put into a gang, and so must not be placed by itself."""
        if pod.metadata.uid in self._alone:
            return False
        if gang_named(pod):
            return self.settings.mode != "kai" and may_have_group(pod)
        return self.settings.mode == "kai" or may_have_group(pod) or asks_by_itself(pod)

    def to_examine(self) -> Iterator[Pod]:
        """New and changed pods, each once, and one of each gang that lacks members since one was deleted."""
        while self._to_examine:
            key = next(iter(self._to_examine))
            del self._to_examine[key]
            pod = self.pods.get(key)
            if pod is not None and (self._may_manage(self.gang_of(pod)) or self.expects_group(pod)):
                yield pod
        while self.membership.shrunk:
            gang = next(iter(self.membership.shrunk))
            del self.membership.shrunk[gang]
            if self.membership.is_short(gang):
                members = islice(self.membership.members.get(gang, ()), MOST_LOOKED_AT)
                yield from _running(self.pods[key] for key in members)

    def changed_groups(self) -> Iterator[str]:
        """Managed PodGroups that changed or went, each once."""
        while self._changed_groups:
            key = next(iter(self._changed_groups))
            del self._changed_groups[key]
            yield key

    def ungrouped(self, pod: Pod) -> None:
        """A pod is in no gang."""
        if pod_key(pod) in self.pods:
            self._alone.add(pod.metadata.uid)

    def examine_again(self, gang: str, but: str = "") -> None:
        """Examine the waiting members of a gang again, except the pod with the uid `but`."""
        for pod in self.members(gang):
            if is_waiting(pod) and pod.metadata.uid != but:
                self._to_examine[pod_key(pod)] = None

    def gang_of(self, pod: Pod) -> str:
        """The gang that a pod names; empty if it names none."""
        return self.membership.gangs.get(pod_key(pod), "")

    def members(self, gang: str) -> list[Pod]:
        """The pods that name a gang."""
        return [self.pods[key] for key in self.membership.members.get(gang, ())]

    def unsettled_gangs(self) -> Iterator[Pod]:
        """One pod of each managed gang that has waiting pods, preferably such a pod, or that lacks members."""
        for gang, members in self.membership.members.items():
            if is_managed(self.groups.get(gang)):
                waiting = next((pod for key in members if is_waiting(pod := self.pods[key])), None)
                if waiting is not None:
                    yield waiting
                elif self.membership.is_short(gang):
                    yield from _running(self.pods[key] for key in members)

    def unused_groups(self) -> dict[str, AnyPodGroup]:
        """Managed PodGroups that no pod names."""
        return {key: self.groups[key] for key in self.managed if key not in self.membership.members}

    def _may_manage(self, gang: str) -> bool:
        """Whether a gang's PodGroup is of the kind that the grouper writes."""
        return bool(gang) and self._dialect.key(gang.rpartition(" ")[2]) == gang


def is_waiting(pod: Pod) -> bool:
    """Whether a pod has no node and is not being deleted."""
    return not pod.spec.node_name and not pod.metadata.deletion_timestamp


def _running(members: Iterable[Pod]) -> Iterator[Pod]:
    """The first member that has a node and stays there, if there is one."""
    yield from islice((pod for pod in members if has_place(pod) and not succeeded(pod)), 1)


def own_groups_of(uid: str, groups: Iterable[AnyPodGroup]) -> Iterator[PodGroup]:
    """Those of some PodGroups that are bayplan's own and have this owner."""
    for written in groups:
        owners = written.metadata.owner_references or ()
        if isinstance(written, PodGroup) and is_managed(written) and any(each.uid == uid for each in owners):
            yield written


def _key(thing: Pod | AnyPodGroup | Workload) -> str:
    if isinstance(thing, Workload):
        return full_name(thing.metadata)
    return pod_key(thing) if isinstance(thing, Pod) else key_of(thing)


def _is_changed(known: Pod, pod: Pod) -> bool:
    """Whether something changed that a pod's gang depends on; labels by the grouper itself do not count."""
    before, after = known.metadata, pod.metadata
    return (
        before.owner_references != after.owner_references
        or (before.labels or {}) != _without_own(before.labels or {}, after.labels or {})
        or (before.annotations or {}) != _without_own(before.annotations or {}, after.annotations or {})
    )


def _without_own(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in after.items() if key in before or key not in WRITTEN_BY_GROUPER}
