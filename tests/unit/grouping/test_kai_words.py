"""KAI's newer annotations: the minimum of a Job, and pods that the pod grouper leaves alone."""

from __future__ import annotations

import pytest

from tests.unit.grouping.workloads import IN_ONE_BLOCK, Raw, alone, grouped, job, pod, problems, spec_of, thing

MINIMUM, SKIP = "kai.scheduler/batch-min-member", "kai.scheduler/skip-podgrouper"


def test_a_job_with_a_minimum_is_a_gang_of_that_minimum() -> None:
    spec = spec_of(grouped(pod(), job({MINIMUM: "2"})))
    assert (spec["size"], spec["minimum"]) == (4, 2)


def test_a_minimum_of_all_pods_is_the_usual_gang() -> None:
    assert spec_of(grouped(pod(), job({MINIMUM: "4"}))) == spec_of(grouped(pod(), job({"bayplan.io/gang": "true"})))


@pytest.mark.parametrize(
    "value, told",
    [
        ("two", 'metadata.annotations["kai.scheduler/batch-min-member"]: "two" must be a whole number, 1 or more'),
        ("0", 'metadata.annotations["kai.scheduler/batch-min-member"]: "0" must be a whole number, 1 or more'),
        (
            "9",
            (
                'metadata.annotations["kai.scheduler/batch-min-member"]: 9 is more than the pods '
                "of Job ml/train; there are 4"
            ),
        ),
    ],
)
def test_wrong_minima_hold_the_pods_back(value: str, told: str) -> None:
    outcome = grouped(pod(), job({MINIMUM: value}))
    assert [str(each) for each in outcome.problems] == [f"Job ml/train: {told}"]
    assert all(each.holds for each in outcome.problems)


def test_a_minimum_on_another_kind_has_no_effect_and_says_so() -> None:
    worker = {"replicas": 2, "template": {"spec": {"containers": []}}}
    training = thing("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": worker}}, {MINIMUM: "1"})
    outcome = grouped(pod({"training.kubeflow.org/replica-type": "worker"}), training)
    assert "has no effect on a PyTorchJob: it is the minimum of a Job" in " ".join(map(str, outcome.problems))
    assert not any(each.holds for each in outcome.problems)


@pytest.mark.parametrize("where", ["pod", "owner"])
def test_pods_that_the_pod_grouper_is_to_skip_are_left_alone(where: str) -> None:
    skip = {SKIP: "true"}
    member: Raw = pod(annotations=skip if where == "pod" else None)
    owner = job({**IN_ONE_BLOCK, **(skip if where == "owner" else {})})
    assert alone(grouped(member, owner))
    assert not alone(grouped(pod(), job({**IN_ONE_BLOCK, SKIP: "false"})))


def test_misspelt_words_are_told() -> None:
    (told,) = problems(grouped(pod(), job({"kai.scheduler/batch-min-membr": "2"})))
    assert told.endswith("is not known; did you mean kai.scheduler/batch-min-member?")
