"""Volcano's Jobs: the PodGroup and pods that are made of one, and what admission says about wrong ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dialects.volcano import pod_group as volcano
from bayplan.dialects.volcano.job import job_problem, pod_group_of, pods_of
from bayplan.gangs.model import Gang
from bayplan.kube.errors import InvalidObject
from bayplan.kube.volcano_annotations import policy_in
from bayplan.kube.wire.volcano_batch_v1alpha1 import Job
from tests.builders.gangs import group_object
from tests.unit.dialects.readings import BLOCK, RACK, gang, outline

CPU = {"resources": {"limits": {"cpu": "4"}}}


def task(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [CPU]}}, **more}


def job(*tasks: dict[str, Any], **spec: Any) -> Job:
    return group_object(Job, {"tasks": list(tasks), **spec}, "vj")


def planned(*tasks: dict[str, Any], **spec: Any) -> Gang:
    made = job(*tasks, **spec)
    return gang(volcano.DIALECT, pod_group_of(made), pods_of(made))


def test_pods_carry_what_volcano_writes_on_them() -> None:
    partitions = {"totalPartitions": 2, "partitionSize": 2}
    made = job(task("worker", 4, partitionPolicy=partitions), schedulerName="bayplan")
    last = pods_of(made)[3]
    assert last.metadata.name == "vj-worker-3"
    assert last.spec.scheduler_name == "bayplan"
    assert volcano.group_named(last) == "vj"
    assert last.metadata.labels == {
        "volcano.sh/job-name": "vj",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": "3",
        "volcano.sh/partition-id": "1",
    }


def test_pods_name_the_priority_class_of_their_task_or_else_of_the_job() -> None:
    own = task("ps", 1)
    own["template"]["spec"] = {**own["template"]["spec"], "priorityClassName": "low"}
    made = pods_of(job(own, task("worker", 1), priorityClassName="high"))
    assert [each.spec.priority_class_name for each in made] == ["low", "high"]


def test_a_tasks_topology_policy_is_written_on_its_pods() -> None:
    made = pods_of(job(task("ps", 1), task("worker", 1, topologyPolicy="restricted")))
    policies = [policy_in(each.metadata.annotations) for each in made]
    assert policies == ["", "restricted"]


def test_all_pods_start_together_unless_the_job_says_otherwise() -> None:
    assert {name: least for name, (_, least) in outline(planned(task("ps", 1), task("worker", 2)).root).items()} == {
        "ps": 1,
        "worker": 2,
    }
    loose = planned(task("ps", 1, minAvailable=1), task("worker", 4, minAvailable=2), minAvailable=3)
    assert {name: least for name, (_, least) in outline(loose.root).items()} == {"ps": 1, "worker": 2}


def test_partitions_are_sub_groups() -> None:
    near = {"mode": "hard", "highestTierAllowed": 1}
    partitions = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, "networkTopology": near}
    found = planned(
        task("worker", 4, minAvailable=2, partitionPolicy=partitions),
        minAvailable=2,
        networkTopology={"mode": "hard", "highestTierAllowed": 2},
    )
    assert found.root.required == BLOCK
    (around,) = found.root.groups
    assert (around.minimum_groups, [group.required for group in around.groups]) == (1, [RACK, RACK])


@pytest.mark.parametrize(
    "wrong, told",
    [
        (task("t", -1), "'replicas' < 0 in task: t, job: vj;"),
        (
            task("t", 4, partitionPolicy={"totalPartitions": 0, "partitionSize": 0}),
            "'TotalPartitions' must be greater than 0 in task: t, job: vj",
        ),
        (
            task("t", 5, partitionPolicy={"totalPartitions": 2, "partitionSize": 2}),
            "'Replicas' are not equal to TotalPartitions*PartitionSize in task: t, job: vj",
        ),
        (
            task(
                "t", 4, minAvailable=4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
            ),
            "'MinAvailable' is not equal to MinPartitions*PartitionSize in task: t, job: vj",
        ),
        (
            {
                "name": "t",
                "topologyPolicy": "restricted",
                "template": {"spec": {"initContainers": [{}], "containers": [CPU]}},
            },
            "the cpu request isn't an integer in spec.task[1] container[1].",
        ),
    ],
)
def test_admission_says_what_is_wrong(wrong: dict[str, Any], told: str) -> None:
    refused = job(task("fine", 1), wrong)
    assert job_problem(refused) == told
    with pytest.raises(InvalidObject) as caught:
        pods_of(refused)
    assert str(caught.value) == f"Job ml/vj: {told}"


@pytest.mark.parametrize(
    "refused, told",
    [
        ({"tasks": []}, "No task specified in job spec"),
        ({"task": [task("t", 1)]}, "No task specified in job spec"),
        ({"minAvailable": -1, "tasks": [task("t", 1)]}, "job 'minAvailable' must be >= 0."),
        (
            {"minAvailable": 3, "tasks": [task("t", 2)]},
            "job 'minAvailable' should not be greater than total replicas in tasks;",
        ),
        ({"tasks": [task("t", 1), task("t", 1)]}, "duplicated task name t;"),
        (
            {"tasks": [task("t", 1, minAvailable=2)]},
            "'minAvailable' is greater than 'replicas' in task: t, job: vj;",
        ),
        ({"tasks": [task("t", 1, minAvailable=-1)]}, "'minAvailable' < 0 in task: t, job: vj;"),
    ],
    ids=["no tasks", "task for tasks", "negative", "more than there are", "twice", "more than the task has", "task"],
)
def test_a_job_that_admission_refuses_as_a_whole_is_refused_at_once(refused: dict[str, Any], told: str) -> None:
    written = msgspec.convert({"metadata": {"name": "vj", "namespace": "ml"}, "spec": refused}, Job)
    with pytest.raises(InvalidObject) as caught:
        pods_of(written)
    assert str(caught.value) == f"Job ml/vj: {told}"


def test_a_tier_is_named_or_numbered() -> None:
    both = {"highestTierAllowed": 1, "highestTierName": "rack"}
    told = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
    assert job_problem(job(task("t", 1), networkTopology=both)) == told
