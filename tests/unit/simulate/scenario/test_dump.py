"""A recorded cluster as the start: machines rebuilt from reports, pods that run, pods that wait."""

import re
from pathlib import Path

import msgspec
import pytest

from bayplan.cluster.pods.request import effective_request
from bayplan.cluster.reports.inventory import CPUS, DEVICES, FREE_CPUS, RESERVED_CPUS
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.cluster.reports.topology_report import read_report
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.scenario.dump import RecordedCluster, read_cluster
from bayplan.simulate.scenario.recorded_machine import RecordedMachine, machine_from_report, machine_without_report
from tests.builders.objects import GI, GPU, node, simple_pod, topology, zone
from tests.unit.simulate.scenario.files import faults, remarks, scenario

MANAGERS = {"cpuManagerPolicy": "static", "memoryManagerPolicy": "Static"}
AMOUNTS = {
    "cpu": ("16", "14", "3"),
    "memory": ("64Gi", "46Gi", "1Gi"),
    "hugepages-1Gi": ("16Gi", "16Gi", "0"),
    GPU: ("2", "2", "0"),
}
TWO_ZONES = (zone(0, AMOUNTS, {0: 10, 1: 21}), zone(1, AMOUNTS, {0: 21, 1: 10}))
ALLOCATABLE = {"cpu": 28_000, "memory": 92 * GI, "hugepages-1Gi": 32 * GI, GPU: 4, "pods": 110}


def rebuilt(report: NodeResourceTopology, allocatable: dict[str, int] | None = None) -> RecordedMachine:
    return machine_from_report(read_report(report), allocatable or {})


def recorded(folder: Path, *objects: Node | Pod | NodeResourceTopology) -> RecordedCluster:
    items = [{"kind": type(each).__name__, **msgspec.to_builtins(each)} for each in objects]
    (folder / "dump.json").write_bytes(msgspec.json.encode({"kind": "List", "items": items}))
    return read_cluster(folder / "dump.json")


def test_the_rebuilt_node_can_give_what_the_recorded_one_could() -> None:
    found = rebuilt(topology(*TWO_ZONES, policy="restricted", scope="pod", attributes=MANAGERS), ALLOCATABLE)
    assert VirtualKubelet(found.machine, found.kubelet).allocatable == ALLOCATABLE
    assert found.assumed == ()
    settings = found.kubelet.settings
    assert (settings.policy, settings.scope) == (Policy.RESTRICTED, Scope.POD)
    assert (settings.cpu_static, settings.memory_static) == (True, True)
    assert [zone.distances for zone in found.machine.zones] == [(10, 21), (21, 10)]
    assert found.kubelet.reserved_cpus == {0, 1, 16, 17}


def test_cpus_share_cores_where_the_node_says_so() -> None:
    found = rebuilt(topology(*TWO_ZONES, attributes={**MANAGERS, "bayplan.io/threads-per-core": "2"}))
    assert [cpu.core for cpu in found.machine.cpus] == [*range(16), *range(16)]
    assert found.kubelet.reserved_cpus == {0, 16, 8, 24}


def test_cpus_that_are_offline_are_neither_counted_nor_given_out() -> None:
    listed = {
        CPUS: '{"core": [0, -1, 2, 2], "socket": [0, -1, 1, 1], "zone": [0, -1, 1, 1], "cache": [0, -1, 1, 1]}',
        FREE_CPUS: "2-3",
        RESERVED_CPUS: "0",
    }
    amounts = {"memory": ("4Gi", "3Gi", "3Gi")}
    zones = (zone(0, {**amounts, "cpu": ("1", "0", "0")}), zone(1, {**amounts, "cpu": ("2", "2", "2")}))
    found = rebuilt(topology(*zones, attributes={**MANAGERS, **listed}))
    kubelet = VirtualKubelet(found.machine, found.kubelet)
    assert kubelet.allocatable["cpu"] == 2_000
    admitted = kubelet.admit("default/p", effective_request(simple_pod({"cpu": 2, "memory": "1Gi"})))
    assert [container.cpus for container in admitted.containers] == [(2, 3)]


