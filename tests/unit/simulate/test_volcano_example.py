"""The scenarios of `examples/volcano`: a training job, and pods that are admitted in another order than they were
decided about.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bayplan.cluster.reports.pod_zones import NUMA_ZONES
from bayplan.simulate.run import Run
from bayplan.simulate.scenario.reader import read_scenario
from bayplan.simulate.schedulers import BLIND, NUMA_AWARE, ON_REQUEST, SCHEDULERS, UNCACHED, UNORDERED, VOLCANO
from bayplan.simulate.simulation import Simulation

EXAMPLES = Path(__file__).parents[3] / "examples" / "volcano"
TRAINING, ORDER = EXAMPLES / "training.yaml", EXAMPLES / "order.yaml"


def happened(scheduler: str, file: Path = TRAINING, report_delay: float | None = None) -> Run:
    simulation = Simulation(read_scenario(file), scheduler, report_delay)
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


class TestTheOrderOfAdmission:
    """On each of four nodes a notebook that came first and two workers that are more important; CPUs are tight in both
    zones.
    """

    @pytest.mark.parametrize(
        "scheduler, refused, not_as_decided, waiting",
        [
            pytest.param(VOLCANO, 4, 8, 4, id="Volcano binds what it decided at once"),
            pytest.param(UNORDERED, 4, 8, 4, id="bayplan would fare no better that way"),
            pytest.param(NUMA_AWARE, 0, 0, 0, id="in the order of decisions"),
        ],
    )
    def test_what_kubelets_make_of_it(self, scheduler: str, refused: int, not_as_decided: int, waiting: int) -> None:
        run = happened(scheduler, ORDER)
        assert (run.refusals_in_all, run.zones_not_as_decided, run.waiting) == (refused, not_as_decided, waiting)
        assert {refusal.workload for refusal in run.refusals} <= {"worker"}

    @pytest.mark.parametrize(
        "scheduler, zones",
        [
            pytest.param(UNORDERED, {"notebook": "[0]", "worker": "[1]"}, id="by age"),
            pytest.param(NUMA_AWARE, {"notebook": "[1]", "worker": "[0] [1]"}, id="as decided"),
        ],
    )
    def test_who_gets_which_zone(self, scheduler: str, zones: dict[str, str]) -> None:
        run = happened(scheduler, ORDER)
        found: dict[str, set[str]] = {}
        for pod in run.state.bound.values():
            written = (pod.metadata.annotations or {})[NUMA_ZONES]
            for container, of_container in msgspec.json.decode(written).items():
                found.setdefault(container, set()).add(str(of_container))
        assert {name: " ".join(sorted(each)) for name, each in found.items()} == zones


class TestIssue5500:
    """Pods come and go faster than nodes report themselves: three seconds late."""

    FILE = EXAMPLES / "issues" / "5500.yaml"

    def all_started(self, scheduler: str, report_delay: float) -> float:
        run = happened(scheduler, self.FILE, report_delay)
        assert (run.refusals, run.finished) == ((), run.wanted)
        assert run.all_running_at is not None
        return run.all_running_at

    def test_late_reports_cost_no_pod_and_no_time(self) -> None:
        assert self.all_started(NUMA_AWARE, 3.0) == pytest.approx(self.all_started(NUMA_AWARE, 0.0), abs=1.0)

    @pytest.mark.parametrize("scheduler", [UNCACHED, VOLCANO])
    def test_who_waits_for_reports_lets_pods_wait_for_zones_that_are_free(self, scheduler: str) -> None:
        assert self.all_started(scheduler, 3.0) > self.all_started(scheduler, 0.0) + 20.0


def test_they_are_compared_only_on_request() -> None:
    assert set(ON_REQUEST) == {UNCACHED, VOLCANO, UNORDERED, NUMA_AWARE}
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
