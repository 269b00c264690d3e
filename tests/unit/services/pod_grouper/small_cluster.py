"""A cluster in a dictionary, for tests of the pod grouper: it answers as an API server would, and tells the cache what
changed.

`asked` and `written` keep what was asked for and written, in order. `trouble` is asked before each request and may
raise. Time is virtual (`in_virtual_time`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from prometheus_client import CollectorRegistry

from bayplan.grouping.group import GroupingSettings
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.resources import KUBERNETES_WORKLOADS, POD_GROUPS, PODS, Resource
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.k8s_scheduling_v1beta1 import Workload
from bayplan.kube.wire.meta_v1 import Change
from bayplan.services.edges.events import EventRecorder, Subject
from bayplan.services.pod_grouper.cache import GrouperCache
from bayplan.services.pod_grouper.grouper import PodGrouper
from bayplan.services.pod_grouper.reporting import GrouperMetrics
from tests.builders.bodies import Json
from tests.builders.services import api_error, now

SERVED = {
    "/apis/batch/v1": [("jobs", "Job", True), ("jobs/status", "Job", True)],
    "/apis/apps/v1": [("replicasets", "ReplicaSet", True), ("deployments", "Deployment", True)],
    "/apis/leaderworkerset.x-k8s.io/v1": [("leaderworkersets", "LeaderWorkerSet", True)],
    "/api/v1": [("pods", "Pod", True), ("nodes", "Node", False)],
}
TOPOLOGY = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "example.com/rack"}
INDEX = "batch.kubernetes.io/job-completion-index"


def job(name: str = "train", pods: int = 3, *, uid: str = "", annotations: Mapping[str, str] = TOPOLOGY) -> Json:
    """A Job that asks for a rack."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": uid or f"uid-{name}",
            "annotations": dict(annotations),
        },
        "spec": {"parallelism": pods, "completions": pods, "template": {}},
    }


def pod_of(owner: Json, index: int, **metadata: Any) -> Pod:
    """One of the pods that an owner's controller makes."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    name = f"{owner['metadata']['name']}-{index}"
    written = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": {INDEX: str(index)}}
    return msgspec.convert(
        {
            "metadata": {**written, "ownerReferences": [reference], **metadata},
            "spec": {"schedulerName": "bayplan"},
        },
        Pod,
    )


def bound(pod: Pod) -> Pod:
    """The pod on a node."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="n1"))


