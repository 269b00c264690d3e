"""What one node may cost: a report or a Node that says too much is read in part, and the columns of names that are gone
are used again.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from bayplan.cluster.limits import (
    LONGEST_NAME,
    MOST_CELLS,
    MOST_DEVICES,
    MOST_NAMES,
    MOST_NAMES_IN_ALL,
    MOST_PODS,
    MOST_TOLD,
    within_names,
)
from bayplan.cluster.reports.inventory import NotUnderstood, read_inventory, read_pods
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.node_resource_topology_v1alpha2 import Attribute, NodeResourceTopology
from tests.builders.objects import node, simple_pod, topology, zone


def report(name: str, zones: int = 1, **resources: str) -> NodeResourceTopology:
    return topology(*(zone(number, resources) for number in range(zones)), name=name)


def devices(number: int, prefix: str = "example.com/d") -> dict[str, str]:
    return {f"{prefix}{each}": "1" for each in range(number)}


def bytes_of(state: ClusterState) -> int:
    return sum(value.nbytes for value in vars(state.columns).values() if isinstance(value, np.ndarray))


def cluster_of(nodes: int) -> ClusterState:
    state = ClusterState()
    for number in range(nodes):
        state.set_node(node(f"n{number}", {"cpu": "64", "memory": "256Gi", "pods": "110"}))
        state.set_topology(report(f"n{number}", 2, cpu="32", memory="128Gi"))
    return state


def texts(state: ClusterState) -> list[str]:
    return [str(problem) for problem in state.remarks]


def test_a_report_with_ten_thousand_names_does_not_take_the_memory() -> None:
    """88 kB of report took the scheduler from 111 to 6,452 MiB."""
    state = cluster_of(1000)
    before = bytes_of(state)
    state.set_topology(report("n0", 2, cpu="32", memory="128Gi", **devices(10_000)))
    assert len(state.columns.resource_index) <= MOST_NAMES + 3
    assert bytes_of(state) < before + 30 * 2**20
    (told,) = texts(state)
    assert told == (
        "NodeResourceTopology n0: zones: example.com/d62, example.com/d63, example.com/d64 and 9935 more left out: "
        f"at most {MOST_NAMES} resource names of up to {LONGEST_NAME} characters are read"
    )
    assert state.columns.zone_total[state.columns.resource_index["cpu"], :2, 0].tolist() == [32_000, 32_000]


def test_names_that_few_nodes_have_take_no_column_of_memory() -> None:
    """All four nodes together would take 68 MB if their names were dense columns over 2,000 nodes."""
    state = ClusterState()
    for number in range(2000):
        state.set_topology(report(f"n{number}", 8, cpu="8"))
        state.set_node(node(f"n{number}", {"cpu": "64", "memory": "256Gi", "pods": "110"}))
    before = resident_bytes()
    for number in range(4):
        state.set_topology(report(f"n{number}", 8, cpu="8", **devices(60, f"vendor-{number}.com/d")))
    for number in range(4, 2000):
        state.set_topology(report(f"n{number}", 8, cpu="7"))
        state.set_node(node(f"n{number}", {"cpu": "63", "memory": "256Gi", "pods": "110"}))
    assert len(state.columns.resource_index) > 240
    assert resident_bytes() < before + 34 * 2**20


def resident_bytes() -> int:
    """The memory of this process that is in use now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_a_node_with_ten_thousand_names_in_its_allocatable_does_not_either() -> None:
    state = cluster_of(10)
    state.set_node(node("n0", {**devices(10_000), "cpu": "8", "memory": "1Gi", "pods": "110"}))
    assert len(state.columns.resource_index) <= MOST_NAMES + 3
    assert state.columns.allocatable[state.columns.resource_index["cpu"], 0] == 8000
    assert [text.partition(" left out")[0] for text in texts(state)] == [
        "Node n0: status.allocatable: example.com/d61, example.com/d62, example.com/d63 and 9936 more"
    ]


def test_all_nodes_together_have_a_limit_too() -> None:
    state = cluster_of(20)
    for number in range(20):
        state.set_node(node(f"n{number}", {"cpu": "8", "pods": "110", **devices(60, f"vendor-{number}.com/d")}))
    assert len(state.columns.resource_index) == MOST_NAMES_IN_ALL
    assert any("all nodes together may have 250 resource names" in text for text in texts(state))
    assert state.columns.allocatable[0].sum() == 20 * 8000  # everybody's cpu is read


def test_columns_are_used_again_when_their_last_user_is_gone() -> None:
    state = cluster_of(5)
    for turn in range(50):
        state.set_node(node("n0", {"cpu": "8", "pods": "110", **devices(60, f"turn-{turn}.com/d")}))
        state.set_topology(report("n1", 2, cpu="32", **devices(60, f"report-{turn}.com/d")))
        assert all(name in state.columns.resource_index for name in devices(60, f"turn-{turn}.com/d"))
        assert all(name in state.columns.resource_index for name in devices(60, f"report-{turn}.com/d"))
    assert state.columns.free.shape[0] <= MOST_NAMES_IN_ALL + 1
    assert not texts(state)


