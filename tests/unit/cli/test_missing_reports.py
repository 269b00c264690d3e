"""What the commands say about nodes without a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Bayplan

UNKNOWN = "NUMA zones of worker-3 are unknown (no NodeResourceTopology)"
ROOM = {"cpu": "16", "memory": "64Gi", "pods": "110"}


def a_node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": ROOM}}


def a_report(name: str, free: int) -> dict[str, Any]:
    cpus = {"name": "cpu", "capacity": 8, "allocatable": 8, "available": free}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [{"name": f"node-{zone}", "type": "Node", "resources": [cpus]} for zone in (0, 1)],
    }


@pytest.fixture
def aligned(tmp_path: Path) -> Path:
    amounts = {"cpu": "4", "memory": "1Gi"}
    main = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    written = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [main]}}
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(written))
    return file


def dump(folder: Path, *items: dict[str, Any]) -> Path:
    file = folder / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))
    return file


def test_a_dump_without_any_report_says_so_first(bayplan: Bayplan, aligned: Path, tmp_path: Path) -> None:
    result = bayplan("place", "-f", aligned, cluster=dump(tmp_path, a_node("worker-3")))
    assert result.err.splitlines()[0] == (
        "warning: the dump has no NodeResourceTopology: NUMA zones are unknown on every node"
    )
    assert (result.code, result.answer) == (0, f"default/p fits: worker-3; {UNKNOWN}")


def test_place_prefers_the_node_with_a_report_and_says_why_the_other_comes_last(
    bayplan: Bayplan, aligned: Path, tmp_path: Path
) -> None:
    cluster = dump(tmp_path, a_node("worker-3"), a_node("worker-4"), a_report("worker-4", 8))
    result = bayplan("place", "-f", aligned, cluster=cluster)
    assert (result.answer, result.err) == ("default/p fits: worker-4, NUMA zone 0", "")
    rows = [line.split() for line in result.out.splitlines()[3:5]]
    assert [(row[0], row[-1]) for row in rows] == [("worker-4", "0"), ("worker-3", "unknown")]
    assert result.out.splitlines()[-1] == "  nodes whose NUMA zones are unknown (no NodeResourceTopology) come last"


def test_why_names_the_node_whose_zones_are_unknown(bayplan: Bayplan, aligned: Path, tmp_path: Path) -> None:
    waiting = json.loads(aligned.read_text())
    cluster = dump(tmp_path, a_node("worker-3"), a_node("worker-4"), a_report("worker-4", 3), waiting)
    assert bayplan("why", "p", cluster=cluster).answer.endswith(f"it fits now on worker-3; {UNKNOWN}.")
    assert bayplan("why", "p", "--node", "worker-3", cluster=cluster).answer == f"default/p fits on worker-3; {UNKNOWN}"


def test_refuse_says_which_nodes_have_no_report(bayplan: Bayplan, aligned: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- pluginConfig:\n  - name: NodeResourceTopologyMatch\n    args: {assume: {missingReport: Refuse}}\n"
    )
    cluster = dump(tmp_path, a_node("worker-3"), a_node("worker-4"), a_report("worker-4", 3))
    result = bayplan("place", "-f", aligned, "--config", config, cluster=cluster)
    assert result.code == 1
    assert "1 NUMA zones unknown (no NodeResourceTopology): worker-3" in result.out
