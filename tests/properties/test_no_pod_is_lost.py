"""bayplan loses no pod to a kubelet, and every pod stands where it was decided: over many simulated placements, with
reports that come at once and with late ones.

`make proof` runs 200,000 placements of the first kind and half as many of the second; `make test` a tenth of that. The
summary says how many it were and how much of the CPUs was in use: the price of not knowing.
"""

from __future__ import annotations

import pytest

from bayplan.simulate.run import Run
from bayplan.simulate.schedulers import BAYPLAN, BLIND
from bayplan.simulate.simulation import Simulation
from tests.properties.conftest import IMMEDIATE, PLACEMENTS, PROPERTY
from tests.random_clusters import scenario

PODS = 1200
# Not all pods of a random cluster find a place; so many do at least, on average.
PLACED_AT_LEAST = 900
# How late reports are, cluster by cluster.
LATE = (0.5, 5.0, 20.0)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        seeds = range(-(-metafunc.config.getoption("placements", PLACEMENTS) // PLACED_AT_LEAST))
        metafunc.parametrize("seed", seeds[::2] if "late" in metafunc.function.__name__ else seeds)


def ran(seed: int, scheduler: str, report_delay: float, pods: int = PODS) -> Run:
    simulation = Simulation(scenario(seed, pods), scheduler, report_delay)
    while simulation.step():
        pass
    return simulation.result()


def note(request: pytest.FixtureRequest, reports: str, seed: int, run: Run) -> None:
    outcome = {
        "reports": reports,
        "seed": seed,
        "placed": run.running + run.finished,
        "refused": run.refusals_in_all,
        "cpu": run.cpu_share,
    }
    request.node.user_properties.append((PROPERTY, outcome))


def test_with_immediate_reports(request: pytest.FixtureRequest, seed: int) -> None:
    run = ran(seed, BAYPLAN, 0.0)
    note(request, IMMEDIATE, seed, run)
    assert not run.refusals
    assert not run.zones_not_as_decided


def test_with_late_reports(request: pytest.FixtureRequest, seed: int) -> None:
    run = ran(seed, BAYPLAN, LATE[seed // 2 % len(LATE)])
    note(request, f"with reports {min(LATE):g} to {max(LATE):g} s late", seed, run)
    assert not run.refusals
    assert not run.zones_not_as_decided


def test_a_scheduler_that_does_not_look_loses_pods_in_these_clusters() -> None:
    assert ran(0, BLIND, 0.0, pods=240).refusals_in_all > 20