def test_a_column_that_is_used_again_shows_nothing_of_the_name_before() -> None:
    state = cluster_of(3)
    state.set_node(node("n0", {"cpu": "8", "pods": "110", "old.com/gpu": "4"}))
    state.set_pod(simple_pod({"old.com/gpu": "3"}, "p", nodeName="n0"))
    index = state.columns.resource_index["old.com/gpu"]
    state.set_node(node("n0", {"cpu": "8", "pods": "110"}))
    state.columns.free_unused()
    assert "old.com/gpu" not in state.columns.resource_index
    state.set_node(node("n1", {"cpu": "8", "pods": "110", "new.com/nic": "2"}))
    assert state.columns.resource_index["new.com/nic"] == index
    assert state.columns.free[index, :3].tolist() == [0, 2, 0]
    # The pod still takes what it took, and a remark says so when the name comes back.
    state.set_node(node("n0", {"cpu": "8", "pods": "110", "old.com/gpu": "4"}))
    assert state.columns.free[state.columns.resource_index["old.com/gpu"], 0] == 1
    state.remove_pod("default/p")
    assert state.columns.free[state.columns.resource_index["old.com/gpu"], 0] == 4


def test_a_report_with_many_zones_does_not_multiply_all_columns() -> None:
    state = cluster_of(5)
    for number in range(4):
        state.set_node(node(f"n{number}", {"cpu": "8", "pods": "110", **devices(60, f"vendor-{number}.com/d")}))
    state.set_topology(report("n4", 64, cpu="1"))
    resources, zones, _ = state.columns.zone_available.shape
    assert resources * zones <= MOST_CELLS
    assert any("64 zones cannot be used" in text for text in texts(state))
    assert state.columns.allocatable[0].sum() > 0


def test_problems_of_one_report_are_told_in_part() -> None:
    state = cluster_of(1)
    zone = {"name": "not-a-zone", "type": "Node"}
    odd = {"metadata": {"name": "n0"}, "zones": [zone] * 10_000}
    state.set_topology(msgspec.convert(odd, NodeResourceTopology))
    assert len(state.remarks) <= MOST_TOLD
    assert "more problems" in texts(state)[-1]


@pytest.mark.parametrize(
    "attribute, read, told",
    [
        (
            {
                "bayplan.io/cpus": '{"core": [0], "socket": [0], "zone": [0], "cache": [0]}',
                "bayplan.io/free-cpus": "0",
                "bayplan.io/devices": msgspec.json.encode(
                    {"example.com/gpu": [(f"g{each}", [0], "free") for each in range(MOST_DEVICES + 1)]}
                ).decode(),
            },
            read_inventory,
            f"bayplan.io/devices to be at most {MOST_DEVICES} devices",
        ),
        (
            {"bayplan.io/pods": msgspec.json.encode({f"a/p{each}": {} for each in range(MOST_PODS + 1)}).decode()},
            read_pods,
            f"bayplan.io/pods to be at most {MOST_PODS} pods",
        ),
    ],
    ids=["devices", "pods"],
)
def test_lists_of_a_report_are_limited(attribute: dict[str, str], read: Any, told: str) -> None:
    with pytest.raises(NotUnderstood, match=told):
        read(attribute)


def test_attributes_beyond_the_limit_are_not_even_compared_with_those_that_are_known() -> None:
    state = cluster_of(1)
    listed = [{"name": f"topologyManagerPolicyy{each}", "value": "x"} for each in range(10_000)]
    odd = msgspec.structs.replace(report("n0", 1, cpu="8"), attributes=msgspec.convert(listed, list[Attribute]))
    began = time.process_time()
    state.set_topology(odd)
    assert time.process_time() - began < 0.5
    assert len(state.remarks) <= MOST_TOLD


def test_names_that_are_too_long_are_left_out() -> None:
    kept, beyond = within_names({"cpu": 1, "x" * (LONGEST_NAME + 1): 2})
    assert (kept, len(beyond)) == ({"cpu": 1}, 1)


def test_a_pod_on_a_node_whose_report_contradicts_itself_is_booked() -> None:
    """Its zones have more positions than there are columns, which was an IndexError."""
    state = ClusterState()
    state.set_node(node("n1", {"cpu": "64", "memory": "64Gi", "pods": "110"}))
    odd = report("n1", 1, cpu="8", memory="8Gi")
    state.set_topology(msgspec.structs.replace(odd, zones=list(odd.zones or ()) * 5))
    state.set_pod(simple_pod({"cpu": "2", "memory": "1Gi"}, "p", nodeName="n1"))
    assert state.columns.free[state.columns.resource_index["cpu"], 0] == 62_000
    state.remove_pod("default/p")
    assert state.columns.free[state.columns.resource_index["cpu"], 0] == 64_000
