"""What a node agent says about a virtual kubelet, read as any report is read: nothing lost, nothing made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bayplan.cluster.reports.inventory import ListedDevice, cpu_set
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.cluster.reports.topology_report import TopologyReport, read_report
from bayplan.kube.wire.core_v1 import Taint
from bayplan.simulate.kubelet import Machine, MachineDevice, VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from tests.builders.bodies import Json
from tests.builders.clusters import cluster, free_on
from tests.builders.objects import GI, GPU, Amounts, container
from tests.unit.simulate.kubelet.nodes import HUGE, guaranteed, kubelet, machine, request


def plain(of: VirtualKubelet) -> TopologyReport:
    return read_report(NodeAgent("n1", of).topology(complete=False))


def complete(of: VirtualKubelet) -> TopologyReport:
    report = read_report(NodeAgent("n1", of).topology(complete=True))
    assert report.remarks == []
    return report


def amounts(report: TopologyReport, resource: str) -> list[tuple[int, int, int] | None]:
    """Capacity, allocatable and available in each zone; None where a zone does not have the resource."""
    found = [zone.resources.get(resource) for zone in report.zones]
    return [None if each is None else (each.capacity, each.allocatable, each.available) for each in found]


def admit(node: VirtualKubelet, key: str, asked: Amounts) -> None:
    assert node.admit(key, guaranteed(asked)).admitted


class TestTheNode:
    def test_has_what_pods_may_use_in_sum(self) -> None:
        agent = NodeAgent("n1", kubelet(machine(gpus=[[0], [1]])))
        state = cluster(nodes=[agent.node])
        assert [free_on(state, "n1", name) for name in ("cpu", "memory", "pods", GPU)] == [15_000, 31 * GI, 110, 2]

    def test_has_its_host_name_beside_its_labels(self) -> None:
        agent = NodeAgent("n1", kubelet(), {"rack": "a"})
        assert agent.node.metadata.labels == {"kubernetes.io/hostname": "n1", "rack": "a"}

    def test_may_be_tainted_and_closed(self) -> None:
        taint = Taint(key="gpu", effect="NoSchedule")
        spec = NodeAgent("n1", kubelet(), taints=(taint,), unschedulable=True).node.spec
        assert (spec.taints, spec.unschedulable) == ([taint], True)


class TestThePlainReport:
    """What agents publish today."""

    def test_has_policy_and_scope_and_says_nothing_of_managers(self) -> None:
        settings = plain(kubelet(policy=Policy.RESTRICTED, scope=Scope.POD)).settings
        assert (settings.policy, settings.scope) == (Policy.RESTRICTED, Scope.POD)
        assert (settings.cpu_static, settings.memory_static, settings.threads_per_core) == (None, None, None)

    def test_has_no_names(self) -> None:
        report = plain(kubelet(machine(gpus=[[0]])))
        assert (report.inventory, report.pods, report.zones[0].memory_group) == (None, None, None)

    def test_has_capacity_allocatable_and_available_in_every_zone(self) -> None:
        """CPU 0 and 1Gi of zone 0 are reserved; a pod has 4 CPUs, 2Gi and a GPU of it."""
        node = kubelet(machine(gpus=[[0], [0], [1]]))
        admit(node, "default/web", {"cpu": 4, "memory": "2Gi", GPU: 1})
        report = plain(node)
        assert amounts(report, "cpu") == [(8000, 7000, 3000), (8000, 8000, 8000)]
        assert amounts(report, "memory") == [(16 * GI, 15 * GI, 13 * GI), (16 * GI, 16 * GI, 16 * GI)]
        assert amounts(report, GPU) == [(2, 2, 1), (1, 1, 1)]
        assert report.remarks == []

    def test_has_distances(self) -> None:
        assert [zone.costs for zone in plain(kubelet()).zones] == [{0: 10, 1: 11}, {0: 11, 1: 10}]

    def test_counts_huge_pages_apart_from_memory(self) -> None:
        node = kubelet(machine(huge_pages=4))
        admit(node, "default/web", {"cpu": 1, "memory": "1Gi", HUGE: "2Gi"})
        assert amounts(plain(node), HUGE) == [(4 * GI, 4 * GI, 2 * GI), (4 * GI, 4 * GI, 4 * GI)]
        assert amounts(plain(node), "memory")[1] == (16 * GI, 12 * GI, 12 * GI)

    def test_has_no_memory_where_its_manager_does_not_run(self) -> None:
        assert amounts(plain(kubelet(memory=False)), "memory") == [None, None]

    def test_shows_all_cpus_free_without_exclusive_owners(self) -> None:
        node = kubelet(cpu=False)
        admit(node, "default/web", {"cpu": 4, "memory": "2Gi"})
        assert amounts(plain(node), "cpu") == [(8000, 8000, 8000), (8000, 8000, 8000)]

    def test_has_no_cpus_in_a_zone_of_memory_only(self) -> None:
        assert amounts(plain(kubelet(machine(memory_only_zones=1))), "cpu")[2] is None

    def test_counts_a_broken_device_as_capacity_only(self) -> None:
        assert amounts(plain(kubelet(with_devices(("gpu-0", (0,), False), ("gpu-1", (0,), True)))), GPU) == [
            (2, 1, 1),
            None,
        ]

    def test_counts_a_device_between_zones_in_each_and_one_that_is_nowhere_in_none(self) -> None:
        node = kubelet(with_devices(("gpu-0", (0, 1), True), ("gpu-1", (), True)))
        assert amounts(plain(node), GPU) == [(1, 1, 1), (1, 1, 1)]

    def test_is_true_for_the_moment_it_was_made(self) -> None:
        node = kubelet()
        agent = NodeAgent("n1", node)
        before = agent.topology(complete=True)
        admit(node, "default/web", {"cpu": 4, "memory": "2Gi"})
        assert amounts(read_report(before), "cpu")[0] == (8000, 7000, 7000)
        assert read_report(before).pods == {}


def with_devices(*devices: tuple[str, tuple[int, ...], bool]) -> Machine:
    """Ids, zones and health of GPUs."""
    return replace(machine(), devices={GPU: tuple(MachineDevice(*device) for device in devices)})


class TestTheCompleteReport:
    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"policy": Policy.SINGLE_NUMA_NODE, "scope": Scope.POD},
            {"policy": Policy.BEST_EFFORT, "prefer_closest": True, "max_numa_nodes": 16},
            {"policy": Policy.NONE, "cpu": False, "memory": False},
            {"options": ("full-pcpus-only", "strict-cpu-reservation")},
            {"options": ("distribute-cpus-across-numa",), "memory": False},
        ],
    )
    def test_tells_how_the_kubelet_is_configured(self, settings: dict[str, Any]) -> None:
        node = kubelet(**settings)
        assert complete(node).settings == replace(node.configuration.settings, threads_per_core=2)

    @pytest.mark.parametrize("threads", [1, 2, 3, 4])
    def test_tells_threads_per_core_by_its_list_of_cpus(self, threads: int) -> None:
        assert complete(kubelet(machine(threads=threads))).settings.threads_per_core == threads

    def test_shows_the_same_amounts_as_the_plain_one(self) -> None:
        node = kubelet(machine(gpus=[[0]], huge_pages=2))
        admit(node, "default/web", {"cpu": 4, "memory": "2Gi", GPU: 1})
        assert [zone.resources for zone in complete(node).zones] == [zone.resources for zone in plain(node).zones]

    def test_names_every_cpu_and_which_are_free(self) -> None:
        node = kubelet(machine(zones=4, zones_per_socket=2, cores_per_cache=2))
        admit(node, "default/web", {"cpu": 2, "memory": "1Gi"})
        listed = complete(node).inventory
        assert listed is not None
        cpus = node.machine.cpus
        assert listed.cpus.core == tuple(cpu.core for cpu in cpus)
        assert listed.cpus.socket == tuple(cpu.socket for cpu in cpus)
        assert listed.cpus.numa == tuple(cpu.zone for cpu in cpus)
        assert listed.cpus.l3 == tuple(cpu.cache for cpu in cpus)
        assert (listed.reserved_cpus, listed.free_cpus) == (cpu_set("0"), cpu_set("2-16,18-31"))

    def test_shows_all_but_reserved_cpus_as_free_without_exclusive_owners(self) -> None:
        listed = complete(kubelet(cpu=False)).inventory
        assert listed is not None
        assert (listed.free_cpus, listed.reserved_cpus) == (cpu_set("0-15"), 0)

    def test_names_every_device_and_its_state(self) -> None:
        node = kubelet(with_devices(("a", (0,), True), ("b", (0, 1), True), ("c", (1,), False), ("d", (), True)))
        admit(node, "default/web", {"cpu": 1, "memory": "1Gi", GPU: 1})
        listed = complete(node).inventory
        assert listed is not None
        assert listed.devices[GPU] == (
            ListedDevice("a", (0,), "used"),
            ListedDevice("b", (0, 1), "free"),
            ListedDevice("c", (1,), "unhealthy"),
            ListedDevice("d", (), "free"),
        )

    def test_tells_which_zones_are_used_together_and_only_while_they_are(self) -> None:
        node = kubelet()
        assert [zone.memory_group for zone in complete(node).zones] == [None, None]
        admit(node, "default/wide", {"cpu": 10, "memory": "20Gi"})
        assert [zone.memory_group for zone in complete(node).zones] == [(0, 1), (0, 1)]
        node.remove("default/wide")
        admit(node, "default/narrow", {"cpu": 1, "memory": "1Gi"})
        assert [zone.memory_group for zone in complete(node).zones] == [(0,), None]


class TestPodsInTheCompleteReport:
    def test_are_listed_with_what_they_hold_and_where(self) -> None:
        node = kubelet(machine(gpus=[[1]]))
        admit(node, "default/cpus", {"cpu": 4, "memory": "2Gi"})
        admit(node, "default/gpu", {"cpu": 1, "memory": "1Gi", GPU: 1})
        assert complete(node).pods == {
            "default/cpus": {"cpu": {0: 4000}, "memory": {0: 2 * GI}},
            "default/gpu": {"cpu": {1: 1000}, "memory": {1: GI}, GPU: {1: 1}},
        }

    def test_are_listed_even_if_they_hold_nothing(self) -> None:
        node = kubelet()
        assert node.admit("default/web", request(container(requests={"cpu": 1}, limits={"cpu": 2}))).admitted
        assert complete(node).pods == {"default/web": {}}

    def test_are_no_longer_listed_when_they_have_ended(self) -> None:
        node = kubelet()
        admit(node, "default/web", {"cpu": 4, "memory": "2Gi"})
        node.remove("default/web")
        assert complete(node).pods == {}

    def test_hold_memory_over_zones_in_even_shares(self) -> None:
        """The kubelet keeps only the sum of it."""
        node = kubelet()
        admit(node, "default/wide", {"cpu": 10, "memory": "20Gi"})
        pods = complete(node).pods
        assert pods is not None
        assert pods["default/wide"] == {"cpu": {0: 2000, 1: 8000}, "memory": {0: 10 * GI, 1: 10 * GI}}

    def test_hold_a_device_between_zones_in_each_of_them(self) -> None:
        node = kubelet(with_devices(("a", (0, 1), True)))
        admit(node, "default/web", {"cpu": 1, "memory": "1Gi", GPU: 1})
        assert NodeAgent("n1", node).holdings("default/web")[GPU] == {0: 1, 1: 1}

    def test_hold_what_init_containers_had_until_they_start_and_cpus_to_the_end(self) -> None:
        node = kubelet(machine(gpus=[[0], [0]]))
        first = container({"cpu": 4, "memory": "4Gi", GPU: 2}, "first")
        assert node.admit("default/web", guaranteed({"cpu": 2, "memory": "1Gi", GPU: 1}, init=[first])).admitted
        agent = NodeAgent("n1", node)
        assert agent.holdings("default/web") == {"cpu": {0: 4000}, "memory": {0: 4 * GI}, GPU: {0: 2}}
        node.start("default/web")
        assert agent.holdings("default/web") == {"cpu": {0: 4000}, "memory": {0: GI}, GPU: {0: 2}}

    @pytest.mark.parametrize(
        "containers",
        [
            pytest.param([container({}, "a"), container({}, "b")], id="two containers share all of it"),
            pytest.param([container({"cpu": 1, "memory": "1Gi"}, "a"), container({}, "b")], id="one has a part of it"),
            pytest.param([container({"cpu": 1, "memory": "1Gi"}, "a")], id="a part without an owner"),
        ],
    )
    def test_with_resources_of_their_own_hold_each_byte_once(self, containers: list[Json]) -> None:
        node = kubelet(scope=Scope.POD, pod_level_managers=True)
        whole = {"cpu": 4, "memory": "4Gi"}
        lot = request(*containers, resources={"requests": whole, "limits": whole})
        assert node.admit("default/lot", lot).admitted
        assert NodeAgent("n1", node).holdings("default/lot")["memory"] == {0: 4 * GI}
        assert amounts(plain(node), "memory")[0] == (16 * GI, 15 * GI, 11 * GI)


class TestZonesByContainer:
    def test_are_those_in_which_a_container_holds_anything(self) -> None:
        node = kubelet(machine(gpus=[[1]]), policy=Policy.BEST_EFFORT)
        lot = request(
            container({"cpu": 6, "memory": "1Gi"}, "a"),
            container({"cpu": 6, "memory": "1Gi"}, "b"),
            container({"cpu": "500m", "memory": "1Gi", GPU: 1}, "c"),
        )
        assert node.admit("default/lot", lot).admitted
        assert NodeAgent("n1", node).zones_by_container("default/lot") == {"a": [0], "b": [1], "c": [1]}

    def test_leave_out_who_holds_nothing(self) -> None:
        node = kubelet(memory=False)
        lot = request(container({"cpu": 2, "memory": "1Gi"}, "a"), container({"cpu": "500m", "memory": "1Gi"}, "b"))
        assert node.admit("default/lot", lot).admitted
        assert NodeAgent("n1", node).zones_by_container("default/lot") == {"a": [0]}
