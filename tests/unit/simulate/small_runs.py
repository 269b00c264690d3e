"""Runs of a scenario with three nodes, made by hand: what a simulation would hand over.

Each node has two zones of 16 CPUs. Pods of 12 CPUs fit once into a zone. The blind scheduler sees only sums and loses
pods; bayplan places all six.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bayplan.cluster.reports.kubelet_settings import KubeletSettings
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.simulate.kubelet.configuration import KubeletConfiguration
from bayplan.simulate.kubelet.machine import Machine
from bayplan.simulate.results.comparison import Comparison
from bayplan.simulate.run import KubeletRefusal, Moment, Run, Waiting, WorkloadResult
from bayplan.simulate.scenario.model import Kind, Scenario, ScenarioPod, SimulatedNode, Workload
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.objects import Amounts, simple_pod, topology, zone

NODES = ("telco-1", "telco-2", "amd-1")
UPF: Amounts = {"cpu": 12, "memory": "8Gi"}
TOPOLOGY_AFFINITY = "TopologyAffinityError"
MESSAGE = "Resources cannot be allocated with Topology locality"


def bound(name: str, node: str, zone_id: int) -> Pod:
    """A running pod that says where it stands."""
    return simple_pod(UPF, name, nodeName=node, annotations={"bayplan.io/numa-zones": f'{{"main": [{zone_id}]}}'})


def state_of(places: Mapping[str, tuple[str, int]]) -> ClusterState:
    """The three nodes with pods in zones: `{"upf-0": ("telco-1", 0)}`."""

    def zone_of(node: str, number: int) -> Json:
        pods = list(places.values()).count((node, number))
        distances = {number: 10, 1 - number: 21}
        return zone(
            number, {"cpu": (16, 16, 16 - 12 * pods), "memory": ("64Gi", "64Gi", f"{64 - 8 * pods}Gi")}, distances
        )

    reports = [topology(zone_of(node, 0), zone_of(node, 1), name=node) for node in NODES]
    return cluster(*reports, pods=[bound(name, *place) for name, place in places.items()])


def refusals(number: int, node: str = "telco-1", reason: str = TOPOLOGY_AFFINITY) -> tuple[KubeletRefusal, ...]:
    """So many refusals of one workload's pods, one each second."""
    return tuple(
        KubeletRefusal(float(second), f"telco/upf-{second}", "telco/upf", node, reason, MESSAGE)
        for second in range(1, number + 1)
    )


def line(*moments: tuple[float, int, int, int]) -> tuple[Moment, ...]:
    """A time line of (at, running, waiting, refused)."""
    return tuple(
        Moment(at, running, waiting, refused, 0, running / 8, running / 16) for at, running, waiting, refused in moments
    )


def a_run(scheduler: str = "bayplan", **changes: Any) -> Run:
    """A run in which all six pods run at once and none is refused."""
    run = Run(
        scheduler=scheduler,
        nodes=3,
        wanted=6,
        arrived=6,
        running=6,
        finished=0,
        waiting=0,
        given_up=0,
        attempts=6,
        refused={},
        all_running_at=3.0,
        ended_at=130.0,
        interrupted=False,
        cpu_share=0.75,
        memory_share=0.125,
        peak_cpu_share=0.75,
        zones_per_pod=1.0,
        distance=10.0,
        timeline=line((0, 0, 0, 0), (1, 4, 2, 0), (3, 6, 0, 0)),
        refusals=(),
        waiting_pods=(),
        workloads=(WorkloadResult("telco/upf", "ReplicaSet", 6, 6, 0, 0, 0, 0),),
        state=state_of({f"upf-{number}": (NODES[number // 2], number % 2) for number in range(6)}),
    )
    return replace(run, **changes)


def blind_run(**changes: Any) -> Run:
    """Four of six pods run; a runaway set of the fifth was refused forty times, the sixth waits."""
    lost = {
        "running": 4,
        "waiting": 2,
        "attempts": 46,
        "refused": {TOPOLOGY_AFFINITY: 38, "UnexpectedAdmissionError": 2},
        "all_running_at": None,
        "cpu_share": 0.5,
        "memory_share": 0.0833,
        "zones_per_pod": 1.5,
        "distance": 13.25,
        "timeline": line((0, 0, 0, 0), (1, 3, 3, 1), (3, 4, 2, 10), (130, 4, 2, 40)),
        "refused_by_node": {"telco-1": 38, "amd-1": 2},
        "refusals": (*refusals(38), *refusals(2, "amd-1", "UnexpectedAdmissionError")),
        "waiting_pods": (Waiting("telco/upf", 2, "0/3 nodes are available: 3 Insufficient cpu."),),
        "workloads": (WorkloadResult("telco/upf", "ReplicaSet", 6, 4, 0, 2, 0, 40),),
        "state": state_of(
            {"upf-0": ("telco-1", 0), "upf-1": ("telco-2", 0), "upf-2": ("telco-2", 1), "upf-3": ("amd-1", 0)}
        ),
    }
    return a_run("blind", **{**lost, **changes})


def a_scenario(**changes: Any) -> Scenario:
    """Three nodes in two groups, six pods that arrive at once."""
    kubelet = KubeletConfiguration(KubeletSettings())
    nodes = tuple(SimulatedNode(name, name.partition("-")[0], Machine((), ()), kubelet) for name in NODES)
    upf = Workload("upf", Kind.REPLICA_SET, simple_pod(UPF), (ScenarioPod(0.0),) * 6)
    return replace(Scenario("telco-edge", nodes, (upf,), seed=7, report_delay=5.0), **changes)


def a_comparison(*runs: Run, scenario: Scenario | None = None, not_run: Sequence[str] = ()) -> Comparison:
    """The blind scheduler and bayplan, unless a test says otherwise."""
    return Comparison(scenario or a_scenario(), runs or (blind_run(), a_run()), tuple(not_run))