@dataclass
class SmallCluster:
    """Objects by path, pods and PodGroups as structs; listeners are told of every change."""

    owners: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    groups: dict[str, PodGroup] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    listeners: list[GrouperCache] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    trouble: Callable[[str, str], None] = lambda verb, what: None

    # -- what happens in the cluster ------------------------------------------------------------------------------

    def put_owner(self, owner: Json) -> None:
        plural = f"{owner['kind'].lower()}s"
        self.owners[f"/apis/{owner['apiVersion']}/namespaces/ml/{plural}/{owner['metadata']['name']}"] = owner

    def put_pod(self, pod: Pod) -> None:
        self.pods[pod.metadata.name] = pod
        self._tell(PODS, "MODIFIED", pod)

    def remove_pod(self, name: str) -> None:
        self._tell(PODS, "DELETED", self.pods.pop(name))

    def put_group(self, group: PodGroup) -> None:
        self.groups[group.metadata.name] = group
        self._tell(POD_GROUPS, "MODIFIED", group)

    def remove_group(self, name: str) -> None:
        self._tell(POD_GROUPS, "DELETED", self.groups.pop(name))

    def put_workload(self, workload: Workload) -> None:
        self.workloads[workload.metadata.name] = workload
        self._tell(KUBERNETES_WORKLOADS, "MODIFIED", workload)

    def remove_workload(self, name: str) -> None:
        self._tell(KUBERNETES_WORKLOADS, "DELETED", self.workloads.pop(name))

    def listen(self, cache: GrouperCache) -> None:
        """Tell cache everything there is, and from now on every change."""
        list(cache.take_in_steps(PODS, Listed(list(self.pods.values()), "1", [])))
        list(cache.take_in_steps(POD_GROUPS, Listed(list(self.groups.values()), "1", [])))
        list(cache.take_in_steps(KUBERNETES_WORKLOADS, Listed(list(self.workloads.values()), "1", [])))
        self.listeners.append(cache)

    def _tell(self, resource: Resource[Any], kind: Any, thing: Any) -> None:
        for cache in self.listeners:
            list(cache.take_in_steps(resource, Changes([Change(kind, thing)], [])))

    # -- the client -----------------------------------------------------------------------------------------------

    async def request(self, verb: str, path: str, **_: object) -> bytes:
        await asyncio.sleep(0.01)
        self.asked.append(path)
        self.trouble(verb, path)
        if path in SERVED:
            kinds = [{"name": name, "kind": kind, "namespaced": inside} for name, kind, inside in SERVED[path]]
            return msgspec.json.encode({"resources": kinds})
        if path not in self.owners:
            raise api_error(404)
        return msgspec.json.encode(self.owners[path])

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        body: Json,
        namespace: str,
        *,
        subresource: str = "",
        kind: str = "",
        **_: object,
    ) -> bytes:
        await asyncio.sleep(0.01)
        what = f"{resource.plural}/{name}" + (f"/{subresource}" if subresource else "")
        self.trouble("PATCH", what)
        self.written.append(what)
        if resource == PODS:
            self._label(self.pods[name], body["metadata"])
        else:
            known = msgspec.to_builtins(self.groups[name]) if name in self.groups else {}
            metadata = {"uid": f"uid-{name}", **known.get("metadata", {}), **body["metadata"]}
            if kind == "merge":
                body = {**body, "spec": _merged(known["spec"], body["spec"])}
            self.put_group(msgspec.convert({**known, **body, "metadata": metadata}, PodGroup))
        return b"{}"

    def _label(self, pod: Pod, change: Json) -> None:
        if pod.metadata.uid != change["uid"]:
            raise api_error(409)
        labels = _merged(pod.metadata.labels or {}, change["labels"])
        annotations = _merged(pod.metadata.annotations or {}, change.get("annotations", {}))
        metadata = msgspec.structs.replace(pod.metadata, labels=labels, annotations=annotations)
        self.put_pod(msgspec.structs.replace(pod, metadata=metadata))

    async def delete(self, resource: Resource[Any], name: str, namespace: str, *, uid: str) -> None:
        await asyncio.sleep(0.01)
        self.written.append(f"delete {resource.plural}/{name}")
        self.remove_group(name)

    def labelled(self) -> dict[str, str]:
        """The group that each pod names."""
        return {name: (pod.metadata.labels or {}).get("bayplan.io/pod-group", "") for name, pod in self.pods.items()}


def _merged(known: Mapping[str, Any], change: Mapping[str, Any]) -> Json:
    return {key: value for key, value in {**known, **change}.items() if value is not None}


@dataclass
class Heard:
    """Takes the place of the scheduler and of events, and notes what they are told."""

    alone: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)

    def gang_is_free(self, gang: str) -> None:
        self.free.append(gang)

    def ungrouped(self, pod: Pod) -> None:
        self.alone.append(pod.metadata.name)

    def is_held(self, pod: Pod, why: str) -> None:
        self.held.append(f"{pod.metadata.name}: {why}")

    def record(self, subject: Subject, type_: str, reason: str, action: str, note: str) -> None:
        self.events.append(f"{subject.kind} {subject.name} {reason}: {note}")


@contextmanager
def grouper_at_work(
    cluster: SmallCluster,
    heard: Heard | None = None,
    *,
    holds_lease: Callable[[], bool] = lambda: True,
    registry: CollectorRegistry | None = None,
    marks_alone: bool = False,
) -> Iterator[GrouperCache]:
    """A pod grouper that works until the end of the block."""
    cache = GrouperCache(GroupingSettings(), ["bayplan"])
    heard = heard or Heard()
    grouper = PodGrouper(
        cast("KubeClient", cluster),
        cache,
        events=cast("EventRecorder", heard),
        metrics=GrouperMetrics(registry or CollectorRegistry()),
        results=heard,
        marks_alone=marks_alone,
        clock=now,
    )
    cluster.listen(cache)
    work = asyncio.get_running_loop().create_task(grouper.work(holds_lease))
    try:
        yield cache
        assert not work.done(), work
    finally:
        cluster.listeners.remove(cache)
        work.cancel()
