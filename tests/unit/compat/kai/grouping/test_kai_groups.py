"""KAI's groups where thought was needed: segments of a LeaderWorkerSet, wrappers, Ray's templates, revisions, defaults
per kind.
"""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.grouping.group import GroupingSettings, KaiSettings, group_for
from bayplan.grouping.grouping import Grouping, Lookup
from tests.unit.grouping.workloads import Raw, pod, problems, spec_of, thing

LWS = "leaderworkerset.sigs.k8s.io"


def kai(member: Raw, *owners: Raw, found: dict[str, list[Raw]] | None = None, **settings: Any) -> Grouping:
    """What KAI makes of a pod; `found` are the objects of its cluster, by name (or by kind
    where a list is asked for).
    """
    answers: dict[Lookup, list[Raw]] = {}
    while True:
        outcome = group_for(member, owners, GroupingSettings(mode="kai", kai=KaiSettings(**settings)), answers)
        if isinstance(outcome, Grouping):
            return outcome
        answers[outcome] = (found or {}).get(outcome.name or outcome.kind, [])


def lws(size: int, segment: int, policy: str = "LeaderWorker") -> Raw:
    sub_groups = {"subGroupSize": segment, "subGroupPolicyType": policy}
    template = {"size": size, "subGroupPolicy": sub_groups, "workerTemplate": {}}
    return thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": template})


@pytest.mark.parametrize(
    "size, segment, policy, sizes",
    [
        (5, 2, "LeaderWorker", {"segment-0": 3, "segment-1": 2, "leader": 1, "workers": 2}),
        (4, 2, "LeaderWorker", {"segment-0": 2, "segment-1": 2, "leader": 1, "workers": 1}),
        (6, 4, "LeaderWorker", {"segment-0": 4, "segment-1": 2, "leader": 1, "workers": 3}),
        (5, 2, "LeaderExcluded", {"leader": 1, "segment-0": 2, "segment-1": 2}),
    ],
)
def test_segments_of_a_leader_worker_set(size: int, segment: int, policy: str, sizes: dict[str, int]) -> None:
    outcome = kai(pod({f"{LWS}/worker-index": "1"}), lws(size, segment, policy))
    assert {each["name"]: each["minMember"] for each in spec_of(outcome)["subGroups"]} == sizes


@pytest.mark.parametrize(
    "policy, places",
    [
        ("LeaderWorker", ["leader", "workers", "workers", "segment-1", "segment-1"]),
        ("LeaderExcluded", ["leader", "segment-0", "segment-0", "segment-1", "segment-1"]),
    ],
)
def test_the_segment_of_each_pod(policy: str, places: list[str]) -> None:
    members = [pod({f"{LWS}/worker-index": str(index)}) for index in range(5)]
    assert [kai(member, lws(5, 2, policy)).group for member in members] == places


@pytest.mark.parametrize(
    "size, segment, policy",
    [(4, 1, "LeaderWorker"), (4, 5, "LeaderWorker"), (4, 2, "LeaderExcluded")],
    ids=["too small", "too large", "does not divide"],
)
def test_segments_that_kai_gives_up_on(size: int, segment: int, policy: str) -> None:
    assert kai(pod({f"{LWS}/worker-index": "0"}), lws(size, segment, policy)).held


