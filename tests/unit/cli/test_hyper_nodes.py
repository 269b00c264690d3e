"""Volcano's HyperNodes in the commands: `examples/volcano/network.yaml` as a tree, a Job placed by its tiers, and
HyperNodes that are no tree.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from bayplan.explain.snapshot import Recorded, snapshot_document
from bayplan.kube.files import read_objects
from tests.unit.cli.conftest import EXAMPLES, Bayplan

FOLDER = EXAMPLES / "volcano"
NETWORK = FOLDER / "network.yaml"
JOB = FOLDER / "network-job.yaml"

NO_REPORTS = "warning: the dump has no NodeResourceTopology: NUMA zones are unknown on every node\n"


def changed(file: Path, old: str, new: str, tmp_path: Path) -> Path:
    """An example with one text exchanged."""
    text = file.read_text()
    assert old in text
    written = tmp_path / file.name
    written.write_text(text.replace(old, new))
    return written


def test_topology_shows_them_as_a_tree(bayplan: Bayplan) -> None:
    result = bayplan("topology", "-r", "nvidia.com/gpu", cluster=NETWORK)
    assert (result.code, result.err) == (0, NO_REPORTS)
    assert [line.rstrip() for line in result.out.splitlines()] == [
        "HyperNodes: 2 spines, 4 switches, 7 nodes; 1 node outside",
        "",
        "  domain                nodes  gpu free  fit  hosts",
        "  spine-0                   4  32 of 32   32",
        "    switch-0                2  16 of 16   16  gpu-[0-1]",
        "    switch-1                2  16 of 16   16  gpu-[2-3]",
        "  spine-1                   3  24 of 24   24",
        "    switch gpu-6 alone      1    8 of 8    8  gpu-6",
        "    switch-2                2  16 of 16   16  gpu-[4-5]",
        "",
        "  largest gang   pods of nvidia.com/gpu 1  where",
        "  in one spine                         32  spine-0",
        "  in one switch                        16  spine-0/switch-0",
        "  on one node                           8  gpu-0",
        "",
        "Outside:  infer-0  no HyperNode",
    ]


def test_as_a_document(bayplan: Bayplan) -> None:
    document = json.loads(bayplan("topology", "HyperNodes", "-o", "json", cluster=NETWORK).out)
    assert document["levels"] == ["spine", "switch"]
    assert document["outside"] == [{"node": "infer-0", "lacks": "HyperNode"}]


def test_a_job_is_placed_by_their_tiers(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", JOB, cluster=NETWORK)
    answer = "ml/llm fits: spine-0, 2 switches, 4 nodes (optimal)"
    assert (result.code, result.answer, result.err) == (0, answer, NO_REPORTS)
    assert [line.split()[:2] for line in result.out.splitlines()[3:5]] == [
        ["spine-0/switch-0", "worker-0"],
        ["spine-0/switch-1", "worker-1"],
    ]


@pytest.mark.parametrize(
    "old, new, answer",
    [
        (
            "highestTierAllowed: 2",
            "highestTierAllowed: 1",  # no switch has four nodes
            "ml/llm does not fit: the gang needs 4 slots in one switch, but can get at most 2.",
        ),
        (
            "mode: hard, highestTierAllowed: 2",
            "mode: soft",
            "ml/llm fits: spine-0, 2 switches, 4 nodes (optimal)",
        ),
    ],
)
def test_other_tiers_have_other_answers(bayplan: Bayplan, tmp_path: Path, old: str, new: str, answer: str) -> None:
    assert bayplan("place", "-f", changed(JOB, old, new, tmp_path), cluster=NETWORK).answer == answer


def test_soft_takes_nodes_beside_the_network_if_it_must(bayplan: Bayplan, tmp_path: Path) -> None:
    (job,) = yaml.safe_load_all(JOB.read_text())
    job["spec"] |= {"networkTopology": {"mode": "soft"}, "minAvailable": 8}
    job["spec"]["tasks"][0]["replicas"] = 8
    del job["spec"]["tasks"][0]["partitionPolicy"]
    soft = tmp_path / "soft.yaml"
    soft.write_text(yaml.safe_dump(job))
    result = bayplan("place", "-f", soft, cluster=NETWORK)
    assert result.answer == "ml/llm fits: 3 spines, 5 switches, 8 nodes (optimal)"
    assert "infer-0" in result.out


class TestNoTree:
    TOLD = (
        'HyperNode spine-1: spec.members[0].selector.exactMatch.name: "switch-1" is a member of spine-0 already: a '
        "HyperNode has one parent"
    )

    @pytest.fixture
    def two_parents(self, tmp_path: Path) -> Path:
        return changed(NETWORK, "{name: switch-2}}}\n  - {type: Node", "{name: switch-1}}}\n  - {type: Node", tmp_path)

    def test_topology_says_why(self, bayplan: Bayplan, two_parents: Path) -> None:
        result = bayplan("topology", cluster=two_parents)
        assert (result.code, result.err) == (2, f"{NO_REPORTS}error: the HyperNodes are not a tree: {self.TOLD}\n")

    def test_a_job_that_asks_for_tiers_waits(self, bayplan: Bayplan, two_parents: Path) -> None:
        result = bayplan("place", "-f", JOB, cluster=two_parents)
        assert result.code == 2
        assert f"spec.networkTopology: waits until the HyperNodes are a tree; {self.TOLD}" in result.err

    def test_one_that_does_not_goes_on(self, bayplan: Bayplan, two_parents: Path, tmp_path: Path) -> None:
        (job,) = yaml.safe_load_all(JOB.read_text())
        del job["spec"]["networkTopology"], job["spec"]["tasks"][0]["partitionPolicy"]
        plain = tmp_path / "plain.yaml"
        plain.write_text(yaml.safe_dump(job))
        assert bayplan("place", "-f", plain, cluster=two_parents).answer.startswith("ml/llm fits: 4 nodes")


def test_a_snapshot_keeps_them(bayplan: Bayplan, tmp_path: Path) -> None:
    document = snapshot_document(read_objects(NETWORK), Recorded("0.1.0", []), (), {})
    taken = tmp_path / "snapshot.json"
    taken.write_text(json.dumps(document))
    assert bayplan("topology", cluster=taken).answer == "HyperNodes: 2 spines, 4 switches, 7 nodes; 1 node outside"
