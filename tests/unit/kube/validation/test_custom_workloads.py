"""Custom workloads as their operators take them, every field written, and the misspellings that are told."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.kube.errors import ObjectPath
from bayplan.kube.validation.submitted import submitted_faults, submitted_warnings

Json = dict[str, Any]
POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
JOB_SET: Json = {
    "replicatedJobs": [
        {
            "name": "driver",
            "groupName": "leaders",
            "replicas": 1,
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"parallelism": 1, "template": POD}},
        },
        {
            "name": "workers",
            "replicas": 2,
            "dependsOn": [{"name": "driver", "status": "Ready"}],
            "template": {
                "spec": {
                    "parallelism": 4,
                    "completions": 4,
                    "completionMode": "Indexed",
                    "backoffLimit": 0,
                    "backoffLimitPerIndex": 1,
                    "maxFailedIndexes": 2,
                    "podReplacementPolicy": "Failed",
                    "podFailurePolicy": {"rules": []},
                    "managedBy": "kueue.x-k8s.io/multikueue",
                    "ttlSecondsAfterFinished": 60,
                    "template": POD,
                }
            },
        },
    ],
    "network": {"enableDNSHostnames": True, "subdomain": "net", "publishNotReadyAddresses": True},
    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["workers"]},
    "failurePolicy": {"maxRestarts": 3, "restartStrategy": "BlockingRecreate", "rules": [{"name": "r"}]},
    "startupPolicy": {"startupPolicyOrder": "InOrder"},
    "suspend": False,
    "coordinator": {"replicatedJob": "driver", "jobIndex": 0, "podIndex": 0},
    "managedBy": "jobset.sigs.k8s.io/jobset-controller",
    "ttlSecondsAfterFinished": 60,
    "volumeClaimPolicies": [{"templates": [CLAIM], "retentionPolicy": {"whenDeleted": "Delete"}}],
}
LEADER_WORKER_SET: Json = {
    "replicas": 2,
    "startupPolicy": "LeaderReady",
    "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": {"partition": 0, "maxSurge": 1}},
    "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
    "leaderWorkerTemplate": {
        "leaderTemplate": POD,
        "workerTemplate": POD,
        "size": 4,
        "restartPolicy": "RecreateGroupAfterStart",
        "subGroupPolicy": {"subGroupPolicyType": "LeaderExcluded", "subGroupSize": 2},
        "volumeClaimTemplates": [CLAIM],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
    },
}
RUN_POLICY: Json = {
    "cleanPodPolicy": "Running",
    "ttlSecondsAfterFinished": 60,
    "activeDeadlineSeconds": 3600,
    "backoffLimit": 3,
    "suspend": False,
    "managedBy": "kubeflow.org/training-operator",
    "schedulingPolicy": {
        "minAvailable": 3,
        "queue": "q",
        "minResources": {"cpu": "4"},
        "priorityClass": "high",
        "scheduleTimeoutSeconds": 60,
    },
}
REPLICAS: Json = {"replicas": 2, "restartPolicy": "OnFailure", "template": POD}
ELASTIC: Json = {
    "minReplicas": 1,
    "maxReplicas": 4,
    "maxRestarts": 3,
    "nProcPerNode": 8,
    "standalone": False,
    "metrics": [],
    "rdzvBackend": "c10d",
    "rdzvPort": 29500,
    "rdzvHost": "h",
    "rdzvId": "i",
    "rdzvConf": [{"key": "timeout"}],
}
PYTORCH_JOB: Json = {
    "runPolicy": RUN_POLICY,
    "elasticPolicy": ELASTIC,
    "nprocPerNode": "auto",
    "pytorchReplicaSpecs": {"Master": REPLICAS, "Worker": REPLICAS},
}
TF_JOB: Json = {
    "runPolicy": RUN_POLICY,
    "successPolicy": "AllWorkers",
    "enableDynamicWorker": True,
    "tfReplicaSpecs": dict.fromkeys(("Chief", "PS", "Worker", "Evaluator"), REPLICAS),
}
PADDLE_JOB: Json = {
    "runPolicy": RUN_POLICY,
    "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 3, "metrics": []},
    "paddleReplicaSpecs": {"Worker": {**REPLICAS, "restartPolicy": "ExitCode"}},
}
MPI_REPLICAS: Json = {"Launcher": {**REPLICAS, "replicas": 1}, "Worker": REPLICAS}
MPI_JOB_V1: Json = {
    "slotsPerWorker": 8,
    "cleanPodPolicy": "All",
    "mainContainer": "mpi",
    "runPolicy": RUN_POLICY,
    "mpiReplicaSpecs": MPI_REPLICAS,
}
MPI_JOB: Json = {
    "slotsPerWorker": 8,
    "runLauncherAsWorker": True,
    "sshAuthMountPath": "/home/mpiuser/.ssh",
    "launcherCreationPolicy": "WaitForWorkersReady",
    "mpiImplementation": "MPICH",
    "runPolicy": RUN_POLICY,
    "mpiReplicaSpecs": MPI_REPLICAS,
}
RAY_CLUSTER: Json = {
    "rayVersion": "2.46.0",
    "suspend": False,
    "managedBy": "ray.io/kuberay-operator",
    "upgradeStrategy": {"type": "Recreate"},
    "authOptions": {"mode": "token", "secretName": "ray-auth"},
    "enableInTreeAutoscaling": True,
    "autoscalerOptions": {
        "resources": {"limits": {"cpu": "500m"}},
        "image": "ray",
        "imagePullPolicy": "Always",
        "securityContext": {"runAsNonRoot": True},
        "idleTimeoutSeconds": 60,
        "upscalingMode": "Conservative",
        "version": "v2",
        "env": [{"name": "RAY_LOG", "value": "1"}],
        "envFrom": [{"configMapRef": {"name": "ray"}}],
        "volumeMounts": [{"name": "logs", "mountPath": "/logs"}],
    },
    "headServiceAnnotations": {"a": "b"},
    "gcsFaultToleranceOptions": {"redisAddress": "redis:6379", "redisPassword": {"value": "p"}},
    "headGroupSpec": {
        "rayStartParams": {"dashboard-host": "0.0.0.0"},
        "serviceType": "ClusterIP",
        "enableIngress": False,
        "headService": {"metadata": {"name": "head"}},
        "resources": {"CPU": "0"},
        "labels": {"zone": "a"},
        "template": POD,
    },
    "workerGroupSpecs": [
        {
            "groupName": "gpu",
            "replicas": 2,
            "minReplicas": 0,
            "maxReplicas": 4,
            "numOfHosts": 2,
            "idleTimeoutSeconds": 120,
            "suspend": False,
            "rayStartParams": {},
            "resources": {"GPU": "8"},
            "labels": {"zone": "a"},
            "scaleStrategy": {"workersToDelete": ["gpu-1"]},
            "template": POD,
        }
    ],
}
RAY_JOB: Json = {
    "entrypoint": "python train.py",
    "entrypointNumCpus": 1,
    "entrypointNumGpus": 1,
    "entrypointResources": '{"custom": 1}',
    "runtimeEnvYAML": "pip: [torch]",
    "jobId": "train-1",
    "metadata": {"team": "ml"},
    "backoffLimit": 1,
    "activeDeadlineSeconds": 3600,
    "preRunningDeadlineSeconds": 600,
    "ttlSecondsAfterFinished": 60,
    "shutdownAfterJobFinishes": True,
    "deletionStrategy": {"onSuccess": {"policy": "DeleteCluster"}, "onFailure": {"policy": "DeleteNone"}},
    "suspend": False,
    "managedBy": "kueue.x-k8s.io/multikueue",
    "submissionMode": "SidecarMode",
    "submitterConfig": {"backoffLimit": 2},
    "submitterPodTemplate": POD,
    "clusterSelector": {"ray.io/cluster": "shared"},
    "rayClusterSpec": RAY_CLUSTER,
}
RAY_SERVICE: Json = {
    "serveConfigV2": "applications: []",
    "serveService": {"metadata": {"name": "serve"}},
    "serviceUnhealthySecondThreshold": 300,
    "deploymentUnhealthySecondThreshold": 300,
    "excludeHeadPodFromServeSvc": True,
    "rayClusterDeletionDelaySeconds": 60,
    "upgradeStrategy": {"type": "NewCluster"},
    "managedBy": "ray.io/kuberay-operator",
    "rayClusterConfig": RAY_CLUSTER,
}
WHOLE: dict[str, tuple[str, Json]] = {
    "JobSet": ("jobset.x-k8s.io/v1alpha2", JOB_SET),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", LEADER_WORKER_SET),
    "PyTorchJob": ("kubeflow.org/v1", PYTORCH_JOB),
    "TFJob": ("kubeflow.org/v1", TF_JOB),
    "XGBoostJob": ("kubeflow.org/v1", {"runPolicy": RUN_POLICY, "xgbReplicaSpecs": {"Worker": REPLICAS}}),
    "PaddleJob": ("kubeflow.org/v1", PADDLE_JOB),
    "JAXJob": ("kubeflow.org/v1", {"runPolicy": RUN_POLICY, "jaxReplicaSpecs": {"Worker": REPLICAS}}),
    "MPIJob": ("kubeflow.org/v2beta1", MPI_JOB),
    "RayCluster": ("ray.io/v1", RAY_CLUSTER),
    "RayJob": ("ray.io/v1", RAY_JOB),
    "RayService": ("ray.io/v1", RAY_SERVICE),
}


def told(kind: str, api_version: str, spec: Json) -> tuple[list[str], list[str]]:
    """The faults of a workload, and what it is warned of."""
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "train"}, "spec": spec}
    asked = document, kind, api_version, ObjectPath(f"{kind} train")
    return _sentences(submitted_faults(*asked)), _sentences(submitted_warnings(*asked))


def _sentences(found: Any) -> list[str]:
    return [f"{each.at.field}: {each.problem}" for each in found]


@pytest.mark.parametrize(
    "kind, api_version, spec",
    [(kind, version, spec) for kind, (version, spec) in WHOLE.items()]
    + [
        ("MPIJob", "kubeflow.org/v1", MPI_JOB_V1),
        ("RayJob", "ray.io/v1alpha1", {**RAY_JOB, "runtimeEnv": "e30="}),
        ("RayJob", "ray.io/v1", {**RAY_JOB, "deletionPolicy": "DeleteCluster"}),
        ("RayService", "ray.io/v1alpha1", {**RAY_SERVICE, "serveConfig": {"importPath": "a:b"}}),
    ],
)
def test_a_workload_with_every_field_of_its_kind_passes(kind: str, api_version: str, spec: Json) -> None:
    assert told(kind, api_version, spec) == ([], [])


@pytest.mark.parametrize(
    "kind, spec, where, meant",
    [
        ("JobSet", {"replicatedJob": []}, "replicatedJob", "replicatedJobs"),
        ("JobSet", {"replicatedjobs": []}, "replicatedjobs", "replicatedJobs"),
        ("JobSet", {"replicatedJobs": [{"replica": 2}]}, "replicatedJobs[0].replica", "replicas"),
        (
            "JobSet",
            {"replicatedJobs": [{"template": {"spec": {"paralelism": 2}}}]},
            "replicatedJobs[0].template.spec.paralelism",
            "parallelism",
        ),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"sise": 2}}, "leaderWorkerTemplate.sise", "size"),
        (
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"subGroupPolicy": {"subgroupSize": 2}}},
            "leaderWorkerTemplate.subGroupPolicy.subgroupSize",
            "subGroupSize",
        ),
        ("PyTorchJob", {"pyTorchReplicaSpecs": {}}, "pyTorchReplicaSpecs", "pytorchReplicaSpecs"),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Worker": {"replcias": 2}}},
            "pytorchReplicaSpecs.Worker.replcias",
            "replicas",
        ),
        (
            "MPIJob",
            {"runPolicy": {"schedulingPolicy": {"minAvailabel": 2}}},
            "runPolicy.schedulingPolicy.minAvailabel",
            "minAvailable",
        ),
        ("RayCluster", {"workerGroupSpec": []}, "workerGroupSpec", "workerGroupSpecs"),
        ("RayCluster", {"workerGroupSpecs": [{"numOfHost": 2}]}, "workerGroupSpecs[0].numOfHost", "numOfHosts"),
        ("RayJob", {"rayclusterSpec": {}}, "rayclusterSpec", "rayClusterSpec"),
        ("RayService", {"rayClusterConfg": {}}, "rayClusterConfg", "rayClusterConfig"),
    ],
)
def test_a_misspelt_field_is_named_with_the_one_that_is_meant(kind: str, spec: Json, where: str, meant: str) -> None:
    faults, warnings = told(kind, WHOLE[kind][0], spec)
    assert faults == [f"spec.{where}: unknown field; did you mean {meant}?"]
    assert warnings == []


@pytest.mark.parametrize(
    "kind, spec, warned",
    [
        ("RayCluster", {"workerGroups": []}, ["spec.workerGroups: unknown field; did you mean workerGroupSpecs?"]),
        ("JobSet", {"startup": {}}, ["spec.startup: unknown field; did you mean startupPolicy?"]),
        ("RayJob", {"notifications": {}}, []),
        ("JobSet", {"replicatedJobs": [{"minimumPods": 2}]}, []),
    ],
)
def test_a_field_that_may_be_of_a_newer_version_passes(kind: str, spec: Json, warned: list[str]) -> None:
    assert told(kind, WHOLE[kind][0], spec) == ([], warned)
