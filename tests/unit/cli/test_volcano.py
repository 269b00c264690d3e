"""`examples/volcano`: Volcano's objects, annotation and configuration file, taken by the commands as they are."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.conftest import EXAMPLES, Bayplan

FOLDER = EXAMPLES / "volcano"
CLUSTER = FOLDER / "cluster.yaml"


def test_place_prints_volcanos_three_nodes_with_their_scores(bayplan: Bayplan) -> None:
    config = FOLDER / "volcano-scheduler.yaml"
    result = bayplan("place", "-f", FOLDER / "worker.yaml", "--config", config, cluster=CLUSTER)
    assert (result.code, result.answer, result.err) == (0, "default/worker-0 fits: node-a, NUMA zone 0", "")
    assert [line.split() for line in result.out.splitlines()[2:]] == [
        ["node", "score", "NUMA", "zones"],
        ["node-a", "750", "0"],
        ["node-b", "500", "0-1"],
        ["node-c", "0", "0-3"],
    ]


def test_numa_draws_a_node_from_its_numatopology(bayplan: Bayplan) -> None:
    result = bayplan("numa", "node-c", cluster=CLUSTER)
    assert result.answer == "node-c: 4 NUMA zones, policy best-effort, scope container"


def test_a_policy_without_effect_is_warned_about(bayplan: Bayplan, tmp_path: Path) -> None:
    text = (FOLDER / "worker.yaml").read_text().replace("limits: {cpu: 8, memory: 4Gi}", "limits: {memory: 4Gi}")
    burstable = tmp_path / "burstable.yaml"
    burstable.write_text(text)
    result = bayplan("place", "-f", burstable, "--config", FOLDER / "volcano-scheduler.yaml", cluster=CLUSTER)
    assert result.code == 0
    assert 'volcano.sh/numa-topology-policy"]: "best-effort" has no effect: the pod is Burstable' in result.err
