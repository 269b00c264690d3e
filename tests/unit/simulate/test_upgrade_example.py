"""The scenario of a cluster in the middle of an upgrade: each node is judged by its own kubelet's rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bayplan.cluster.reports.kubelet_version import NEWEST, OLDEST, KubeletVersion
from bayplan.simulate.run import Run
from bayplan.simulate.scenario.model import Scenario
from bayplan.simulate.scenario.reader import read_scenario
from bayplan.simulate.schedulers import BAYPLAN, BLIND
from bayplan.simulate.simulation import Simulation

UPGRADE = Path(__file__).parents[3] / "examples" / "scenarios" / "upgrade.yaml"
# The whole day is simulated by the command in the file.
HOURS = 3


@pytest.fixture(scope="module")
def upgrade() -> Scenario:
    return replace(read_scenario(UPGRADE), lasts=HOURS * 3600.0)


def happened(scenario: Scenario, scheduler: str) -> Run:
    simulation = Simulation(scenario, scheduler)
    while simulation.step():
        pass
    return simulation.result()


def test_every_known_version_is_there(upgrade: Scenario) -> None:
    assert {node.kubelet.settings.version for node in upgrade.nodes} == set(KubeletVersion)


def test_no_kubelet_of_any_version_refuses_a_pod(upgrade: Scenario) -> None:
    run = happened(upgrade, BAYPLAN)
    assert run.refusals_in_all == 0
    assert not run.zones_not_as_decided
    assert run.running + run.finished > 500


def test_kubelets_refuse_pods_that_were_sent_without_asking(upgrade: Scenario) -> None:
    assert happened(upgrade, BLIND).refusals_in_all > 50


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_one_version_for_all_nodes_would_not_do(
    upgrade: Scenario, monkeypatch: pytest.MonkeyPatch, version: KubeletVersion
) -> None:
    told = version.release
    monkeypatch.setattr(KubeletVersion, "release", property(lambda _: told))
    run = happened(upgrade, BAYPLAN)
    assert run.refusals_in_all or run.zones_not_as_decided
