"""Groups of nodes: names, labels, taints and kubelets, as written and as refused."""

from pathlib import Path

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.cluster.reports.kubelet_version import KubeletVersion
from bayplan.kube.wire.core_v1 import Taint
from bayplan.simulate.kubelet.configuration import KubeletConfiguration
from tests.builders.objects import GI
from tests.unit.simulate.scenario.files import faults, scenario

GROUP = "name: n, machine: pack:2 core:4 pu:2 mem:16Gi hugepages-1Gi:4"
STATIC = "cpuManagerPolicy: static, reservedSystemCPUs: 0"


def kubelet(folder: Path, keys: str) -> KubeletConfiguration:
    return scenario(folder, f"nodes: [{{{GROUP}, kubelet: {{{keys}}}}}]").nodes[0].kubelet


def test_a_count_numbers_the_nodes_and_without_one_the_name_is_the_node(tmp_path: Path) -> None:
    found = scenario(tmp_path, f"nodes: [{{{GROUP}, count: 1}}, {{{GROUP.replace('name: n', 'name: login')}}}]")
    assert [(node.name, node.group) for node in found.nodes] == [("n-0", "n"), ("login", "login")]
    assert found.nodes[0].labels["kubernetes.io/hostname"] == "n-0"


@pytest.mark.parametrize(
    "written, dealt",
    [
        ("east", ["east", "east", "east", "east", "east"]),
        ("[a]", ["a", "a", "a", "a", "a"]),
        ("[a, b]", ["a", "a", "a", "b", "b"]),
        ("[a, b, c]", ["a", "a", "b", "b", "c"]),
        ("[a, b, c, d, e]", ["a", "b", "c", "d", "e"]),
    ],
)
def test_a_list_of_label_values_is_dealt_out_in_equal_consecutive_shares(
    tmp_path: Path, written: str, dealt: list[str]
) -> None:
    found = scenario(tmp_path, f"nodes: [{{{GROUP}, count: 5, labels: {{rack: {written}}}}}]")
    assert [node.labels["rack"] for node in found.nodes] == dealt


def test_labels_that_the_api_server_takes(tmp_path: Path) -> None:
    labels = f"{{example.com/Rack_1.a: R-1, {'k' * 63}: {'v' * 63}, empty: ''}}"
    (node,) = scenario(tmp_path, f"nodes: [{{{GROUP}, labels: {labels}}}]").nodes
    assert list(node.labels.values()) == ["n", "R-1", "v" * 63, ""]


def test_zones_that_are_never_combined_may_be_many(tmp_path: Path) -> None:
    text = (
        "nodes: [{name: n, machine: numa:64 core:1 mem:1Gi gpu:1@numa}]\nworkloads: [{name: a, pod: {resources: {cpu: "
        "2}}}]"
    )
    assert len(scenario(tmp_path, text).nodes[0].machine.zones) == 64


def test_taints_and_cordons(tmp_path: Path) -> None:
    taints = "taints: [{key: gpu, value: present, effect: NoSchedule}, {key: old, effect: NoExecute}]"
    (node,) = scenario(tmp_path, f"nodes: [{{{GROUP}, {taints}, unschedulable: true}}]").nodes
    assert node.taints == (Taint(key="gpu", value="present", effect="NoSchedule"), Taint(key="old", effect="NoExecute"))
    assert node.unschedulable


def test_a_kubelet_that_says_nothing_aligns_nothing(tmp_path: Path) -> None:
    found = scenario(tmp_path, f"nodes: [{{{GROUP}}}]").nodes[0].kubelet
    assert (found.settings.policy, found.settings.cpu_static, found.settings.memory_static) == (
        Policy.NONE,
        False,
        False,
    )
    assert (found.reserved_cpus, found.reserved_cpu_milli, found.reserved_memory) == (frozenset(), 0, {})
    assert found.most_pods == 110


