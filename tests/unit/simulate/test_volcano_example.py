"""The training job of `examples/volcano`: workers in one NUMA zone beside best-effort parameter servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.simulate.run import Run
from bayplan.simulate.scenario.reader import read_scenario
from bayplan.simulate.schedulers import BLIND, NUMA_AWARE, ON_REQUEST, SCHEDULERS, VOLCANO
from bayplan.simulate.simulation import Simulation

TRAINING = Path(__file__).parents[3] / "examples" / "volcano" / "training.yaml"


def happened(scheduler: str) -> Run:
    simulation = Simulation(read_scenario(TRAINING), scheduler)
    while simulation.step():
        pass
    return simulation.result()


@pytest.mark.parametrize(
    "scheduler, some_refused",
    [
        pytest.param(BLIND, True, id="zones are not known"),
        pytest.param(VOLCANO, True, id="memory is forgotten"),
        pytest.param(NUMA_AWARE, False, id="the kubelet is asked"),
    ],
)
def test_workers_refused_by_their_kubelet(scheduler: str, *, some_refused: bool) -> None:
    run = happened(scheduler)
    by_workload = {outcome.name: outcome.refused for outcome in run.workloads}
    assert (by_workload["worker"] > 0) is some_refused
    assert run.running + run.finished == run.wanted


@pytest.mark.parametrize("scheduler", [VOLCANO, NUMA_AWARE])
def test_pods_with_a_policy_stand_on_nodes_that_have_it(scheduler: str) -> None:
    run = happened(scheduler)
    nodes = {run.state.names[placed.row] for key, placed in run.state.pods.items() if "ps-" in key}
    assert nodes
    assert all(node.startswith("loose") for node in nodes)


def test_they_are_compared_only_on_request() -> None:
    assert set(ON_REQUEST) == {VOLCANO, NUMA_AWARE}
    assert not set(ON_REQUEST) & set(SCHEDULERS)


def test_a_dump_with_numatopologies_is_a_start(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    pod = "{resources: {cpu: 4, memory: 4Gi}}"
    file.write_text(f"cluster: {TRAINING.parent / 'cluster.yaml'}\nworkloads: [{{name: w, pod: {pod}}}]\n")
    nodes = read_scenario(file).nodes
    assert [(node.name, len(node.machine.zones), len(node.machine.cpus)) for node in nodes] == [
        ("node-a", 4, 36),
        ("node-b", 4, 20),
        ("node-c", 4, 36),
    ]
