"""The first line of a "no": it is about the nodes that matter, and tells "never" from "not now"."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.explain.refusal import Refusal
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.when_empty import Where
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, NIC, Amounts, ZoneAmounts, container, node, pod, simple_pod, topology, zone
from tests.unit.explain.small_clusters import outcome_of

TAINT = {"key": "example.com/gpu", "value": "present", "effect": "NoSchedule"}
REPAIR = {"key": "example.com/repair", "effect": "NoExecute"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
CPUS: Amounts = {"cpu": 64, "memory": "256Gi"}
GPUS: Amounts = {**CPUS, GPU: 8}


def cpu_nodes(number: int = 3) -> list[Node]:
    return [node(f"cpu-{each}", CPUS) for each in range(number)]


def gpu_nodes(number: int = 2, **closed: Any) -> list[Node]:
    return [node(f"gpu-{each}", GPUS, **closed) for each in range(number)]


def refusal(pod: Pod, nodes: list[Node], *reports: NodeResourceTopology, running: list[Pod] | None = None) -> Refusal:
    found = outcome_of(cluster(*reports, nodes=nodes, pods=running or []), pod).refusal
    assert found is not None
    return found


def asking(amounts: Amounts, **spec: Any) -> Pod:
    return simple_pod({"cpu": 8, "memory": "16Gi", **amounts}, **spec)


@pytest.mark.parametrize(
    "closed, sentence",
    [
        pytest.param(
            {"taints": [TAINT]},
            "have a taint that it does not tolerate: example.com/gpu=present:NoSchedule",
            id="tainted",
        ),
        pytest.param({"unschedulable": True}, "are cordoned", id="cordoned"),
        pytest.param({"taints": [UNREACHABLE]}, "are NotReady", id="not Ready"),
        pytest.param(
            {"taints": [UNREACHABLE, REPAIR]},
            "have a taint that it does not tolerate: example.com/repair:NoExecute",
            id="two taints",
        ),
    ],
)
def test_nodes_with_the_resource_that_are_closed_are_the_answer(closed: Json, sentence: str) -> None:
    found = refusal(asking({GPU: 1}), [*cpu_nodes(), *gpu_nodes(2, **closed)])
    assert found.sentence.startswith(f"the 2 nodes with {GPU} {sentence}")


def test_the_taint_that_most_nodes_have_names_them_all() -> None:
    nodes = [*cpu_nodes(), *gpu_nodes(2, taints=[TAINT]), node("gpu-2", GPUS, taints=[REPAIR, TAINT])]
    found = refusal(asking({GPU: 1}), nodes)
    assert found.sentence == (
        f"the 3 nodes with {GPU} have a taint that it does not tolerate: example.com/gpu=present:NoSchedule"
    )
    assert [change.partition(" (")[0] for change in found.changes] == [
        "it tolerated example.com/gpu=present:NoSchedule",
        "it tolerated example.com/repair:NoExecute and example.com/gpu=present:NoSchedule",
    ]


def test_nodes_that_are_closed_for_different_reasons_are_counted_by_them() -> None:
    nodes = [*cpu_nodes(), *gpu_nodes(2, taints=[TAINT]), node("gpu-2", GPUS, unschedulable=True)]
    assert refusal(asking({GPU: 1}), nodes).sentence == (
        f"the 3 nodes with {GPU} are closed to it: taint example.com/gpu=present:NoSchedule 2, cordoned 1"
    )


def test_a_node_that_is_open_and_full_is_said_with_those_that_are_closed_left_out() -> None:
    nodes = [node("gpu-0", GPUS, taints=[TAINT]), node("gpu-1", GPUS)]
    found = refusal(asking({GPU: 4}), nodes, running=[simple_pod({GPU: 6}, "train-0", nodeName="gpu-1")])
    assert found.sentence == f"no schedulable node has enough {GPU} free"


def test_nodes_that_are_large_enough_are_told_from_those_that_have_the_resource() -> None:
    nodes = [node("small", {**CPUS, GPU: 4}), *gpu_nodes(2, taints=[TAINT])]
    assert refusal(asking({GPU: 8}), nodes).sentence.startswith(f"the 2 nodes with {GPU} 8 have a taint")


def test_the_nodes_that_match_its_selector_are_the_answer() -> None:
    arm = node("arm-0", CPUS, labels={"arch": "arm64"}, taints=[TAINT])
    found = refusal(asking({}, nodeSelector={"arch": "arm64"}), [*cpu_nodes(), arm])
    assert found.sentence == (
        "the only node that matches its node selector and affinity has a taint that it does not tolerate: "
        "example.com/gpu=present:NoSchedule"
    )


def test_a_selector_that_no_node_matches_comes_before_taints() -> None:
    found = refusal(asking({GPU: 1}, nodeSelector={"arch": "arm65"}), gpu_nodes(2, taints=[TAINT]))
    assert found.sentence == "no node matches its node selector and affinity"


def test_a_resource_that_no_node_has_comes_before_all() -> None:
    found = refusal(asking({"example.com/gpus": 1}, nodeSelector={"arch": "arm65"}), gpu_nodes(2, taints=[TAINT]))
    assert found.sentence == "no node has example.com/gpus (did you mean example.com/gpu?)"


# -- never -------------------------------------------------------------------------------------------------------------


def machine(*zones: ZoneAmounts, policy: str = "restricted", scope: str = "pod") -> NodeResourceTopology:
    return topology(*(zone(number, each) for number, each in enumerate(zones)), policy=policy, scope=scope)


HALF: ZoneAmounts = {"cpu": (112, 110, 110), "memory": "1Ti", GPU: 4}
NO_GPU: ZoneAmounts = {"cpu": (112, 110, 110), "memory": "1Ti", NIC: 2}


@pytest.mark.parametrize(
    "report, amounts, sentence",
    [
        pytest.param(
            machine(HALF, HALF),
            {"cpu": 96, "memory": "1200Gi", GPU: 8},
            "kubelets with policy restricted refuse it even on an empty node: cpu 96 needs 1 NUMA zone, "
            f"memory 1.1Ti needs 2, {GPU} 8 needs 2",
            id="restricted, unequal numbers of zones",
        ),
        pytest.param(
            machine(HALF, HALF, HALF, HALF),
            {"cpu": 64, "memory": "100Gi", GPU: 16},
            "kubelets with policy restricted refuse it even on an empty node: cpu 64 needs 1 NUMA zone, "
            f"memory 100Gi needs 1, {GPU} 16 needs 4",
            id="sixteen GPUs in four zones",
        ),
        pytest.param(
            machine(HALF, HALF),
            {"cpu": 111, "memory": "100Gi", GPU: 4},
            "kubelets with policy restricted refuse it even on an empty node: cpu 111 needs 1 NUMA zone, "
            "and pods can have 110 there",
            id="CPUs that are reserved",
        ),
        pytest.param(
            machine(HALF, HALF, policy="single-numa-node"),
            {"cpu": 128, "memory": "100Gi"},
            "no NUMA zone has cpu 128: the largest offers 110",
            id="larger than a zone",
        ),
        pytest.param(
            machine(HALF, NO_GPU, policy="single-numa-node"),
            {"cpu": 8, "memory": "1Gi", GPU: 1, NIC: 1},
            f"no empty NUMA zone has {GPU} 1 and {NIC} 1 together",
            id="not together in a zone",
        ),
        pytest.param(
            machine(HALF, NO_GPU),
            {"cpu": 8, "memory": "1Gi", GPU: 1, NIC: 1},
            "kubelets with policy restricted refuse it even on an empty node: "
            f"no NUMA zone has {GPU} 1 and {NIC} 1 together",
            id="restricted, not together in a zone",
        ),
        pytest.param(
            machine(HALF, HALF, NO_GPU, NO_GPU),
            {"cpu": 220, "memory": "1200Gi", GPU: 8, NIC: 4},
            "kubelets with policy restricted refuse it even on an empty node: "
            f"no 2 NUMA zones have {GPU} 8 and {NIC} 4 together",
            id="restricted, not together in two zones",
        ),
    ],
)
def test_what_kubelets_refuse_even_on_an_empty_node(
    report: NodeResourceTopology, amounts: Amounts, sentence: str
) -> None:
    found = refusal(simple_pod(amounts), [], report)
    assert found.sentence == sentence
    assert found.shortfall.too_large is not None
    assert [stage.kind.passed for stage in found.stages] == ["large enough"]


def test_containers_that_fit_only_one_by_one_are_not_larger_than_a_zone() -> None:
    waiting = pod(*(container({"cpu": 8, "memory": "1Gi", GPU: gpus}, f"c{at}") for at, gpus in enumerate((3, 3, 2))))
    assert refusal(waiting, [], machine(HALF, HALF, scope="container")).sentence == (
        "kubelets with policy restricted refuse it even on an empty node: "
        "NUMA zones hold its containers one by one, but not together"
    )


def test_what_an_empty_node_would_take_is_fragmented() -> None:
    full: ZoneAmounts = {"cpu": (16, 16, 6), "memory": "64Gi"}
    found = refusal(simple_pod({"cpu": 10, "memory": "1Gi"}), [], machine(full, full))
    assert found.sentence == "no node has the request in the NUMA zones that its policy allows"
    assert found.stages[-1].detail() == "fragmented under restricted: n1"
    assert found.shortfall.too_large is None


def test_more_than_the_largest_node_has() -> None:
    found = refusal(asking({GPU: 16}), [*cpu_nodes(), *gpu_nodes()])
    assert found.sentence == f"no node has {GPU} 16: the largest has 8"
    assert found.shortfall.too_large is not None
    assert found.shortfall.too_large.where is Where.NODE


def test_what_no_node_has_together() -> None:
    nodes = [node("gpu-0", {"cpu": 4, "memory": "64Gi", GPU: 8}), *cpu_nodes(1)]
    found = refusal(asking({GPU: 1}), nodes)
    assert found.sentence == f"no empty node has cpu 8, memory 16Gi and {GPU} 1 together"


def test_a_small_node_is_named_by_the_resource_of_which_it_has_least() -> None:
    nodes = [node("tiny", {"cpu": 1, "memory": "1Gi"}), *gpu_nodes()]
    running = [simple_pod({GPU: 8}, f"train-{each}", nodeName=f"gpu-{each}") for each in range(2)]
    stages = refusal(asking({GPU: 1}), nodes, running=running).stages
    assert [(stage.kind.passed, stage.detail()) for stage in stages] == [
        ("large enough", f"too small in {GPU}: tiny"),
        ("enough in total", f"short of {GPU}: gpu-[0-1]"),
    ]


def test_nodes_whose_zones_are_too_small_are_told_from_the_one_that_is_full() -> None:
    """The node without a report might take it, and is full; the other has 8 free, which its zones never give out."""
    half: ZoneAmounts = {"cpu": 32, "memory": "128Gi", GPU: 4}
    report = topology(zone(0, half), zone(1, half), name="gpu-0", policy="single-numa-node")
    running = [simple_pod({GPU: 6}, "train-0", nodeName="gpu-1")]
    found = refusal(asking({GPU: 8}), gpu_nodes(), report, running=running)
    assert found.sentence == (
        f"no large enough node has enough {GPU} free; the NUMA zones of gpu-0 are too small even when empty"
    )
    assert [(stage.kind.passed, stage.detail()) for stage in found.stages] == [
        ("large enough", "too small in their NUMA zones: gpu-0"),
        ("enough in total", f"short of {GPU}: gpu-1"),
    ]


def test_a_full_node_whose_zones_are_too_small_is_small_in_its_zones() -> None:
    half: ZoneAmounts = {"cpu": (32, 32, 2), "memory": "128Gi", GPU: (4, 4, 1)}
    report = topology(zone(0, half), zone(1, half), name="gpu-0", policy="single-numa-node")
    running = [simple_pod({"cpu": 60, GPU: 6}, "train-0", nodeName="gpu-0")]
    found = refusal(asking({GPU: 8}), gpu_nodes(1), report, running=running)
    assert found.sentence == f"no NUMA zone has {GPU} 8: the largest offers 4"
    assert [stage.detail() for stage in found.stages] == ["too small in their NUMA zones: gpu-0"]
