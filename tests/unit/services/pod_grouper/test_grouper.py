"""The pod grouper's stories, on a cluster in a dictionary and in virtual time: arrivals, changes, trouble, and clearing
away.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from bayplan.grouping.group import awaits_look
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup, PodGroupSpec
from bayplan.kube.wire.core_v1 import Metadata, OwnerReference, Pod
from bayplan.kube.wire.k8s_scheduling_v1beta1 import Workload
from tests.builders.gangs import group_object
from tests.builders.services import api_error, in_virtual_time
from tests.unit.services.pod_grouper.small_cluster import (
    TOPOLOGY,
    Heard,
    SmallCluster,
    bound,
    grouper_at_work,
    job,
    pod_of,
)

GROUP = "train-uid-trai"
JOB = "/apis/batch/v1/namespaces/ml/jobs/train"

Story = Callable[[], Coroutine[None, None, None]]


def story(told: Story) -> Callable[[], None]:
    """A test that is a coroutine, in virtual time."""

    @functools.wraps(told)
    def run() -> None:
        in_virtual_time(told())

    return run


def cluster_with_job(pods: int = 3) -> SmallCluster:
    cluster = SmallCluster()
    cluster.put_owner(job(pods=pods))
    for index in range(pods):
        cluster.put_pod(pod_of(job(), index))
    return cluster


@story
async def test_a_thousand_pods_of_one_job_cost_one_group_and_a_label_each() -> None:
    cluster = cluster_with_job(1000)
    with grouper_at_work(cluster):
        await asyncio.sleep(1.9)
    assert set(cluster.labelled().values()) == {GROUP}
    assert cluster.groups[GROUP].spec == PodGroupSpec(topology="network", required="example.com/rack", size=1000)
    assert cluster.asked == ["/apis/batch/v1", JOB]
    assert cluster.written.count(f"podgroups/{GROUP}") == 1
    # The group, its condition, and a label for each pod.
    assert len(cluster.written) == len(set(cluster.written)) == 1 + 1 + 1000


@story
async def test_the_group_names_its_owner() -> None:
    cluster = cluster_with_job()
    with grouper_at_work(cluster):
        await asyncio.sleep(1)
    group = cluster.groups[GROUP]
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="train", uid="uid-train")
    assert group.metadata.owner_references == [owner]
    assert group.metadata.labels == {"app.kubernetes.io/managed-by": "bayplan-pod-grouper"}
    assert group.status is not None
    assert [(each.type, each.status, each.message) for each in group.status.conditions or ()] == [
        ("Grouped", "True", "made for Job ml/train")
    ]


@story
async def test_groups_are_counted_as_soon_as_they_are_made() -> None:
    registry = CollectorRegistry()
    with grouper_at_work(cluster_with_job(), registry=registry):
        await asyncio.sleep(1)
        assert registry.get_sample_value("bayplan_pod_grouper_groups") == 1


@story
async def test_pods_that_ask_for_nothing_stand_alone() -> None:
    cluster, heard = SmallCluster(), Heard()
    cluster.put_owner(job(annotations={}))
    with grouper_at_work(cluster, heard) as cache:
        cluster.put_pod(pod_of(job(), 0))
        assert cache.expects_group(cluster.pods["train-0"])
        await asyncio.sleep(1)
        assert not cache.expects_group(cluster.pods["train-0"])
    assert (heard.alone, cluster.written) == (["train-0"], [])


@story
async def test_by_itself_it_marks_pods_that_stand_alone_once() -> None:
    cluster = SmallCluster()
    cluster.put_owner(job(annotations={}))
    cluster.put_pod(pod_of(job(), 0))
    with grouper_at_work(cluster, marks_alone=True):
        await asyncio.sleep(30)
    assert cluster.written == ["pods/train-0"]
    assert cluster.pods["train-0"].metadata.annotations == {"bayplan.io/grouped": "alone"}
    assert not awaits_look(cluster.pods["train-0"])


@story
async def test_a_standalone_grouper_marks_no_pod_whose_owner_is_invalid() -> None:
    cluster = SmallCluster()
    cluster.put_owner(job(annotations={**TOPOLOGY, "kai.scheduler/segment-size": "many"}))
    cluster.put_pod(pod_of(job(), 0))
    with grouper_at_work(cluster, marks_alone=True):
        await asyncio.sleep(5)
    assert cluster.written == []
    assert awaits_look(cluster.pods["train-0"])


@story
async def test_pods_that_come_before_their_owner_wait_and_report_a_long_wait() -> None:
    cluster, heard = SmallCluster(), Heard()
    cluster.put_pod(pod_of(job(), 0))
    with grouper_at_work(cluster, heard):
        await asyncio.sleep(0.5)
        assert heard.held == []
        await asyncio.sleep(10)
        assert "its owner Job ml/train does not exist" in heard.held[0]
        cluster.put_owner(job(pods=1))
        await asyncio.sleep(30)
    assert cluster.labelled() == {"train-0": GROUP}


@story
async def test_an_owner_of_the_same_name_is_not_the_owner() -> None:
    cluster = SmallCluster()
    cluster.put_owner(job(uid="a-later-one"))
    cluster.put_pod(pod_of(job(), 0))
    with grouper_at_work(cluster):
        await asyncio.sleep(60)
    assert cluster.written == []


@pytest.mark.parametrize("status", [403, 404, 409, 429, 500])
def test_refused_writes_are_retried(status: int) -> None:
    async def told() -> None:
        cluster, left = cluster_with_job(), [2]

        def trouble(verb: str, what: str) -> None:
            if what == f"podgroups/{GROUP}" and left[0]:
                left[0] -= 1
                raise api_error(status)

        cluster.trouble = trouble
        with grouper_at_work(cluster):
            await asyncio.sleep(20)
        assert set(cluster.labelled().values()) == {GROUP}

    in_virtual_time(told())


@story
async def test_the_next_one_goes_on_where_one_was_stopped_between_group_and_labels() -> None:
    cluster = cluster_with_job()

    def no_labels(verb: str, what: str) -> None:
        if what.startswith("pods/"):
            raise api_error(500)

    cluster.trouble = no_labels
    with grouper_at_work(cluster):
        await asyncio.sleep(3)
    assert (list(cluster.groups), set(cluster.labelled().values())) == ([GROUP], {""})
    cluster.trouble = lambda verb, what: None
    with grouper_at_work(cluster):
        await asyncio.sleep(3)
    assert (list(cluster.groups), set(cluster.labelled().values())) == ([GROUP], {GROUP})


@story
async def test_nothing_is_written_without_the_lease() -> None:
    cluster = cluster_with_job()
    with grouper_at_work(cluster, holds_lease=lambda: False):
        await asyncio.sleep(60)
    assert cluster.written == []


@story
async def test_a_job_that_is_scaled_while_its_pods_wait_has_another_group() -> None:
    cluster = cluster_with_job(3)
    with grouper_at_work(cluster):
        await asyncio.sleep(3)
        cluster.put_owner(job(pods=5))
        await asyncio.sleep(12)
    assert cluster.groups[GROUP].spec.size == 5


@story
async def test_a_running_gang_shrinks_with_its_job() -> None:
    cluster = cluster_with_job(3)
    with grouper_at_work(cluster):
        await asyncio.sleep(3)
        for pod in list(cluster.pods.values()):
            cluster.put_pod(bound(pod))
        cluster.put_owner(job(pods=1))
        await asyncio.sleep(30)
        assert cluster.groups[GROUP].spec.size == 3  # its pods still run
        cluster.remove_pod("train-1")
        cluster.remove_pod("train-2")
        await asyncio.sleep(1)
    assert cluster.groups[GROUP].spec.size == 1


@story
async def test_a_running_gang_is_not_written_again_for_a_lost_pod_or_a_lost_owner() -> None:
    cluster = cluster_with_job(3)
    with grouper_at_work(cluster, heard := Heard()):
        await asyncio.sleep(3)
        for pod in list(cluster.pods.values()):
            cluster.put_pod(bound(pod))
        before = list(cluster.written)
        cluster.remove_pod("train-1")
        await asyncio.sleep(30)
        cluster.owners.clear()
        await asyncio.sleep(60)
    assert cluster.written == before
    assert heard.held == []


@story
async def test_a_gang_whose_late_members_never_come_shrinks_with_its_job() -> None:
    cluster = cluster_with_job(3)
    with grouper_at_work(cluster):
        await asyncio.sleep(3)
        cluster.put_pod(bound(cluster.pods["train-0"]))
        cluster.remove_pod("train-1")
        cluster.remove_pod("train-2")
        await asyncio.sleep(3)
        cluster.put_owner(job(pods=1))
        await asyncio.sleep(12)
    assert cluster.groups[GROUP].spec.size == 1


@story
async def test_changes_to_a_group_are_reverted_and_additions_stay() -> None:
    cluster = cluster_with_job()
    with grouper_at_work(cluster):
        await asyncio.sleep(1)
        made = cluster.groups[GROUP]
        cluster.put_group(msgspec.structs.replace(made, spec=PodGroupSpec(size=1, objective=["closest"])))
        await asyncio.sleep(1)
        assert cluster.groups[GROUP].spec.size == 3
        cluster.written.clear()
        cluster.put_group(msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, objective=["closest"])))
        await asyncio.sleep(60)
    assert cluster.written == []


@story
async def test_a_gang_is_held_back_until_its_group_is_put_back() -> None:
    cluster = cluster_with_job()
    with grouper_at_work(cluster) as cache:
        await asyncio.sleep(1)
        made = cluster.groups[GROUP]
        assert cache.wanted.why_gang_waits(made) == ""
        changed = msgspec.structs.replace(made, spec=PodGroupSpec(size=3, minimum=1, preferred="example.com/rack"))
        cluster.put_group(changed)
        assert "does not match its owner" in cache.wanted.why_gang_waits(changed)
        await asyncio.sleep(1)
        assert cluster.groups[GROUP].spec == made.spec
        assert cache.wanted.why_gang_waits(cluster.groups[GROUP]) == ""
        # Whose it is does not change where it goes.
        without_owner = msgspec.structs.replace(made.metadata, owner_references=None)
        cluster.put_group(msgspec.structs.replace(made, metadata=without_owner))
        assert cache.wanted.why_gang_waits(cluster.groups[GROUP]) == ""


@story
async def test_a_gang_with_an_older_group_waits_until_its_owner_was_examined() -> None:
    cluster, heard = cluster_with_job(), Heard()
    with grouper_at_work(cluster):
        await asyncio.sleep(1)
    with grouper_at_work(cluster, heard) as cache:
        assert cache.wanted.why_gang_waits(cluster.groups[GROUP]) == "waits for the pod grouper to look at its owner"
        await asyncio.sleep(1)
        assert cache.wanted.why_gang_waits(cluster.groups[GROUP]) == ""
    assert heard.free == [f"ml/{GROUP}"]


@story
async def test_a_gang_with_an_unreadable_owner_is_placed_by_its_group() -> None:
    cluster, heard = cluster_with_job(), Heard()
    with grouper_at_work(cluster):
        await asyncio.sleep(1)
    del cluster.owners[JOB]
    with grouper_at_work(cluster, heard) as cache:
        await asyncio.sleep(1)
        assert cache.wanted.why_gang_waits(cluster.groups[GROUP]) == ""
    assert heard.free == [f"ml/{GROUP}"]
    assert set(cluster.labelled().values()) == {GROUP}


@pytest.mark.parametrize("annotations", [{}, {**TOPOLOGY, "bayplan.io/gang": "false"}])
def test_pods_leave_a_gang_that_is_no_longer_asked_for(annotations: dict[str, str]) -> None:
    async def told() -> None:
        cluster, heard = cluster_with_job(), Heard()
        with grouper_at_work(cluster, heard) as cache:
            await asyncio.sleep(1)
            cluster.put_owner(job(annotations=annotations))
            await asyncio.sleep(15)
            assert set(cluster.labelled().values()) == {""}
            assert not any(cache.expects_group(pod) for pod in cluster.pods.values())
            await asyncio.sleep(20)
        assert sorted(heard.alone) == ["train-0", "train-1", "train-2"]
        assert cluster.groups == {}

    in_virtual_time(told())


@story
async def test_a_group_without_the_label_is_left_alone() -> None:
    cluster = cluster_with_job()
    with grouper_at_work(cluster) as cache:
        await asyncio.sleep(1)
        made = cluster.groups[GROUP]
        taken_over = msgspec.structs.replace(made.metadata, labels=None)
        cluster.put_group(PodGroup(metadata=taken_over, spec=PodGroupSpec(size=2)))
        cluster.written.clear()
        await asyncio.sleep(60)
        assert cache.wanted.why_gang_waits(cluster.groups[GROUP]) == ""
    assert (cluster.written, cluster.groups[GROUP].spec.size) == ([], 2)


@story
async def test_a_grouper_without_the_lease_rests() -> None:
    turns = 0

    def holds_lease() -> bool:
        nonlocal turns
        turns += 1
        return False

    with grouper_at_work(SmallCluster(), holds_lease=holds_lease):
        await asyncio.sleep(60)
    assert turns < 150


@story
async def test_a_group_that_goes_with_its_owner_stays_away_though_pods_still_name_it() -> None:
    """The garbage collector would delete it again and again."""
    cluster = cluster_with_job()
    with grouper_at_work(cluster):
        await asyncio.sleep(5)
        cluster.owners.clear()
        cluster.remove_group(GROUP)
        await asyncio.sleep(60)
    assert cluster.groups == {}


@story
async def test_a_deleted_group_is_recreated_while_its_pods_wait() -> None:
    cluster = cluster_with_job()
    with grouper_at_work(cluster):
        await asyncio.sleep(1)
        cluster.remove_group(GROUP)
        await asyncio.sleep(1)
        assert list(cluster.groups) == [GROUP]


@story
async def test_a_group_that_was_deleted_during_downtime_is_recreated() -> None:
    cluster = cluster_with_job()
    with grouper_at_work(cluster):
        await asyncio.sleep(1)
    cluster.remove_group(GROUP)
    with grouper_at_work(cluster):
        await asyncio.sleep(1)
    assert list(cluster.groups) == [GROUP]


@story
async def test_a_group_that_went_before_the_watch_had_shown_it_comes_back() -> None:
    """Written while the watch was broken and deleted by another client: only the next list tells, by what it lacks."""
    cluster = cluster_with_job()
    with grouper_at_work(cluster) as cache:
        cluster.listeners.remove(cache)
        await asyncio.sleep(1)
        del cluster.groups[GROUP]
        cluster.listen(cache)
        await asyncio.sleep(1)
    assert list(cluster.groups) == [GROUP]


@story
async def test_a_wrong_annotation_is_reported_once_and_pods_wait_until_it_is_fixed() -> None:
    cluster, heard = cluster_with_job(), Heard()
    cluster.put_owner(job(annotations={**TOPOLOGY, "kai.scheduler/topology": "My Network"}))
    sentence = (
        'Job ml/train: metadata.annotations["kai.scheduler/topology"]: "My Network" must be the name of a Topology'
    )
    with grouper_at_work(cluster, heard):
        await asyncio.sleep(60)
        assert heard.events == [f"Job train InvalidGroup: {sentence}"]
        assert {line.partition(": ")[2] for line in heard.held} == {
            f"the pod grouper cannot determine its gang: {sentence}"
        }
        assert (heard.alone, cluster.written) == ([], [])
        cluster.put_owner(job())
        await asyncio.sleep(12)
    assert set(cluster.labelled().values()) == {GROUP}


@story
async def test_the_condition_follows_an_owner_that_becomes_invalid_and_valid_again() -> None:
    cluster = cluster_with_job()

    def condition() -> tuple[str, str]:
        status = cluster.groups[GROUP].status
        assert status is not None
        found = (status.conditions or [])[0]
        return found.status, found.reason

    with grouper_at_work(cluster):
        await asyncio.sleep(1)
        cluster.put_owner(job(annotations={**TOPOLOGY, "kai.scheduler/topology": "My Network"}))
        await asyncio.sleep(12)
        assert condition() == ("False", "OwnerInvalid")
        cluster.put_owner(job())
        await asyncio.sleep(12)
        assert condition() == ("True", "AsItsOwnerSays")


@story
async def test_a_forbidden_owner_is_reported_once_and_its_pods_stand_alone() -> None:
    cluster, heard = cluster_with_job(1), Heard()

    def forbidden(verb: str, what: str) -> None:
        if what == JOB:
            raise api_error(403)

    cluster.trouble = forbidden
    with grouper_at_work(cluster, heard):
        await asyncio.sleep(30)
    text = "owners above Pod ml/train-0 are ignored: reading jobs (batch/v1) is forbidden"
    assert (heard.events, heard.alone) == ([f"Pod train-0 OwnerUnreadable: {text}"], ["train-0"])


@pytest.mark.parametrize(
    "owner_stays, gone_after", [(False, 25.0), (True, 620.0)], ids=["its owner is gone", "no pod came back"]
)
def test_an_unused_group_is_deleted(owner_stays: bool, gone_after: float) -> None:
    async def told() -> None:
        cluster = cluster_with_job()
        with grouper_at_work(cluster):
            await asyncio.sleep(1)
            for name in list(cluster.pods):
                cluster.remove_pod(name)
            if not owner_stays:
                cluster.owners.clear()
            await asyncio.sleep(4)
            assert list(cluster.groups) == [GROUP]
            await asyncio.sleep(gone_after)
            assert cluster.groups == {}

    in_virtual_time(told())


@pytest.mark.parametrize("replicas, is_there", [(2, False), (3, True)])
def test_the_group_of_a_replica_that_was_scaled_away_goes_soon(replicas: int, is_there: bool) -> None:
    owner = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "serve", "uid": "u1"}
    reference = msgspec.convert(owner, OwnerReference)
    labels = {"app.kubernetes.io/managed-by": "bayplan-pod-grouper"}
    metadata = Metadata(name="serve-u1-2", namespace="ml", uid="u", labels=labels, owner_references=[reference])

    async def told() -> None:
        cluster = SmallCluster()
        head = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "spec": {"replicas": replicas}}
        cluster.put_owner({**head, "metadata": {"name": "serve", "namespace": "ml", "uid": "u1"}})
        cluster.put_group(PodGroup(metadata=metadata, spec=PodGroupSpec(size=2)))
        with grouper_at_work(cluster):
            await asyncio.sleep(30)
        assert ("serve-u1-2" in cluster.groups) == is_there

    in_virtual_time(told())


@story
async def test_groups_of_others_are_never_touched() -> None:
    cluster = SmallCluster()
    cluster.put_group(PodGroup(metadata=Metadata(name="own", namespace="ml", uid="u"), spec=PodGroupSpec(size=2)))
    with grouper_at_work(cluster):
        await asyncio.sleep(1000)
    assert (cluster.written, list(cluster.groups)) == ([], ["own"])


@story
async def test_pods_of_other_schedulers_and_pods_with_a_node_are_nothing_to_us() -> None:
    cluster = SmallCluster()
    cluster.put_owner(job())
    foreign = pod_of(job(), 0)
    cluster.put_pod(msgspec.structs.replace(foreign, spec=msgspec.structs.replace(foreign.spec, scheduler_name="x")))
    cluster.put_pod(bound(pod_of(job(), 1)))
    with grouper_at_work(cluster):
        await asyncio.sleep(60)
    assert (cluster.asked, cluster.written) == ([], [])


@story
async def test_a_pod_that_was_replaced_meanwhile_does_not_give_its_label_to_the_successor() -> None:
    cluster = cluster_with_job(1)
    successor = pod_of(job("other"), 0, name="train-0", uid="another", labels={})
    with grouper_at_work(cluster):
        await asyncio.sleep(0.035)  # the group is being written
        cluster.put_pod(successor)
        cluster.put_owner(job("other", annotations={}))
        await asyncio.sleep(10)
    assert cluster.labelled() == {"train-0": ""}


@story
async def test_a_bug_triggered_by_one_pod_does_not_block_others() -> None:
    cluster = cluster_with_job()
    broken: Pod = pod_of(job("broken"), 0)
    cluster.put_owner({**job("broken"), "metadata": {**job("broken")["metadata"], "ownerReferences": 7}})
    cluster.put_pod(broken)
    with grouper_at_work(cluster):
        await asyncio.sleep(5)
    assert set(cluster.labelled().values()) == {GROUP, ""}


def workload(minimum: int, level: str = "example.com/block") -> Workload:
    """A Kubernetes Workload about the Job."""
    template = {
        "name": "all",
        "schedulingPolicy": {"gang": {"minCount": minimum}},
        "schedulingConstraints": {"topology": [{"key": level}]},
    }
    reference = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    return group_object(Workload, {"controllerRef": reference, "podGroupTemplates": [template]}, "plan", uid="uid-plan")


@story
async def test_a_kubernetes_workload_asks_for_its_job_until_it_is_deleted() -> None:
    cluster, heard = SmallCluster(), Heard()
    cluster.put_owner(job(annotations={}))
    for index in range(3):
        cluster.put_pod(pod_of(job(), index))
    with grouper_at_work(cluster, heard):
        await asyncio.sleep(1)
        assert len(heard.alone) == 3
        cluster.put_workload(workload(2))
        await asyncio.sleep(1)
        assert set(cluster.labelled().values()) == {GROUP}
        assert cluster.groups[GROUP].spec == PodGroupSpec(required="example.com/block", size=3, minimum=2)
        assert cluster.groups[GROUP].metadata.annotations == {"bayplan.io/workload": "plan"}
        cluster.remove_workload("plan")
        await asyncio.sleep(30)
    assert set(cluster.labelled().values()) == {""}


@story
async def test_an_invalid_workload_gets_an_event_and_its_pods_wait() -> None:
    cluster, heard = SmallCluster(), Heard()
    cluster.put_owner(job(annotations={}))
    cluster.put_workload(workload(4))
    cluster.put_pod(pod_of(job(), 0))
    with grouper_at_work(cluster, heard):
        await asyncio.sleep(30)
    field = "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount"
    told = f"Workload ml/plan: {field}: 4 is more than the pods of Job ml/train; there are 3"
    assert heard.events == [f"Workload plan InvalidGroup: {told}"]
    assert heard.held[0] == f"train-0: the pod grouper cannot determine its gang: {told}"
    assert cluster.written == []
