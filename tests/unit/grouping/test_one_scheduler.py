"""A gang is placed by one scheduler: a role that goes to another one is told on the workload, and the others wait for
it knowingly.
"""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.grouping.group import GroupingSettings
from tests.unit.grouping.workloads import Raw, grouped, pod, problems, spec_of, thing

SETTINGS = GroupingSettings(scheduler_names=frozenset({"bayplan"}))
MASTER, WORKER = "spec.pytorchReplicaSpecs.Master.template.spec", "spec.pytorchReplicaSpecs.Worker.template.spec"


def template(scheduler: str | None) -> Raw:
    return {"spec": {} if scheduler is None else {"schedulerName": scheduler}}


def job_of(master: str | None, worker: str | None, **spec: Any) -> Raw:
    """A PyTorchJob of a master and two workers, whose templates name these schedulers."""
    roles = {
        "Master": {"replicas": 1, "template": template(master)},
        "Worker": {"replicas": 2, "template": template(worker)},
    }
    return thing("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": roles} | spec)


def placed_by_bayplan(role: str = "worker") -> Raw:
    labels = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": "0"}
    member = pod(labels)
    member["spec"]["schedulerName"] = "bayplan"
    return member


@pytest.mark.parametrize(
    "master, complaint",
    [
        ("default-scheduler", '"default-scheduler" must be "bayplan"'),
        ("volcano", '"volcano" must be "bayplan"'),
        (None, 'is missing, which means default-scheduler; must be "bayplan"'),
    ],
)
def test_a_role_of_another_scheduler_is_told_on_the_workload_and_holds_the_others(
    master: str | None, complaint: str
) -> None:
    outcome = grouped(placed_by_bayplan(), job_of(master, "bayplan"), settings=SETTINGS)
    assert outcome.held
    assert problems(outcome) == [
        (
            f"PyTorchJob ml/train: {MASTER}.schedulerName: {complaint} as in "
            f"{WORKER}.schedulerName: one scheduler places a gang"
        )
    ]


@pytest.mark.parametrize(
    "workload",
    [
        job_of("bayplan", "bayplan"),
        job_of(None, None),
        job_of("default-scheduler", None),
        job_of(None, None, schedulerName="bayplan"),
        job_of(None, "bayplan", schedulerName="bayplan"),
    ],
    ids=["both", "a webhook writes it on pods", "a webhook overrules", "the workload says it", "and a template too"],
)
def test_nothing_is_said_where_all_pods_are_bayplans_or_templates_do_not_tell(workload: Raw) -> None:
    assert problems(grouped(placed_by_bayplan(), workload, settings=SETTINGS)) == []


def test_several_profiles_of_bayplan_may_place_one_gang() -> None:
    settings = GroupingSettings(scheduler_names=frozenset({"bayplan", "tight"}))
    assert problems(grouped(placed_by_bayplan(), job_of("tight", "bayplan"), settings=settings)) == []
    (told,) = problems(grouped(placed_by_bayplan(), job_of("kai-scheduler", "bayplan"), settings=settings))
    assert '"kai-scheduler" must be one of bayplan, tight as in' in told


def test_it_is_said_in_the_same_words_whichever_pod_is_looked_at() -> None:
    workload = job_of("bayplan", "bayplan")
    roles = workload["spec"].pop("pytorchReplicaSpecs")
    workload["kind"] = "TFJob"
    workload["spec"]["tfReplicaSpecs"] = {"PS": {"template": template("other")}, **roles}
    told = [problems(grouped(placed_by_bayplan(role), workload, settings=SETTINGS)) for role in ("master", "worker")]
    assert told[0] == told[1] != []


def test_pods_outside_of_all_groups_are_a_remark() -> None:
    outcome = grouped(
        placed_by_bayplan("master"),
        job_of("bayplan", "default-scheduler", runPolicy={"schedulingPolicy": {"minAvailable": 1}}),
        settings=SETTINGS,
    )
    assert len(problems(outcome)) == 1
    assert spec_of(outcome)["groups"][1] == {"name": "worker", "size": 2, "minimum": 0}


def test_a_leader_without_a_template_of_its_own_is_made_from_that_of_the_workers() -> None:
    spec = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template("bayplan")}}
    workload = thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
    member = pod({"leaderworkerset.sigs.k8s.io/worker-index": "1", "leaderworkerset.sigs.k8s.io/group-index": "0"})
    member["spec"]["schedulerName"] = "bayplan"
    assert problems(grouped(member, workload, settings=SETTINGS)) == []


def test_a_scheduler_that_is_no_text_is_told() -> None:
    workload = job_of("bayplan", "bayplan")
    workload["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"] = 7
    assert problems(grouped(placed_by_bayplan(), workload, settings=SETTINGS)) == [
        f"PyTorchJob ml/train: {MASTER}: 7 must be a map"
    ]
