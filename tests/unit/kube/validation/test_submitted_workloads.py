"""Mistakes in submitted workloads and group objects, each with the field and the sentence that names it."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.kube.errors import ObjectPath
from bayplan.kube.validation.submitted import submitted_faults

Json = dict[str, Any]
KINDS = {
    "Job": "batch/v1",
    "StatefulSet": "apps/v1",
    "Deployment": "apps/v1",
    "DaemonSet": "apps/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "PyTorchJob": "kubeflow.org/v1",
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "PodGroup": "bayplan.io/v1alpha1",
    "Workflow": "argoproj.io/v1alpha1",
}
TEMPLATE = {"spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]}}
JOB_TEMPLATE = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
SPECS: dict[str, Json] = {
    "Job": {"template": JOB_TEMPLATE},
    **{kind: {"template": TEMPLATE} for kind in ("StatefulSet", "Deployment", "DaemonSet")},
}


def told(kind: str, spec: Json, metadata: Json | None = None) -> list[str]:
    """What is wrong with a workload that has these fields."""
    document = {
        "apiVersion": KINDS[kind],
        "kind": kind,
        "metadata": {"name": "train"} if metadata is None else metadata,
        "spec": {**SPECS.get(kind, {}), **spec},
    }
    at = ObjectPath(f"{kind} train")
    faults = submitted_faults(document, kind, KINDS[kind], at)
    return [f"{fault.at.field}: {fault.problem}" for fault in faults]


def of_job_set(job: Json) -> Json:
    return {"replicatedJobs": [{"name": "a", "template": {"spec": {**job, "template": JOB_TEMPLATE}}}]}


@pytest.mark.parametrize(
    "kind, spec, word, good, allowed",
    [
        ("Job", {"completionMode": "@", "completions": 1}, "Indexd", "Indexed", "NonIndexed, Indexed"),
        ("Job", {"podReplacementPolicy": "@"}, "Fail", "Failed", "TerminatingOrFailed, Failed"),
        ("StatefulSet", {"podManagementPolicy": "@"}, "Paralel", "Parallel", "OrderedReady, Parallel"),
        ("StatefulSet", {"updateStrategy": {"type": "@"}}, "OnDelet", "OnDelete", "RollingUpdate, OnDelete"),
        ("DaemonSet", {"updateStrategy": {"type": "@"}}, "OnDelet", "OnDelete", "RollingUpdate, OnDelete"),
        ("Deployment", {"strategy": {"type": "@"}}, "recreate", "Recreate", "Recreate, RollingUpdate"),
        ("JobSet", {"startupPolicy": {"startupPolicyOrder": "@"}}, "Ordered", "InOrder", "AnyOrder, InOrder"),
        ("JobSet", of_job_set({"completionMode": "@"}), "Indexd", "Indexed", "NonIndexed, Indexed"),
        ("JobSet", {"replicatedJobs": [{"dependsOn": [{"status": "@"}]}]}, "Redy", "Ready", "Ready, Complete"),
        ("LeaderWorkerSet", {"startupPolicy": "@"}, "LeaderRedy", "LeaderReady", "LeaderCreated, LeaderReady"),
        (
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"subGroupPolicy": {"subGroupPolicyType": "@"}}},
            "LeaderExclude",
            "LeaderExcluded",
            "LeaderWorker, LeaderExcluded",
        ),
        (
            "MPIJob",
            {"launcherCreationPolicy": "@"},
            "WaitForWorkers",
            "WaitForWorkersReady",
            "AtStartup, WaitForWorkersReady",
        ),
        ("MPIJob", {"runPolicy": {"cleanPodPolicy": "@"}}, "Runing", "Running", "None, Running, All"),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Worker": {"restartPolicy": "@"}}},
            "OnFail",
            "OnFailure",
            "Always, OnFailure, Never, ExitCode",
        ),
        ("RayJob", {"submissionMode": "@"}, "HttpMode", "HTTPMode", "K8sJobMode, HTTPMode, InteractiveMode"),
        (
            "RayCluster",
            {"autoscalerOptions": {"upscalingMode": "@"}},
            "Agressive",
            "Aggressive",
            "Default, Aggressive, Conservative",
        ),
    ],
)
def test_a_word_that_a_field_does_not_have_is_named_with_those_that_it_has(
    kind: str, spec: Json, word: str, good: str, allowed: str
) -> None:
    (said,) = told(kind, _filled(spec, word))
    assert f'"{word}" is not allowed: must be {allowed}' in said
    assert told(kind, _filled(spec, good)) == []


def _filled(value: Any, word: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, word) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, word) for each in value]
    return word if value == "@" else value


@pytest.mark.parametrize("kind", ["PodGroup", "JobSet", "Workflow"])
def test_custom_resources_may_have_finalizers_without_a_domain(kind: str) -> None:
    assert told(kind, {}, {"name": "g", "finalizers": ["cleanup"]}) == []
    assert "must consist of letters" in told(kind, {}, {"name": "g", "finalizers": ["clean up"]})[0]


def test_built_in_workloads_must_have_one() -> None:
    (said,) = told("Job", {}, {"name": "g", "finalizers": ["cleanup"]})
    assert said == 'metadata.finalizers[0]: "cleanup" is not allowed: must be foregroundDeletion, kubernetes, orphan'


@pytest.mark.parametrize("kind", ["Job", "JobSet", "PodGroup"])
def test_an_object_needs_a_name_or_the_start_of_one(kind: str) -> None:
    assert told(kind, {}, {}) == ["metadata.name: is missing: every object needs a name or generateName"]
    assert told(kind, {}, {"generateName": "train-"}) == []
