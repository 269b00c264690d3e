"""What controllers make of workloads: the pods, with the labels and owner references that each controller writes.

No controllers run beside the API server of the tests. `play_controller` takes a workload that exists there and creates
what its controller would create, as the controllers' own documents and sources tell: MPI's launcher is the pod of a
Job, a LeaderWorkerSet's workers belong to a StatefulSet of their leader's pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.workloads import create_all

Json = dict[str, Any]
KUBEFLOW = "training.kubeflow.org"
LWS = "leaderworkerset.sigs.k8s.io"
JOB_SET = "jobset.sigs.k8s.io"


def create_workload(plane: ControlPlane, file: Path, namespace: str, *, name: str = "") -> Json:
    """The first object of an example, in the namespace of a test, under its own name or another one."""
    written = next(yaml.safe_load_all(file.read_text()))
    written["metadata"] |= {"namespace": namespace, "name": name or written["metadata"]["name"]}
    (created,) = plane.apply(written)
    return created


def play_controller(plane: ControlPlane, workload: Json) -> list[Json]:
    """Create the pods of a workload; the bodies as they were sent."""
    pods = list(_CONTROLLERS[workload["kind"], workload["apiVersion"].partition("/")[0]](plane, workload))
    create_all(plane.kubeconfig, pods)
    return pods


def owned_by(owner: Json) -> Json:
    """The entry in a pod's owner references."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def pod_from(template: Json, name: str, owner: Json, labels: Json, annotations: Json | None = None) -> Json:
    """A pod made from a template."""
    metadata = template.get("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**metadata.get("labels", {}), **labels},
            "annotations": {**metadata.get("annotations", {}), **(annotations or {})},
            "ownerReferences": [owned_by(owner)],
        },
        "spec": {**template["spec"], "terminationGracePeriodSeconds": 0},
    }


def _job(_: ControlPlane, job: Json) -> Iterator[Json]:
    name = job["metadata"]["name"]
    for index in range(job["spec"]["parallelism"]):
        labels = {"batch.kubernetes.io/job-name": name, "batch.kubernetes.io/job-completion-index": str(index)}
        yield pod_from(job["spec"]["template"], f"{name}-{index}", job, labels)


def _pytorch_job(_: ControlPlane, job: Json) -> Iterator[Json]:
    for role, spec in job["spec"]["pytorchReplicaSpecs"].items():
        yield from _kubeflow_replicas(job, role.lower(), spec, f"{KUBEFLOW}/replica-type")


def _mpi_job(plane: ControlPlane, job: Json) -> Iterator[Json]:
    name, namespace, specs = job["metadata"]["name"], job["metadata"]["namespace"], job["spec"]["mpiReplicaSpecs"]
    launcher = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{name}-launcher", "namespace": namespace, "ownerReferences": [owned_by(job)]},
        "spec": {"template": specs["Launcher"]["template"]},
    }
    (created,) = plane.apply(launcher)
    labels = {f"{KUBEFLOW}/job-name": name, f"{KUBEFLOW}/job-role": "launcher"}
    yield pod_from(specs["Launcher"]["template"], f"{name}-launcher-x7k2p", created, labels)
    yield from _kubeflow_replicas(job, "worker", specs["Worker"], f"{KUBEFLOW}/job-role")


def _kubeflow_replicas(job: Json, role: str, spec: Json, role_label: str) -> Iterator[Json]:
    name = job["metadata"]["name"]
    for index in range(spec["replicas"]):
        labels = {f"{KUBEFLOW}/job-name": name, role_label: role, f"{KUBEFLOW}/replica-index": str(index)}
        yield pod_from(spec["template"], f"{name}-{role}-{index}", job, labels)


def _leader_worker_set(plane: ControlPlane, lws: Json) -> Iterator[Json]:
    name, namespace, template = (
        lws["metadata"]["name"],
        lws["metadata"]["namespace"],
        lws["spec"]["leaderWorkerTemplate"],
    )
    leaders = _stateful_set(plane, name, lws, template["workerTemplate"])
    for group in range(lws["spec"]["replicas"]):
        labels = {f"{LWS}/name": name, f"{LWS}/group-index": str(group)}
        leader = f"{name}-{group}"
        pod = pod_from(template["workerTemplate"], leader, leaders, {**labels, f"{LWS}/worker-index": "0"})
        create_all(plane.kubeconfig, [pod])
        created = {"apiVersion": "v1", "kind": "Pod", **plane.get(f"/api/v1/namespaces/{namespace}/pods/{leader}")}
        workers = _stateful_set(plane, leader, created, template["workerTemplate"])
        for index in range(1, template["size"]):
            member = {**labels, f"{LWS}/worker-index": str(index), "apps.kubernetes.io/pod-index": str(index)}
            yield pod_from(template["workerTemplate"], f"{leader}-{index}", workers, member)


