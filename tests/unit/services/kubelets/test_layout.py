"""Nodes from words: machines, kubelets, places in a tree; and what is said about words that mean nothing."""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.kube.wire.core_v1 import Taint
from bayplan.services.kubelets.layout import LayoutError, NodeGroup, kubelet_from_text, lay_out, tree_labels
from bayplan.simulate.scenario.machine_text import machine_of

TWO_ZONES = "pack:2 core:4 pu:2 mem:8Gi"
GI = 2**30


def test_groups_of_nodes_are_numbered_through() -> None:
    nodes = lay_out([NodeGroup("core:4 mem:8Gi", 2), NodeGroup(TWO_ZONES, 1)], name_prefix="fake")
    assert [(node.name, node.group, len(node.machine.zones)) for node in nodes] == [
        ("fake-0", "core:4 mem:8Gi", 1),
        ("fake-1", "core:4 mem:8Gi", 1),
        ("fake-2", TWO_ZONES, 2),
    ]


def test_labels_and_taints_are_on_every_node() -> None:
    (node,) = lay_out(
        [NodeGroup(TWO_ZONES, 1)], labels={"example.com/pool": "a"}, taints=["example.com/virtual=true:NoSchedule"]
    )
    assert node.labels == {"kubernetes.io/hostname": "virtual-0", "example.com/pool": "a"}
    assert node.taints == (Taint(key="example.com/virtual", value="true", effect="NoSchedule"),)


def test_a_tree_deals_nodes_out_in_equal_consecutive_shares() -> None:
    labels = tree_labels("zone:2 example.org/row:1 rack:2", 8)
    assert [each["topology.kubernetes.io/zone"] for each in labels] == ["zone-0"] * 4 + ["zone-1"] * 4
    assert [each["example.com/rack"] for each in labels] == [f"rack-{number // 2}" for number in range(8)]
    assert {each["example.org/row"] for each in labels} == {"row-0", "row-1"}


@pytest.mark.parametrize("nodes", [7, 16, 100])
def test_every_domain_of_a_tree_lies_in_one_wider_domain(nodes: int) -> None:
    pairs = {(each["example.com/block"], each["example.com/rack"]) for each in tree_labels("block:2 rack:3", nodes)}
    assert len(pairs) == len({rack for _, rack in pairs}) == 6


def test_without_a_word_kubelets_align_and_reserve_the_least_that_lets_them_start() -> None:
    kubelet = kubelet_from_text("", machine_of(TWO_ZONES))
    assert kubelet.settings.policy is Policy.SINGLE_NUMA_NODE
    assert (kubelet.settings.cpu_static, kubelet.settings.memory_static) == (True, True)
    assert kubelet.reserved_cpus == {0, 8}  # both threads of the first core
    assert kubelet.reserved_memory == {0: {"memory": GI}}


def test_kubelet_options_override_defaults() -> None:
    options = "cpuManagerPolicyOptions.full-pcpus-only=true,reservedSystemCPUs=0,8,4,12,maxPods=20"
    kubelet = kubelet_from_text(f"policy=restricted,scope=pod,{options}", machine_of(TWO_ZONES))
    assert (kubelet.settings.policy, kubelet.settings.scope) == (Policy.RESTRICTED, Scope.POD)
    assert kubelet.settings.cpu_options == {"full-pcpus-only"}
    assert kubelet.reserved_cpus == {0, 4, 8, 12}
    assert kubelet.most_pods == 20


def test_memory_is_reserved_by_zone() -> None:
    kubelet = kubelet_from_text("reservedMemory=0:1Gi,1:2Gi", machine_of(TWO_ZONES))
    assert kubelet.reserved_memory == {0: {"memory": GI}, 1: {"memory": 2 * GI}}


def test_managers_that_are_off_need_nothing_reserved() -> None:
    kubelet = kubelet_from_text("policy=none,cpu=none,memory=None", machine_of(TWO_ZONES))
    assert (kubelet.reserved_cpus, kubelet.reserved_memory) == (frozenset(), {})


@pytest.mark.parametrize(
    "text, problem",
    [
        ("restricted", '"restricted" is not understood: must be KEY=VALUE, such as policy=restricted'),
        ("polcy=restricted", '"polcy" is unknown: did you mean policy?'),
        ("policy=none,topologyManagerPolicy=none", "topologyManagerPolicy is given twice"),
        ("policy=strict", 'topologyManagerPolicy: "strict" is not allowed: did you mean restricted?'),
        ("reservedSystemCPUs=99", 'reservedSystemCPUs: "99" is not allowed: the machine has CPUs 0 to 15'),
        ("reservedMemory=1Gi", 'reservedMemory: "1Gi" is not understood: must be ZONE:AMOUNT, such as 0:1Gi'),
        ("cpu=none,cpuManagerPolicyOptions.full-pcpus-only=true", "no kubelet would start: CPU Manager policy none"),
    ],
)
def test_words_that_describe_no_kubelet(text: str, problem: str) -> None:
    with pytest.raises(LayoutError) as error:
        kubelet_from_text(text, machine_of(TWO_ZONES))
    assert str(error.value).startswith(f"--kubelet: {problem}")


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ({"tree": "zone"}, '--tree: "zone" is not understood: must be LEVEL:COUNT, such as rack:16'),
        ({"tree": "zone:0"}, '--tree: "zone:0" is not understood: must be LEVEL:COUNT, such as rack:16'),
        ({"tree": "zone:2 zone:2"}, '--tree: "zone:2 zone:2" names a level twice'),
        ({"tree": "zone:2 rack:3"}, '--tree: "zone:2 rack:3" has 6 domains at its lowest level for 4 nodes'),
        ({"taints": ["a=b"]}, '--taint: "a=b" is not understood: must be KEY=VALUE:EFFECT'),
        ({"taints": ["a=b:Never"]}, '--taint: "a=b:Never" is not understood: must be KEY=VALUE:EFFECT'),
        ({"labels": {"a/b/c": "d"}}, "--labels: a/b/c: is no key of a label"),
        ({"name_prefix": "Node"}, '--name-prefix: "Node" is not a valid name for nodes'),
        ({"name_prefix": "n" * 62}, '--name-prefix: "nnn'),
    ],
)
def test_words_that_lay_out_no_nodes(arguments: dict[str, object], problem: str) -> None:
    with pytest.raises(LayoutError) as error:
        lay_out([NodeGroup(TWO_ZONES, 4)], **arguments)  # type: ignore[arg-type]
    assert str(error.value).startswith(problem)


def test_a_machine_that_is_none() -> None:
    with pytest.raises(LayoutError, match=r"--machine: .* has no core"):
        lay_out([NodeGroup("mem:8Gi", 1)])
