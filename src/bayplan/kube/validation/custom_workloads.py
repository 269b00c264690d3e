"""Misspelt fields and words of submitted custom workloads, beside their pod templates.

An API server knows the schema of a custom kind; the lists below have it for the parts that decide how many pods there
are and where they go. Each list is complete: it has the fields of every version that the operators serve, and of
earlier ones where they resemble those. An operator newer than the lists may have more, so a field that is in no list
is a fault only if it differs from a known one by a slip of the pen. If it merely resembles one, that is worth a
warning; any other passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from bayplan.kube.errors import InvalidObject, ObjectPath, did_you_mean
from bayplan.kube.validation.fields import UnknownField, field_table
from bayplan.kube.validation.rules import choice
from bayplan.kube.validation.workloads import COMPLETION_MODES, POD_REPLACEMENTS

# Each field has the type of its value where that is looked into; `[]` and `{}` before it as in `fields.py`.
_OBJECT = {"apiVersion": "", "kind": "", "metadata": "", "status": ""}
_TRAINING_JOBS = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")


def _plain(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "")


_TYPES: dict[str, dict[str, str]] = {
    "JobSet": {**_OBJECT, "spec": "JobSetSpec"},
    "JobSetSpec": {
        "replicatedJobs": "[]ReplicatedJob",
        "startupPolicy": "StartupPolicy",
        "successPolicy": "SuccessPolicy",
        **_plain("network", "failurePolicy", "suspend", "coordinator", "managedBy"),
        **_plain("ttlSecondsAfterFinished", "volumeClaimPolicies"),
    },
    "StartupPolicy": _plain("startupPolicyOrder"),
    "SuccessPolicy": _plain("operator", "targetReplicatedJobs"),
    "ReplicatedJob": {
        "template": "JobTemplateSpec",
        "dependsOn": "[]DependsOn",
        **_plain("name", "groupName", "replicas"),
    },
    "DependsOn": _plain("name", "status"),
    "JobTemplateSpec": {"metadata": "", "spec": "JobSpec"},
    "LeaderWorkerSet": {**_OBJECT, "spec": "LeaderWorkerSetSpec"},
    "LeaderWorkerSetSpec": {
        "leaderWorkerTemplate": "LeaderWorkerTemplate",
        **_plain("replicas", "rolloutStrategy", "startupPolicy", "networkConfig"),
    },
    "LeaderWorkerTemplate": {
        "subGroupPolicy": "SubGroupPolicy",
        **_plain("leaderTemplate", "workerTemplate", "size", "restartPolicy", "resizePolicy", "volumeClaimTemplates"),
        **_plain("persistentVolumeClaimRetentionPolicy"),
    },
    "SubGroupPolicy": _plain("subGroupPolicyType", "subGroupSize"),
    **{kind: {**_OBJECT, "spec": "TrainingJobSpec"} for kind in _TRAINING_JOBS},
    "TrainingJobSpec": {
        "runPolicy": "RunPolicy",
        **{f"{system}ReplicaSpecs": "{}ReplicaSpec" for system in ("pytorch", "tf", "xgb", "paddle", "jax", "mpi")},
        **_plain("elasticPolicy", "nprocPerNode", "successPolicy", "enableDynamicWorker", "slotsPerWorker"),
        **_plain("cleanPodPolicy", "mainContainer", "sshAuthMountPath", "launcherCreationPolicy", "mpiImplementation"),
        **_plain("runLauncherAsWorker"),
    },
    "ReplicaSpec": _plain("replicas", "template", "restartPolicy"),
    "RunPolicy": {
        "schedulingPolicy": "SchedulingPolicy",
        **_plain("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "suspend"),
        **_plain("managedBy"),
    },
    "SchedulingPolicy": _plain("minAvailable", "queue", "minResources", "priorityClass", "scheduleTimeoutSeconds"),
    "RayCluster": {**_OBJECT, "spec": "RayClusterSpec"},
    "RayJob": {**_OBJECT, "spec": "RayJobSpec"},
    "RayService": {**_OBJECT, "spec": "RayServiceSpec"},
    "RayJobSpec": {
        "rayClusterSpec": "RayClusterSpec",
        **_plain("entrypoint", "entrypointNumCpus", "entrypointNumGpus", "entrypointResources", "runtimeEnvYAML"),
        **_plain("jobId", "metadata", "clusterSelector", "managedBy", "suspend", "backoffLimit", "submissionMode"),
        **_plain("submitterPodTemplate", "submitterConfig", "activeDeadlineSeconds", "preRunningDeadlineSeconds"),
        **_plain("ttlSecondsAfterFinished", "shutdownAfterJobFinishes", "deletionStrategy"),
        **_plain("deletionPolicy", "runtimeEnv"),  # of earlier versions
    },
    "RayServiceSpec": {
        "rayClusterConfig": "RayClusterSpec",
        **_plain("serveConfigV2", "serveService", "upgradeStrategy", "managedBy", "excludeHeadPodFromServeSvc"),
        **_plain("serviceUnhealthySecondThreshold", "deploymentUnhealthySecondThreshold"),
        **_plain("rayClusterDeletionDelaySeconds"),
        **_plain("serveConfig"),  # of earlier versions
    },
    "RayClusterSpec": {
        "workerGroupSpecs": "[]WorkerGroupSpec",
        "autoscalerOptions": "AutoscalerOptions",
        **_plain("headGroupSpec", "headServiceAnnotations", "enableInTreeAutoscaling", "suspend", "managedBy"),
        **_plain("authOptions", "gcsFaultToleranceOptions", "rayVersion", "upgradeStrategy"),
    },
    "AutoscalerOptions": _plain(
        *("upscalingMode", "idleTimeoutSeconds", "resources", "image", "imagePullPolicy", "version"),
        *("securityContext", "env", "envFrom", "volumeMounts"),
    ),
    "WorkerGroupSpec": _plain(
        *("groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "rayStartParams", "template"),
        *("suspend", "idleTimeoutSeconds", "labels", "resources", "scaleStrategy"),
    ),
}
# Fields that have one of a few words.
_CLEANED = ("None", "Running", "All")
_WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("JobSpec", "completionMode"): COMPLETION_MODES,
    ("JobSpec", "podReplacementPolicy"): POD_REPLACEMENTS,
    ("StartupPolicy", "startupPolicyOrder"): ("AnyOrder", "InOrder"),
    ("SuccessPolicy", "operator"): ("All", "Any"),
    ("DependsOn", "status"): ("Ready", "Complete"),
    ("LeaderWorkerSetSpec", "startupPolicy"): ("LeaderCreated", "LeaderReady"),
    ("LeaderWorkerTemplate", "restartPolicy"): (
        "RecreateGroupOnPodRestart",
        "RecreateGroupAfterStart",
        "None",
        "Default",
    ),
    ("SubGroupPolicy", "subGroupPolicyType"): ("LeaderWorker", "LeaderExcluded"),
    ("TrainingJobSpec", "cleanPodPolicy"): _CLEANED,
    ("RunPolicy", "cleanPodPolicy"): _CLEANED,
    ("TrainingJobSpec", "launcherCreationPolicy"): ("AtStartup", "WaitForWorkersReady"),
    ("TrainingJobSpec", "mpiImplementation"): ("OpenMPI", "Intel", "MPICH"),
    ("ReplicaSpec", "restartPolicy"): ("Always", "OnFailure", "Never", "ExitCode"),
    ("RayJobSpec", "submissionMode"): ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"),
    ("AutoscalerOptions", "upscalingMode"): ("Default", "Aggressive", "Conservative"),
    ("AutoscalerOptions", "version"): ("v1", "v2"),
}
_GROUPS = ("jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "kubeflow.org", "ray.io")
_SHORT = 5  # letters of a name in which two other letters make another word
_MOST_SLIPS = 2


class _Level(NamedTuple):
    """A mapping in a document, and which of the types it has."""

    fields: Mapping[str, Any]
    type: str
    at: ObjectPath

    def known(self) -> Mapping[str, str]:
        return _TYPES.get(self.type) or dict.fromkeys(field_table().types.get(self.type, ()), "")


def custom_field_faults(document: Any, kind: str, api_version: str, at: ObjectPath) -> Iterator[InvalidObject]:
    """Misspelt fields of a custom workload, and words that a field does not have."""
    for level in _levels_of(document, kind, api_version, at):
        known = level.known()
        for key, value in level.fields.items():
            if key not in known and (meant := _meant(key, known)):
                yield UnknownField(level.at.child(key), f"unknown field; did you mean {meant}?")
            elif isinstance(value, str) and value and (level.type, key) in _WORDS:
                yield from choice(value, _WORDS[level.type, key], level.at.child(key))


def custom_field_warnings(document: Any, kind: str, api_version: str, at: ObjectPath) -> Iterator[InvalidObject]:
    """Fields of a custom workload that resemble one of its kind, and may be of a newer version."""
    for level in _levels_of(document, kind, api_version, at):
        known = level.known()
        for key in level.fields:
            if key not in known and not _meant(key, known) and (hint := did_you_mean(key, known)):
                yield UnknownField(level.at.child(key), f"unknown field{hint}")


def _levels_of(document: Any, kind: str, api_version: str, at: ObjectPath) -> Iterator[_Level]:
    if api_version.partition("/")[0] in _GROUPS and kind in _TYPES:
        yield from _levels(document, kind, at)


def _levels(value: Any, expected: str, at: ObjectPath) -> Iterator[_Level]:
    if expected.startswith("[]"):
        for index, each in enumerate(value if isinstance(value, list) else ()):
            yield from _levels(each, expected[2:], at.item(index))
    elif expected.startswith("{}"):
        for key, each in value.items() if isinstance(value, dict) else ():
            yield from _levels(each, expected[2:], at.child(key))
    elif isinstance(value, dict):
        level = _Level(value, expected, at)
        yield level
        for key, inner in level.known().items():
            if inner and key in value:
                yield from _levels(value[key], inner, at.child(key))


def _meant(word: str, known: Mapping[str, str]) -> str:
    """The field that a word is with a slip of the pen; empty if none."""
    return next((each for each in known if _is_slip(word.lower(), each.lower())), "")


def _is_slip(word: str, meant: str) -> bool:
    """True if two words begin alike and differ by a letter or two."""
    most = 1 if len(meant) <= _SHORT else _MOST_SLIPS
    return word[:1] == meant[:1] and abs(len(word) - len(meant)) <= most and _edits(word, meant) <= most


def _edits(word: str, other: str) -> int:
    """How many letters must be added, removed or changed to make one word of the other."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(word, start=1):
        before, row = row, [number]
        for column, each in enumerate(other):
            row.append(min(before[column + 1] + 1, row[column] + 1, before[column] + (letter != each)))
    return row[-1]
