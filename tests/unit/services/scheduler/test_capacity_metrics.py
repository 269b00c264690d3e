"""Fragmentation and free amounts of domains, as the metrics show them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bayplan.cli.shared.shapes import pod_requesting
from bayplan.cluster.state import ClusterState
from bayplan.gangs.trees import Trees
from bayplan.scheduling.profile import default_profile
from bayplan.services.edges.metrics import CapacityMetrics
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.capacity_metrics import (
    MAX_RESOURCES,
    Capacity,
    GangShapes,
    capacity_of,
    keep_measuring,
)
from tests.builders.objects import GPU, container, node, pod, topology, zone

BLOCK, RACK = "x/block", "x/rack"


def racks() -> tuple[ClusterState, Trees]:
    """Two racks in one block: 4 and 3 nodes of 8 CPUs and 2 GPUs."""
    state = ClusterState()
    for number in range(7):
        labels = {BLOCK: "b", RACK: "r1" if number < 4 else "r2"}
        state.set_node(node(f"n{number}", {"cpu": 8, "memory": "1Gi", GPU: 2}, labels=labels))
    trees = Trees(state)
    trees.set("network", (BLOCK, RACK))
    return state, trees


def shapes(state: ClusterState, trees: Trees) -> GangShapes:
    """Pods of 6 CPUs: one fits a node, although two nodes together would have room for more."""
    return GangShapes(state, trees, default_profile(), {"cpu=6": pod(container({"cpu": 6}))})


def measured(state: ClusterState, trees: Trees) -> Capacity:
    return capacity_of(state, trees, shapes(state, trees))


def test_the_largest_gang_of_a_shape_is_told_by_level() -> None:
    state, trees = racks()
    assert measured(state, trees).largest_gang == {
        ("network", BLOCK, "cpu=6"): 7,
        ("network", RACK, "cpu=6"): 4,
        ("network", "node", "cpu=6"): 1,
    }


def test_the_roomiest_domain_of_each_level_is_told_by_resource() -> None:
    found = measured(*racks()).largest_free
    assert {level: found["network", level, GPU] for level in (BLOCK, RACK, "node")} == {BLOCK: 14, RACK: 8, "node": 2}
    assert found["network", RACK, "cpu"] == 32
    assert found["network", "node", "memory"] == 1 << 30


PLANNED = {"key": "planned", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
KEPT_FOR_GPUS = {"key": GPU, "effect": "NoSchedule"}


@pytest.mark.parametrize(
    "closed, gpus",
    [
        ({"unschedulable": True}, 6),
        ({"taints": [PLANNED]}, 6),
        ({"taints": [NOT_READY]}, 6),
        ({"taints": [KEPT_FOR_GPUS]}, 8),
    ],
)
def test_closed_nodes_have_no_room(closed: dict[str, Any], gpus: int) -> None:
    state, trees = racks()
    for number in range(3):
        state.set_node(node(f"n{number}", {"cpu": 8, GPU: 2}, labels={BLOCK: "b", RACK: "r1"}, **closed))
    assert measured(state, trees).largest_free["network", RACK, GPU] == gpus


def test_a_shape_tolerates_taints_in_the_name_of_a_device_that_it_asks_for() -> None:
    state, trees = racks()
    for number in range(7):
        labels = {BLOCK: "b", RACK: "r1"}
        state.set_node(node(f"n{number}", {"cpu": 8, GPU: 2}, labels=labels, taints=[KEPT_FOR_GPUS]))
    shapes = {name: pod_requesting({name: "2"}, "--slot-metrics") for name in (GPU, "cpu")}
    found = capacity_of(state, trees, GangShapes(state, trees, default_profile(), shapes)).largest_gang
    assert [pods for (_, level, _), pods in found.items() if level == RACK] == [7, 0]


@pytest.mark.parametrize("free, share", [((8, 0), 0.0), ((4, 4), 0.5), ((0, 0), None)])
def test_fragmentation_is_the_share_that_no_aligned_pod_can_have(free: tuple[int, int], share: float | None) -> None:
    state = ClusterState()
    state.set_node(node("n", {"cpu": sum(free)}))
    zones = [zone(number, {"cpu": (8, 8, each)}) for number, each in enumerate(free)]
    state.set_topology(topology(*zones, name="n"))
    assert measured(state, Trees(state)).fragmentation.get("cpu") == share


def test_names_that_nodes_invent_do_not_become_labels_without_end() -> None:
    state = ClusterState()
    state.set_node(node("n", {"cpu": 8, **{f"example.com/r{number}": 1 for number in range(50)}}))
    trees = Trees(state)
    trees.set("network", (RACK,))
    state.set_node(node("m", {"cpu": 8}, labels={RACK: "r"}))
    assert len({resource for _, _, resource in measured(state, trees).largest_free}) == MAX_RESOURCES


def test_the_metrics_are_set_while_leading() -> None:
    state, trees = racks()
    registry = CollectorRegistry()

    async def story() -> None:
        metrics = CapacityMetrics(registry)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await keep_measuring(state, trees, shapes(state, trees), metrics, SideThread(threaded=False))

    asyncio.run(story())
    labels = {"topology": "network", "level": RACK, "resource": GPU}
    assert registry.get_sample_value("bayplan_topology_largest_free", labels) == 8
    labels = {"topology": "network", "level": RACK, "pod": "cpu=6"}
    assert registry.get_sample_value("bayplan_topology_largest_gang", labels) == 4
