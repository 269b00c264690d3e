"""Gangs of every kind, and the nodes that KAI would give them."""

from dataclasses import replace

import pytest

from bayplan.compat.kai.scheduler.model import GPU, Cluster, Job, Status
from bayplan.compat.kai.scheduler.rounds import Action, run_round
from bayplan.kube.wire.kai_scheduling_v2alpha2 import PodSet, SubGroupSet, TopologyConstraint
from tests.unit.compat.kai.scheduler.small_clusters import cluster, job, job_of_parts, tasks, within


def placed(now: Cluster) -> str:
    """The nodes of all tasks that were waiting, in their order; "-" for none."""
    outcome = run_round(now, [Action.ALLOCATE])
    waiting = [task.name for each in now.jobs for task in each.tasks if task.status is Status.PENDING]
    return " ".join(outcome.nodes.get(name, "-") for name in waiting)


@pytest.mark.parametrize(
    "layout, constraint, gpus, expected",
    [
        ("z1/r1: 2 2, z1/r2: 4", None, (2, 2), "n0 n1"),
        ("z1/r1: 2, z1/r2: 4", within("rack"), (2, 2), "n1 n1"),
        ("z1/r1: 8, z1/r2: 4", within("rack"), (2, 2), "n1 n1"),
        ("z1/r1: 2, z1/r2: 2", within("rack"), (2, 2), "- -"),
        ("z1/r1: 2, z1/r2: 2", within(preferred="rack"), (2, 2), "n1 n0"),
        ("z1/r1: 2, z2/r1: 2", within("zone", "rack"), (2, 2), "- -"),
        ("z1/r1: 2, z2/r1: 2, z2/r2: 4", within("zone", "rack"), (2, 2), "n2 n2"),
        ("z1/r1: 2, z2/r1: 2, z2/r2: 3", within("zone", "rack"), (2, 2), "n2 n1"),
        ("z1/r1: 8", within("rack", topology="lost"), (2,), "-"),
        ("z1/r1: 8", within("row"), (2,), "-"),
    ],
)
def test_one_pod_set(layout: str, constraint: TopologyConstraint | None, gpus: tuple[int, ...], expected: str) -> None:
    assert placed(cluster(layout, job("train", constraint, *gpus))) == expected


def test_a_pod_set_goes_to_its_own_rack_within_the_zone_of_the_whole() -> None:
    parts = job_of_parts(within("zone"), {"a": (within("rack"), (2, 2)), "b": (within("rack"), (2, 2))})
    assert placed(cluster("z1/r1: 4, z1/r2: 2, z2/r1: 4, z2/r2: 4", parts)) == "n2 n2 n3 n3"


def test_inner_sub_groups_come_before_pod_sets_and_both_by_name() -> None:
    pod_sets = {name: PodSet(name, 1) for name in "abcd"}
    tree = SubGroupSet(
        "",
        sub_groups=(SubGroupSet("y", pod_sets=(pod_sets["a"],)), SubGroupSet("x", pod_sets=(pod_sets["b"],))),
        pod_sets=(pod_sets["d"], pod_sets["c"]),
    )
    pods = tuple(task for name in "abcd" for task in tasks(8, pod_set=name))
    assert placed(cluster("z1/r1: 8 8 8 8", Job("train", tree, pods))) == "n1 n0 n2 n3"


def test_scores_of_the_whole_hold_for_parts_that_prefer_nothing_themselves() -> None:
    parts = job_of_parts(within(preferred="rack"), {"a": (None, (2,)), "b": (None, (2,))})
    assert placed(cluster("z1/r1: 3, z1/r2: 3", parts)) == "n1 n0"


def test_when_a_later_part_finds_nothing_the_whole_goes_on_to_the_next_domain() -> None:
    parts = job_of_parts(within("zone"), {"a": (None, (2,)), "b": (within("rack"), (2, 2))})
    assert placed(cluster("z1/r1: 2, z1/r2: 2, z1/r3: 2, z2/r1: 4, z2/r2: 4", parts)) == "n3 n4 n4"


def test_a_gang_of_mixed_sizes_can_be_missed_as_each_pod_counts_as_the_largest() -> None:
    assert placed(cluster("z1/r1: 4 3, z1/r2: 0", job("train", within("rack"), 4, 1, 1, 1))) == "- - - -"


def test_an_earlier_part_is_not_reconsidered_for_a_later_one() -> None:
    parts = job_of_parts(
        within("zone"),
        {"a": (within("rack"), (1,) * 2), "b": (within("rack"), (1,) * 3), "c": (within("rack"), (1,) * 4)},
    )
    assert set(placed(cluster("z1/r1: 5, z1/r2: 4", parts)).split()) == {"-"}


def test_only_nodes_that_a_task_is_allowed_on() -> None:
    wants = job("train", within("rack"), 2, 2)
    wants = replace(wants, tasks=tuple(replace(task, allowed_nodes=frozenset({"n1", "n2"})) for task in wants.tasks))
    assert placed(cluster("z1/r1: 2 2, z1/r2: 4", wants)) == "n2 n2"


def test_pods_beyond_the_minimum_come_one_by_one_after_other_jobs() -> None:
    elastic = job("elastic", None, 2, 2, 2, minimum=1)
    other = job("other", None, 4)
    assert placed(cluster("z1/r1: 8", elastic, other)) == "n0 n0 - n0"


def test_further_pods_stay_in_the_domain_of_those_that_run() -> None:
    grown = job("train", within("rack"), 2, 2, minimum=1)
    running = replace(grown.tasks[0], status=Status.RUNNING, node="n1")
    grown = replace(grown, tasks=(running, grown.tasks[1]))
    assert placed(cluster("z1/r1: 2, z1/r2: 4", grown)) == "n1"
    assert placed(cluster("z1/r1: 2, z1/r2: 0", grown)) == "-"


def test_a_gang_that_needs_what_is_being_released_waits_as_a_whole() -> None:
    leaving = job("old", None, 4, on="n0")
    leaving = replace(leaving, tasks=tuple(replace(task, status=Status.RELEASING) for task in leaving.tasks))
    new = job("new", within("rack"), 4, 4)
    now = cluster("z1/r1: 0 4, z1/r2: 4", leaving, new)
    busy = replace(now.nodes[0], releasing={GPU: 4})
    outcome = run_round(replace(now, nodes=(busy, *now.nodes[1:])), [Action.ALLOCATE])
    assert {task.name: (outcome.statuses[task.name], outcome.nodes[task.name]) for task in new.tasks} == {
        "new-00": (Status.PIPELINED, "n1"),
        "new-01": (Status.PIPELINED, "n0"),
    }


@pytest.mark.parametrize(
    "asked, why",
    [
        (job("solo", None, 9), "Resources were not found for pod solo-00: no node that it may use has enough left"),
        (
            job("gang", None, 8, 8, 8),
            (
                "Resources were found for 2 pods while 3 of pod set default have to start together; "
                "no node that pod gang-02 may use has enough left"
            ),
        ),
        (job("few", None, 1, minimum=2), "pod set default of job few needs 2 pods to start and has 1"),
    ],
)
def test_why_a_job_is_not_placed(asked: Job, why: str) -> None:
    assert run_round(cluster("z1/r1: 8 8", asked)).refused == {asked.name: (why,)}
