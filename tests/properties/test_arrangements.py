"""Zones that are inferred from amounts are where the kubelet put the pods, and zones gain what was foreseen.

Random machines and kubelets of every policy and scope admit pods and report amounts alone. What arithmetic claims is
compared with the kubelet's books: the zones of each container, and what is free after some pods have left.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from msgspec import structs

from bayplan.cluster.arrangements import arrangements_on
from bayplan.cluster.reports.kubelet_settings import REFUSING_POLICIES, Policy
from bayplan.cluster.reports.pod_zones import Holding, could_hold
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.kube.wire.core_v1 import Pod
from bayplan.simulate.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from tests.closed_loop import any_kubelet, any_pod, free_of

NODES, BATCHES = 250, 4


@pytest.mark.parametrize("batch", range(BATCHES))
def test_nothing_is_inferred_that_the_kubelet_does_otherwise(batch: int) -> None:
    claims = Counter[str]()
    for number in range(NODES):
        random = Random(f"{batch}/{number}")
        policies = REFUSING_POLICIES if number % 4 else tuple(Policy)
        kubelet = any_kubelet(random)
        while kubelet.configuration.settings.policy not in policies or not _told_by_amounts(kubelet):
            kubelet = any_kubelet(random)
        _compare(random, NodeAgent("n1", kubelet), claims)
    assert min(claims[each] for each in ("zones", "sure", "one of several", "all")) > NODES // 100, claims


def _compare(random: Random, agent: NodeAgent, claims: Counter[str]) -> None:
    state, kubelet = _with_pods(random, agent)
    arrangements, report = arrangements_on(state, state.rows["n1"]), state.reports[state.rows["n1"]]
    assert arrangements is not None
    assert report is not None
    for key in kubelet.pods:
        zones, truth = arrangements.zones_of(key), agent.zones_by_container(key)
        claims["zones"] += bool(zones)
        wrong = {name: truth[name] for name, ids in zones.items() if not set(truth[name]) <= set(ids)}
        assert not wrong, f"{key} is said to be in {zones}: {kubelet.configuration.settings}"
    leaving = random.sample(sorted(kubelet.pods), random.randint(0, len(kubelet.pods)))
    everyone = len(leaving) == len(kubelet.pods)
    ways, gained = arrangements.ways(leaving), _gained(kubelet, leaving, report)
    if report.settings.policy not in REFUSING_POLICIES:
        # Such a kubelet refuses nothing for what is in which zone: sums are foreseen.
        ways, gained = [_summed(way) for way in ways], _summed(gained)
    claims["all"] += everyone and ways == [gained] != [()]
    claims["sure"] += not everyone and ways == [gained] != [()]
    claims["one of several"] += len(ways) > 1
    assert gained in ways or ways == [()], f"{leaving} of {list(kubelet.pods)}: {kubelet.configuration.settings}"


def _summed(gained: tuple[Holding, ...]) -> tuple[Holding, ...]:
    names = sorted({name for name, *_ in gained})
    return tuple((name, 0, sum(amount for each, _, amount in gained if each == name)) for name in names)


def _with_pods(random: Random, agent: NodeAgent) -> tuple[ClusterState, VirtualKubelet]:
    """A node whose pods all run, as its plain report shows it."""
    state = ClusterState()
    state.set_node(agent.node)
    template = any_pod(random)
    for number in range(random.randint(1, 8)):
        pod = _bound(template if random.random() < 0.6 else any_pod(random), number)
        if agent.kubelet.admit(pod_key(pod), state.classes.request_of(pod)).admitted:
            agent.kubelet.start(pod_key(pod))
            state.set_pod(pod)
    state.set_topology(agent.topology(complete=False))
    return state, agent.kubelet


def _told_by_amounts(kubelet: VirtualKubelet) -> bool:
    """Plain reports count a device with two zones in both, and do not name `align-by-socket`."""
    in_one_zone = all(len(device.zones) < 2 for devices in kubelet.machine.devices.values() for device in devices)
    return in_one_zone and "align-by-socket" not in kubelet.configuration.settings.cpu_options


def _bound(pod: Pod, number: int) -> Pod:
    """A pod on the node. No agent shows what init containers leave to it, but a virtual one does: it has none."""
    sidecars = [each for each in pod.spec.init_containers or () if each.restart_policy == "Always"]
    spec = structs.replace(pod.spec, node_name="n1", init_containers=sidecars)
    return structs.replace(pod, metadata=structs.replace(pod.metadata, name=f"p{number}"), spec=spec)


def _gained(kubelet: VirtualKubelet, leaving: list[str], report: TopologyReport) -> tuple[Holding, ...]:
    """What zones gain when pods leave, by the kubelet's own books."""
    before, positions = free_of(kubelet), {zone.id: at for at, zone in enumerate(kubelet.machine.zones)}
    # What only init containers ask for stays with a pod, and no other container shows it.
    asked = {name for key in leaving for name, *_ in could_hold(kubelet.pods[key].request, report)}
    for key in leaving:
        kubelet.remove(key)
    gained = [
        (name, positions[zone], amount - before[zone][name])
        for zone, amounts in free_of(kubelet).items()
        for name, amount in amounts.items()
        if amount != before[zone][name] and name in asked
    ]
    return tuple(sorted(gained))
