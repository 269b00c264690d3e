"""Whole simulations: pods placed, admitted by virtual kubelets and reported back, per second, in clusters of several
sizes.

The pods are those of the demo: telco, ML, HPC and web, on four kinds of machines. A simulated pod costs a decision, an
admission with CPU ids and a complete report that is read again (0.4 ms of the 1 ms); setting up reads one report per
node.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path

from bayplan.simulate.scenario.model import Scenario
from bayplan.simulate.scenario.reader import read_scenario
from bayplan.simulate.schedulers import BAYPLAN, BLIND
from bayplan.simulate.simulation import Simulation
from benchmarks.measure import report

DEMO = Path(__file__).parents[1] / "examples" / "scenarios" / "demo.yaml"
SIZES = (100, 1_000, 10_000)
RUNS = 3


def run() -> None:
    """Print all figures of this group."""
    demo = read_scenario(DEMO)
    for size in SIZES:
        scenario = _of_size(demo, size)
        for scheduler in (BLIND, BAYPLAN):
            setting_up, per_second = zip(*(_simulate(scenario, scheduler) for _ in range(RUNS)), strict=True)
            report(f"simulate/{scheduler}/{size}", statistics.median(per_second), "pods/s")
            report(f"simulate/set-up/{scheduler}/{size}", statistics.median(setting_up), "s")


def _of_size(scenario: Scenario, nodes: int) -> Scenario:
    """The scenario on so many nodes: its own, over and over again."""
    kinds = scenario.nodes
    rounds = ((kinds[number % len(kinds)], number // len(kinds)) for number in range(nodes))
    return replace(scenario, nodes=tuple(replace(node, name=f"{node.name}-{again}") for node, again in rounds))


def _simulate(scenario: Scenario, scheduler: str) -> tuple[float, float]:
    """Seconds to set up, and pods per second afterwards."""
    before = time.thread_time()
    simulation = Simulation(scenario, scheduler)
    ready = time.thread_time()
    while simulation.step():
        pass
    seconds = time.thread_time() - ready
    return ready - before, simulation.pods_created / seconds
