"""Workloads whose pods are not all there at once: some have ended, others come in a second wave, or there are none for
now.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from bayplan.dialects.own.members import gang_with_pods
from bayplan.gangs.model import Gang
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Metadata, Pod
from tests.unit.grouping.workloads import (
    IN_ONE_BLOCK,
    RACK,
    Raw,
    grouped,
    job,
    pod,
    problems,
    spec_of,
    thing,
)

INDEX = "batch.kubernetes.io/job-completion-index"


def in_segments_of(size: int) -> dict[str, str]:
    return {"kai.scheduler/segment-size": str(size), "kai.scheduler/segment-topology-required-placement": RACK}


@pytest.mark.parametrize(
    "status, expected",
    [
        ({}, {"size": 4}),
        ({"succeeded": 1}, {"size": 4, "minimum": 3}),
        ({"succeeded": 1, "failedIndexes": "3"}, {"size": 4, "minimum": 2}),
        ({"failedIndexes": "0,2-3"}, {"size": 4, "minimum": 1}),
        ({"failedIndexes": ""}, {"size": 4}),
    ],
)
def test_indexes_of_a_job_that_succeeded_or_failed_do_not_come_back(status: Raw, expected: Raw) -> None:
    workload = job(IN_ONE_BLOCK) | {"status": status}
    spec = spec_of(grouped(pod({INDEX: "0"}), workload))
    assert {key: spec[key] for key in ("size", "minimum") if key in spec} == expected


def test_failed_indexes_that_are_none_are_told() -> None:
    outcome = grouped(pod({INDEX: "0"}), job(IN_ONE_BLOCK) | {"status": {"failedIndexes": "a"}})
    assert problems(outcome) == ['Job ml/train: status.failedIndexes: "a" must be indexes such as 1,3-5']


def test_a_second_wave_fills_the_segments_again() -> None:
    workload = job(in_segments_of(2), parallelism=5, completions=10)
    places = [grouped(pod({INDEX: str(index)}), workload).group for index in range(10)]
    wave = ["segment-0", "segment-0", "segment-1", "segment-1", "segment-2"]
    assert places == wave * 2


def test_ranks_of_a_job_set_with_waves_are_all_different() -> None:
    template = {"spec": {"parallelism": 2, "completions": 4}}
    jobs = [{"name": "w", "replicas": 2, "template": template}]
    workload = thing("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})
    labels = [
        {
            "jobset.sigs.k8s.io/replicatedjob-name": "w",
            "jobset.sigs.k8s.io/job-index": str(of_job),
            INDEX: str(index),
        }
        for of_job in range(2)
        for index in range(4)
    ]
    assert [grouped(pod(each), workload).rank for each in labels] == list(range(8))


class TestPodsOfAJobSetThatHaveEnded:
    """A driver of one pod, and two Jobs of four workers each."""

    DRIVER: ClassVar[Raw] = {"name": "driver", "template": {"spec": {"parallelism": 1, "completions": 1}}}
    WORKERS: ClassVar[Raw] = {
        "name": "worker",
        "replicas": 2,
        "template": {"spec": {"parallelism": 4, "completions": 4}},
    }

    def groups(self, *jobs: Raw) -> dict[str, int]:
        """How many of each group must start together."""
        workload = thing("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [self.DRIVER, self.WORKERS]})
        outcome = grouped(pod({"jobset.sigs.k8s.io/replicatedjob-name": "worker"}), workload, jobs=jobs)
        return {group["name"]: group.get("minimum", group["size"]) for group in spec_of(outcome)["groups"]}

    def job(self, role: str, pods: int, status: Raw, *, of: str = "1b4e28ba-2fa1-11d2") -> Raw:
        made = job(parallelism=pods, completions=pods)
        labels = {"jobset.sigs.k8s.io/replicatedjob-name": role}
        owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": of}
        return made | {"metadata": made["metadata"] | {"labels": labels, "ownerReferences": [owner]}, "status": status}

    def test_are_not_waited_for(self) -> None:
        assert self.groups() == {"driver": 1, "worker": 8}
        assert self.groups(self.job("driver", 1, {"active": 1})) == {"driver": 1, "worker": 8}
        assert self.groups(self.job("driver", 1, {"succeeded": 1})) == {"driver": 0, "worker": 8}

    def test_are_counted_over_all_jobs_of_their_group(self) -> None:
        jobs = [self.job("worker", 4, {"succeeded": 3}), self.job("worker", 4, {"succeeded": 1})]
        assert self.groups(*jobs) == {"driver": 1, "worker": 4}

    def test_are_all_of_a_job_that_has_finished(self) -> None:
        """One that was successful before all pods were, or has failed, makes no more of them."""
        for kind in ("Complete", "Failed"):
            finished = {"conditions": [{"type": kind, "status": "True"}]}
            assert self.groups(self.job("worker", 4, finished)) == {"driver": 1, "worker": 4}

    def test_are_not_those_of_another_job_set_of_its_name(self) -> None:
        assert self.groups(self.job("driver", 1, {"succeeded": 1}, of="an-older-one")) == {"driver": 1, "worker": 8}

    def test_leave_a_gang_of_those_that_still_come(self) -> None:
        """As the scheduler sees it: the driver is gone, and eight workers have nothing to wait for."""
        workload = thing("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [self.DRIVER, self.WORKERS]})
        label = {"jobset.sigs.k8s.io/replicatedjob-name": "worker"}
        outcome = grouped(pod(label), workload, jobs=[self.job("driver", 1, {"succeeded": 1})])
        members = [
            Pod(metadata=Metadata(name=f"w-{number}", namespace="ml", labels={"bayplan.io/group": "worker"}))
            for number in range(8)
        ]
        gang = gang_with_pods(msgspec.convert(outcome.manifest, PodGroup), members)
        assert isinstance(gang, Gang)
        assert [group.least for group in gang.root.groups] == [0, 8]


@pytest.mark.parametrize(
    "group, expected",
    [
        ({"replicas": 1, "minReplicas": 2}, {"size": 2}),
        ({"minReplicas": 2}, {"size": 2}),
        ({"replicas": 9, "minReplicas": 1, "maxReplicas": 4}, {"size": 4, "minimum": 1}),
        ({"replicas": 3, "minReplicas": 2, "maxReplicas": 4, "numOfHosts": 2}, {"size": 6, "minimum": 4}),
    ],
)
def test_ray_keeps_replicas_between_both_bounds(group: Raw, expected: Raw) -> None:
    workload = thing("ray.io/v1", "RayCluster", {"workerGroupSpecs": [{"groupName": "w", **group}]})
    assert spec_of(grouped(pod({"ray.io/group": "w"}), workload))["groups"][1] == {"name": "w"} | expected


@pytest.mark.parametrize(
    "workload",
    [
        thing("apps/v1", "Deployment", {"replicas": 0}, IN_ONE_BLOCK),
        thing("serving.knative.dev/v1", "Revision", {}, IN_ONE_BLOCK | {"autoscaling.knative.dev/min-scale": "0"}),
    ],
    ids=["Deployment", "Revision"],
)
def test_a_workload_that_is_scaled_to_nothing_is_not_wrong(workload: Raw) -> None:
    outcome = grouped(pod(), workload)
    assert problems(outcome) == []
    assert outcome.manifest is not None
    late = Pod(metadata=Metadata(name="p", namespace="ml"))
    gang = gang_with_pods(msgspec.convert(outcome.manifest, PodGroup), [late])
    assert isinstance(gang, Gang)
    assert gang.pods == [late]


@pytest.mark.parametrize("least, minimum", [(1, 4), (4, 4), (5, None), (8, None)])
def test_minima_are_whole_segments(least: int, minimum: int | None) -> None:
    elastic: dict[str, Any] = {"minReplicas": least}
    roles = {"Worker": {"replicas": 8, "template": {"metadata": {"annotations": in_segments_of(4)}}}}
    workload = thing("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": roles, "elasticPolicy": elastic})
    worker = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}
    (group,) = spec_of(grouped(pod(worker), workload))["groups"]
    assert group.get("minimum") == minimum


@pytest.mark.parametrize(
    "workload, minimum",
    [
        (job(in_segments_of(2)) | {"status": {"succeeded": 1}}, 2),
        (job(in_segments_of(2)) | {"status": {"succeeded": 3}}, 0),
        (thing("apps/v1", "StatefulSet", {"replicas": 4}, in_segments_of(2)), 0),
    ],
    ids=["three are left", "one is left", "one by one"],
)
def test_no_segment_waits_for_pods_that_do_not_come(workload: Raw, minimum: int) -> None:
    assert spec_of(grouped(pod({INDEX: "0"}), workload))["minimum"] == minimum
