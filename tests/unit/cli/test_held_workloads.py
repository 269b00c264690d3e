"""Workloads that another controller keeps suspended are answered with what that controller says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.bodies import Json
from tests.unit.cli.conftest import Bayplan
from tests.unit.cli.gang_files import CLUSTER
from tests.unit.cli.test_owners import LARGE, SMALL, dump, job, member

NO_QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu, 4 more needed"


def condition(kind: str, status: bool, message: str) -> Json:
    return {"type": kind, "status": str(status), "reason": "Pending", "message": message}


def workload(status: Json | None = None, active: bool = True, owner: str = "train") -> Json:
    """Kueue's Workload of a Job."""
    references = [{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"{owner}-uid", "controller": True}]
    metadata = {"name": f"job-{owner}-7c3f1", "namespace": "ml", "ownerReferences": references}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": metadata,
        "spec": {"queueName": "research", "active": active},
        "status": status or {},
    }


def suspended(**metadata: Json) -> Json:
    thing = job("train", 2, {"bayplan.io/gang": "true"}, SMALL, **metadata)
    thing["spec"]["suspend"] = True
    return thing


@pytest.mark.parametrize(
    "held, told",
    [
        (workload({"conditions": [condition("QuotaReserved", False, NO_QUOTA)]}), NO_QUOTA),
        (
            workload(
                {
                    "conditions": [
                        condition("Evicted", True, "Preempted to accommodate a workload"),
                        condition("QuotaReserved", False, NO_QUOTA),
                    ]
                }
            ),
            f"Preempted to accommodate a workload; {NO_QUOTA}",
        ),
        (
            workload(
                {
                    "conditions": [condition("QuotaReserved", True, "Quota reserved")],
                    "admissionChecks": [{"name": "provision", "state": "Pending", "message": "no nodes yet"}],
                }
            ),
            "admission check provision is Pending: no nodes yet",
        ),
        (workload({"conditions": [condition("Admitted", True, "")]}), "is admitted; Kueue has not resumed it yet"),
        (workload(active=False), "is deactivated (spec.active: false)"),
        (workload(), "Kueue has not looked at it yet"),
    ],
    ids=["no quota", "evicted", "admission check", "admitted", "deactivated", "new"],
)
def test_a_job_that_kueue_holds_says_why_and_where_it_would_fit(
    bayplan: Bayplan, tmp_path: Path, held: Json, told: str
) -> None:
    result = bayplan("why", "job/train", "-n", "ml", "--cluster", dump(tmp_path, suspended(), held), cluster=CLUSTER)
    assert (result.code, result.err) == (1, "")
    assert result.answer == f"Job ml/train is suspended by Kueue: Workload ml/job-train-7c3f1: {told}."
    assert "\n\nIf it were resumed now: Job ml/train fits: " in result.out


@pytest.mark.parametrize(
    "labels, told",
    [
        ({}, "is suspended (spec.suspend: true)"),
        (
            {"kueue.x-k8s.io/queue-name": "research"},
            "is suspended until Kueue admits it from queue research; its Workload is not known (spec.suspend: true)",
        ),
    ],
)
def test_a_suspended_job_without_a_workload_names_the_field(
    bayplan: Bayplan, tmp_path: Path, labels: Json, told: str
) -> None:
    file = dump(tmp_path, suspended(labels=labels), workload(owner="other"))
    result = bayplan("why", "job/train", "-n", "ml", "--cluster", file, cluster=CLUSTER)
    assert (result.code, result.answer) == (1, f"Job ml/train {told}.")


def test_json_says_the_same(bayplan: Bayplan, tmp_path: Path) -> None:
    file = dump(tmp_path, suspended(), workload({"conditions": [condition("QuotaReserved", False, NO_QUOTA)]}))
    asked = bayplan("why", "job/train", "-n", "ml", "-o", "json", "--cluster", file, cluster=CLUSTER)
    document = json.loads(asked.out)
    assert list(document)[:3] == ["apiVersion", "kind", "answer"]
    assert document["answer"] == f"Job ml/train {document['suspended']}."
    assert (document["fits"], document["gangs"][0]["fits"], document["wanted"]) == (False, True, 2)


@pytest.mark.parametrize("amounts, fit", [(SMALL, 2), ({**LARGE, "cpu": 4000}, 0)])
def test_the_pods_of_a_waiting_gang_are_counted(bayplan: Bayplan, tmp_path: Path, amounts: Json, fit: int) -> None:
    pods = [member("train", index, amounts) for index in range(2)]
    file = dump(tmp_path, job("train", 2, {"bayplan.io/gang": "true"}, amounts), *pods)
    asked = bayplan("why", "job/train", "-n", "ml", "-o", "json", "--cluster", file, cluster=CLUSTER)
    document = json.loads(asked.out)
    assert (document["wanted"], document["running"], document["fit"]) == (2, 0, fit)
    assert [(pod["pod"], pod["runs"], bool(pod["node"])) for pod in document["pods"]] == [
        (f"ml/train-{index}", False, bool(fit)) for index in range(2)
    ]


@pytest.mark.parametrize(
    "asked",
    [["ml/train-0"], ["ml/train-0", "--node", "b1-r1-n1"], ["job/train", "-n", "ml"], ["podgroup/red", "-n", "ml"]],
)
def test_every_answer_of_why_begins_with_its_kind_and_the_first_line(
    bayplan: Bayplan, tmp_path: Path, asked: list[str]
) -> None:
    red = {
        "apiVersion": "bayplan.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "red", "namespace": "ml"},
        "spec": {"size": 2, "pod": {"resources": {"cpu": 1}}},
    }
    file = dump(tmp_path, job("train", 1, {"bayplan.io/gang": "true"}, SMALL), member("train", 0, SMALL), red)
    document = json.loads(bayplan("why", *asked, "-o", "json", "--cluster", file, cluster=CLUSTER).out)
    text = bayplan("why", *asked, "--cluster", file, cluster=CLUSTER)
    assert list(document)[:3] == ["apiVersion", "kind", "answer"]
    assert document["answer"] == text.answer


def test_the_list_of_placements_has_the_first_line_too(bayplan: Bayplan, tmp_path: Path) -> None:
    file = dump(tmp_path, job("train", 2, {"bayplan.io/gang": "true"}, SMALL))
    document = json.loads(bayplan("place", "-f", file, "-o", "json", cluster=CLUSTER).out)
    assert list(document)[:3] == ["apiVersion", "kind", "answer"]
    assert document["answer"] == bayplan("place", "-f", file, cluster=CLUSTER).answer