def test_a_wrapper_hands_its_labels_down() -> None:
    run = thing("argoproj.io/v1alpha1", "Workflow", {})
    run["metadata"]["labels"] = {"kai.scheduler/queue": "research"}
    job_set = thing("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"name": "w", "replicas": 3}]})
    outcome = kai(pod({"jobset.sigs.k8s.io/replicatedjob-name": "w"}), job_set, run)
    assert outcome.name == "pg-train-1b4e28ba-2fa1-11d2-w"
    assert spec_of(outcome)["queue"] == "research"
    assert spec_of(outcome)["minMember"] == 3


def test_a_pod_is_the_owner_of_a_deployments_group() -> None:
    deployment = thing("apps/v1", "Deployment", {"replicas": 3})
    outcome = kai(pod(), thing("apps/v1", "ReplicaSet", {}), deployment)
    assert outcome.name == "pg-train-x-p-1"
    assert outcome.owner is not None
    assert outcome.owner.kind == "Pod"
    assert spec_of(outcome)["priorityClassName"] == "inference"


def test_ray_templates_ask_for_their_own_groups() -> None:
    asked = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}
    workers = {"groupName": "gpu", "replicas": 2, "template": {"metadata": {"annotations": asked}}}
    cluster = thing("ray.io/v1", "RayCluster", {"workerGroupSpecs": [workers, {"groupName": "none", "replicas": 0}]})
    cluster["metadata"]["labels"] = {"ray.io/priority-class-name": "urgent"}
    outcome = kai(pod({"ray.io/group": "gpu"}), cluster)
    assert spec_of(outcome)["priorityClassName"] == "urgent"
    assert spec_of(outcome)["subGroups"] == [
        {"name": "headgroup", "minMember": 1},
        {"name": "gpu", "minMember": 2, "topologyConstraint": {"topology": "network", "requiredTopologyLevel": "rack"}},
    ]
    assert outcome.group == "gpu"


def test_a_ray_job_without_a_cluster_yet_waits() -> None:
    assert problems(kai(pod(), thing("ray.io/v1", "RayJob", {}))) == [
        "RayJob ml/train: status: names no RayCluster yet; Ray's operator has to create it"
    ]


def test_knative_groups_pods_or_revisions() -> None:
    revision = thing("serving.knative.dev/v1", "Revision", {}, {"autoscaling.knative.dev/min-scale": "3"})
    service = thing("serving.knative.dev/v1", "Service", {})
    member = pod({"serving.knative.dev/revision": "train"})
    alone = kai(member, service, found={"train": [revision]})
    together = kai(member, service, found={"train": [revision]}, gangs_of_knative=True)
    assert (alone.name, spec_of(alone)["minMember"]) == ("pg-train-x-p-1", 1)
    assert (together.name, spec_of(together)["minMember"]) == ("pg-train-1b4e28ba-2fa1-11d2", 3)


def test_a_revision_whose_pods_have_groups_of_their_own_stays_so() -> None:
    revision = thing("serving.knative.dev/v1", "Revision", {})
    others = [pod(annotations={"pod-group-name": name}) for name in ("one", "two")]
    member = pod({"serving.knative.dev/revision": "train"})
    service = thing("serving.knative.dev/v1", "Service", {})
    outcome = kai(member, service, found={"train": [revision], "Pod": others}, gangs_of_knative=True)
    assert outcome.name == "pg-train-x-p-1"


def test_a_mpi_job_counts_its_late_launcher_once_it_exists() -> None:
    replicas = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}
    job = thing(
        "kubeflow.org/v1", "MPIJob", {"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": replicas}
    )
    assert spec_of(kai(pod(), job))["minMember"] == 2
    assert spec_of(kai(pod(), job, found={"Pod": [pod()]}))["minMember"] == 3


def test_defaults_of_a_kind_come_from_a_config_map() -> None:
    types = '[{"typeName": "ReplicaSet", "group": "apps", "priorityName": "low", "preemptibility": "Preemptible"}]'
    found = {"defaults": [{"data": {"types": types}}], "low": [{"metadata": {"name": "low"}}]}
    replica_set = thing("apps/v1", "ReplicaSet", {})
    outcome = kai(pod(), replica_set, found=found, defaults_namespace="kai", defaults_name="defaults")
    assert (spec_of(outcome)["priorityClassName"], spec_of(outcome)["preemptibility"]) == ("low", "preemptible")


def test_a_template_may_hold_anything() -> None:
    roles = {"Worker": {"replicas": 2, "template": "x"}}
    outcome = kai(pod(), thing("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": roles}))
    assert problems(outcome) == ['PyTorchJob ml/train: template: "x" must be a map']
