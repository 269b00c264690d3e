"""What the commands say about nodes without a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.bodies import Json, list_body, node_body, pod_body, report_body
from tests.builders.objects import cpu_zones
from tests.unit.cli.conftest import Bayplan

UNKNOWN = "NUMA zones of worker-3 are unknown (no NodeResourceTopology)"


def a_node(name: str) -> Json:
    return node_body(name, {"cpu": "16", "memory": "64Gi"})


def a_report(name: str, free: int) -> Json:
    return report_body(name, *cpu_zones(free, free))


@pytest.fixture
def aligned(tmp_path: Path) -> Path:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(pod_body("p", amounts={"cpu": "4", "memory": "1Gi"})))
    return file


def dump(folder: Path, *items: Json) -> Path:
    file = folder / "cluster.json"
    file.write_text(json.dumps(list_body(items)))
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
