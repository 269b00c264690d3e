"""Counting domains: how many tasks fit, which tasks are alike, and how full they would make a domain."""

import math
from dataclasses import replace

import pytest

from bayplan.compat.kai.scheduler.model import CPU, GPU, PODS, Amounts, Task
from bayplan.compat.kai.scheduler.tree import are_alike, build_tree, fill, fill_ratio, fullest_first, pods_that_fit
from tests.unit.compat.kai.scheduler.small_clusters import TOPOLOGY, nodes, tasks

NIC = "example.com/nic"


@pytest.mark.parametrize(
    "request_, free, count",
    [
        ({GPU: 2}, {GPU: 7}, 3),
        ({GPU: 2, PODS: 1}, {GPU: 8, PODS: 2}, 2),
        ({GPU: 2, CPU: 1000}, {GPU: 8, CPU: 500}, 0),
        ({GPU: 2}, {}, 0),
        ({GPU: 0, CPU: 1000}, {CPU: 3000}, 3),
        ({PODS: 1}, {PODS: 0}, 5),
        ({}, {}, 5),
    ],
)
def test_pods_that_fit_on_a_node_when_five_are_wanted(request_: Amounts, free: Amounts, count: int) -> None:
    assert pods_that_fit(request_, free, 5) == count


@pytest.mark.parametrize(
    "requests, alike",
    [
        ([{GPU: 1}, {GPU: 4}], True),
        ([{GPU: 1}, {GPU: 0}], False),
        ([{CPU: 1000}, {CPU: 8000}], True),
        ([{GPU: 1, NIC: 1}, {GPU: 1, NIC: 2}], True),
        ([{GPU: 1, NIC: 1}, {GPU: 1}], False),
    ],
)
def test_tasks_are_alike_if_they_use_the_same_devices(requests: list[Amounts], alike: bool) -> None:
    assert are_alike([Task(str(number), request) for number, request in enumerate(requests)]) is alike


@pytest.mark.parametrize(
    "wanted, free, ratio",
    [
        ({GPU: 2}, {GPU: 8}, 0.25),
        ({GPU: 2, "memory": 6}, {GPU: 8, "memory": 8}, 0.75),
        ({GPU: 2}, {}, math.inf),
        ({"memory": 2}, {}, 1000.0),
        ({CPU: 100}, {CPU: 1900}, 0.5),
        ({PODS: 5, GPU: 1}, {PODS: 1, GPU: 4}, 0.25),
        ({GPU: 0, PODS: 1}, {}, 0.0),
    ],
)
def test_how_full_tasks_would_make_a_domain(wanted: Amounts, free: Amounts, ratio: float) -> None:
    assert fill_ratio(wanted, free) == ratio


def test_domains_sum_what_their_nodes_hold() -> None:
    layout = nodes("z1/r1: 4 3, z1/r2: 2, z2/r1: 8")
    tree = build_tree(TOPOLOGY, layout)
    free = {node.name: node.idle for node in layout}
    capacity = fill(tree.root, tasks(2, 2), free.__getitem__)
    assert {domain.id: count for domain, count in capacity.pods.items()} == {
        "z1.r1": 3, "z1.r2": 1, "z1": 4, "z2.r1": 4, "z2": 4, "/": 8,
    }  # fmt: skip
    assert capacity.free[tree.domains["zone"]["z1"]][GPU] == 9


def test_every_task_is_taken_to_be_as_large_as_the_largest() -> None:
    layout = nodes("z1/r1: 4 3")
    free = {node.name: node.idle for node in layout}
    root = build_tree(TOPOLOGY, layout).root
    assert not fill(root, tasks(4, 1, 1, 1), free.__getitem__).holds_all(root)
    assert fill(root, tasks(4), free.__getitem__).holds_all(root)


def test_of_tasks_that_are_not_alike_only_sums_are_compared() -> None:
    layout = nodes("z1/r1: 4 4")
    free = {node.name: node.idle for node in layout}
    root = build_tree(TOPOLOGY, layout).root
    without = replace(tasks(0)[0], name="cpu only")
    assert fill(root, [*tasks(8), without], free.__getitem__).holds_all(root)
    assert not fill(root, [*tasks(9), without], free.__getitem__).holds_all(root)


@pytest.mark.parametrize(
    "deepest, zones, racks_of_z1",
    [("rack", ["z2", "z1"], ["z1.r2", "z1.r1"]), ("zone", ["z2", "z1"], ["z1.r2", "z1.r1"]), ("", None, None)],
)
def test_the_fullest_domain_comes_first(deepest: str, zones: list[str] | None, racks_of_z1: list[str] | None) -> None:
    layout = nodes("z1/r1: 8, z1/r2: 2, z2/r1: 5")
    tree = build_tree(TOPOLOGY, layout)
    free = {node.name: node.idle for node in layout}
    orders = fullest_first(tree.root, fill(tree.root, tasks(2), free.__getitem__), deepest)
    shown = {domain.id: [child.id for child in ordered] for domain, ordered in orders.items()}
    assert (shown.get("/"), shown.get("z1")) == (zones, racks_of_z1)


def test_equally_full_domains_are_ordered_by_name_and_impossible_ones_come_first() -> None:
    layout = nodes("z1/r3: 4, z1/r2: 4, z1/r1: 0")
    tree = build_tree(TOPOLOGY, layout)
    free = {node.name: node.idle for node in layout}
    zone = tree.domains["zone"]["z1"]
    orders = fullest_first(tree.root, fill(tree.root, tasks(2), free.__getitem__), "rack")
    assert [domain.id for domain in orders[zone]] == ["z1.r1", "z1.r2", "z1.r3"]
