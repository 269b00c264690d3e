"""What the pod grouper knows: the pods that wait for a look, those that stand alone, the gangs and their members. No I/O, no clock.

News come in with `take`, from watches of one's own or from the scheduler's (which has them already). The grouper asks `to_look_at`; the scheduler asks
`expects_group` before it places a pod by itself, and `why_gang_waits` before it places a gang.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from bayplan.cluster.state import pod_key
from bayplan.dialects.dialect import full_name
from bayplan.dialects.kai import pod_group as kai
from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.own.members import GROUP, POD_GROUP
from bayplan.dialects.registry import AnyPodGroup, dialect_written_as, gang_named, key_of
from bayplan.gangs.ranks.ranks import RANK
from bayplan.grouping.group import GROUPED, GroupingSettings, asks_by_itself, may_have_group
from bayplan.grouping.raw import RawObject
from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.client.watch import Absent
from bayplan.kube.resources import KAI_POD_GROUPS, KUBERNETES_WORKLOADS, POD_GROUPS, PODS, Resource
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.podgroup_v1alpha1 import PodGroup
from bayplan.kube.wire.scheduling_v1alpha2 import Workload
from bayplan.services.pod_grouper.contents import is_managed, means

News = Listed[Any] | Changes[Any] | Absent

# Labels and annotations by which a pod is given its place in a gang, in bayplan's words and in KAI's, or is said to have none.
PLACE = frozenset((POD_GROUP, GROUP, RANK, GROUPED, kai.POD_GROUP, kai.SUB_GROUP))
NOT_LOOKED_AT = "waits for the pod grouper to look at its owner"
NOT_AS_MEANT = "its PodGroup is not what its owner means; the pod grouper is putting it right"


class GrouperCache:
    """Pods of some schedulers, PodGroups of the kind that is written in this mode, and Kubernetes' Workloads."""

    def __init__(self, settings: GroupingSettings, scheduler_names: Collection[str]) -> None:
        self.settings = replace(settings, scheduler_names=frozenset(scheduler_names))
        self.resource: Resource[Any] = KAI_POD_GROUPS if settings.mode == "kai" else POD_GROUPS
        self.pods: dict[str, Pod] = {}
        self.groups: dict[str, AnyPodGroup] = {}
        self.workloads = KubernetesWorkloads()
        self.on_news: Callable[[], None] = lambda: None
        self._dialect = dialect_written_as(self.resource.type)
        self._listed: set[Resource[Any]] = set()
        # Pods that have not been judged since they came or changed, in order of arrival.
        self._unjudged: dict[str, None] = {}
        self._alone: set[str] = set()
        self._gang_of: dict[str, str] = {}
        self._members: dict[str, dict[str, None]] = {}
        # PodGroups that changed or went since the last look at them.
        self._disturbed: dict[str, None] = {}
        self._made: set[str] = set()
        # What each PodGroup is to say, where this instance knows it; and the gangs that it has looked at, whatever came of that.
        self._meant: dict[str, RawObject] = {}
        self._looked_at: set[str] = set()

    @property
    def followed(self) -> tuple[Resource[Any], ...]:
        """The resources that news are needed about."""
        return (PODS, self.resource, KUBERNETES_WORKLOADS)

    @property
    def ready(self) -> bool:
        """True once everything that is followed has been listed, or is known not to be installed."""
        return set(self.followed) <= self._listed

    # -- news -----------------------------------------------------------------------------------------------------

    def take(self, resource: Resource[Any], news: News) -> None:
        """Take news over; those about other resources are nothing to us."""
        put: Callable[[Any], None]
        drop: Callable[[str], None]
        if resource == PODS:
            put, drop, known = self._put_pod, self._drop_pod, list(self.pods)
        elif resource == self.resource:
            # A group that was written and deleted during a gap in the watch was never shown: a list without it reveals that.
            put, drop, known = self._put_group, self._drop_group, list(self.groups | self._meant)
        elif resource == KUBERNETES_WORKLOADS:
            put, drop, known = self._put_workload, self.workloads.remove, self.workloads.names()
        else:
            return
        if isinstance(news, Changes):
            for change in news.changes:
                if change.kind == "DELETED":
                    drop(self._key(change.object))
                else:
                    put(change.object)
        else:
            items = news.items if isinstance(news, Listed) else []
            here = {self._key(item) for item in items}
            for key in known:
                if key not in here:
                    drop(key)
            for item in items:
                put(item)
            self._listed.add(resource)
        self.on_news()

    def _key(self, thing: Pod | AnyPodGroup | Workload) -> str:
        if isinstance(thing, Workload):
            return full_name(thing.metadata)
        return pod_key(thing) if isinstance(thing, Pod) else key_of(thing)

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
        if self._gang_of.get(key, "") != gang:
            self._leave_gang(key)
        if gang:
            self._gang_of[key] = gang
            self._members.setdefault(gang, {})[key] = None
        if not waits(pod):
            self._unjudged.pop(key, None)
        elif known is None or _looks_different(known, pod) or (self._is_ours(gang) and gang not in self.groups):
            self._alone.discard(pod.metadata.uid)
            self._unjudged[key] = None

    def _drop_pod(self, key: str) -> None:
        pod = self.pods.pop(key, None)
        self._unjudged.pop(key, None)
        self._leave_gang(key)
        if pod is not None:
            self._alone.discard(pod.metadata.uid)

    def _leave_gang(self, key: str) -> None:
        gang = self._gang_of.pop(key, "")
        members = self._members.get(gang, {})
        members.pop(key, None)
        if gang and not members:
            self._members.pop(gang, None)

    def _put_group(self, written: AnyPodGroup) -> None:
        key = key_of(written)
        self.groups[key] = written
        self._made.discard(key)
        if is_managed(written):
            self._made.add(key)
            self._disturbed[key] = None

    def _drop_group(self, key: str) -> None:
        if self.groups.pop(key, None) is not None or key in self._meant:
            self._made.discard(key)
            self._looked_at.discard(key)
            self._disturbed[key] = None

    def _put_workload(self, workload: Workload) -> None:
        """Pods that wait, and were judged before a Workload came, are judged again; one that a controller made comes before its pods."""
        is_late = (
            self.ready and full_name(workload.metadata) not in self.workloads and not workload.metadata.owner_references
        )
        self.workloads.put(workload)
        reference = workload.spec.controller_ref
        if not is_late or reference is None:
            return
        namespace = workload.metadata.namespace or "default"
        for key, pod in self.pods.items():
            if (pod.metadata.namespace or "default") == namespace and waits(pod):
                # Whatever an owner makes is named after it, down to the pod's own owner.
                owners = pod.metadata.owner_references or ()
                if any(each.name.startswith(reference.name) for each in owners):
                    self._alone.discard(pod.metadata.uid)
                    self._unjudged[key] = None

    # -- what PodGroups are to say --------------------------------------------------------------------------------

    def meant(self, gang: str) -> RawObject | None:
        """What a gang's PodGroup is to say; None if this instance does not know yet."""
        return self._meant.get(gang)

    def means(self, gang: str, manifest: RawObject | None) -> None:
        """A gang's PodGroup is to say this from now on."""
        if manifest is None:
            self._meant.pop(gang, None)
        else:
            self._meant[gang] = manifest

    def was_looked_at(self, gang: str) -> bool:
        """A look at one of a gang's pods has ended; True if it was the first."""
        first = gang not in self._looked_at
        if gang in self.groups:
            self._looked_at.add(gang)
        return first

    def why_gang_waits(self, written: AnyPodGroup) -> str:
        """Why a gang must not be placed as its PodGroup stands there; an empty text if it may. What others wrote is theirs."""
        if not is_managed(written) or not isinstance(written, self.resource.type):
            return ""
        gang = key_of(written)
        manifest = self._meant.get(gang)
        if manifest is None:
            return "" if gang in self._looked_at else NOT_LOOKED_AT
        return "" if means(written, manifest) else NOT_AS_MEANT

    # -- questions ------------------------------------------------------------------------------------------------

    def expects_group(self, pod: Pod) -> bool:
        """Whether a pod must not be placed by itself: it may belong to a gang, and that has not been ruled out yet."""
        return pod.metadata.uid not in self._alone and self._may_have_group(pod)

    def _may_have_group(self, pod: Pod) -> bool:
        if gang_named(pod):
            return False
        return self.settings.mode == "kai" or may_have_group(pod) or asks_by_itself(pod)

    def to_look_at(self) -> Iterator[Pod]:
        """Pods that still have to be judged, each named once."""
        while self._unjudged:
            pod = self.pods.get(next(iter(self._unjudged)))
            self._unjudged.pop(next(iter(self._unjudged)))
            if pod is not None and (self._is_ours(self.gang_of(pod)) or self.expects_group(pod)):
                yield pod

    def disturbed(self) -> Iterator[str]:
        """Gangs whose PodGroup of the grouper's making changed or went, each named once."""
        while self._disturbed:
            key = next(iter(self._disturbed))
            del self._disturbed[key]
            yield key

    def stands_alone(self, pod: Pod) -> None:
        """A pod was judged to be in no gang."""
        if pod_key(pod) in self.pods:
            self._alone.add(pod.metadata.uid)

    def judge_again(self, key: str) -> None:
        """Something that a pod's gang depends on has changed."""
        if key in self.pods and waits(self.pods[key]):
            self._unjudged[key] = None

    def gang_of(self, pod: Pod) -> str:
        """The gang that a pod names; empty if it names none."""
        return self._gang_of.get(pod_key(pod), "")

    def members(self, gang: str) -> list[Pod]:
        """The pods that name a gang."""
        return [self.pods[key] for key in self._members.get(gang, ())]

    def gangs_that_wait(self) -> Iterator[Pod]:
        """One pod that waits of each gang of the grouper's making that has some."""
        for gang in self._members:
            if is_managed(self.groups.get(gang)):
                yield from [pod for pod in self.members(gang) if waits(pod)][:1]

    def made(self) -> int:
        """How many PodGroups are of the grouper's making."""
        return len(self._made)

    def made_and_unused(self) -> Iterator[tuple[str, AnyPodGroup]]:
        """PodGroups of the grouper's making that no pod names."""
        for key in list(self._made):
            if key not in self._members:
                yield key, self.groups[key]

    def groups_owned_by(self, uid: str) -> Iterator[PodGroup]:
        """bayplan's own PodGroups that were made for an owner."""
        for written in self.groups.values():
            owners = written.metadata.owner_references or ()
            if isinstance(written, PodGroup) and is_managed(written) and any(each.uid == uid for each in owners):
                yield written

    def _is_ours(self, gang: str) -> bool:
        """Whether a gang's PodGroup could be of the grouper's making."""
        return bool(gang) and self._dialect.key(gang.rpartition(" ")[2]) == gang


def waits(pod: Pod) -> bool:
    """Whether a pod has no node and still wants one."""
    return not pod.spec.node_name and not pod.metadata.deletion_timestamp


def _looks_different(known: Pod, pod: Pod) -> bool:
    """True if a pod has changed in something that its gang depends on; that it was given its place is the outcome, not a cause."""
    before, after = known.metadata, pod.metadata
    return (
        before.owner_references != after.owner_references
        or (before.labels or {}) != _without_new_place(before.labels or {}, after.labels or {})
        or (before.annotations or {}) != _without_new_place(before.annotations or {}, after.annotations or {})
    )


def _without_new_place(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in after.items() if key in before or key not in PLACE}
