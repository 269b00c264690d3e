"""Workloads as the API server has them, small: what the tests of grouping are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.grouping.group import GroupingSettings, KnownRequests, group_for
from bayplan.grouping.grouping import Grouping, Lookup
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup

Raw = dict[str, Any]
RACK, BLOCK = "example.com/rack", "example.com/block"
IN_ONE_BLOCK = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": BLOCK}


def thing(api_version: str, kind: str, spec: Raw, annotations: dict[str, str] | None = None, **more: Any) -> Raw:
    """An object called `train` in namespace `ml`."""
    metadata = {"name": "train", "namespace": "ml", "uid": "1b4e28ba-2fa1-11d2", "annotations": annotations or {}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, **more}


def job(annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    """A batch Job of four pods."""
    return thing("batch/v1", "Job", {"parallelism": 4, "completions": 4} | spec, annotations)


def pod(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, name: str = "train-x") -> Raw:
    """A pod with an owner."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1b4e28ba"}
    metadata = {"name": name, "namespace": "ml", "uid": "p-1", "labels": labels or {}, "annotations": annotations or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | {"ownerReferences": [owner]},
        "spec": {"containers": []},
    }


def grouped(
    member: Raw,
    *owners: Raw,
    settings: GroupingSettings | None = None,
    workloads: KubernetesWorkloads | None = None,
    jobs: Sequence[Raw] = (),
) -> Grouping:
    """What becomes of a pod with these owners, where nothing else must be known but Kubernetes' Workloads and the Jobs
    of a JobSet.
    """
    answers: dict[Lookup, Sequence[Raw]] = {}
    outcome = group_for(member, owners, settings, answers, workloads)
    if isinstance(outcome, Lookup):
        assert outcome == Lookup("batch/v1", "Job", "ml", labels=(("jobset.sigs.k8s.io/jobset-name", "train"),))
        answers[outcome] = jobs
        outcome = group_for(member, owners, settings, answers, workloads)
    assert isinstance(outcome, Grouping), outcome
    known: KnownRequests = {}
    for _ in range(2):
        assert group_for(member, owners, settings, answers, workloads, known) == outcome
    return outcome


def spec_of(grouping: Grouping) -> Raw:
    """The spec of the PodGroup to apply."""
    assert grouping.manifest is not None, [str(problem) for problem in grouping.problems]
    spec: Raw = grouping.manifest["spec"]
    return spec


def pod_group(grouping: Grouping) -> PodGroup:
    """The PodGroup to apply, as bayplan reads it."""
    return msgspec.convert(grouping.manifest, PodGroup)


def alone(grouping: Grouping) -> bool:
    """Whether the pod is no member and can be placed by itself."""
    return grouping.manifest is None and not grouping.held


def problems(grouping: Grouping) -> list[str]:
    """What is wrong, in words."""
    return [str(problem) for problem in grouping.problems]
