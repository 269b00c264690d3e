"""Zones and charges on a node that lists its CPUs and devices: what its kubelet will do, to the last CPU.

A kubelet and its agent speak for the node. Each case is decided twice, by amounts with all settings known, and by the
complete report; then the kubelet itself is asked. Amounts leave open what the names decide.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from bayplan.cluster.reports import inventory
from bayplan.cluster.reports.kubelet_settings import Assumptions, KubeletSettings, Policy
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.engine.kubelet import REPORT_BEHIND
from bayplan.engine.numa.placement import Placement, knowledge_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology, resources_of, zones_of
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.simulate.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.configuration import KubeletConfiguration
from bayplan.simulate.kubelet.machine import Machine, MachineDevice
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.machine_text import machine_of
from tests.builders.clusters import cluster, decide, place
from tests.builders.objects import GI, GPU, simple_pod, topology, zone

Taken = dict[tuple[str, int], int]

NAMES = (inventory.CPUS, inventory.FREE_CPUS, inventory.RESERVED_CPUS, inventory.DEVICES, inventory.PODS)
TWO_SOCKETS = "pack:2 numa:2 core:4 pu:2 mem:8Gi gpu:1@numa"
ONE_SOCKET = "pack:1 numa:2 core:4 pu:2 mem:8Gi"


def agent_of(
    machine: Machine | str, policy: Policy, *options: str, reserved: tuple[int, ...] = (0,), memory: bool = False
) -> NodeAgent:
    settings = KubeletSettings(policy, cpu_static=True, cpu_options=frozenset(options), memory_static=memory)
    machine = machine_of(machine) if isinstance(machine, str) else machine
    configuration = KubeletConfiguration(settings, frozenset(reserved), reserved_memory={0: {"memory": GI}})
    return NodeAgent("n1", VirtualKubelet(machine, configuration))


def with_devices(text: str, *devices: MachineDevice) -> Machine:
    return replace(machine_of(text), devices={GPU: devices})


def without_names(report: NodeResourceTopology) -> NodeResourceTopology:
    kept = [attribute for attribute in report.attributes or [] if attribute.name not in NAMES]
    return msgspec.structs.replace(report, attributes=kept)


def without_capacity_of_broken(report: NodeResourceTopology) -> NodeResourceTopology:
    """As agents do that count only devices which can be used."""
    zones = [
        msgspec.structs.replace(
            each,
            resources=[msgspec.structs.replace(found, capacity=found.allocatable) for _, found in resources_of(each)],
        )
        for each in zones_of(report)
    ]
    return msgspec.structs.replace(report, zones=zones)


def placed(report: NodeResourceTopology, agent: NodeAgent, waiting: Pod) -> Placement:
    state = cluster(report, nodes=[agent.node])
    return NodeResourceTopologyMatch().place(state, state.classes.of(waiting), 0)


def taken(placement: Placement, agent: NodeAgent) -> Taken | str:
    """Amounts by resource and zone that a placement charges; the reason of a refusal. Shares of memory are unknown."""
    if placement.refusal is not None:
        return placement.refusal.reason
    names = cluster(agent.topology(complete=True), nodes=[agent.node]).columns.resource_names
    charges = {(names[charge.resource], charge.zone): int(charge.amount) for charge in placement.charges}
    return {place: amount for place, amount in charges.items() if place[0] != "memory"}


def really_taken(agent: NodeAgent, waiting: Pod) -> Taken | str:
    """What the kubelet does."""
    request = ClusterState().classes.request_of(waiting)
    admission = agent.kubelet.admit(pod_key(waiting), request)
    if not admission.admitted:
        return admission.reason
    held = agent.holdings(pod_key(waiting))
    return {
        (name, number): amount
        for name, in_zones in held.items()
        if name != "memory"
        for number, amount in in_zones.items()
    }


def cpus(number: int, name: str = "web", *, gpus: int = 0) -> Pod:
    amounts: dict[str, int | str] = {"cpu": number, "memory": "1Gi"}
    return simple_pod(amounts | {GPU: gpus} if gpus else amounts, name)


BETWEEN_ZONES = with_devices(ONE_SOCKET, MachineDevice("gpu-0", (0, 1)), MachineDevice("gpu-1", (1,)))


class TestNamesTellWhatAmountsDoNot:
    @pytest.mark.parametrize(
        "agent, running, asked, by_amounts, really",
        [
            pytest.param(
                agent_of(TWO_SOCKETS, Policy.RESTRICTED, "align-by-socket"),
                0,
                cpus(2, gpus=2),
                "TopologyAffinityError",
                {("cpu", 0): 2000, (GPU, 0): 1, (GPU, 1): 1},
                id="two zones of one socket are as good as one",
            ),
            pytest.param(
                agent_of(ONE_SOCKET, Policy.BEST_EFFORT, "align-by-socket", reserved=(0, 4)),
                4,
                cpus(7),
                {("cpu", 1): 7000},
                {("cpu", 0): 3000, ("cpu", 1): 4000},
                id="CPUs come from the whole socket",
            ),
            pytest.param(
                agent_of(ONE_SOCKET, Policy.RESTRICTED, "distribute-cpus-across-cores", reserved=(0, 4)),
                0,
                cpus(9),
                {("cpu", 0): 7000, ("cpu", 1): 2000},
                {("cpu", 0): 6000, ("cpu", 1): 3000},
                id="other cores come before sibling threads",
            ),
            pytest.param(
                agent_of(BETWEEN_ZONES, Policy.SINGLE_NUMA_NODE),
                0,
                cpus(2, gpus=1),
                {("cpu", 0): 2000, (GPU, 0): 1},
                {("cpu", 0): 2000, (GPU, 0): 1, (GPU, 1): 1},
                id="a device between zones is missed in both",
            ),
            pytest.param(
                agent_of("core:4 pu:2 mem:8Gi", Policy.SINGLE_NUMA_NODE, "full-pcpus-only", reserved=(0, 1)),
                0,
                cpus(6),
                {("cpu", 0): 6000},
                "SMTAlignmentError",
                id="two reserved threads spoil two cores",
            ),
        ],
    )
    def test_in_these_cases(
        self, agent: NodeAgent, running: int, asked: Pod, by_amounts: Taken | str, really: Taken | str
    ) -> None:
        if running:
            really_taken(agent, cpus(running, "running"))
        report = agent.topology(complete=True)
        assert taken(placed(without_names(report), agent, asked), agent) == by_amounts
        assert taken(placed(report, agent, asked), agent) == really
        assert really_taken(agent, asked) == really

    def test_a_broken_device_still_makes_its_zone_look_large_enough(self) -> None:
        """Two GPUs are in zone 0, one of them broken: so one zone could hold two, and
        restricted wants no larger set.
        """
        broken = MachineDevice("gpu-0", (0,), healthy=False)
        machine = with_devices(ONE_SOCKET, broken, MachineDevice("gpu-1", (0,)), MachineDevice("gpu-2", (1,)))
        agent, asked = agent_of(machine, Policy.RESTRICTED), simple_pod({"cpu": "500m", "memory": "1Gi", GPU: 2})
        report = without_capacity_of_broken(agent.topology(complete=True))
        assert taken(placed(without_names(report), agent, asked), agent) == {(GPU, 0): 1, (GPU, 1): 1}
        assert taken(placed(report, agent, asked), agent) == really_taken(agent, asked) == "TopologyAffinityError"


class TestWhileTheReportIsBehind:
    """CPUs and devices of pods that were promised and not yet listed have no names."""

    WIDE = cpus(12, "wide")

    def state(self, *, waits: bool) -> tuple[ClusterState, NodeAgent]:
        agent = agent_of(ONE_SOCKET, Policy.RESTRICTED, reserved=(0, 8))
        state = cluster(agent.topology(complete=True), nodes=[agent.node])
        state.freshness.waits_for_reports = waits
        return state, agent

    def test_who_needs_names_waits_for_the_next_report(self) -> None:
        state, agent = self.state(waits=True)
        place(state, cpus(2, "first"))
        refused = NodeResourceTopologyMatch().place(state, state.classes.of(self.WIDE), 0).refusal
        assert refused is not None
        assert refused.reason == REPORT_BEHIND
        decision = decide(state, self.WIDE)
        assert decision.shortfall is not None
        assert "waits for the node's next report" in str(decision.shortfall)
        agent.kubelet.admit("default/first", state.classes.request_of(cpus(2)))
        state.set_topology(agent.topology(complete=True))
        assert decide(state, self.WIDE).placed

    def test_who_needs_amounts_only_does_not(self) -> None:
        state, _ = self.state(waits=True)
        place(state, cpus(2, "first"))
        place(state, cpus(2, "second"))

    def test_so_does_a_pod_that_ended_and_is_still_listed(self) -> None:
        state, agent = self.state(waits=True)
        place(state, cpus(2, "first"))
        agent.kubelet.admit("default/first", state.classes.request_of(cpus(2)))
        state.set_topology(agent.topology(complete=True))
        state.remove_pod("default/first")
        assert not decide(state, self.WIDE).placed

    def test_who_does_not_wait_goes_by_amounts(self) -> None:
        state, _ = self.state(waits=False)
        place(state, cpus(2, "first"))
        node = knowledge_of(state, 0, Assumptions())
        assert node is not None
        assert (node.reserved_cpus, node.free_cpus.bit_count()) == (0, 12)
        assert decide(state, self.WIDE).placed


class TestAnInventoryThatIsNotComplete:
    def test_devices_that_only_zones_report_are_known_by_number(self) -> None:
        """The agent lists CPUs and leaves out devices. They are as real as before."""
        agent = agent_of(TWO_SOCKETS, Policy.SINGLE_NUMA_NODE)
        report = agent.topology(complete=True)
        kept = [each for each in report.attributes or [] if each.name != inventory.DEVICES]
        state = cluster(msgspec.structs.replace(report, attributes=kept), nodes=[agent.node])
        node = knowledge_of(state, 0, Assumptions())
        assert node is not None
        assert len(node.devices[GPU]) == 4

    @pytest.mark.parametrize(
        "attribute, text",
        [
            (inventory.CPUS, '{"core": [0, 1], "socket": [0, 0], "zone": [0, 7], "cache": [0, 0]}'),
            (inventory.DEVICES, '{"example.com/gpu": [["gpu-0", [7], "free"]]}'),
        ],
    )
    def test_zones_that_the_report_does_not_have_make_it_useless(self, attribute: str, text: str) -> None:
        listed = {
            inventory.CPUS: '{"core": [0, 1], "socket": [0, 0], "zone": [0, 0], "cache": [0, 0]}',
            inventory.FREE_CPUS: "0-1",
            inventory.DEVICES: '{"example.com/gpu": [["gpu-0", [], "free"]]}',
            attribute: text,
        }
        state = cluster(topology(zone(0, {"cpu": 2, "memory": "8Gi", GPU: 1}), policy="none", attributes=listed))
        place(state, cpus(2, gpus=1))


class TestPolicyNone:
    """Such a kubelet aligns nothing, but its Memory Manager takes memory from zones all the same."""

    def test_memory_comes_from_the_lowest_zone_that_holds_it(self) -> None:
        agent = agent_of(ONE_SOCKET, Policy.NONE, memory=True)
        state = cluster(agent.topology(complete=True), nodes=[agent.node])
        for number, gibibytes in enumerate((6, 6, 1, 2)):
            waiting = simple_pod({"cpu": 1, "memory": f"{gibibytes}Gi"}, f"pod-{number}")
            decision = place(state, waiting)
            agent.kubelet.admit(decision.pod, state.classes.request_of(waiting))
            memory = state.columns.resource_index["memory"]
            charged = {charge.zone: int(charge.amount) for charge in decision.charges if charge.resource == memory}
            assert charged == agent.holdings(decision.pod)["memory"] == {(0, 1, 0, 1)[number]: gibibytes * GI}

    def test_memory_that_no_zone_holds_is_replayed(self) -> None:
        agent = agent_of(ONE_SOCKET, Policy.NONE, memory=True)
        state = cluster(agent.topology(complete=True), nodes=[agent.node])
        decision = place(state, simple_pod({"cpu": 1, "memory": "12Gi"}))
        assert not decision.by_amounts
        memory = state.columns.resource_index["memory"]
        charged = {charge.zone: int(charge.amount) for charge in decision.charges if charge.resource == memory}
        assert charged == {0: 7 * GI, 1: 5 * GI}