def test_the_keys_of_a_kubelet(tmp_path: Path) -> None:
    found = kubelet(
        tmp_path,
        """
        topologyManagerPolicy: restricted, topologyManagerScope: pod,
        topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true", max-allowable-numa-nodes: "16"},
        cpuManagerPolicy: static, cpuManagerPolicyOptions: {full-pcpus-only: "true", align-by-socket: "false"},
        memoryManagerPolicy: Static, reservedSystemCPUs: "0-1,8",
        reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 1, limits: {hugepages-1Gi: 2Gi}}],
        kubeReserved: {cpu: 500m, memory: 512Mi}, systemReserved: {cpu: 250m, memory: 512Mi, ephemeral-storage: 1Gi},
        maxPods: 250, featureGates: {PodLevelResourceManagers: true}
        """,
    )
    settings = found.settings
    assert (settings.policy, settings.scope) == (Policy.RESTRICTED, Scope.POD)
    assert (settings.prefer_closest, settings.max_numa_nodes) == (True, 16)
    assert (settings.cpu_static, settings.cpu_options) == (True, frozenset({"full-pcpus-only"}))
    assert (settings.memory_static, settings.threads_per_core, settings.pod_level_managers) == (True, 2, True)
    assert (found.reserved_cpus, found.reserved_cpu_milli) == (frozenset({0, 1, 8}), 750)
    assert found.reserved_memory == {0: {"memory": GI}, 1: {"hugepages-1Gi": 2 * GI}}
    assert found.most_pods == 250


@pytest.mark.parametrize("written", ["1.35", "v1.35.8", '"1.35"'])
def test_the_version_of_a_kubelet(tmp_path: Path, written: str) -> None:
    assert kubelet(tmp_path, f"version: {written}").settings.version is KubeletVersion.V1_35


def test_memory_that_only_the_node_reserves_comes_from_the_lowest_zones(tmp_path: Path) -> None:
    found = kubelet(tmp_path, "kubeReserved: {memory: 10Gi}, systemReserved: {memory: 5Gi}")
    assert found.reserved_memory == {0: {"memory": 12 * GI}, 1: {"memory": 3 * GI}}


@pytest.mark.parametrize(
    "keys, message",
    [
        ("policy: none", "policy: is unknown: must be one of topologyManagerPolicy, "),
        ("topologyManagerScope: Pod", 'topologyManagerScope: "Pod" is not allowed: did you mean pod?'),
        ("cpuManagerPolicy: Static", 'cpuManagerPolicy: "Static" is not allowed: did you mean static?'),
        ("memoryManagerPolicy: static", 'memoryManagerPolicy: "static" is not allowed: did you mean Static?'),
        (
            f"{STATIC}, cpuManagerPolicyOptions: {{full-pcpu-only: true}}",
            "cpuManagerPolicyOptions.full-pcpu-only: is unknown: did you mean full-pcpus-only?",
        ),
        ("reservedSystemCPUs: 0-16", 'reservedSystemCPUs: "0-16" is not allowed: the machine has CPUs 0 to 15'),
        ("reservedSystemCPUs: all", 'reservedSystemCPUs: "all" is no list of CPUs: must be like 0,32 or 0-1,32-33'),
        ("kubeReserved: {cpu: lots}", 'kubeReserved.cpu: invalid quantity "lots"'),
        (
            "kubeReserved: {memory: 20Gi}, systemReserved: {memory: 13Gi}",
            "kubeReserved: 33Gi of memory are reserved: must be at most the machine's 32Gi (no kubelet would start)",
        ),
        (
            "systemReserved: {memory: 33Gi}, reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]",
            "systemReserved: 33Gi of memory are reserved: must be at most the machine's 32Gi (no kubelet would start)",
        ),
        ("maxPods: 0", "maxPods: 0 is not allowed: must be 1 to 100000"),
        ("reservedMemory: [{limits: {memory: 1Gi}}]", "reservedMemory[0].numaNode: is missing"),
        ("reservedMemory: [{numaNode: 2, limits: {}}]", "reservedMemory[0].numaNode: 2 is not allowed: must be 0 to 1"),
        (
            "reservedMemory: [{numaNode: 0, limits: {memory: 13Gi}}]",
            "reservedMemory[0].limits.memory: 13Gi is more than zone 0 has (12Gi)",
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]",
            "reservedMemory[0].limits.cpu: is unknown: must be memory or hugepages-SIZE",
        ),
        (
            "reservedMemory: [&a {numaNode: 0, limits: {memory: 1Gi}}, *a]",
            "reservedMemory: zone 0 reserves memory twice",
        ),
        (
            "kubeReserved: {memory: 2Gi}, reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]",
            "reservedMemory: adds up to 1Gi, but kubeReserved and systemReserved to 2Gi (no kubelet would start)",
        ),
        (
            "kubeReserved: {memory: 2Gi}, memoryManagerPolicy: Static",
            (
                "memoryManagerPolicy: Static needs reservedMemory: which zones keep the 2Gi of kubeReserved and "
                "systemReserved?"
            ),
        ),
        (
            "cpuManagerPolicy: static",
            "no kubelet would start: CPU Manager policy static needs at least one reserved CPU",
        ),
        ("memoryManagerPolicy: Static", "no kubelet would start: Memory Manager policy Static needs reserved memory"),
        (
            "version: 1.29",
            'version: "1.29" is no kubelet that can be simulated: must be one of 1.34, 1.35, 1.36, 1.37',
        ),
        ("featureGates: {Swap: true}", "featureGates.Swap: is unknown: must be one of PodLevelResourceManagers"),
    ],
)
def test_kubelets_that_would_not_start(tmp_path: Path, keys: str, message: str) -> None:
    (found,) = faults(tmp_path, f"nodes: [{{{GROUP}, kubelet: {{{keys}}}}}]")
    assert found.removeprefix("x.yaml:1: nodes[0].kubelet").lstrip(".: ").startswith(message)


