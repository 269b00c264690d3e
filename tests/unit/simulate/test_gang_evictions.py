"""Gangs that preempt gangs under each contestant, in the example scenario: a rack is needed, and others hold it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from bayplan.simulate.results.comparison import figures
from bayplan.simulate.run import GangRun, Run
from bayplan.simulate.scenario.reader import read_scenario
from bayplan.simulate.schedulers import BAYPLAN, BLIND, NUMA_AWARE, UPSTREAM
from bayplan.simulate.simulation import Simulation

EXAMPLE = Path(__file__).parents[3] / "examples" / "scenarios" / "gang-preemption.yaml"


@cache
def run_of(scheduler: str, *, preemption: bool = True) -> Run:
    simulation = Simulation(replace(read_scenario(EXAMPLE), preemption=preemption), scheduler)
    while simulation.step():
        pass
    return simulation.result()


def gang(run: Run, name: str) -> GangRun:
    return next(each for each in run.gang_runs if each.name == f"default/{name}")


@pytest.mark.parametrize("scheduler", [BAYPLAN, NUMA_AWARE])
def test_a_gang_evicts_gangs_whole_and_starts_in_one_rack(scheduler: str) -> None:
    run = run_of(scheduler)
    important = gang(run, "pretrain-0")
    assert important.whole_at is not None
    assert important.whole_at < 70.0  # it arrives at 60 s, and evicted pods take 2 s to leave
    assert (len(important.domains), run.evicted_in_vain, run.gangs_crippled, run.refusals_in_all) == (1, 0, 0, 0)
    assert run.evicted is not None
    assert run.evicted >= 8


def test_gangs_that_were_evicted_start_again_as_a_whole() -> None:
    run = run_of(BAYPLAN)
    late = [each for each in run.gang_runs if each.whole_at is not None and each.whole_at > 100.0]
    assert late
    assert all(each.arrived_at is not None and each.arrived_at > 60.0 for each in late)
    assert (run.gangs_whole, run.gangs_in_part) == (run.gangs, 0)


def test_a_scheduler_without_gangs_leaves_some_below_their_minimum() -> None:
    run = run_of(BLIND)
    assert run.gangs_crippled > 0
    assert run.domains_per_gang is not None
    assert run.domains_per_gang > 1.0


def test_without_preemption_the_important_gang_waits_for_a_rack() -> None:
    run = run_of(BAYPLAN, preemption=False)
    important = gang(run, "pretrain-0")
    assert important.whole_at is None or important.whole_at > 100.0
    assert (run.evicted, run.gangs_crippled) == (None, 0)


@pytest.mark.parametrize("scheduler", [BAYPLAN, BLIND, UPSTREAM])
def test_pods_are_counted_once_whatever_was_evicted(scheduler: str) -> None:
    run = run_of(scheduler)
    assert run.running + run.finished + run.waiting + run.given_up == run.wanted
    assert run.timeline[-1].running == run.running
    assert run.timeline[-1].waiting == run.waiting


def test_gangs_below_their_minimum_are_a_figure_of_their_own() -> None:
    values = {each.label: each.values for each in figures([run_of(BAYPLAN), run_of(BLIND)])}
    assert values["gangs left below their minimum"][0] == "0"
    assert values["gangs left below their minimum"][1] != "0"
