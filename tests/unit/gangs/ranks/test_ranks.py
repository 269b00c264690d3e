"""The order of pods: by the numbers that their controller wrote on them, else by name."""

from __future__ import annotations

import pytest

from bayplan.gangs.ranks.ranks import rank_key
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import member


def in_order(*pods: Pod) -> list[str]:
    return [each.metadata.name for each in sorted(pods, key=rank_key)]


@pytest.mark.parametrize(
    "label",
    [
        "bayplan.io/rank",
        "batch.kubernetes.io/job-completion-index",
        "apps.kubernetes.io/pod-index",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "training.kubeflow.org/replica-index",
        "kueue.x-k8s.io/pod-group-pod-index",
        "volcano.sh/task-index",
        "jobset.sigs.k8s.io/job-index",
    ],
)
def test_pods_follow_the_index_of_their_controller(label: str) -> None:
    assert in_order(member("a", {label: "10"}), member("b", {label: "9"}), member("c", {label: "0"})) == ["c", "b", "a"]


def test_the_outer_index_comes_first() -> None:
    group, worker = "leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/worker-index"
    pods = [member(f"g{g}w{w}", {group: str(g), worker: str(w)}) for w in (1, 0) for g in (1, 0)]
    assert in_order(*pods) == ["g0w0", "g0w1", "g1w0", "g1w1"]


def test_a_rank_that_is_given_counts_more_than_an_index() -> None:
    index = "training.kubeflow.org/replica-index"
    assert in_order(member("a", {index: "0"}), member("b", {index: "1", "bayplan.io/rank": "0"})) == ["b", "a"]


def test_old_jobs_have_their_index_in_an_annotation() -> None:
    index = "batch.kubernetes.io/job-completion-index"
    assert in_order(member("x-1", annotations={index: "1"}), member("x-2", annotations={index: "0"})) == ["x-2", "x-1"]


def test_pods_without_numbers_follow_by_name_as_people_count() -> None:
    numbered = member("z", {"volcano.sh/task-index": "7"})
    assert in_order(member("r10"), member("r2"), numbered) == ["z", "r2", "r10"]


@pytest.mark.parametrize("text", ["", "-1", "1.5", "one", "9" * 40])
def test_what_is_no_number_is_no_index(text: str) -> None:
    label = "volcano.sh/task-index"
    assert in_order(member("b", {label: text}), member("a", {label: "1"})) == ["a", "b"]
