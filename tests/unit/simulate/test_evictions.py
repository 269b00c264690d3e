"""Preemption under each contestant, in the example scenario:
important pods arrive in a full cluster with two zones per node.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from bayplan.simulate.results.comparison import Comparison, figures
from bayplan.simulate.run import Run
from bayplan.simulate.scenario.reader import read_scenario
from bayplan.simulate.schedulers import BAYPLAN, BLIND, UPSTREAM
from bayplan.simulate.simulation import Simulation

EXAMPLE = Path(__file__).parents[3] / "examples" / "scenarios" / "preemption.yaml"


@cache
def run_of(scheduler: str, *, preemption: bool = True) -> Run:
    simulation = Simulation(replace(read_scenario(EXAMPLE), preemption=preemption, lasts=300.0), scheduler)
    while simulation.step():
        pass
    return simulation.result()


def services_that_run(run: Run) -> int:
    return next(workload.running for workload in run.workloads if workload.name == "service")


def test_bayplan_evicts_what_one_zone_needs_and_nothing_in_vain() -> None:
    run = run_of(BAYPLAN)
    assert (services_that_run(run), run.evicted_in_vain, run.refusals_in_all) == (10, 0, 0)
    assert run.evicted is not None
    assert 30 <= run.evicted <= 40  # four pods of 3 CPUs make 12, and some CPUs are free


def test_a_scheduler_that_counts_by_sums_evicts_in_vain() -> None:
    run = run_of(BLIND)
    assert run.evicted_in_vain > 100
    assert run.refusals_in_all > 100


def test_scheduler_plugins_filter_sees_no_room_after_evictions_and_evicts_nothing() -> None:
    run = run_of(UPSTREAM)
    assert (services_that_run(run), run.evicted, run.refusals_in_all) == (0, 0, 0)


def test_without_preemption_important_pods_wait() -> None:
    run = run_of(BAYPLAN, preemption=False)
    assert (services_that_run(run), run.evicted) == (0, None)


def test_pods_are_counted_once_whatever_was_evicted() -> None:
    run = run_of(BAYPLAN)
    assert run.running + run.finished + run.waiting + run.given_up == run.wanted
    assert run.timeline[-1].running == run.running
    assert run.timeline[-1].waiting == run.waiting


def test_evictions_are_figures_only_of_scenarios_with_preemption() -> None:
    with_it, without_it = (
        {each.label: each.values for each in figures([run_of(BAYPLAN, preemption=given)])} for given in (True, False)
    )
    assert with_it["in vain"] == ("0",)
    assert "evicted for others" not in without_it
    assert Comparison(read_scenario(EXAMPLE), (run_of(BAYPLAN),)).judged.evicted