@pytest.mark.parametrize(
    "group, message",
    [
        ("{machine: core:4 mem:1Gi}", "nodes[0].name: is missing"),
        ("{name: n}", "nodes[0].machine: is missing"),
        ("{name: Telco, machine: core:4 mem:1Gi}", 'nodes[0].name: "Telco" is no name: must be lower-case letters'),
        ("{name: n, machine: core:4}", 'nodes[0].machine: "core:4" has no mem'),
        (f"{{{GROUP}, count: many}}", 'nodes[0].count: "many" is no whole number: must be 1 to 100000'),
        (f"{{{GROUP}, count: 2, labels: {{rack: [a, b, c]}}}}",
         "nodes[0].labels.rack: a list of 3 cannot be dealt out"),
        (f"{{{GROUP}, labels: {{a.b/c: {{}}}}}}",
         'nodes[0].labels["a.b/c"]: a mapping is not allowed: must be a single value'),
        (f"{{{GROUP}, taints: [{{effect: NoSchedule}}]}}", "nodes[0].taints[0].key: is missing"),
        (f"{{{GROUP}, taints: [{{key: a, effect: Never}}]}}", 'nodes[0].taints[0].effect: "Never" is not allowed'),
        (f"{{{GROUP}, unschedulable: maybe}}",
         'nodes[0].unschedulable: "maybe" is not allowed: must be one of true, false'),
        (f"{{{GROUP}, count: 2}}, {{{GROUP.replace('n,', 'n-1,')}}}",
         'nodes[1].name: "n-1" is the name of another node'),
        (f"{{{GROUP}, labels: {{bad key!: x}}}}",
         "nodes[0].labels.bad key!: is no key of a label: must be letters, digits"),
        (f"{{{GROUP}, labels: {{Rack.org/a: x}}}}", 'nodes[0].labels["Rack.org/a"]: is no key of a label'),
        (f"{{{GROUP}, labels: {{{'k' * 64}: x}}}}", f"nodes[0].labels.{'k' * 64}: is no key of a label"),
        (f"{{{GROUP}, labels: {{rack: x y}}}}",
         'nodes[0].labels.rack: "x y" is no value of a label: must be letters, digits'),
        (f"{{{GROUP}, count: 2, labels: {{rack: [ok, -no]}}}}",
         'nodes[0].labels.rack[1]: "-no" is no value of a label'),
        (("{name: n, machine: numa:20 core:1 mem:1Gi, kubelet: {topologyManagerPolicy: restricted, "
         "topologyManagerPolicyOptions: {max-allowable-numa-nodes: 64}}}"),
         ("nodes[0].kubelet: 20 zones are more than this simulator can align, whatever a real kubelet does: must be at "
         "most 16, or topologyManagerPolicy none")),
        ("{name: n, machine: pack:3 numa:3 core:1 mem:1Gi, kubelet: {topologyManagerPolicy: restricted}}",
         "nodes[0].kubelet: no kubelet would start: Topology Manager policy restricted is not supported on 9 zones"),
    ],
)  # fmt: skip
def test_groups_that_make_no_sense(tmp_path: Path, group: str, message: str) -> None:
    (found,) = faults(tmp_path, f"nodes: [{group}]")
    assert found.removeprefix("x.yaml:1: ").startswith(message)
