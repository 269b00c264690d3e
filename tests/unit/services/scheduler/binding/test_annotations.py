"""What is written on pods that are bound, and what is not, because it is unknown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dispatch.actions import Assignment
from bayplan.engine.numa.placement import ContainerZones
from bayplan.explain.numa.labels import zone_phrase
from bayplan.gangs.model import Seat
from bayplan.kube.volcano_annotations import DECISION
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.decision import Decision
from bayplan.services.scheduler.binding.annotations import annotations_of
from tests.builders.clusters import cluster, decide
from tests.builders.numatopologies import machine, numa_aware_profile, numatopology, policy_pod, volcano_cluster
from tests.builders.objects import GPU, container, node, simple_pod, topology, zone
from tests.builders.objects import pod as pod_of
from tests.builders.services import numa_pod

ZONES = "bayplan.io/numa-zones"
STATE = cluster(
    topology(zone(0, {"cpu": 4, "memory": "8Gi"}), zone(1, {"cpu": 4, "memory": "8Gi"}), policy="single-numa-node")
)


def two_zones(policy: str, **more: Any) -> NodeResourceTopology:
    amounts = {"cpu": 4, "memory": "8Gi", **more}
    return topology(zone(0, amounts, {0: 10, 1: 20}), zone(1, amounts, {0: 20, 1: 10}), policy=policy)


def zones_written(report: NodeResourceTopology, waiting: Pod, *others: Pod, gpus: int = 2) -> dict[str, list[int]]:
    state = cluster(report, nodes=[node("n1", {"cpu": 8, "memory": "16Gi", GPU: gpus})], pods=others)
    written: dict[str, list[int]] = msgspec.json.decode(
        annotations_of(Assignment(waiting, decide(state, waiting)), state).get(ZONES, "{}")
    )
    return written


@pytest.mark.parametrize(
    "policy, amounts, zones",
    [
        ("none", {"cpu": 2, "memory": "1Gi"}, {}),
        ("best-effort", {"cpu": 2, "memory": "1Gi"}, {"c": [0]}),
        ("single-numa-node", {"cpu": 2, "memory": "1Gi"}, {"c": [0]}),
        ("restricted", {"cpu": 6, "memory": "12Gi"}, {"c": [0, 1]}),
        ("best-effort", {"cpu": 6, "memory": "1Gi"}, {}),
    ],
    ids=[
        "policy none gives no zones",
        "one zone",
        "one zone by force",
        "all zones are needed",
        "how six CPUs are divided is up to cores",
    ],
)
def test_amounts_alone_tell_some_zones(policy: str, amounts: dict[str, Any], zones: dict[str, list[int]]) -> None:
    assert zones_written(two_zones(policy), pod_of(container(amounts, "c"))) == zones


@pytest.mark.parametrize("policy", ["best-effort", "restricted"])
def test_estimated_zones_are_not_written(policy: str) -> None:
    """More sets of ten of sixteen zones than anything tries: the zones are shown, and as an estimate they are not
    written down.
    """
    wide = topology(*(zone(number, {"cpu": 4, "memory": "8Gi"}) for number in range(16)), policy=policy)
    state = cluster(wide)
    waiting = pod_of(container({"cpu": 40, "memory": "80Gi"}, "c"))
    decision = decide(state, waiting)
    assert [(each.zones, each.estimated) for each in decision.containers] == [(tuple(range(10)), True)]
    assert zone_phrase(decision.containers) == "probably NUMA zones 0-9"
    assert annotations_of(Assignment(waiting, decision), state) == {}


def test_memory_of_an_unknown_pod_may_tie_zones_together() -> None:
    other = simple_pod({"cpu": 1, "memory": "9Gi"}, "other", nodeName="n1")
    waiting = pod_of(container({"cpu": 1, "memory": "1Gi"}, "c"))
    assert zones_written(two_zones("best-effort"), waiting, other) == {}
    assert zones_written(two_zones("single-numa-node"), waiting) == {"c": [0]}


def test_a_device_may_be_one_of_those_without_a_zone() -> None:
    waiting = pod_of(container({"cpu": 1, "memory": "1Gi", GPU: 1}, "c"))
    assert zones_written(two_zones("best-effort", **{GPU: 1}), waiting, gpus=2) == {"c": [0]}
    assert zones_written(two_zones("best-effort", **{GPU: 1}), waiting, gpus=3) == {}


def test_a_pod_in_zones_gets_them_by_container() -> None:
    containers = (ContainerZones("main", (0,)), ContainerZones("helper", (0, 1)), ContainerZones("any", ()))
    decision = Decision("ml/a", "n1", row=0, containers=containers)
    assert (
        annotations_of(Assignment(numa_pod(), decision), STATE)["bayplan.io/numa-zones"]
        == '{"main":[0],"helper":[0,1]}'
    )


def test_a_pod_without_zones_gets_nothing() -> None:
    assert annotations_of(Assignment(numa_pod(), Decision("ml/a", "n1")), STATE) == {}


def test_a_member_of_a_gang_gets_rank_path_and_segment() -> None:
    seat = Seat("ml/a", "", "n1", ("z1", "b2", "r3"), 7, segment=1)
    assert annotations_of(Assignment(numa_pod(), Decision("ml/a", "n1"), seat), STATE) == {
        "bayplan.io/rank": "7",
        "bayplan.io/path": "z1/b2/r3",
        "bayplan.io/segment": "1",
    }


def test_a_gang_without_segments_has_none() -> None:
    seat = Seat("ml/a", "", "n1", ("r3",), 0)
    assert "bayplan.io/segment" not in annotations_of(Assignment(numa_pod(), Decision("ml/a", "n1"), seat), STATE)


@pytest.mark.parametrize(
    "cpus, written",
    [
        (
            ("2", "3"),
            {"c0": {"zones": [0], "amounts": {"cpu": "2"}}, "c1": {"zones": [1], "amounts": {"cpu": "3"}}},
        ),
        (("8",), {"c0": {"zones": [0, 1], "amounts": {"cpu": "8"}}}),
        (("2", "500m"), {"c0": {"zones": [0], "amounts": {"cpu": "2"}}}),
        (("500m",), {}),
    ],
    ids=["each in a zone", "one in two zones", "one that shares CPUs", "nothing to align"],
)
def test_a_pod_in_zones_gets_the_amounts_of_each_container(cpus: tuple[str, ...], written: dict[str, Any]) -> None:
    """The nodes of Volcano's agent report CPUs by zone; of memory they say nothing, so nothing is written about it."""
    state = volcano_cluster(numatopology("n1", machine(2, 4), policy="restricted"))
    waiting = policy_pod(None, *cpus)
    decision = decide(state, waiting, numa_aware_profile())
    found = annotations_of(Assignment(waiting, decision), state)
    assert msgspec.json.decode(found.get("bayplan.io/numa-amounts", "{}")) == written


@pytest.mark.parametrize(
    "policy, written",
    [
        ("restricted", {"volcano.sh/topology-decision": '{"numa":{"0":{"cpu":"4"},"1":{"cpu":"4"}}}'}),
        ("none", {}),
        (None, {}),
    ],
)
def test_a_pod_that_asks_for_a_policy_gets_its_amounts_by_zone(policy: str | None, written: dict[str, str]) -> None:
    state = volcano_cluster(numatopology("n1", machine(2, 4), policy="restricted"))
    waiting = policy_pod(policy, 8)
    decision = decide(state, waiting, numa_aware_profile())
    found = annotations_of(Assignment(waiting, decision), state)
    assert {key: text for key, text in found.items() if key == DECISION} == written