def test_a_list_of_cpus_and_devices_is_followed_to_the_letter() -> None:
    listed = {
        CPUS: '{"core": [7, 7, 9, 9], "socket": [0, 0, 1, 1], "zone": [0, 0, 1, 1], "cache": [3, 3, 4, 4]}',
        FREE_CPUS: "2-3",
        RESERVED_CPUS: "0",
        DEVICES: f'{{"{GPU}": [["a", [0, 1], "used"], ["b", [1], "unhealthy"]]}}',
    }
    amounts = {"cpu": ("2", "2", "2"), "memory": ("4Gi", "3Gi", "3Gi")}
    found = rebuilt(topology(zone(0, amounts), zone(1, amounts), attributes={**MANAGERS, **listed}))
    assert [(cpu.core, cpu.socket, cpu.cache) for cpu in found.machine.cpus] == [
        (0, 0, 3), (0, 0, 3), (2, 1, 4), (2, 1, 4)
    ]  # fmt: skip
    assert found.kubelet.reserved_cpus == {0}
    assert [(each.id, each.zones, each.healthy) for each in found.machine.devices[GPU]] == [
        ("a", (0, 1), True), ("b", (1,), False)
    ]  # fmt: skip


def test_cpus_that_only_the_node_reserves_are_chosen_by_its_kubelet() -> None:
    report = topology(zone(0, {"cpu": 4, "memory": "8Gi"}), attributes=MANAGERS)
    found = rebuilt(report, {"cpu": 3500})
    assert (found.kubelet.reserved_cpus, found.kubelet.reserved_cpu_milli) == (frozenset(), 500)
    assert VirtualKubelet(found.machine, found.kubelet).allocatable["cpu"] == 3500


def test_devices_that_are_ill_or_in_no_zone() -> None:
    report = topology(zone(0, {"cpu": 4, "memory": "8Gi", GPU: ("3", "2", "2")}), attributes=MANAGERS)
    found = rebuilt(report, {GPU: 3, "example.com/fuse": 2})
    assert [(each.zones, each.healthy) for each in found.machine.devices[GPU]] == [
        ((0,), True), ((0,), True), ((0,), False), ((), True)
    ]  # fmt: skip
    assert [each.zones for each in found.machine.devices["example.com/fuse"]] == [(), ()]


@pytest.mark.parametrize(
    "report, assumed",
    [
        (topology(*TWO_ZONES),
         ["cpuManagerPolicy is not reported: taken as static", "memoryManagerPolicy is not reported: taken as Static"]),
        (topology(zone(0, {"cpu": ("4", "3", "3")}), attributes={"cpuManagerPolicy": "static"}),
         ["memoryManagerPolicy is not reported: taken as None",
          "memory is not reported by zone: taken as equal in all zones"]),
        (topology(zone(0, {"cpu": 4, "memory": "8Gi"}), attributes=MANAGERS),
         ["no reserved CPU is reported, which a static CPU Manager needs: taken as CPU 0"]),
    ],
)  # fmt: skip
def test_what_a_report_leaves_open_is_assumed_and_told(report: NodeResourceTopology, assumed: list[str]) -> None:
    assert list(rebuilt(report, {"memory": 8 * GI}).assumed) == assumed


def test_too_many_zones_to_combine_are_remarked_once_and_not_aligned(tmp_path: Path) -> None:
    zones = [zone(number, {"cpu": 2, "memory": "2Gi"}) for number in range(20)]
    found = recorded(
        tmp_path,
        *(node(name, {"cpu": 39, "memory": "40Gi"}) for name in ("n1", "n2")),
        *(topology(*zones, name=name, policy="restricted", attributes=MANAGERS) for name in ("n1", "n2")),
    )
    assert [len(each.machine.zones) for each in found.nodes] == [1, 1]
    settings = found.nodes[0].kubelet.settings
    assert (settings.policy, settings.cpu_static, settings.memory_static) == (Policy.NONE, False, False)
    (remark,) = found.remarks
    assert remark.startswith(
        "n[1-2]: taken as one zone without alignment: 20 zones are more than this simulator can align"
    )


def test_a_node_without_a_report_is_one_zone_that_aligns_nothing() -> None:
    found = machine_without_report(ALLOCATABLE | {"cpu": 3500})
    assert len(found.machine.zones) == 1
    assert VirtualKubelet(found.machine, found.kubelet).allocatable == ALLOCATABLE | {"cpu": 3500}
    assert found.kubelet.settings.policy is Policy.NONE


def test_absurd_amounts_make_no_absurd_machine() -> None:
    absurd = {"cpu": 10**15, "memory": GI, GPU: 10**9}
    report = topology(zone(0, {"cpu": 10**9, "memory": "1Gi", GPU: 10**9}), attributes=MANAGERS)
    for found in (machine_without_report(absurd), rebuilt(report, absurd)):
        assert len(found.machine.cpus) == 4096
        VirtualKubelet(found.machine, found.kubelet)


