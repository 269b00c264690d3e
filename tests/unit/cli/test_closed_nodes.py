"""Nodes that are NotReady, cordoned or tainted, as every command about capacity shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.bodies import list_body, node_body, topology_body
from tests.unit.cli.conftest import Bayplan

GPU = "nvidia.com/gpu"
GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
PLANNED = {"key": "example.com/planned", "value": "may", "effect": "NoSchedule"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


def written(name: str, rack: str, gpus: int, *taints: Any, ready: str = "True", **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi"} | ({GPU: str(gpus)} if gpus else {})
    node = node_body(name, amounts, **{"example.com/rack": rack})
    node["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    return {**node, "spec": {"taints": list(taints), **spec}}


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """Two GPU nodes that take pods, one that is NotReady, one with a maintenance taint; one cordoned node of two."""
    nodes = [
        written("gpu-1", "r1", 8, GPU_TAINT),
        written("gpu-2", "r1", 8, GPU_TAINT),
        written("gpu-3", "r2", 8, GPU_TAINT, UNREACHABLE, ready="Unknown"),
        written("gpu-4", "r2", 4, GPU_TAINT, PLANNED),
        written("cpu-1", "r3", 0),
        written("cpu-2", "r3", 0, unschedulable=True),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body([*nodes, topology_body("network", "example.com/rack")])))
    return file


def test_nodes_have_the_status_of_kubectl_and_taints_that_close_them_are_named(bayplan: Bayplan, closed: Path) -> None:
    result = bayplan("nodes", cluster=closed)
    assert result.answer == "6 nodes: 6 without a report; 3 closed (1 NotReady, 1 cordoned, 1 tainted)"
    lines = result.out.splitlines()
    assert [line.split()[:2] for line in lines[3:9]] == [
        ["gpu-1", "Ready"],
        ["gpu-2", "Ready"],
        ["gpu-3", "NotReady"],
        ["gpu-4", "Ready,Tainted"],
        ["cpu-1", "Ready"],
        ["cpu-2", "Ready,SchedulingDisabled"],
    ]
    assert lines[-1] == "  1 node is closed by example.com/planned=may:NoSchedule: gpu-4"
    items = json.loads(bayplan("nodes", "gpu-3", "gpu-4", "-o", "json", cluster=closed).out)["items"]
    assert [(item["status"], item["taints"]) for item in items] == [
        ("NotReady", [f"{GPU}=present:NoSchedule", "node.kubernetes.io/unreachable:NoSchedule"]),
        ("Ready,Tainted", [f"{GPU}=present:NoSchedule", "example.com/planned=may:NoSchedule"]),
    ]


@pytest.mark.parametrize(
    "path, order",
    [
        (".node", "cpu-1 cpu-2 gpu-1 gpu-2 gpu-3 gpu-4"),
        ("{.status}", "gpu-3 gpu-1 gpu-2 cpu-1 cpu-2 gpu-4"),
        # As of kubectl, nodes without the field come first.
        (".free['nvidia.com/gpu']", "cpu-1 cpu-2 gpu-4 gpu-1 gpu-2 gpu-3"),
        (r"free.nvidia\.com/gpu", "cpu-1 cpu-2 gpu-4 gpu-1 gpu-2 gpu-3"),
    ],
)
def test_nodes_are_sorted_by_any_field_of_their_document(bayplan: Bayplan, closed: Path, path: str, order: str) -> None:
    out = bayplan("nodes", "--sort-by", path, "-o", "name", cluster=closed).out
    assert out.replace("node/", "").split() == order.split()


@pytest.mark.parametrize(
    "path, problem", [(".metadata.name", "no node has this field; fields are .node, "), (".free[", "character 6")]
)
def test_a_field_that_nothing_can_be_sorted_by_is_refused(
    bayplan: Bayplan, closed: Path, path: str, problem: str
) -> None:
    result = bayplan("nodes", "--sort-by", path, cluster=closed)
    assert result.code == 2
    assert problem in result.err


def test_without_headers_the_table_is_only_its_rows(bayplan: Bayplan, closed: Path) -> None:
    lines = bayplan("nodes", "--no-headers", cluster=closed).out.splitlines()
    assert [line.split()[0] for line in lines] == ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "cpu-1", "cpu-2"]


def test_what_closed_nodes_have_is_told_but_not_counted_as_free(bayplan: Bayplan, closed: Path) -> None:
    result = bayplan("topology", "-r", "gpu", cluster=closed)
    assert result.answer == "network: 3 racks, 6 nodes; 3 nodes closed"
    # A single GPU is counted for, which tolerates the taint in its name.
    assert "  rack r1      2  16 of 16   16  gpu-[1-2]" in result.out
    assert "  rack r2      2   0 of 12    0  gpu-[3-4]" in result.out
    assert [line for line in result.out.splitlines() if line.startswith("  1 node is")] == [
        "  1 node is NotReady: gpu-3 (not counted as free: gpu 8)",
        "  1 node is closed by example.com/planned=may:NoSchedule: gpu-4 (not counted as free: gpu 4)",
        "  1 node is cordoned: cpu-2",
    ]
    document = json.loads(bayplan("topology", "-o", "json", cluster=closed).out)
    assert document["domains"][1]["free"][GPU] == "0"
    assert document["domains"][1]["closed"][GPU] == "12"
    assert document["closed"][0] == {
        "causes": ["NotReady"],
        "nodes": ["gpu-3"],
        "free": {"cpu": "8", "memory": "32Gi", GPU: "8"},
    }


@pytest.mark.parametrize(
    "flags, resource, free, fit",
    [
        ([], GPU, 16, 16),
        (["--tolerate", "example.com/planned"], GPU, 20, 20),
        # Without a shape, nodes that are kept for GPUs are open, whatever is counted.
        (["-r", "cpu"], "cpu", 24, 24),
        (["-r", "cpu", "--requests", "cpu=1"], "cpu", 8, 8),
    ],
)
def test_pods_are_counted_on_the_nodes_whose_amounts_are(
    bayplan: Bayplan, closed: Path, flags: list[str], resource: str, free: int, fit: int
) -> None:
    racks = json.loads(bayplan("topology", *flags, "-o", "json", cluster=closed).out)["domains"]
    assert sum(int(rack["free"][resource]) for rack in racks) == free
    assert sum(rack["slots"] for rack in racks) == fit


def test_node_by_node_the_status_is_beside_the_name(bayplan: Bayplan, closed: Path) -> None:
    out = bayplan("topology", "-r", "gpu", "--level", "node", cluster=closed).out
    assert "gpu-3 (NotReady) " in out
    assert "cpu-2 (Ready,SchedulingDisabled) " in out


def test_a_picture_hatches_closed_nodes_and_says_why(bayplan: Bayplan, closed: Path) -> None:
    picture = bayplan("topology", "-o", "svg", cluster=closed).out
    # Three nodes and the legend.
    assert picture.count("<path ") == 4
    assert "gpu-3: 0 gpu free of 8 · 0 fit, NotReady" in picture
    assert "1 node is closed by example.com/planned=may:NoSchedule: gpu-4" in picture


@pytest.mark.parametrize(
    "requests, tolerate, slots, closings",
    [
        (
            "gpu=4",
            [],
            4,
            ["1 node is NotReady: gpu-3", "1 node is closed by example.com/planned=may:NoSchedule: gpu-4"],
        ),
        ("gpu=4", ["example.com/planned"], 5, ["1 node is NotReady: gpu-3"]),
        ("gpu=4", ["example.com/planned=may:NoSchedule"], 5, ["1 node is NotReady: gpu-3"]),
        ("gpu=4", ["example.com/planned=june"], 4, ["1 node is NotReady: gpu-3"]),
        ("cpu=8", [], 1, [f"2 nodes are closed by {GPU}=present:NoSchedule: gpu-[1-2]"]),
        ("cpu=8", [f"{GPU}=present"], 3, ["1 node is NotReady: gpu-3"]),
    ],
)
def test_slots_are_of_pods_that_tolerate_taints_in_the_name_of_what_they_ask_for(
    bayplan: Bayplan, closed: Path, requests: str, tolerate: list[str], slots: int, closings: list[str]
) -> None:
    flags = [flag for each in tolerate for flag in ("--tolerate", each)]
    out = bayplan("slots", "--requests", requests, "--pods", "1", *flags, cluster=closed).out
    assert f"; {slots} slot" in out
    lines = [line.strip() for line in out.splitlines()]
    assert set(closings) <= set(lines)
    assert f"; {slots} such pod" in bayplan("topology", "--requests", requests, *flags, cluster=closed).answer


@pytest.mark.parametrize("text", ["", "=x", "key=x:Sometimes"])
def test_what_is_no_taint_cannot_be_tolerated(bayplan: Bayplan, closed: Path, text: str) -> None:
    result = bayplan("slots", "--requests", "cpu=1", "--pods", "1", "--tolerate", text, cluster=closed)
    assert result.code == 2
    assert f"--tolerate: '{text}' is not a taint" in result.err


def test_a_taint_that_no_node_has_is_told(bayplan: Bayplan, closed: Path) -> None:
    result = bayplan("slots", "--requests", "cpu=1", "--pods", "1", "--tolerate", "example.com/plan", cluster=closed)
    told = "warning: --tolerate: no node has the taint 'example.com/plan'; did you mean example.com/planned?"
    assert told in result.err


def test_only_nodes_with_the_devices_asked_for_are_told_to_be_closed(bayplan: Bayplan, closed: Path) -> None:
    out = bayplan("slots", "--requests", "gpu=1", "--pods", "1", cluster=closed).out
    assert "gpu-3" in out
    assert "cpu-2" not in out


def test_pods_of_a_file_have_only_their_own_tolerations(bayplan: Bayplan, closed: Path, tmp_path: Path) -> None:
    container = {"name": "main", "image": "i", "resources": {"limits": {GPU: "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod))
    result = bayplan("slots", "-f", file, "--pods", "1", cluster=closed)
    assert result.code == 1
    assert f"2 nodes are closed by {GPU}=present:NoSchedule: gpu-[1-2]" in result.out
    refused = bayplan("slots", "-f", file, "--pods", "1", "--tolerate", GPU, cluster=closed)
    assert refused.code == 2
    assert "--tolerate is for pods of --requests" in refused.err
