"""The scenarios in examples/ can be used, and are what their comments say."""

from collections import Counter
from pathlib import Path

import pytest

from bayplan.cluster.pods.request import effective_request
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.scenario.model import Scenario
from bayplan.simulate.scenario.reader import read_scenario

FOLDER = Path(__file__).parents[4] / "examples" / "scenarios"
FILES = sorted(FOLDER.glob("*.yaml"))


def cpu_milli(scenario: Scenario) -> int:
    kinds = {node.group: VirtualKubelet(node.machine, node.kubelet) for node in scenario.nodes}
    return sum(kinds[node.group].allocatable["cpu"] for node in scenario.nodes)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_can_be_used_and_needs_no_remark(file: Path) -> None:
    scenario = read_scenario(file)
    assert scenario.pods_wanted > 0
    # A dump is what it is: its reports leave things open, as in any cluster that grew.
    assert all("is not reported" in remark for remark in scenario.remarks)


def test_the_example_in_the_documentation_can_be_used(tmp_path: Path) -> None:
    text = (FOLDER.parents[1] / "docs" / "scenarios.md").read_text().split("```yaml\n")[1].split("```")[0]
    file = tmp_path / "x.yaml"
    file.write_text(text)
    assert len(read_scenario(file).nodes) == 24


def test_the_demo_is_a_mixed_cluster_under_load() -> None:
    demo = read_scenario(FOLDER / "demo.yaml")
    assert len(demo.nodes) == 72
    zones = Counter(len(node.machine.zones) for node in demo.nodes)
    assert set(zones) == {2, 4, 8}
    assert {node.kubelet.settings.policy.text for node in demo.nodes} == {
        "best-effort",
        "restricted",
        "single-numa-node",
    }
    assert 600 <= demo.pods_wanted <= 1500
    staying = sum(
        effective_request(workload.template).total["cpu"]
        for workload in demo.workloads
        for member in workload.members
        if member.runs_for is None
    )
    assert 0.6 < staying / cpu_milli(demo) < 0.8
    assert all(member.arrives < 300 for workload in demo.workloads for member in workload.members)
