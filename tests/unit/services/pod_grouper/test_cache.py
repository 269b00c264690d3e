"""What the grouper knows: who has to be looked at, who must not be placed yet, and which groups are unused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.grouping.group import GroupingSettings
from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.client.watch import Absent
from bayplan.kube.resources import KAI_POD_GROUPS, KUBERNETES_WORKLOADS, NODES, POD_GROUPS, PODS
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup, PodGroupSpec
from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.kube.wire.k8s_scheduling_v1beta1 import Workload
from bayplan.kube.wire.meta_v1 import Change
from bayplan.services.pod_grouper.cache import GrouperCache
from bayplan.services.pod_grouper.contents import MANAGED_BY, POD_GROUPER
from tests.builders.gangs import group_object
from tests.unit.services.pod_grouper.small_cluster import bound, job, pod_of

LABEL = "bayplan.io/pod-group"


def cache_with(*pods: Pod) -> GrouperCache:
    cache = GrouperCache(GroupingSettings(), ["bayplan"])
    list(cache.take_in_steps(PODS, Listed(list(pods), "1", [])))
    return cache


def group(name: str = "g", *, made: bool = True, size: int = 0) -> PodGroup:
    labels = {MANAGED_BY: POD_GROUPER} if made else None
    metadata = Metadata(name=name, namespace="ml", uid=f"uid-{name}", labels=labels)
    return PodGroup(metadata=metadata, spec=PodGroupSpec(size=size))


def changed(pod: Pod, **metadata: object) -> Changes[Pod]:
    return Changes(
        [Change("MODIFIED", msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **metadata)))],
        [],
    )


def names(cache: GrouperCache) -> list[str]:
    return [pod.metadata.name for pod in cache.to_examine()]


def test_readiness_waits_for_pods_groups_and_workloads_or_their_absence() -> None:
    cache = cache_with()
    assert not cache.ready
    list(cache.take_in_steps(NODES, Listed([], "1", [])))
    assert not cache.ready
    list(cache.take_in_steps(POD_GROUPS, Absent(POD_GROUPS)))
    assert not cache.ready
    list(cache.take_in_steps(KUBERNETES_WORKLOADS, Absent(KUBERNETES_WORKLOADS)))
    assert cache.ready


def test_a_pod_is_examined_once_and_again_after_a_relevant_change() -> None:
    pod = pod_of(job(), 0)
    cache = cache_with(pod)
    assert (names(cache), names(cache)) == (["train-0"], [])
    list(cache.take_in_steps(PODS, changed(pod, resource_version="2")))
    assert names(cache) == []
    list(cache.take_in_steps(PODS, changed(pod, annotations={"kai.scheduler/topology": "network"})))
    assert names(cache) == ["train-0"]


def test_a_placed_pod_is_not_examined_again_unless_it_loses_its_place() -> None:
    pod = pod_of(job(), 0)
    cache = cache_with(pod)
    list(cache.take_in_steps(POD_GROUPS, Listed([group()], "1", [])))
    list(cache.to_examine())
    list(
        cache.take_in_steps(
            PODS, changed(pod, labels={**(pod.metadata.labels or {}), LABEL: "g", "bayplan.io/rank": "0"})
        )
    )
    assert names(cache) == []
    list(cache.take_in_steps(PODS, changed(pod)))
    assert names(cache) == ["train-0"]


@pytest.mark.parametrize(
    "metadata, expected",
    [
        ({}, True),
        ({"labels": {LABEL: "g"}}, False),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, False),
        ({"ownerReferences": []}, False),
        ({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]}, False),
    ],
    ids=["made by a Job", "in a gang", "in a gang of Volcano's", "without an owner", "made by a DaemonSet"],
)
def test_which_pods_must_wait_for_the_grouper(metadata: dict[str, object], expected: bool) -> None:
    pod = pod_of(job(), 0, **metadata)
    assert cache_with(pod).expects_group(pod) is expected


def test_a_pod_that_stands_alone_may_be_placed_until_it_changes() -> None:
    pod = pod_of(job(), 0)
    cache = cache_with(pod)
    cache.ungrouped(pod)
    assert not cache.expects_group(pod)
    list(cache.take_in_steps(PODS, changed(pod, annotations={"bayplan.io/gang": "true"})))
    assert cache.expects_group(pod)


def test_a_successor_of_the_same_name_is_judged_anew() -> None:
    pod = pod_of(job(), 0)
    cache = cache_with(pod)
    cache.ungrouped(pod)
    list(cache.to_examine())
    successor = pod_of(job(), 0, uid="another")
    list(cache.take_in_steps(PODS, Listed([successor], "2", [])))
    assert (cache.expects_group(successor), names(cache)) == (True, ["train-0"])


def test_pods_that_are_not_in_the_next_list_are_gone() -> None:
    cache = cache_with(pod_of(job(), 0, labels={LABEL: "g"}), pod_of(job(), 1, labels={LABEL: "g"}))
    list(cache.take_in_steps(PODS, Listed([pod_of(job(), 1, labels={LABEL: "g"})], "2", [])))
    assert [pod.metadata.name for pod in cache.members("ml/g")] == ["train-1"]


def test_groups_that_no_pod_names_are_unused_if_the_grouper_made_them() -> None:
    cache = cache_with(pod_of(job(), 0, labels={LABEL: "named"}))
    list(cache.take_in_steps(POD_GROUPS, Listed([group("named"), group("lost"), group("own", made=False)], "1", [])))
    assert list(cache.unused_groups()) == ["ml/lost"]
    assert len(cache.managed) == 2


def test_unsettled_gangs_have_a_group_of_the_grouper_and_an_unbound_pod() -> None:
    waiting, runs = pod_of(job(), 0, labels={LABEL: "a"}), bound(pod_of(job(), 1, labels={LABEL: "b"}))
    cache = cache_with(waiting, runs, pod_of(job(), 2, labels={LABEL: "own"}))
    list(cache.take_in_steps(POD_GROUPS, Listed([group("a"), group("b"), group("own", made=False)], "1", [])))
    assert [pod.metadata.name for pod in cache.unsettled_gangs()] == ["train-0"]


def test_a_running_gang_is_unsettled_while_it_lacks_members() -> None:
    first, second = (bound(pod_of(job(), index, labels={LABEL: "a"})) for index in range(2))
    cache = cache_with(first, second)
    list(cache.take_in_steps(POD_GROUPS, Listed([group("a", size=2)], "1", [])))
    assert list(cache.unsettled_gangs()) == []
    list(cache.take_in_steps(PODS, Changes([Change("DELETED", first)], [])))
    assert [pod.metadata.name for pod in cache.unsettled_gangs()] == ["train-1"]
    assert names(cache) == ["train-1"]
    list(cache.take_in_steps(POD_GROUPS, Listed([group("a", size=1)], "1", [])))
    assert list(cache.unsettled_gangs()) == []


def test_as_kai_does_it_every_pod_has_a_group_and_it_is_kais() -> None:
    pod = pod_of(job(), 0, ownerReferences=[])
    cache = GrouperCache(GroupingSettings(mode="kai"), ["bayplan"])
    list(cache.take_in_steps(PODS, Listed([pod], "1", [])))
    assert (cache.resource, names(cache)) == (KAI_POD_GROUPS, ["train-0"])
    assert not cache.expects_group(pod_of(job(), 0, annotations={"pod-group-name": "pg"}))


def workload(about: str = "train", **metadata: Any) -> Workload:
    reference = {"apiGroup": "batch", "kind": "Job", "name": about}
    return group_object(Workload, {"controllerRef": reference}, "plan", **metadata)


@pytest.mark.parametrize(
    "late, looked_at",
    [
        (workload(), ["train-0"]),
        (workload("other"), []),
        (workload(namespace="web"), []),
        (workload(ownerReferences=[{"kind": "Job", "name": "train", "uid": "uid-train"}]), []),
    ],
    ids=["about their owner", "about another", "in another namespace", "made by a controller"],
)
def test_pods_that_wait_are_looked_at_again_when_a_workload_comes(late: Workload, looked_at: list[str]) -> None:
    pod = pod_of(job(), 0)
    cache = cache_with(pod)
    list(cache.take_in_steps(POD_GROUPS, Listed([], "1", [])))
    list(cache.take_in_steps(KUBERNETES_WORKLOADS, Listed([], "1", [])))
    list(cache.to_examine())
    cache.ungrouped(pod)
    list(cache.take_in_steps(KUBERNETES_WORKLOADS, Changes([Change("ADDED", late)], [])))
    assert (names(cache), cache.expects_group(pod)) == (looked_at, bool(looked_at))
    list(cache.take_in_steps(KUBERNETES_WORKLOADS, Changes([Change("MODIFIED", late)], [])))
    assert names(cache) == []


def test_workloads_that_are_not_in_the_next_list_are_gone() -> None:
    cache = cache_with()
    list(cache.take_in_steps(KUBERNETES_WORKLOADS, Listed([workload()], "1", [])))
    assert cache.workloads.names() == ["ml/plan"]
    list(cache.take_in_steps(KUBERNETES_WORKLOADS, Absent(KUBERNETES_WORKLOADS)))
    assert cache.workloads.names() == []
