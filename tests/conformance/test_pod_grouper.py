"""KAI-Scheduler's pod grouper as recorded: an owner, a pod and the objects it looked up, and the PodGroup that it made
of them.

Each recording is one call of one of KAI's groupers, so the grouper is chosen by the name that was recorded, not by the
owner's kind (many are made up). Where KAI gave up, bayplan has to give up too; its words are its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bayplan.compat.kai.grouping import grove, jobs, kubeflow, leader_worker_set, ray, table
from bayplan.compat.kai.grouping.metadata import (
    NO_CONSTRAINT,
    KaiCase,
    KaiConstraint,
    KaiGroup,
    KaiSubGroup,
)
from bayplan.grouping.group import KaiSettings
from bayplan.grouping.grouping import Answers, InvalidGrouping, Lookup, Unanswered
from bayplan.grouping.raw import Reference, WrongValue, labels_of

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

GROUPERS: dict[str, table.Grouper] = {
    "aml": jobs.azure_ml,
    "cronjobs": jobs.cron_job,
    "defaultgrouper": jobs.plain,
    "deployment": jobs.deployment,
    "grove": grove.pod_gang,
    "job": jobs.batch_job,
    "jobset": jobs.job_set,
    "knative": jobs.knative,
    "kubeflow/jax": kubeflow.jax_job,
    "kubeflow/mpi": kubeflow.mpi_job,
    "kubeflow/notebook": jobs.notebook,
    "kubeflow/pytorch": kubeflow.pytorch_job,
    "kubeflow/tensorflow": kubeflow.tf_job,
    "kubeflow/xgboost": kubeflow.xgboost_job,
    "leaderworkerset": leader_worker_set.leader_worker_set,
    "podjob": jobs.pod_by_itself,
    "ray/RayCluster": ray.ray_cluster,
    "ray/RayJob": ray.ray_job,
    "ray/RayService": ray.ray_service,
    "runaijob": jobs.run_ai_job,
    # Recorded with no grouper but the usual one for whatever is below.
    "skiptopowner": lambda case: jobs.plain(table.below_wrapper(case)),
    "spark": jobs.spark,
    "spotrequest": jobs.spot_request,
}


@pytest.mark.fixture_files("kai/podgrouper")
def test_makes_the_same_pod_groups(conformance: Conformance) -> None:
    conformance.check_each(grouping_problem)


def grouping_problem(case: Case) -> str | None:
    expected = case["expected"]
    try:
        group = recorded_group(case)
    except (InvalidGrouping, WrongValue) as refusal:
        return None if "error" in expected else f"gives up: {refusal}"
    if "error" in expected:
        return f"KAI gives up: {expected['error']}"
    made = shown(group)
    wrong = [f"{key}: {made[key]!r}, expected {value!r}" for key, value in expected.items() if made[key] != value]
    return "; ".join(wrong) or None


def recorded_group(case: Case) -> KaiGroup:
    """What bayplan's form of the recorded grouper makes, with the objects that KAI read in place of a cluster."""
    reads = case.get("clusterReads") or []
    answers: dict[Lookup, list[Any]] = {}
    while True:
        try:
            return grouper_of(case)(kai_case(case, answers, settings_of(case["config"], reads)))
        except Unanswered as unanswered:
            question = unanswered.question
            answers[question] = answer(question, reads)


def grouper_of(case: Case) -> table.Grouper:
    name = case["grouper"]
    if name == "ray":
        name = f"ray/{(case.get('topOwner') or {}).get('kind', 'RayCluster')}"
    return GROUPERS.get(name) or table.grouper_for(case.get("topOwner") or case["pod"])


def kai_case(case: Case, answers: Answers, settings: KaiSettings) -> KaiCase:
    """Pod and owners. Of those between, only metadata were recorded; whole ones are among the objects that KAI read."""
    pod, owner = case.get("pod") or {}, case.get("topOwner") or {}
    owners = [whole_object(each, case.get("clusterReads") or []) for each in case.get("owners") or []]
    return KaiCase(pod, owner, owners, settings, answers)


def whole_object(partial: dict[str, Any], reads: list[dict[str, Any]]) -> dict[str, Any]:
    about = Reference.of(partial)
    found = (read["object"] for read in reads if read["type"] == "Unstructured" and read["found"])
    return next(
        (each for each in found if (each["kind"], each["metadata"]["name"]) == (about.kind, about.name)), partial
    )


def settings_of(config: dict[str, Any], reads: list[dict[str, Any]]) -> KaiSettings:
    namespace, _, name = next((read["key"] for read in reads if read["type"] == "ConfigMap"), "").partition("/")
    return KaiSettings(
        queue_label=config["queueLabelKey"],
        node_pool_label=config["nodePoolLabelKey"],
        search_for_legacy_groups=config.get("searchForLegacyPodGroups", False),
        gangs_of_knative=config.get("gangScheduleKnative", False),
        defaults_namespace=namespace,
        defaults_name=name,
    )


def answer(question: Lookup, reads: list[dict[str, Any]]) -> list[Any]:
    """The objects that KAI found when it asked the same."""
    if question.labels:
        listed = [
            pod for read in reads if read["type"] == "PodList" for pod in (read.get("object") or {}).get("items") or []
        ]
        return [pod for pod in listed if dict(question.labels).items() <= dict(labels_of(pod)).items()]
    for read in reads:
        kind = read["type"] if read["type"] != "Unstructured" else read["gvk"].rpartition("Kind=")[2]
        if kind == question.kind and read.get("key", "").rpartition("/")[2] == question.name and read["found"]:
            return [read["object"]]
    return []


def shown(group: KaiGroup) -> dict[str, Any]:
    """A group in the recordings' words."""
    return {
        "name": group.name,
        "namespace": group.namespace,
        "minAvailable": group.min_available,
        "queue": group.queue,
        "priorityClassName": group.priority_class,
        "preemptibility": group.preemptibility,
        "labels": group.labels,
        "annotations": group.annotations,
        "owner": group.owner.as_owner(),
        "topologyConstraint": shown_constraint(group.constraint),
        "subGroups": [shown_sub_group(sub_group) for sub_group in group.sub_groups],
    }


def shown_sub_group(sub_group: KaiSubGroup) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": sub_group.name, "minAvailable": sub_group.min_available}
    if sub_group.parent:
        shown["parent"] = sub_group.parent
    if sub_group.pods:
        shown["pods"] = list(sub_group.pods)
    if sub_group.constraint != NO_CONSTRAINT:
        shown["topologyConstraint"] = shown_constraint(sub_group.constraint)
    return shown


def shown_constraint(constraint: KaiConstraint) -> dict[str, str]:
    written = {"topology": constraint.topology, "required": constraint.required, "preferred": constraint.preferred}
    return {key: value for key, value in written.items() if value}
