"""The number of a pod in a gang, whether it starts with it or joins later: the one that its index means, if it is free;
else the first that is.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bayplan.gangs.ranks.late_ranks import Members, numbers_of
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import member

JOB, JOBSET = "batch.kubernetes.io/job-completion-index", "jobset.sigs.k8s.io/job-global-index"
GIVEN = "bayplan.io/rank"


def pod(name: str, index: str = "", rank: int | None = None, label: str = JOB) -> Pod:
    """A pod with an index; one with a rank runs. `1/2` is the pod 2 of the job 1 of a JobSet."""
    outer, _, inner = index.rpartition("/")
    labels = ({label: inner} if inner else {}) | ({JOBSET: outer} if outer else {})
    return member(name, labels, None if rank is None else {"bayplan.io/rank": str(rank)})


def numbers(waiting: Sequence[str], running: dict[str, int], label: str = JOB) -> list[int]:
    """The numbers of pods with these indices, where those of other indices run under these numbers."""
    come = [pod(f"new-{number}", index, label=label) for number, index in enumerate(waiting)]
    run = [pod(f"old-{index}", index, rank, label) for index, rank in running.items()]
    found = numbers_of([Members(come, run)])
    return [found[f"ml/{each.metadata.name}"] for each in come]


@pytest.mark.parametrize(
    "label",
    [
        "bayplan.io/rank",
        "batch.kubernetes.io/job-completion-index",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "training.kubeflow.org/replica-index",
        "kueue.x-k8s.io/pod-group-pod-index",
        "apps.kubernetes.io/pod-index",
    ],
)
def test_of_two_that_are_lost_the_one_that_is_back_has_its_own_number(label: str) -> None:
    running = {str(index): index for index in range(8) if index not in (1, 5)}
    assert numbers(["5"], running, label) == [5]


@pytest.mark.parametrize(
    "waiting, running, expected",
    [
        # Four of eight are back, in any order.
        (["7", "4", "6", "5"], {"0": 0, "1": 1, "2": 2, "3": 3}, [7, 4, 6, 5]),
        # Workers are counted from 1, or stand behind another group.
        (["3"], {"1": 0, "4": 3}, [2]),
        (["0", "2"], {"1": 5, "3": 7}, [4, 6]),
        # No index: the first number that is free, but never one that an index means.
        (["", "1"], {"0": 0, "3": 3}, [2, 1]),
        # Its number is taken: another pod was numbered by another index.
        (["2"], {"0": 0, "1": 1, "9": 2}, [3]),
        # Two of the same index.
        (["1", "1"], {"0": 0, "2": 2}, [1, 3]),
        # Those that run do not agree, or have no index: nothing is known.
        (["5"], {"0": 0, "7": 1}, [2]),
        # One who got a wrong number does not mislead the others.
        (["5"], {"0": 0, "1": 6, "2": 2, "3": 3}, [5]),
        # Jobs of a JobSet, counted through; all of the second are lost.
        (["1/2"], {"0/0": 0, "0/1": 1, "0/2": 2, "0/3": 3}, [6]),
        (["1/0", "0/1"], {"0/0": 0, "1/1": 3}, [2, 1]),
    ],
)
def test_numbers_of_those_who_join(waiting: list[str], running: dict[str, int], expected: list[int]) -> None:
    assert numbers(waiting, running) == expected


@pytest.mark.parametrize(
    "indices, coming, expected",
    [
        (["0", "1", "2", "3"], 0, [0, 1, 2, 3]),
        # Two of four are there, whichever they are.
        (["1", "3"], 2, [1, 3]),
        # One has no index, and gets what is left.
        (["", "1"], 2, [0, 1]),
        # Counted from 1, or the second half of a Job: four pods are 0 to 3.
        (["1", "2", "3", "4"], 0, [0, 1, 2, 3]),
        (["4", "5", "6", "7"], 0, [0, 1, 2, 3]),
        # The last ones of a Job, or two of the same index: order alone counts.
        (["3", "7"], 0, [0, 1]),
        (["1", "1"], 2, [0, 1]),
        # Jobs of a JobSet, counted through.
        (["0/1", "1/0", "1/1"], 1, [1, 2, 3]),
    ],
)
def test_numbers_of_those_who_start(indices: list[str], coming: int, expected: list[int]) -> None:
    found = numbers_of([Members([pod(f"p-{at}", index) for at, index in enumerate(indices)], (), coming)])
    assert list(found.values()) == expected


def test_a_rank_that_a_pod_is_given_is_its_number() -> None:
    head = Members([pod("head")])
    workers = Members([pod("b", "2", label=GIVEN), pod("c", "5", label=GIVEN), pod("d")], (), 3)
    assert numbers_of([head, workers]) == {"ml/head": 0, "ml/b": 2, "ml/c": 5, "ml/d": 1}


def test_a_rank_that_a_pod_is_given_counts_too_where_only_others_run() -> None:
    driver = Members([], [pod("driver", rank=0)])
    assert numbers_of([driver, Members([pod("exec-2", "2", label=GIVEN)], (), 1)]) == {"ml/exec-2": 2}


def test_ranks_that_are_given_group_by_group_follow_each_other() -> None:
    groups = [Members([pod(f"{name}-{at}", str(at), label=GIVEN) for at in range(2)]) for name in "ab"]
    assert list(numbers_of(groups).values()) == [0, 1, 2, 3]


def test_groups_stand_behind_all_members_of_those_before() -> None:
    first, second = Members([pod("a-1", "1")], (), 2), Members([pod("b-1", "1")], (), 1)
    assert numbers_of([first, second]) == {"ml/a-1": 1, "ml/b-1": 4}


def test_each_group_has_its_own_indices() -> None:
    leader = Members([], [pod("leader", "0", rank=0)])
    workers = Members([pod("new", "1")], [pod("w-0", "0", rank=1), pod("w-2", "2", rank=3)])
    assert numbers_of([leader, workers]) == {"ml/new": 2}
