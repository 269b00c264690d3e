"""Pods of each kind of workload, as its controller would create them."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.cluster.volumes.claims import claims_of
from bayplan.grouping.group import GroupingSettings
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Metadata, Node, NodeSpec, Taint
from bayplan.workloads.kinds import kinds_named
from bayplan.workloads.plan import WorkloadPlan, plan_of, with_names
from bayplan.workloads.planned import Around

Json = dict[str, Any]
SETTINGS = GroupingSettings()
POD: Json = {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2", "memory": "4Gi"}}}]}
TEMPLATE: Json = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
INDEX = "batch.kubernetes.io/job-completion-index"
LWS = "leaderworkerset.sigs.k8s.io"


def workload(api_version: str, kind: str, spec: Json, **metadata: Any) -> Json:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "ml", **metadata},
        "spec": spec,
    }


def planned(thing: Json, state: ClusterState | None = None) -> WorkloadPlan:
    return plan_of(with_names(thing, "default"), Around(SETTINGS.rules, state or ClusterState()), SETTINGS)


def names(plan: WorkloadPlan) -> list[str]:
    return [member.pod.metadata.name for member in plan.members]


def labels(plan: WorkloadPlan, key: str) -> list[str | None]:
    return [(member.pod.metadata.labels or {}).get(key) for member in plan.members]


def owners(plan: WorkloadPlan) -> list[tuple[str, str]]:
    return [(owner.kind, owner.name) for member in plan.members for owner in member.pod.metadata.owner_references or ()]


def job(**spec: Any) -> Json:
    return workload("batch/v1", "Job", {"template": TEMPLATE, **spec})


@pytest.mark.parametrize(
    "thing, expected",
    [
        pytest.param(workload("apps/v1", "StatefulSet", {"replicas": 3, "template": TEMPLATE}), "web-0 web-1 web-2",
                     id="ordinals"),
        pytest.param(
            workload("apps/v1", "StatefulSet", {"replicas": 2, "ordinals": {"start": 5}, "template": TEMPLATE}),
            "web-5 web-6",
            id="ordinals that start later",
        ),
        pytest.param(job(parallelism=2, completions=5, completionMode="Indexed"), "web-0- web-1-",
                     id="indexes that run at once"),
        pytest.param(job(parallelism=8, completions=2, completionMode="Indexed"), "web-0- web-1-",
                     id="fewer completions than parallelism"),
        pytest.param(job(parallelism=2), "web- web-", id="a work queue"),
        pytest.param(
            {**job(parallelism=2, completions=5, completionMode="Indexed"), "status": {"completedIndexes": "0,2-3"}},
            "web-1- web-4-",
            id="indexes that are left",
        ),
        pytest.param({**job(parallelism=4, completions=5), "status": {"succeeded": 3}}, "web- web-",
                     id="completions that are left"),
        pytest.param(workload("v1", "ReplicationController", {"replicas": 2, "template": TEMPLATE}), "web- web-",
                     id="generated names"),
        pytest.param(
            workload("batch/v1", "CronJob", {"jobTemplate": {"spec": {"parallelism": 2, "template": TEMPLATE}}}),
            "web-00000000- web-00000000-",
            id="one run of a CronJob",
        ),
        pytest.param(
            workload("kubeflow.org/v1", "TFJob",
                     {"tfReplicaSpecs": {"worker": {"replicas": 2, "template": TEMPLATE},
                                         "PS": {"template": TEMPLATE}}}),
            "web-ps-0 web-worker-0 web-worker-1",
            id="roles in any case",
        ),
        pytest.param(
            workload("kubeflow.org/v1", "MPIJob",
                     {"mpiReplicaSpecs": {"Launcher": {"template": TEMPLATE},
                                          "Worker": {"replicas": 2, "template": TEMPLATE}}}),
            "web-launcher web-worker-0 web-worker-1",
            id="a launcher by itself",
        ),
        pytest.param(
            workload("kubeflow.org/v2beta1", "MPIJob",
                     {"mpiReplicaSpecs": {"Launcher": {"template": TEMPLATE},
                                          "Worker": {"replicas": 2, "template": TEMPLATE}}}),
            "web-launcher- web-worker-0 web-worker-1",
            id="a launcher of a Job",
        ),
        pytest.param(
            workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
                     {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}}),
            "web-0 web-0-1 web-1 web-1-1",
            id="leaders and workers",
        ),
    ],
)  # fmt: skip
def test_pods_are_named_and_counted_as_their_controller_does(thing: Json, expected: str) -> None:
    found = names(planned(thing))
    wanted = expected.split()
    assert len(found) == len(set(found)) == len(wanted)
    for name, pattern in zip(found, wanted, strict=True):
        assert name == pattern or (pattern.endswith("-") and name.startswith(pattern) and len(name) == len(pattern) + 5)


def test_a_deployment_makes_its_pods_through_a_replica_set() -> None:
    plan = planned(workload("apps/v1", "Deployment", {"replicas": 3, "template": TEMPLATE}))
    (template_hash,) = set(labels(plan, "pod-template-hash"))
    assert owners(plan) == [("ReplicaSet", f"web-{template_hash}")] * 3
    assert all(name.startswith(f"web-{template_hash}-") for name in names(plan))
    assert set(labels(plan, "app")) == {"web"}
    assert plan.gangs == ()


def test_the_same_workload_has_the_same_names_and_another_template_others() -> None:
    def named(cpu: str) -> list[str]:
        spec = {"containers": [{"name": "main", "resources": {"limits": {"cpu": cpu}}}]}
        return names(planned(workload("apps/v1", "Deployment", {"replicas": 2, "template": {"spec": spec}})))

    assert named("1") == named("1") != named("2")


def test_ten_thousand_replicas_have_ten_thousand_names() -> None:
    found = names(planned(workload("apps/v1", "ReplicaSet", {"replicas": 10_000, "template": TEMPLATE})))
    assert len(set(found)) == 10_000


def test_pods_of_an_indexed_job_have_their_index_as_label_and_annotation() -> None:
    plan = planned(job(parallelism=2, completions=2, completionMode="Indexed"))
    assert labels(plan, INDEX) == ["0", "1"]
    assert [(member.pod.metadata.annotations or {})[INDEX] for member in plan.members] == ["0", "1"]
    assert labels(plan, "job-name") == ["web", "web"]


def test_a_job_set_has_jobs_between_and_labels_of_both() -> None:
    entry = {
        "name": "worker",
        "replicas": 2,
        "template": {"spec": {"parallelism": 2, "completions": 2, "template": TEMPLATE}},
    }
    driver = {"name": "driver", "template": {"spec": {"template": TEMPLATE}}}
    plan = planned(workload("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [driver, entry]}))
    assert list(owners(plan)) == [
        ("Job", "web-driver-0"),
        *[("Job", "web-worker-0")] * 2,
        *[("Job", "web-worker-1")] * 2,
    ]
    assert labels(plan, "jobset.sigs.k8s.io/replicatedjob-name") == ["driver", *["worker"] * 4]
    assert labels(plan, "jobset.sigs.k8s.io/job-index") == ["0", "0", "0", "1", "1"]
    assert labels(plan, "jobset.sigs.k8s.io/job-global-index") == ["0", "1", "1", "2", "2"]
    assert labels(plan, INDEX) == ["0", "0", "1", "0", "1"]
    assert [gang.metadata.name for gang in plan.gangs] == ["web"]
    assert labels(plan, "bayplan.io/rank") == ["0", "1", "2", "3", "4"]


def test_exclusive_placement_of_a_job_set_is_affinity_of_its_pods() -> None:
    entry = {"name": "worker", "replicas": 2, "template": {"spec": {"template": TEMPLATE}}}
    thing = workload("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [entry]})
    thing["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/rack"}
    first, second = (member.pod.spec.affinity for member in planned(thing).members)
    assert first is not None
    assert first.pod_affinity is not None
    assert first.pod_anti_affinity is not None
    terms = first.pod_affinity.required_during_scheduling_ignored_during_execution or []
    assert [term.topology_key for term in terms] == ["example.com/rack"]
    assert first != second


def test_workers_of_a_leader_worker_set_belong_to_their_leader() -> None:
    own = {"spec": {"containers": [{"name": "lead", "resources": {"limits": {"cpu": "1"}}}]}}
    template = {"size": 3, "workerTemplate": TEMPLATE, "leaderTemplate": own, "subGroupPolicy": {"subGroupSize": 2}}
    plan = planned(workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": template}))
    assert owners(plan) == [("StatefulSet", "web"), ("StatefulSet", "web-0"), ("StatefulSet", "web-0")]
    assert labels(plan, f"{LWS}/worker-index") == ["0", "1", "2"]
    assert labels(plan, f"{LWS}/group-index") == ["0"] * 3
    assert labels(plan, f"{LWS}/subgroup-index") == ["0", "0", "0"]
    assert [(member.pod.spec.containers or [])[0].name for member in plan.members] == ["lead", "main", "main"]
    assert [gang.metadata.name for gang in plan.gangs] == ["web-0"]


def test_a_launcher_that_works_too_has_index_0() -> None:
    specs = {"Launcher": {"template": TEMPLATE}, "Worker": {"replicas": 2, "template": TEMPLATE}}
    plan = planned(workload("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": specs, "runLauncherAsWorker": True}))
    assert labels(plan, "training.kubeflow.org/replica-index") == ["0", "1", "2"]
    assert owners(plan)[0] == ("Job", "web-launcher")


def test_workers_of_a_pytorch_job_wait_for_the_master_in_an_init_container() -> None:
    """Its limit is above its request: a worker that would be Guaranteed is Burstable, and gets no CPUs of its own."""
    specs = {"Master": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}
    master, worker = planned(workload("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": specs})).members
    assert master.pod.spec.init_containers is None
    assert [each.name for each in worker.pod.spec.init_containers or ()] == ["init-pytorch"]


def test_bounds_of_a_ray_group_that_exclude_each_other_are_named() -> None:
    group = {"groupName": "tpu", "minReplicas": 9, "maxReplicas": 8, "template": TEMPLATE}
    spec = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [group]}
    with pytest.raises(InvalidObject, match=r"spec\.workerGroupSpecs\[0\]\.minReplicas: 9 is more than maxReplicas 8"):
        planned(workload("ray.io/v1", "RayCluster", spec))


def test_a_ray_cluster_keeps_its_replicas_between_both_bounds_and_numbers_hosts() -> None:
    group = {
        "groupName": "tpu",
        "replicas": 1,
        "minReplicas": 2,
        "maxReplicas": 4,
        "numOfHosts": 2,
        "template": TEMPLATE,
    }
    spec = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [group], "enableInTreeAutoscaling": True}
    plan = planned(workload("ray.io/v1", "RayCluster", spec))
    assert labels(plan, "ray.io/group") == ["headgroup", *["tpu"] * 4]
    assert labels(plan, "ray.io/worker-group-replica-index")[1:] == ["0", "0", "1", "1"]
    assert labels(plan, "ray.io/replica-host-index")[1:] == ["0", "1", "0", "1"]
    assert [each.name for each in plan.members[0].pod.spec.containers or ()] == ["main", "autoscaler"]


def test_a_ray_job_is_its_cluster_and_the_pod_that_submits() -> None:
    spec = {"rayClusterSpec": {"headGroupSpec": {"template": TEMPLATE}}}
    plan = planned(workload("ray.io/v1", "RayJob", spec))
    assert [kind for kind, _ in owners(plan)] == ["RayCluster", "Job"]


def test_claims_of_a_stateful_set_are_volumes_of_its_pods() -> None:
    spec = {"replicas": 1, "template": TEMPLATE, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    (member,) = planned(workload("apps/v1", "StatefulSet", spec)).members
    assert [claim for claim, _ in claims_of(member.pod)] == ["ml/data-web-0"]


def test_a_daemon_set_has_a_pod_for_each_node_that_it_selects_and_tolerates() -> None:
    state = ClusterState()
    tainted = NodeSpec(taints=[Taint(key="dedicated", effect="NoSchedule", value="db")])
    cordoned = NodeSpec(unschedulable=True, taints=[Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")])
    for name, spec, pool in (
        ("n1", NodeSpec(), "a"),
        ("n2", tainted, "a"),
        ("n3", cordoned, "a"),
        ("n4", NodeSpec(), "b"),
    ):
        state.set_node(Node(metadata=Metadata(name=name, labels={"pool": pool}), spec=spec))
    template = {"spec": {**POD, "nodeSelector": {"pool": "a"}}}
    plan = planned(workload("apps/v1", "DaemonSet", {"template": template}), state)
    found = []
    for member in plan.members:
        affinity = member.pod.spec.affinity
        assert affinity is not None
        assert affinity.node_affinity is not None
        required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
        assert required is not None
        ((term,),) = [required.node_selector_terms or []]
        found += [value for field in term.match_fields or () for value in field.values or ()]
    assert found == ["n1", "n3"]


@pytest.mark.parametrize(
    "thing, message",
    [
        (
            job(template={"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "two"}}}]}}),
            "Job ml/web: spec.template.spec.containers[0].resources.limits.cpu: ",
        ),
        (
            workload("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}),
            (
                "CronJob ml/web: spec.jobTemplate.spec.template.spec.containers: is empty: a pod needs at least one "
                "container"
            ),
        ),
        (
            workload(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                {"replicatedJobs": [{"name": "w", "template": {"spec": {"parallelism": "4", "template": TEMPLATE}}}]},
            ),
            'JobSet ml/web: spec.replicatedJobs[0].template.spec.parallelism: "4" must be a whole number',
        ),
        (
            workload("apps/v1", "Deployment", {"replicas": -1, "template": TEMPLATE}),
            "Deployment ml/web: spec.replicas: -1 must be 0 to 100000",
        ),
        (
            workload("apps/v1", "Deployment", {"template": {"metadata": {"labels": {"tier": 1}}, "spec": POD}}),
            'Deployment ml/web: spec.template.metadata.labels["tier"]: 1 must be a text: put it in quotes',
        ),
        (
            workload("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Wroker": {"template": TEMPLATE}}}),
            (
                "PyTorchJob ml/web: spec.pytorchReplicaSpecs.Wroker: is no role of a PyTorchJob: Master, Worker; did "
                "you "
                "mean Worker?"
            ),
        ),
        (
            workload("ray.io/v1", "RayCluster",
                     {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{"groupName": "g"}]}),
            "RayCluster ml/web: spec.workerGroupSpecs[0].template.spec: is missing: a pod template needs a spec",
        ),
        (job(template=None), "Job ml/web: spec.template.spec: is missing: a pod template needs a spec"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_field_in_the_workload(thing: Json, message: str) -> None:
    with pytest.raises(InvalidObject) as told:
        planned(thing)
    assert str(told.value).startswith(message)


def test_a_suspended_job_is_planned_as_if_it_were_resumed() -> None:
    plan = planned(job(parallelism=2, suspend=True))
    assert len(plan.members) == 2
    assert (plan.remarks, plan.suspended) == ((), "spec.suspend")


def test_a_generated_name_is_one_that_the_api_server_could_give() -> None:
    thing = job()
    thing["metadata"] = {"generateName": "run-"}
    plan = planned(thing)
    assert plan.name.startswith("default/run-")
    assert len(plan.name) == len("default/run-") + 5


@pytest.mark.parametrize(
    "text, kind",
    [
        *(
            (name, ("apps", "Deployment"))
            for name in ("deploy", "Deployments", "deployment.apps", "deployment.v1.apps")
        ),
        ("sts", ("apps", "StatefulSet")),
        ("rc", ("", "ReplicationController")),
        ("job", ("batch", "Job")),
        ("job.batch.volcano.sh", ("batch.volcano.sh", "Job")),
        ("vcjob", ("batch.volcano.sh", "Job")),
        ("lws", ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")),
        ("pytorchjobs.kubeflow.org", ("kubeflow.org", "PyTorchJob")),
    ],
)
def test_kinds_have_the_names_that_kubectl_users_write(text: str, kind: tuple[str, str]) -> None:
    found = kinds_named(text, SETTINGS.rules)
    assert (found[0].group, found[0].kind) == kind


def test_other_names_mean_no_kind() -> None:
    assert kinds_named("pods", SETTINGS.rules) == kinds_named("ml", SETTINGS.rules) == []
