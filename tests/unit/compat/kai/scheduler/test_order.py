"""Who comes first: jobs, pod sets, tasks and nodes."""

from dataclasses import replace

import pytest

from bayplan.compat.kai.scheduler.model import CPU, GPU, PODS, Job, NodeOrder, Task
from bayplan.compat.kai.scheduler.order import jobs_in_order, nodes_in_order, pod_sets_in_order, tasks_in_order
from bayplan.compat.kai.scheduler.statement import Statement
from bayplan.kube.wire.kai_scheduling_v2alpha2 import PodSet, SubGroupSet
from tests.unit.compat.kai.scheduler.small_clusters import cluster, job, node, nodes, tasks


def test_jobs_by_priority_then_those_below_their_minimum_then_by_age() -> None:
    jobs = [
        job("above", None, 1, 1, minimum=1, on="n0"),
        job("at", None, 1, on="n0"),
        job("old", None, 1),
        job("new", None, 1),
        job("urgent", None, 1, priority=75),
    ]
    statement = Statement(cluster("z/r: 8", *jobs))
    ordered = ["urgent", "old", "new", "at", "above"]
    assert [each.name for each in jobs_in_order(jobs, statement)] == ordered
    assert [each.name for each in jobs_in_order(jobs[::-1], statement)] == ordered


def test_pod_sets_below_their_minimum_first_then_the_one_least_above_it() -> None:
    pod_sets = [PodSet("a", 1), PodSet("b", 2), PodSet("d", 1), PodSet("c", 1)]
    running = [*tasks(1, 1, pod_set="a", on="n0"), *tasks(1, 1, 1, pod_set="b", on="n0")]
    parts = Job("parts", SubGroupSet("", pod_sets=tuple(pod_sets)), tuple(running))
    statement = Statement(cluster("z/r: 8", parts))
    assert [each.name for each in pod_sets_in_order(pod_sets, parts, statement)] == ["c", "d", "b", "a"]


def test_tasks_by_priority_then_name() -> None:
    listed = [Task("b", {}), Task("a", {}), replace(Task("z", {}), priority=1)]
    assert [task.name for task in tasks_in_order(listed)] == ["z", "a", "b"]


@pytest.mark.parametrize(
    "layout, order, expected",
    [
        ("z/r: 8 2 4 2", NodeOrder.BINPACK, "n1 n3 n2 n0"),
        ("z/r: 8 2 4 2", NodeOrder.SPREAD, "n0 n2 n1 n3"),
        ("z/r: 8 1 4", NodeOrder.BINPACK, "n2 n0 n1"),
        ("z/r: 4 4", NodeOrder.BINPACK, "n0 n1"),
        ("z/r: 0 0", NodeOrder.BINPACK, "n0 n1"),
    ],
)
def test_nodes_for_a_pod_of_two_gpus(layout: str, order: NodeOrder, expected: str) -> None:
    made = nodes(layout)
    statement = Statement(cluster(made))
    assert " ".join(each.name for each in nodes_in_order(tasks(2)[0], made, statement, None, order)) == expected


def test_a_pod_without_gpus_goes_to_a_node_without_gpus() -> None:
    made = [node("gpu", {}, 8), node("plain", {}, 0, of=0)]
    task = Task("web", {CPU: 1000, GPU: 0, PODS: 1})
    ordered = nodes_in_order(task, made, Statement(cluster(made)), None, NodeOrder.BINPACK)
    assert [each.name for each in ordered] == ["plain", "gpu"]


def test_topology_outweighs_packing_and_nodes_without_a_score_are_left_out() -> None:
    made = nodes("z/r: 8 2 2")
    ordered = nodes_in_order(
        tasks(2)[0], made, Statement(cluster(made)), {"n0": 20_000, "n1": 10_000}, NodeOrder.BINPACK
    )
    assert [each.name for each in ordered] == ["n0", "n1"]
