"""`numa`, the level below the node: a gang in one NUMA zone, segments in one each, and what a kubelet makes of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy
from bayplan.cluster.state import ClusterState
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group, Segments
from bayplan.gangs.remedies import FewerPods, PreferredLevel, WiderLevel, gang_remedies
from bayplan.gangs.split_gangs import split_problem
from bayplan.kube.wire.core_v1 import Pod
from bayplan.simulate.kubelet import Cpu, KubeletConfiguration, Machine, MachineZone, VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from tests.builders.clusters import cluster
from tests.builders.gangs import gang_scheduler
from tests.builders.neighbourhoods import apart, together
from tests.builders.objects import node, simple_pod, simple_pods

GI = 1024**3
HOSTNAME = "kubernetes.io/hostname"


def kubelet(*cpus_of_zones: int, policy: Policy = Policy.SINGLE_NUMA_NODE) -> VirtualKubelet:
    """A node with so many CPUs in each zone, and a reserved one in zone 0, behind a whole Topology Manager."""
    distances = (10,) * len(cpus_of_zones)
    zones = tuple(MachineZone(number, 64 * GI, distances=distances) for number in range(len(cpus_of_zones)))
    places = [0, *(zone for zone, cpus in enumerate(cpus_of_zones) for _ in range(cpus))]
    cpus = tuple(Cpu(core=number, socket=zone, zone=zone, cache=zone) for number, zone in enumerate(places))
    settings = KubeletSettings(policy=policy, cpu_static=True, memory_static=False)
    return VirtualKubelet(Machine(zones, cpus), KubeletConfiguration(settings, reserved_cpus=frozenset({0})))


class Cluster:
    """Virtual kubelets under a scheduler that sees their reports."""

    def __init__(self, **kubelets: VirtualKubelet) -> None:
        self.kubelets = kubelets
        state = ClusterState()
        for name, each in kubelets.items():
            agent = NodeAgent(name, each)
            state.set_node(agent.node)
            state.set_topology(agent.topology(complete=True))
        self.scheduler = gang_scheduler(state)

    def decide(self, gang: Gang) -> GangDecision:
        return schedule_gang(self.scheduler, gang)

    def bound(self, gang: Gang, group: str = "") -> list[tuple[str, set[int]]]:
        """Bind a gang seat by seat: the node of each pod of a group, and the zones of the CPUs that it gets from its
        kubelet.
        """
        decision = self.decide(gang)
        assert decision.placed, decision.bound
        assert assume_gang(self.scheduler, gang, decision) is not None
        pods = {f"default/{pod.metadata.name}": pod for pod in gang.pods}
        found = []
        for seat in decision.seats:
            node = self.kubelets[seat.node]
            admission = node.admit(seat.pod, self.scheduler.state.classes.of(pods[seat.pod]).request)
            assert admission.admitted, admission.message
            zones = {node.machine.cpus[cpu].zone for each in admission.containers for cpu in each.cpus}
            if seat.group == group:
                found.append((seat.node, zones))
        return found


def pods(number: int, name: str = "p", cpu: int = 2) -> tuple[Pod, ...]:
    return simple_pods({"cpu": cpu, "memory": "1Gi"}, number, name)


def gang(size: int, **asked: Any) -> Gang:
    return Gang("ml/g", Group(pods=pods(size), **asked))


@pytest.mark.parametrize("level", ["numa", "NUMA", "numa-zone"])
def test_a_gang_that_requires_numa_is_in_one_zone_of_one_node(level: str) -> None:
    # a has more room, but no zone for six pods; the lowest zone of b that takes a pod takes all of them.
    cluster = Cluster(a=kubelet(10, 10, 10), b=kubelet(0, 12))
    assert cluster.bound(gang(6, required=level)) == [("b", {1})] * 6


def test_the_kubelet_begins_with_the_lowest_zone_so_a_larger_later_one_is_no_use() -> None:
    cluster = Cluster(a=kubelet(4, 12))
    decision = cluster.decide(gang(6, required="numa"))
    assert not decision.placed
    assert decision.bound == "no kubelet would put all 6 pods into one NUMA zone"
    assert cluster.bound(gang(2, required="numa")) == [("a", {0})] * 2


@pytest.mark.parametrize("policy", [Policy.BEST_EFFORT, Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE])
def test_any_policy_that_aligns_will_do(policy: Policy) -> None:
    assert Cluster(a=kubelet(8, 8, policy=policy)).bound(gang(4, required="numa")) == [("a", {0})] * 4


def test_a_kubelet_that_aligns_nothing_has_no_zone_to_give() -> None:
    decision = Cluster(a=kubelet(8, 8, policy=Policy.NONE)).decide(gang(2, required="numa"))
    assert not decision.placed
    assert decision.bound.endswith("; no node counts: 1 with Topology Manager policy none")


@pytest.mark.parametrize(
    "asked, why",
    [
        ({"required": "numa"}, "no kubelet would put all 2 pods into one NUMA zone; "),
        ({"segments": (Segments(2, "numa"),)}, "only pods that share a NUMA zone are counted, 2 at a time; "),
    ],
)
def test_nodes_without_a_report_are_named_as_the_cause(asked: dict[str, Any], why: str) -> None:
    scheduler = gang_scheduler(cluster(nodes=[node("a", {"cpu": 8}), node("b", {"cpu": 8})]))
    decision = schedule_gang(scheduler, gang(2, **asked))
    assert not decision.placed
    assert decision.bound.endswith(why + "no node counts: 2 without a usable NodeResourceTopology")


def test_segments_are_in_one_zone_each() -> None:
    cluster = Cluster(a=kubelet(8, 4))
    asked = gang(6, segments=(Segments(2, "numa"),))
    assert cluster.bound(asked) == [("a", {0})] * 4 + [("a", {1})] * 2


def test_each_pod_in_one_zone_is_segments_of_one() -> None:
    cluster = Cluster(a=kubelet(5, 5, policy=Policy.BEST_EFFORT))
    assert cluster.bound(gang(4, segments=(Segments(1, "numa"),))) == [("a", {0})] * 2 + [("a", {1})] * 2
    assert (
        not Cluster(a=kubelet(5, 5, policy=Policy.BEST_EFFORT)).decide(gang(5, segments=(Segments(1, "numa"),))).placed
    )


def test_a_zone_that_keeps_room_for_half_a_segment_ends_the_count() -> None:
    # Zone 0 holds three pods: the second segment would begin there and end in zone 1.
    decision = Cluster(a=kubelet(6, 8)).decide(gang(4, segments=(Segments(2, "numa"),)))
    assert not decision.placed
    assert decision.bound.endswith("only pods that share a NUMA zone are counted, 2 at a time")


def test_a_group_inside_may_require_it_while_the_others_go_anywhere() -> None:
    cluster = Cluster(a=kubelet(8, 8), b=kubelet(4, 4))
    inner = (Group("near", pods(4, "near"), required="numa"), Group("far", pods(2, "far", cpu=4)))
    found = cluster.bound(Gang("ml/g", Group(groups=inner)), "near")
    assert found == [found[0]] * 4
    assert len(found[0][1]) == 1


def test_preferred_numa_means_few_nodes() -> None:
    found = Cluster(a=kubelet(4, 4), b=kubelet(8, 8)).bound(gang(6, preferred="numa"))
    assert {node for node, _ in found} == {"b"}


def test_pods_that_no_kubelet_aligns_are_told() -> None:
    pod = simple_pod({"cpu": "100m"}, "p")
    decision = Cluster(a=kubelet(8)).decide(Gang("ml/g", Group(pods=(pod,), required="numa")))
    assert decision.problem.startswith("pod default/p asks for nothing that a kubelet aligns to a NUMA zone")


def test_pods_that_share_a_zone_must_be_equal() -> None:
    mixed = (*pods(1, "small"), *pods(1, "large", cpu=4))
    decision = Cluster(a=kubelet(8)).decide(Gang("ml/g", Group(pods=mixed, required="numa")))
    told = "pods that share a NUMA zone must be equal, and default/small-0 and default/large-0 differ"
    assert decision.problem == told


def test_what_would_help_a_gang_that_has_no_zone() -> None:
    cluster = Cluster(a=kubelet(8, 8))
    remedies = gang_remedies(cluster.scheduler, gang(6, required="numa"))
    assert remedies == (FewerPods("", 4, 6), WiderLevel("", HOSTNAME, "numa"), PreferredLevel("", "numa", None))


@pytest.mark.parametrize("style", ["kueue", "kai"])
def test_other_systems_do_not_know_zones(style: str) -> None:
    decision = Cluster(a=kubelet(8)).decide(Gang("ml/g", Group(pods=pods(2), required="numa"), style=style))
    assert "the level numa cannot be expressed there" in decision.bound


def test_members_that_run_in_two_zones_do_not_stand_as_they_asked() -> None:
    cluster = Cluster(a=kubelet(8, 8))
    running = []
    for zone, pod in enumerate(pods(2)):
        metadata = msgspec.structs.replace(pod.metadata, annotations={"bayplan.io/numa-zones": f'{{"main": [{zone}]}}'})
        spec = msgspec.structs.replace(pod.spec, node_name="a")
        running.append(msgspec.structs.replace(pod, metadata=metadata, spec=spec))
    asked = Gang("ml/g", Group(running=tuple(running), required="numa"))
    tree = cluster.scheduler.trees.get("")
    assert tree is not None
    told = split_problem(asked, tree, cluster.scheduler.state)
    assert told == "members run in NUMA zone 0 and in NUMA zone 1, but must share one numa"


@pytest.mark.parametrize("topologies", [["network"], ["network", "storage"]])
def test_nodes_and_zones_are_levels_of_every_cluster_whatever_its_topologies(topologies: list[str]) -> None:
    cluster = Cluster(a=kubelet(8, 8))
    for name in topologies:
        cluster.scheduler.trees.set(name, ("example.com/rack",))  # a label that no node carries
    assert cluster.bound(gang(3, required="numa")) == [("a", {0})] * 3


def labelled(name: str, app: str, **spec: Any) -> Pod:
    return simple_pod({"cpu": 2, "memory": "1Gi"}, name, labels={"app": app}, **spec)


def test_equal_pods_of_which_only_some_share_a_zone_can_ask_for_each_other() -> None:
    pods = [labelled(f"w-{number}", "w", **together("w")) for number in range(4)]
    root = Group(groups=(Group("in one zone", tuple(pods[:2]), required="numa"), Group("anywhere", tuple(pods[2:]))))
    decision = Cluster(a=kubelet(12, 12), b=kubelet(12, 12)).decide(Gang("ml/g", root))
    assert len({seat.node for seat in decision.seats}) == 1


def test_segments_in_zones_stay_beside_a_pod_that_keeps_some_members_away() -> None:
    made = Cluster(a=kubelet(4, 4), z=kubelet(2, 2))
    made.scheduler.state.set_pod(simple_pod({"cpu": 1}, "db", nodeName="z", **apart("y")))
    pods = tuple(labelled(f"p-{number}", app) for number, app in enumerate("xyxy"))
    gang = Gang("ml/g", Group(pods=pods, segments=(Segments(2, "numa"),)))
    decision = made.decide(gang)
    assert [(seat.segment, seat.node) for seat in decision.seats] == [(0, "a"), (0, "a"), (1, "a"), (1, "a")]
    assert assume_gang(made.scheduler, gang, decision) is not None


def test_equal_pods_on_different_nodes_stay_there_if_only_some_share_a_zone() -> None:
    made = Cluster(a=kubelet(12, 12), b=kubelet(12, 12))
    pods = [labelled(f"w-{number}", "w", **apart("w")) for number in range(3)]
    root = Group(groups=(Group("in one zone", tuple(pods[:1]), required="numa"), Group("anywhere", tuple(pods[1:]))))
    assert not made.decide(Gang("ml/g", root)).placed
