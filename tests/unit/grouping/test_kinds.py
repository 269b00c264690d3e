"""What becomes of each kind: sizes, minima and groups of the PodGroup, and the group and rank of one of its pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dialects.members import Incomplete
from bayplan.dialects.own.members import gang_with_pods
from bayplan.gangs.ranks.ranks import INDEX_LABELS
from bayplan.grouping.kinds import KINDS
from bayplan.grouping.rules import Rule, RuleFile, rules_of
from bayplan.kube.wire.core_v1 import Metadata, Pod
from tests.unit.grouping.workloads import (
    BLOCK,
    IN_ONE_BLOCK,
    RACK,
    Raw,
    grouped,
    pod,
    pod_group,
    problems,
    spec_of,
    thing,
)

ROLE, INDEX = "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"
LWS = "leaderworkerset.sigs.k8s.io"


def kubeflow(kind: str, specs: str, roles: dict[str, int], **spec: Any) -> Raw:
    replicas = {role: {"replicas": number} for role, number in roles.items()}
    return thing("kubeflow.org/v1", kind, {specs: replicas} | spec)


def worker(index: int, role: str = "worker") -> Raw:
    return pod({ROLE: role, INDEX: str(index)})


def lws(size: int, annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    template = {"size": size, "workerTemplate": {}}
    return thing(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": template} | spec, annotations
    )


def lws_pod(index: int, group: int = 0) -> Raw:
    return pod({f"{LWS}/worker-index": str(index), f"{LWS}/group-index": str(group)})


def job_set(**spec: Any) -> Raw:
    jobs = [
        {"name": "driver", "template": {"spec": {}}},
        {"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 4}}},
    ]
    return thing("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs} | spec)


def few_completions() -> Raw:
    """A JobSet whose Jobs have fewer indexes than they allow pods."""
    jobs = [{"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 8, "completions": 4}}}]
    return job_set(replicatedJobs=jobs)


def ray_cluster() -> Raw:
    workers = [
        {"groupName": "GPU_workers", "replicas": 3, "minReplicas": 2, "numOfHosts": 4},
        {"groupName": "cpu", "replicas": 2, "minReplicas": 0},
        {"groupName": "idle", "replicas": 7, "suspend": True},
    ]
    return thing("ray.io/v1", "RayCluster", {"headGroupSpec": {}, "workerGroupSpecs": workers})


JOBSET_WORKER = {
    "jobset.sigs.k8s.io/replicatedjob-name": "worker",
    "jobset.sigs.k8s.io/job-index": "1",
    "batch.kubernetes.io/job-completion-index": "2",
}
MASTER, WORKERS = {"name": "master", "size": 1}, {"name": "worker", "size": 8}
ELASTIC, RUN_POLICY = {"minReplicas": 4}, {"schedulingPolicy": {"minAvailable": 5}}
PYTORCH = {"Master": 1, "Worker": 8}


@pytest.mark.parametrize(
    "workload, member, groups, place, rank",
    [
        (kubeflow("PyTorchJob", "pytorchReplicaSpecs", PYTORCH), worker(3), [MASTER, WORKERS], "worker", 4),
        (kubeflow("PyTorchJob", "pytorchReplicaSpecs", PYTORCH), worker(0, "master"), [MASTER, WORKERS], "master", 0),
        (
            kubeflow("PyTorchJob", "pytorchReplicaSpecs", PYTORCH, elasticPolicy=ELASTIC),
            worker(0),
            [MASTER, WORKERS | {"minimum": 4}],
            "worker",
            1,
        ),
        (
            kubeflow("PyTorchJob", "pytorchReplicaSpecs", PYTORCH, runPolicy=RUN_POLICY),
            worker(0),
            [MASTER, WORKERS | {"minimum": 4}],
            "worker",
            1,
        ),
        (
            kubeflow("TFJob", "tfReplicaSpecs", {"Worker": 4, "PS": 2, "Chief": 1}),
            worker(1, "ps"),
            [{"name": "chief", "size": 1}, {"name": "ps", "size": 2}, {"name": "worker", "size": 4}],
            "ps",
            2,
        ),
        (
            kubeflow("XGBoostJob", "xgbReplicaSpecs", {"Master": 1, "Worker": 2}),
            worker(1),
            [MASTER, {"name": "worker", "size": 2}],
            "worker",
            2,
        ),
        (kubeflow("JAXJob", "jaxReplicaSpecs", {"Worker": 2}), worker(1), [{"name": "worker", "size": 2}], "worker", 1),
        (
            kubeflow("MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}),
            pod({"training.kubeflow.org/job-role": "launcher"}),
            [{"name": "launcher", "size": 1}, {"name": "worker", "size": 2}],
            "launcher",
            None,
        ),
        (job_set(), pod(JOBSET_WORKER), [{"name": "driver", "size": 1}, {"name": "worker", "size": 8}], "worker", 7),
        (few_completions(), pod(JOBSET_WORKER), [{"name": "worker", "size": 8}], "worker", 6),
        (lws(4), lws_pod(2), [{"name": "leader", "size": 1}, {"name": "workers", "size": 3}], "workers", 2),
        (lws(4), lws_pod(0), [{"name": "leader", "size": 1}, {"name": "workers", "size": 3}], "leader", 0),
        (
            ray_cluster(),
            pod({"ray.io/group": "GPU_workers"}),
            [
                {"name": "headgroup", "size": 1},
                {"name": "gpu-workers", "size": 12, "minimum": 8},
                {"name": "cpu", "size": 2},
            ],
            "gpu-workers",
            None,
        ),
        (
            thing(
                "batch.volcano.sh/v1alpha1",
                "Job",
                {"minAvailable": 3, "tasks": [{"name": "ps"}, {"name": "w", "replicas": 4}]},
            ),
            pod({"volcano.sh/task-spec": "w", "volcano.sh/task-index": "1"}),
            [{"name": "ps", "size": 1}, {"name": "w", "size": 4, "minimum": 2}],
            "w",
            2,
        ),
    ],
)
def test_kinds_with_roles_are_gangs_of_groups(
    workload: Raw, member: Raw, groups: list[Raw], place: str, rank: int | None
) -> None:
    outcome = grouped(member, workload)
    assert spec_of(outcome) == {"groups": groups}
    assert (outcome.group, outcome.rank) == (place, rank)


@pytest.mark.parametrize(
    "workload, expected",
    [
        (thing("apps/v1", "ReplicaSet", {"replicas": 3}, IN_ONE_BLOCK), {"size": 3}),
        (thing("apps/v1", "Deployment", {"replicas": 3}, IN_ONE_BLOCK), {"size": 3, "minimum": 1}),
        (thing("apps/v1", "StatefulSet", {"replicas": 3}, IN_ONE_BLOCK), {"size": 3, "minimum": 1}),
        (
            thing("apps/v1", "StatefulSet", {"replicas": 3, "podManagementPolicy": "Parallel"}, IN_ONE_BLOCK),
            {"size": 3},
        ),
        (thing("kubeflow.org/v1", "Notebook", {}, IN_ONE_BLOCK), {"size": 1}),
        (
            thing("serving.knative.dev/v1", "Revision", {}, IN_ONE_BLOCK | {"autoscaling.knative.dev/min-scale": "3"}),
            {"size": 3, "minimum": 1},
        ),
        (
            thing(
                "amlarc.azureml.com/v1",
                "AmlJob",
                {"job": {"options": {"envs": {"AZUREML_NODE_COUNT": 5}}}},
                IN_ONE_BLOCK,
            ),
            {"size": 5},
        ),
    ],
    ids=lambda value: value.get("kind", "") if isinstance(value, dict) else "",
)
def test_kinds_with_one_sort_of_pods_are_flat(workload: Raw, expected: Raw) -> None:
    assert spec_of(grouped(pod(), workload)) == {"topology": "network", "required": BLOCK} | expected


def test_each_replica_of_a_leader_worker_set_is_a_gang() -> None:
    names = [grouped(lws_pod(0, group), lws(4)).name for group in (0, 1)]
    assert names == ["train-1b4e28ba-0", "train-1b4e28ba-1"]


@pytest.mark.parametrize("kind", ["RayJob", "RayService"])
def test_the_group_of_a_ray_job_is_its_clusters_with_the_jobs_wishes(kind: str) -> None:
    outcome = grouped(pod({"ray.io/group": "headgroup"}), ray_cluster(), thing("ray.io/v1", kind, {}, IN_ONE_BLOCK))
    assert outcome.owner is not None
    assert outcome.owner.kind == "RayCluster"
    assert spec_of(outcome)["required"] == BLOCK


def test_the_pods_of_a_spark_application_follow_the_driver() -> None:
    driver = thing("v1", "Pod", {"containers": []}, IN_ONE_BLOCK)
    driver["metadata"]["labels"] = {"spark-app-selector": "spark-7"}
    executor = pod({"spark-app-selector": "spark-7", "spark-exec-id": "2"})
    assert spec_of(grouped(executor, driver)) == {"topology": "network", "required": BLOCK, "size": 1}
    assert grouped(executor, driver).name == grouped(driver).name
    assert grouped(executor, driver).rank == 2


# -- the order of groups
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "workload, early, late",
    [
        (lws(3, startupPolicy="LeaderReady"), [lws_pod(0)], [lws_pod(1), lws_pod(2)]),
        (
            kubeflow(
                "MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}, launcherCreationPolicy="WaitForWorkersReady"
            ),
            [worker(0), worker(1)],
            [worker(0, "launcher")],
        ),
        (
            job_set(startupPolicy={"startupPolicyOrder": "InOrder"}),
            [pod({"jobset.sigs.k8s.io/replicatedjob-name": "driver"})],
            [pod({"jobset.sigs.k8s.io/replicatedjob-name": "worker"})] * 8,
        ),
    ],
    ids=["leader first", "workers first", "in order"],
)
def test_those_that_are_created_first_do_not_wait_for_the_others(
    workload: Raw, early: list[Raw], late: list[Raw]
) -> None:
    wanted = pod_group(grouped(early[0], workload))
    labelled = [grouped(member, workload).labels for member in (*early, *late)]
    members = [
        Pod(metadata=Metadata(name=f"p-{number}", namespace="ml", labels=dict(labels)))
        for number, labels in enumerate(labelled)
    ]
    first = gang_with_pods(wanted, members[: len(early)])
    assert not isinstance(first, Incomplete), first
    assert len(first.pods) == len(early)
    everybody = gang_with_pods(wanted, members)
    assert not isinstance(everybody, Incomplete)
    assert len(everybody.pods) == len(early) + len(late)


# -- wishes about groups, and segments
# ---------------------------------------------------------------------------------------


def pytorch_with_template(workers: int, annotations: dict[str, str]) -> Raw:
    roles = {"Worker": {"replicas": workers, "template": {"metadata": {"annotations": annotations}}}, "Master": {}}
    return thing("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": roles}, IN_ONE_BLOCK)


SEGMENTS_OF_TWO = {"kai.scheduler/segment-size": "2", "kai.scheduler/segment-topology-required-placement": RACK}


def test_segments_on_a_template_are_the_workers() -> None:
    outcome = grouped(worker(3), pytorch_with_template(4, SEGMENTS_OF_TWO))
    assert spec_of(outcome)["groups"] == [
        MASTER,
        {"name": "worker", "size": 4, "segments": [{"size": 2, "level": RACK}]},
    ]
    assert outcome.group == "worker"


def test_a_smaller_last_segment_makes_groups_of_them() -> None:
    outcome = grouped(worker(4), pytorch_with_template(5, SEGMENTS_OF_TWO))
    assert spec_of(outcome)["groups"][1] == {
        "name": "worker",
        "groups": [
            {"name": "worker-0", "size": 2, "required": RACK, "segment": 0},
            {"name": "worker-1", "size": 2, "required": RACK, "segment": 1},
            {"name": "worker-2", "size": 1, "required": RACK, "segment": 2},
        ],
    }
    assert outcome.group == "worker-2"


def test_a_pod_without_index_cannot_find_its_segment() -> None:
    outcome = grouped(pod({ROLE: "worker"}), pytorch_with_template(5, SEGMENTS_OF_TWO))
    assert problems(outcome) == [
        (
            "PyTorchJob ml/train: its pods: metadata.labels: training.kubeflow.org/replica-index is missing: which "
            "segment is a pod in?"
        )
    ]


@pytest.mark.parametrize(
    "size, sizes, places",
    [
        (5, [3, 2], ["segment-0", "segment-0", "segment-0", "segment-1", "segment-1"]),
        (4, [2, 2], ["segment-0", "segment-0", "segment-1", "segment-1"]),
        (6, [2, 2, 2], ["segment-0", "segment-0", "segment-1", "segment-1", "segment-2", "segment-2"]),
    ],
    ids=["leader is one more", "leader is one of two", "even"],
)
def test_the_leader_of_a_set_is_in_the_first_segment(size: int, sizes: list[int], places: list[str]) -> None:
    workload = lws(size, SEGMENTS_OF_TWO)
    outcomes = [grouped(lws_pod(index), workload) for index in range(size)]
    groups = spec_of(outcomes[0])["groups"]
    assert [(group["segment"], group["size"]) for group in groups] == list(enumerate(sizes))
    assert [outcome.group for outcome in outcomes] == places


def test_a_leader_that_is_excluded_stands_beside_the_segments() -> None:
    workload = lws(5, {"kai.scheduler/segment-topology-required-placement": RACK})
    policy = {"subGroupPolicyType": "LeaderExcluded", "subGroupSize": 2}
    workload["spec"]["leaderWorkerTemplate"]["subGroupPolicy"] = policy
    assert spec_of(grouped(lws_pod(1), workload))["groups"] == [
        {"name": "leader", "size": 1},
        {"name": "workers", "size": 4, "segments": [{"size": 2, "level": RACK}]},
    ]


def test_pod_sets_that_share_a_domain_are_in_a_group_of_their_own() -> None:
    asked = {"kueue.x-k8s.io/podset-required-topology": RACK, "kueue.x-k8s.io/podset-group-name": "near"}
    workload = lws(3)
    workload["spec"]["leaderWorkerTemplate"] |= {
        "leaderTemplate": {"metadata": {"annotations": asked}},
        "workerTemplate": {"metadata": {"annotations": asked}},
    }
    assert spec_of(grouped(lws_pod(1), workload))["groups"] == [
        {
            "name": "together-near",
            "required": RACK,
            "groups": [{"name": "leader", "size": 1}, {"name": "workers", "size": 2}],
        }
    ]


def test_slices_of_a_job_set_are_jobs_if_no_size_is_written() -> None:
    workload = job_set()
    template = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-slice-required-topology": RACK}}}
    workload["spec"]["replicatedJobs"][1]["template"]["spec"]["template"] = template
    assert spec_of(grouped(pod(JOBSET_WORKER), workload))["groups"][1]["segments"] == [{"size": 4, "level": RACK}]


def test_two_trees_are_one_too_many() -> None:
    workload = pytorch_with_template(4, {"kai.scheduler/topology": "other"})
    assert problems(grouped(worker(0), workload)) == [
        (
            "PyTorchJob ml/train: "
            'spec.pytorchReplicaSpecs.Worker.template.metadata.annotations["kai.scheduler/topology"]: "other" is '
            "another tree"
            ' than "network" in metadata.annotations["kai.scheduler/topology"]; a gang is placed in one'
        )
    ]


@pytest.mark.parametrize(
    "workload, member, expected",
    [
        (
            kubeflow("PyTorchJob", "pytorchReplicaSpecs", PYTORCH, elasticPolicy={"minReplicas": 66}),
            worker(0),
            "PyTorchJob ml/train: spec.elasticPolicy.minReplicas: 66 is more than the 8 pods that there are",
        ),
        (
            kubeflow("JAXJob", "jaxReplicaSpecs", {"Worker": 10**9}),
            worker(0),
            (
                "JAXJob ml/train: spec.jaxReplicaSpecs.Worker.replicas: 1000000000 pods are too "
                "many: must be at most 100000"
            ),
        ),
        (
            kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Worker": -1}),
            worker(0),
            "PyTorchJob ml/train: spec.pytorchReplicaSpecs.Worker.replicas: -1 must be 0 or more",
        ),
        (
            kubeflow("JAXJob", "jaxReplicaSpecs", {"Worker": 2}),
            pod(),
            (
                "JAXJob ml/train: its pods: metadata.labels: training.kubeflow.org/replica-type or "
                "training.kubeflow.org/job-role "
                "is missing: which group is a pod in?"
            ),
        ),
        (
            kubeflow("JAXJob", "jaxReplicaSpecs", {"Worker": 2}),
            worker(0, "ps"),
            (
                'JAXJob ml/train: its pods: metadata.labels["training.kubeflow.org/replica-type"]: "ps" is no '
                "part of JAXJob ml/train; "
                "known: worker"
            ),
        ),
        (
            lws(2),
            pod({f"{LWS}/worker-index": "0"}),
            (
                "LeaderWorkerSet ml/train: its pods: metadata.labels: leaderworkerset.sigs.k8s.io/group-index is "
                "missing: which gang is a pod in?"
            ),
        ),
        (
            thing("ray.io/v1", "RayCluster", {"workerGroupSpecs": [{"groupName": "a"}, {"groupName": "A"}]}),
            pod({"ray.io/group": "a"}),
            'RayCluster ml/train: spec: "a" is the name of two groups; each must have its own',
        ),
        (
            thing("ray.io/v1", "RayCluster", {"workerGroupSpecs": [{"groupName": "a", "replicas": "many"}]}),
            pod({"ray.io/group": "a"}),
            'RayCluster ml/train: spec.workerGroupSpecs[0].replicas: "many" must be a whole number',
        ),
    ],
)
def test_what_cannot_be_is_one_sentence_and_holds_the_pods(workload: Raw, member: Raw, expected: str) -> None:
    outcome = grouped(member, workload)
    assert problems(outcome) == [expected]
    assert outcome.held


def test_every_kind_that_bayplan_knows_could_stand_in_a_rule_file() -> None:
    document = msgspec.to_builtins(RuleFile(kinds=list(KINDS)))
    assert rules_of(document, "kinds.yaml") == list(KINDS)


@pytest.mark.parametrize("rule", KINDS, ids=lambda rule: f"{rule.group} {rule.kind}")
def test_the_grouper_and_the_scheduler_number_pods_by_the_same_labels(rule: Rule) -> None:
    outer, inner = map(set, INDEX_LABELS)
    for ranks in (rule.rank, *(role.rank for role in rule.roles)):
        assert inner.issuperset(rank.label for rank in ranks[-1:])
        assert outer.issuperset(rank.label for rank in ranks[:-1])


HALF_A_CPU: Raw = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}}


@pytest.mark.parametrize(
    "spec, said",
    [
        ({"task": [{"name": "w"}]}, "No task specified in job spec"),
        ({"tasks": []}, "No task specified in job spec"),
        (
            {"minAvailable": 9, "tasks": [{"name": "w", "replicas": 4}]},
            "job 'minAvailable' should not be greater than total replicas in tasks",
        ),
        (
            {"tasks": [{"name": "w", "replicas": 1, "topologyPolicy": "single-numa-node", "template": HALF_A_CPU}]},
            "the cpu request isn't an integer in spec.task[0] container[0]",
        ),
    ],
    ids=["task instead of tasks", "no tasks", "minimum above the sum", "half a CPU under a policy"],
)
def test_a_volcano_job_that_its_admission_would_refuse_gets_its_message(spec: Raw, said: str) -> None:
    outcome = grouped(pod({"volcano.sh/task-spec": "w"}), thing("batch.volcano.sh/v1alpha1", "Job", spec))
    expected = f'would be refused by Volcano\'s admission: "{said}"'
    assert [problem.allowed for problem in outcome.problems if problem.holds] == [expected]
