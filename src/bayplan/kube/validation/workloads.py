"""What is wrong with a submitted workload beside its pod templates: the rules of built-in kinds, and misspelt fields
and words of custom ones.

An API server knows the schema of a custom kind; bayplan knows the fields that decide how many pods there are and where
they go, and their neighbours. A field that resembles one of them and is none of them is taken for a spelling mistake.
Any other unknown field may come from a newer version and passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.kube.errors import InvalidObject, ObjectPath, did_you_mean
from bayplan.kube.validation.fields import UnknownField, field_table
from bayplan.kube.validation.rules import Faults, Json, choice, chosen, entries, missing, part, required, text
from bayplan.kube.validation.volumes import claim_faults

_WITH_SELECTOR = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_RESTARTS = {"Job": ("OnFailure", "Never"), **dict.fromkeys(_WITH_SELECTOR, ("Always",))}
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENTS = ("TerminatingOrFailed", "Failed")
_POD_MANAGEMENT = ("OrderedReady", "Parallel")
# Of a strategy or update strategy: its type.
_STRATEGIES = {
    "Deployment": ("strategy", ("Recreate", "RollingUpdate")),
    "StatefulSet": ("updateStrategy", ("RollingUpdate", "OnDelete")),
    "DaemonSet": ("updateStrategy", ("RollingUpdate", "OnDelete")),
}
_CONCURRENCY = ("Allow", "Forbid", "Replace")

# The fields of custom kinds: each with the type of its value where that is looked into; `[]` and `{}` before it as in
# `fields.py`.
_OBJECT = {"apiVersion": "", "kind": "", "metadata": "", "status": ""}
_TRAINING_JOBS = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")


def _plain(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "")


_CUSTOM: dict[str, dict[str, str]] = {
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
        **_plain("suspend", "submissionMode", "submitterPodTemplate", "clusterSelector", "entrypointNumCpus"),
    },
    "RayServiceSpec": {"rayClusterConfig": "RayClusterSpec"},
    "RayClusterSpec": {
        "workerGroupSpecs": "[]WorkerGroupSpec",
        "autoscalerOptions": "AutoscalerOptions",
        **_plain("headGroupSpec", "headServiceAnnotations", "enableInTreeAutoscaling", "suspend"),
    },
    "AutoscalerOptions": _plain(
        "upscalingMode", "idleTimeoutSeconds", "resources", "image", "imagePullPolicy", "version"
    ),
    "WorkerGroupSpec": _plain(
        "groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "rayStartParams", "template", "suspend"
    ),
}
# Fields that have one of a few words.
_CLEANED = ("None", "Running", "All")
_WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("JobSpec", "completionMode"): _MODES,
    ("JobSpec", "podReplacementPolicy"): _REPLACEMENTS,
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
}
_GROUPS = ("jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "kubeflow.org", "ray.io")


def built_in_faults(document: Json, kind: str, at: ObjectPath) -> Faults:
    """The rules of an API server for a built-in workload whose shape is right.

    Those of its pod template are checked by `pod.py`.
    """
    spec = part(document, "spec") or {}
    place = at.child("spec")
    if kind == "CronJob":
        yield from required(spec, "schedule", place)
        yield from chosen(spec, "concurrencyPolicy", _CONCURRENCY, place)
        inner = part(spec, "jobTemplate") or {}
        yield from built_in_faults(inner, "Job", place.child("jobTemplate"))
        return
    if kind == "Job":
        yield from chosen(spec, "completionMode", _MODES, place)
        yield from chosen(spec, "podReplacementPolicy", _REPLACEMENTS, place)
        if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
            yield missing(place.child("completions"), "an Indexed Job says how many indexes there are")
    else:
        yield from _selector_faults(spec, place)
    for claim, where in entries(spec, "volumeClaimTemplates", place):
        yield from claim_faults(part(claim, "spec") or {}, where.child("spec"))
    if kind == "StatefulSet" and text(spec, "podManagementPolicy"):
        yield from chosen(spec, "podManagementPolicy", _POD_MANAGEMENT, place)
    if kind in _STRATEGIES:
        field, types = _STRATEGIES[kind]
        strategy = part(spec, field) or {}
        if text(strategy, "type"):
            yield from chosen(strategy, "type", types, place.child(field))
    template = part(spec, "template") or {}
    if pod := part(template, "spec"):
        restarts = _RESTARTS[kind]
        yield from choice(text(pod, "restartPolicy", "Always"), restarts, place.child("template.spec.restartPolicy"))


def _selector_faults(spec: Json, at: ObjectPath) -> Faults:
    """A selector must choose the pods of the template; `selector_warnings` tells if there is none."""
    selector = part(spec, "selector") or {}
    labels = (part(part(spec, "template") or {}, "metadata") or {}).get("labels") or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            place = at.child("selector.matchLabels").entry(key)
            yield InvalidObject(place, f'"{value}" is not allowed: must be a label of spec.template.metadata.labels')


def selector_warnings(document: Json, at: ObjectPath) -> Faults:
    """An API server refuses a workload without a selector. That is no reason to plan nothing."""
    spec = part(document, "spec")
    if spec and not part(spec, "selector"):
        yield InvalidObject(at.child("spec.selector"), "is missing: an API server would refuse this object")


def custom_field_faults(document: Any, kind: str, api_version: str, at: ObjectPath) -> Iterator[InvalidObject]:
    """Fields of a custom workload that resemble one that its kind has, and words that a field does not have."""
    if api_version.partition("/")[0] in _GROUPS and kind in _CUSTOM:
        yield from _misspelt(document, kind, at)


def _misspelt(value: Any, expected: str, at: ObjectPath) -> Iterator[InvalidObject]:
    if expected.startswith("[]"):
        for index, each in enumerate(value if isinstance(value, list) else ()):
            yield from _misspelt(each, expected[2:], at.item(index))
        return
    if not isinstance(value, dict):
        return
    if expected.startswith("{}"):
        for key, each in value.items():
            yield from _misspelt(each, expected[2:], at.child(str(key)))
        return
    known: Mapping[str, str] = _CUSTOM.get(expected) or dict.fromkeys(field_table().types.get(expected, ()), "")
    for key, each in value.items():
        if key not in known and (hint := did_you_mean(str(key), known)):
            yield UnknownField(at.child(str(key)), f"unknown field{hint}")
        elif known.get(key):
            yield from _misspelt(each, known[key], at.child(key))
        elif isinstance(each, str) and each and (expected, key) in _WORDS:
            yield from choice(each, _WORDS[expected, key], at.child(key))