def _stateful_set(plane: ControlPlane, name: str, owner: Json, template: Json) -> Json:
    labels = {f"{LWS}/name": name}
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [owned_by(owner)],
        },
        "spec": {
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": {"labels": labels}},
        },
    }
    (created,) = plane.apply(body)
    return created


def _job_set(plane: ControlPlane, job_set: Json) -> Iterator[Json]:
    """One Job for each replica, and the pods of those."""
    name, namespace = job_set["metadata"]["name"], job_set["metadata"]["namespace"]
    for replicated in job_set["spec"]["replicatedJobs"]:
        for number in range(replicated["replicas"]):
            labels = {
                f"{JOB_SET}/jobset-name": name,
                f"{JOB_SET}/replicatedjob-name": replicated["name"],
                f"{JOB_SET}/job-index": str(number),
            }
            metadata = {"name": f"{name}-{replicated['name']}-{number}", "namespace": namespace, "labels": labels}
            body = {"apiVersion": "batch/v1", "kind": "Job", "spec": replicated["template"]["spec"]}
            (job,) = plane.apply({**body, "metadata": {**metadata, "ownerReferences": [owned_by(job_set)]}})
            for pod in _job(plane, job):
                yield {**pod, "metadata": {**pod["metadata"], "labels": {**pod["metadata"]["labels"], **labels}}}


def _ray_cluster(_: ControlPlane, cluster: Json) -> Iterator[Json]:
    name, spec = cluster["metadata"]["name"], cluster["spec"]
    head = {"ray.io/cluster": name, "ray.io/node-type": "head", "ray.io/group": "headgroup"}
    yield pod_from(spec["headGroupSpec"]["template"], f"{name}-head-4f9qz", cluster, head)
    for group in spec["workerGroupSpecs"]:
        labels = {"ray.io/cluster": name, "ray.io/node-type": "worker", "ray.io/group": group["groupName"]}
        for number in range(group["replicas"]):
            yield pod_from(group["template"], f"{name}-{group['groupName']}-worker-{number}", cluster, labels)


def _volcano_job(plane: ControlPlane, job: Json) -> Iterator[Json]:
    """Volcano's controllers write a PodGroup of their own, which the pods name, and a task's topology policy on its
    pods.
    """
    metadata, spec = job["metadata"], job["spec"]
    group = f"{metadata['name']}-{metadata['uid']}"
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": group, "namespace": metadata["namespace"], "ownerReferences": [owned_by(job)]},
        "spec": {
            "minMember": spec["minAvailable"],
            "minTaskMember": {task["name"]: task["replicas"] for task in spec["tasks"]},
            **{key: spec[key] for key in ("networkTopology",) if key in spec},
        },
    }
    plane.apply(body)
    for task in spec["tasks"]:
        for index in range(task["replicas"]):
            labels = {"volcano.sh/task-spec": task["name"], "volcano.sh/task-index": str(index)}
            notes = {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": task["name"]}
            if "topologyPolicy" in task:
                notes["volcano.sh/numa-topology-policy"] = task["topologyPolicy"]
            template = {"spec": {**task["template"]["spec"], "schedulerName": spec["schedulerName"]}}
            yield pod_from(template, f"{metadata['name']}-{task['name']}-{index}", job, labels, notes)


def _training_run(_: ControlPlane, run: Json) -> Iterator[Json]:
    workers = run["spec"]["workers"]
    for index in range(workers["count"]):
        yield pod_from(
            workers["template"], f"{run['metadata']['name']}-{index}", run, {"example.com/worker": str(index)}
        )


_CONTROLLERS: dict[tuple[str, str], Callable[[ControlPlane, Json], Iterator[Json]]] = {
    ("Job", "batch"): _job,
    ("PyTorchJob", "kubeflow.org"): _pytorch_job,
    ("MPIJob", "kubeflow.org"): _mpi_job,
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io"): _leader_worker_set,
    ("JobSet", "jobset.x-k8s.io"): _job_set,
    ("RayCluster", "ray.io"): _ray_cluster,
    ("Job", "batch.volcano.sh"): _volcano_job,
    ("TrainingRun", "example.com"): _training_run,
}
