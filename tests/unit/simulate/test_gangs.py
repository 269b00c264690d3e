"""Gangs in simulations: together or not at all under bayplan, half of each under a scheduler that does not know them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.simulate.run import Run
from bayplan.simulate.scenario.lines import ScenarioError
from bayplan.simulate.scenario.reader import read_scenario
from bayplan.simulate.simulation import Simulation

# Four nodes in two racks, four zones' worth of GPUs each rack; two gangs of three, of different shapes, compete for four nodes.
TWO_GANGS = """
levels: [example.com/rack]
lasts: 5m
nodes:
- name: n
  count: 4
  machine: core:8 mem:32Gi gpu:1@numa
  labels: {example.com/rack: [r1, r2]}
workloads:
- {name: a, kind: Job, runs: 1m, replicas: 3, gang: {}, arrive: {every: 1s}, pod: {resources: {cpu: 2, memory: 1Gi, example.com/gpu: 1}}}
- {name: b, kind: Job, runs: 1m, replicas: 3, gang: {}, arrive: {every: 1s}, pod: {resources: {cpu: 3, memory: 1Gi, example.com/gpu: 1}}}
"""


def ran(tmp_path: Path, text: str, scheduler: str) -> Run:
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    simulation = Simulation(read_scenario(file), scheduler)
    while simulation.step():
        pass
    return simulation.result()


def test_without_gangs_both_hold_half_of_what_they_need_and_wait_for_ever(tmp_path: Path) -> None:
    run = ran(tmp_path, TWO_GANGS, "blind")
    assert (run.gangs, run.gangs_whole, run.gangs_in_part) == (2, 0, 2)
    assert (run.running, run.finished, run.waiting) == (4, 0, 2)


def test_with_gangs_one_goes_after_the_other(tmp_path: Path) -> None:
    run = ran(tmp_path, TWO_GANGS, "bayplan")
    assert (run.gangs_whole, run.gangs_in_part, run.finished) == (2, 0, 6)


def test_a_gang_that_fits_no_domain_waits_whole_and_says_why(tmp_path: Path) -> None:
    text = TWO_GANGS.replace(
        "name: a, kind: Job, runs: 1m, replicas: 3, gang: {}",
        "name: a, replicas: 3, gang: {required: example.com/rack}",
    )
    run = ran(tmp_path, text, "bayplan")
    assert [(each.workload, each.pods) for each in run.waiting_pods] == [("a", 3)]
    assert run.waiting_pods[0].reason == "the gang needs 3 slots in one example.com/rack, the most there are is 2"


def test_gangs_of_a_workload_are_its_pods_in_their_order(tmp_path: Path) -> None:
    text = TWO_GANGS.replace(
        "replicas: 3, gang: {}, arrive: {every: 1s}", "replicas: 4, gang: {size: 2, preferred: example.com/rack}"
    )
    run = ran(tmp_path, text, "bayplan")
    assert (run.gangs, run.gangs_whole, run.domains_per_gang) == (4, 4, 1.0)


@pytest.mark.parametrize(
    "gang, problem",
    [
        ("{size: 2}", "workloads[0].gang.size: 2 does not divide the 3 replicas"),
        ("{size: 0}", "workloads[0].gang.size"),
        ("{required: rack}", 'workloads[0].gang: "rack" is not among levels: example.com/rack, kubernetes.io/hostname'),
        ("{sise: 3}", "workloads[0].gang.sise: is unknown: did you mean size?"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, gang: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        ran(tmp_path, TWO_GANGS.replace("gang: {}", f"gang: {gang}", 1), "bayplan")
    assert problem in str(raised.value)