def test_pods_run_wait_or_are_ignored(tmp_path: Path) -> None:
    amounts = {"cpu": 1}
    found = recorded(
        tmp_path,
        node("rack-1", {"cpu": 4}, labels={"a": "b"}, unschedulable=True),
        simple_pod(amounts, "runs", nodeName="rack-1"),
        simple_pod(amounts, "waits"),
        simple_pod(amounts, "over", nodeName="rack-1", status={"phase": "Succeeded"}),
        simple_pod(amounts, "lost", nodeName="gone"),
        simple_pod(amounts, "gated", schedulingGates=[{"name": "quota"}]),
        topology(name="elsewhere"),
    )
    assert [pod.metadata.name for pod in found.running] == ["runs"]
    assert [workload.name for workload in found.waiting] == ["waits"]
    (rack,) = found.nodes
    assert (rack.name, rack.group, rack.labels, rack.unschedulable) == ("rack-1", "rack", {"a": "b"}, True)
    assert list(found.remarks) == [
        "NodeResourceTopology elsewhere: zones: holds no NUMA zone (type Node, name node-0): nothing can be aligned",
        "rack-1: zones are not reported: taken as one zone without alignment",
        "pods default/lost are ignored: they run on node gone, which is not in the dump",
        "pods default/gated are ignored: their scheduling gates are closed",
    ]


def test_pods_are_admitted_again_in_the_order_of_their_creation(tmp_path: Path) -> None:
    def born(name: str, hour: int) -> Pod:
        pod = simple_pod({"cpu": 1}, name, nodeName="n1")
        when = f"2026-01-01T{hour:02}:00:00Z"
        return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=when))

    found = recorded(tmp_path, node("n1"), born("third", 12), born("first", 3), born("second", 7))
    assert [pod.metadata.name for pod in found.running] == ["first", "second", "third"]


def test_what_makes_no_sense_is_left_out_with_a_remark_that_names_it(tmp_path: Path) -> None:
    found = recorded(
        tmp_path, node("n1"), node("n2", {"cpu": "-1"}), simple_pod({"cpu": "x"}), simple_pod({"cpu": 1}, "fine")
    )
    assert [each.name for each in found.nodes] == ["n1"]
    assert [each.name for each in found.waiting] == ["fine"]
    told = "\n".join(found.remarks)
    assert re.search(r'Node n2 \(.*dump\.json:1:\d+\): status\.allocatable\.cpu: "-1" is negative.*left out', told)
    assert re.search(r"Pod default/pod \(.*dump\.json:1:\d+\): spec\.containers\[0\].*left out", told)


def test_a_scenario_goes_on_from_a_dump(tmp_path: Path) -> None:
    running = simple_pod({"cpu": 1}, "app-0", nodeName="n1")
    recorded(tmp_path, node("n1", {"cpu": 4}), running, simple_pod({"cpu": 1}, "app"))
    found = scenario(tmp_path, "cluster: dump.json\nworkloads: [{name: web, pod: {resources: {cpu: 1}}}]\n")
    assert [pod.metadata.name for pod in found.running] == ["app-0"]
    # app-0 is taken, so the pod that waits cannot be called that.
    assert [workload.name for workload in found.workloads] == ["app-waiting", "web"]
    assert remarks(tmp_path, "cluster: dump.json\n") == [
        "x.yaml:1: cluster: n1: zones are not reported: taken as one zone without alignment"
    ]
    assert faults(tmp_path, "cluster: dump.json\nworkloads: [{name: app, pod: {resources: {cpu: 1}}}]\n") == [
        'x.yaml:2: workloads[0].name: "app" would give its pods names that pods of the cluster have'
    ]
    # If a kubelet refuses web-0, the pod that replaces it is called web-0-r1.
    recorded(tmp_path, node("n1", {"cpu": 4}), simple_pod({"cpu": 1}, "web-0-r17", nodeName="n1"))
    assert faults(tmp_path, "cluster: dump.json\nworkloads: [{name: web, pod: {resources: {cpu: 1}}}]\n") == [
        'x.yaml:2: workloads[0].name: "web" would give its pods names that pods of the cluster have'
    ]
    assert faults(tmp_path, "cluster: dump.json\nnodes: [{name: n1, machine: core:1 mem:1Gi}]\n") == [
        'x.yaml:2: nodes[0].name: "n1" is the name of another node'
    ]


def test_objects_of_the_dump_that_are_not_simulated_are_remarked(tmp_path: Path) -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"bayplan.io/pod-group": "g"}},
        "spec": {"containers": [{"name": "c"}]},
    }
    group = {"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"size": 1}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    (tmp_path / "dump.json").write_bytes(msgspec.json.encode({"kind": "List", "items": [pod, group, service]}))
    assert read_cluster(tmp_path / "dump.json").remarks == (
        "ignored: PodGroup (1), Service (1)",
        "pods default/p wait in gangs; they are simulated one by one",
    )
