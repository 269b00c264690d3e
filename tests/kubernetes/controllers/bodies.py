"""Workloads for these tests, written in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.builders.bodies import RACK

Json = dict[str, Any]
REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
TOPOLOGY = "kai.scheduler/topology"
IN_ONE_RACK = {TOPOLOGY: "network", REQUIRED: RACK}
RUNS_FOR = "bayplan.io/runs-for"


def resources(cpu: int | str, **others: str | int) -> Json:
    """Equal requests and limits: a Guaranteed container."""
    amounts = {"cpu": str(cpu), "memory": "256Mi", **others}
    return {"requests": amounts, "limits": amounts}


def template(
    cpu: int | str = 2,
    *,
    runs_for: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    init_cpu: str = "",
    scheduler: str = "bayplan",
    **spec: Any,
) -> Json:
    """A pod template of one Guaranteed container; further fields of the spec by their wire names."""
    notes = {**(annotations or {}), **({RUNS_FOR: runs_for} if runs_for else {})}
    init = {"name": "wait", "image": "example.com/none", "resources": resources(init_cpu)}
    return {
        "metadata": {"labels": dict(labels or {}), "annotations": notes},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "example.com/none", "resources": resources(cpu)}],
            **({"initContainers": [init]} if init_cpu else {}),
            **spec,
        },
    }


def deployment(name: str, replicas: int, cpu: int | str = 2, **spec: Any) -> Json:
    """A Deployment."""
    labels = {"app": name}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(cpu, labels=labels)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {**body, **spec}}


def stateful_set(
    name: str, replicas: int, cpu: int | str = 2, annotations: Mapping[str, str] | None = None, **spec: Any
) -> Json:
    """A StatefulSet without claims."""
    labels = {"app": name}
    body = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": labels},
        "template": template(cpu, labels=labels),
    }
    metadata = {"name": name, "annotations": dict(annotations or {})}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {**body, **spec}}


def job_spec(pods: int, pod_template: Json, **spec: Any) -> Json:
    """The spec of an Indexed Job whose pods all run at once."""
    pod_template["spec"].setdefault("restartPolicy", "Never")
    body = {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": pod_template}
    return {**body, **spec}


def job(
    name: str,
    pods: int,
    cpu: int | str = 2,
    *,
    annotations: Mapping[str, str] | None = None,
    runs_for: str = "",
    init_cpu: str = "",
    pod: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """An Indexed Job in one rack, unless other annotations are given."""
    notes = dict(IN_ONE_RACK if annotations is None else annotations)
    made = template(cpu, runs_for=runs_for, init_cpu=init_cpu, **(pod or {}))
    metadata = {"name": name, "annotations": notes, "labels": dict(labels or {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec(pods, made, **spec)}


def replicated_job(name: str, replicas: int, pods: int, cpu: int | str = 2, *, init_cpu: str = "", **job: Any) -> Json:
    """One kind of Job of a JobSet: so many Jobs, each of so many pods."""
    spec = job_spec(pods, template(cpu, init_cpu=init_cpu), backoffLimit=0)
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **job}


def job_set(name: str, *jobs: Mapping[str, Any], annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """A JobSet."""
    metadata = {"name": name, "annotations": dict(annotations or {})}
    body = {"replicatedJobs": [dict(each) for each in jobs], **spec}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": body}


def leader_worker_set(
    name: str,
    replicas: int,
    size: int,
    cpu: int | str = 2,
    *,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A LeaderWorkerSet whose leaders and workers are alike."""
    pods = {"leaderTemplate": template(cpu), "workerTemplate": template(cpu), "size": size}
    body = {"replicas": replicas, "leaderWorkerTemplate": pods, **spec}
    metadata = {"name": name, "annotations": dict(annotations or {})}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata,
        "spec": body,
    }


def ray_cluster_spec(workers: int, cpu: int | str = 2, *, hosts: int = 1, most: int = 20) -> Json:
    """A head and one group of so many replicas of `hosts` workers each; all of them start together."""
    head = {"rayStartParams": {}, "template": template(cpu)}
    replicas = {"replicas": workers, "minReplicas": workers, "maxReplicas": most, "numOfHosts": hosts}
    group = {"groupName": "workers", "rayStartParams": {}, "template": template(cpu), **replicas}
    return {"headGroupSpec": head, "workerGroupSpecs": [group]}


def ray_cluster(name: str, workers: int, cpu: int | str = 2, *, hosts: int = 1, **spec: Any) -> Json:
    """A RayCluster in one rack."""
    metadata = {"name": name, "annotations": dict(IN_ONE_RACK)}
    body = {**ray_cluster_spec(workers, cpu, hosts=hosts), **spec}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": body}


def mpi_job(name: str, workers: int, cpu: int | str = 2, *, runs_for: str = "", **spec: Any) -> Json:
    """An MPIJob in one rack, whose launcher runs for a time."""
    launcher = template(cpu, runs_for=runs_for, restartPolicy="Never")
    replicas = {
        "Launcher": {"replicas": 1, "template": launcher},
        "Worker": {"replicas": workers, "template": template(cpu)},
    }
    metadata = {"name": name, "annotations": dict(IN_ONE_RACK)}
    body = {"slotsPerWorker": 1, "mpiReplicaSpecs": replicas, **spec}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata, "spec": body}


def pytorch_job(
    name: str,
    workers: int,
    cpu: int | str = 2,
    *,
    annotations: Mapping[str, str] | None = None,
    of_workers: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A PyTorchJob of a master and workers, in one rack unless other annotations are given."""
    replicas = {}
    for role, number, notes in (("Master", 1, None), ("Worker", workers, of_workers)):
        pod = template(cpu, annotations=notes)
        pod["spec"]["containers"][0]["name"] = "pytorch"  # the operator looks for this name
        replicas[role] = {"replicas": number, "restartPolicy": "OnFailure", "template": pod}
    metadata = {"name": name, "annotations": dict(IN_ONE_RACK if annotations is None else annotations)}
    body = {"pytorchReplicaSpecs": replicas, **spec}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": body}
