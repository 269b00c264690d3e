"""Whether deleting pods would fail their Job: the Job controller counts deleted pods as failed, unless its
podFailurePolicy ignores disruptions.

In: the Job and the pods to delete. Out: why they must stay, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.kube.whole_number import whole_number
from bayplan.kube.wire.core_v1 import OwnerReference, Pod, WireStruct
from bayplan.services.edges.conditions import DISRUPTION_TARGET

INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORE = "Ignore"
DEFAULT_BACKOFF_LIMIT = 6


class _ConditionPattern(WireStruct, frozen=True):
    type: str = ""
    status: str = "True"


class _Rule(WireStruct, frozen=True):
    action: str = ""
    on_exit_codes: dict[str, object] | None = None
    on_pod_conditions: list[_ConditionPattern] | None = None


class _Policy(WireStruct, frozen=True):
    rules: list[_Rule] | None = None


class _JobSpec(WireStruct, frozen=True):
    backoff_limit: int = DEFAULT_BACKOFF_LIMIT
    backoff_limit_per_index: int | None = None
    pod_failure_policy: _Policy | None = None


class _JobStatus(WireStruct, frozen=True):
    failed: int = 0


class Job(WireStruct, frozen=True):
    """What a Job says about failures of its pods."""

    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


def job_of(pod: Pod) -> OwnerReference | None:
    """The Job that controls a pod."""
    owners = pod.metadata.owner_references or ()
    return next(
        (each for each in owners if each.controller and (each.api_version, each.kind) == ("batch/v1", "Job")), None
    )


def would_fail(job: Job, name: str, pods: Sequence[Pod]) -> str:
    """Why deleting these pods of a Job would fail it or one of its indexes; empty if it would not."""
    if _ignores_disruptions(job.spec.pod_failure_policy):
        return ""
    remedy = f"; a podFailurePolicy that ignores the condition {DISRUPTION_TARGET} allows it"
    per_index = job.spec.backoff_limit_per_index
    if per_index is not None:
        exhausted = sum(_failures_of_index(pod) >= per_index for pod in pods)
        limit = f"backoffLimitPerIndex {per_index}"
        noun = "index" if exhausted == 1 else "indexes"
        return f"deleting them would fail {exhausted} {noun} of Job {name} ({limit}){remedy}" if exhausted else ""
    failed = job.status.failed
    if failed + len(pods) <= job.spec.backoff_limit:
        return ""
    counts = f"backoffLimit {job.spec.backoff_limit}, {failed} pods have failed"
    return f"deleting {len(pods)} pods would fail Job {name} ({counts}){remedy}"


def _ignores_disruptions(policy: _Policy | None) -> bool:
    """Whether the first rule that can match a deleted pod ignores it. Its exit code is unknown, so any can match."""
    for rule in (policy.rules if policy is not None else None) or ():
        if rule.on_exit_codes is not None and rule.action != IGNORE:
            return False
        patterns = rule.on_pod_conditions or ()
        if any((each.type, each.status) == (DISRUPTION_TARGET, "True") for each in patterns):
            return rule.action == IGNORE
    return False


def _failures_of_index(pod: Pod) -> int:
    return whole_number((pod.metadata.annotations or {}).get(INDEX_FAILURES, "")) or 0
