"""The loop closed on a real API server: after every step, the scheduler's columns are what the kubelet has free.

    virtual kubelet -> socket, state files, sysfs -> agent -> API server -> watch -> the scheduler's columns  =  what
    the kubelet has free

Several nodes live side by side, each at its own pace: pods come, are refused and go. Nothing waits for a clock: what
was written is awaited on the watch.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import Changes, Listed, follow
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.services.agent.agent import Agent
from bayplan.services.agent.metrics import AgentMetrics
from bayplan.services.agent.publisher import Publisher
from bayplan.services.agent.scanner import Scanner
from bayplan.services.agent.sources.own_pods import KnownPods
from bayplan.services.agent.troubles import Troubles
from bayplan.simulate.kubelet import VirtualKubelet
from tests.builders.objects import node
from tests.closed_loop import any_kubelet, free_of, live, settings_for, zones_in
from tests.kubernetes.agents import REPORTS, install_reports, register
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.virtual_node import VirtualNode, uid_of

STEPS = 85  # on each node: 2,040 in all
MACHINES = 3  # for each policy and scope
PATIENCE = 30.0


def kubelets_with(policy: Policy) -> list[VirtualKubelet]:
    """Random machines whose kubelets have this policy, some of either scope."""
    random = Random(policy.text)
    found: dict[Scope, list[VirtualKubelet]] = {scope: [] for scope in Scope}
    while any(len(each) < MACHINES for each in found.values()):
        drawn = any_kubelet(random)
        settings = drawn.configuration.settings
        if settings.policy is policy and len(found[settings.scope]) < MACHINES:
            found[settings.scope].append(drawn)
    return [each for some in found.values() for each in some]


def test_machines_of_all_kinds_are_among_them() -> None:
    kubelets = [each for policy in Policy for each in kubelets_with(policy)]
    machines = [each.machine for each in kubelets]
    settings = [each.configuration.settings for each in kubelets]
    with_cpus = [{cpu.zone for cpu in machine.cpus} for machine in machines]
    ids = [[zone.id for zone in machine.zones] for machine in machines]
    devices = [device for machine in machines for each in machine.devices.values() for device in each]
    assert any(each != list(range(len(each))) for each in ids), "ids with gaps"
    assert any(set(each) > cpus for each, cpus in zip(ids, with_cpus, strict=True)), "zones without CPUs"
    assert {len(device.zones) for device in devices} >= {0, 1, 2}, "devices in no, one and two zones"
    assert {each.cpu_static for each in settings} == {True, False}
    assert {each.memory_static for each in settings} == {True, False}
    assert any(zone.huge_pages.get("hugepages-1Gi") for machine in machines for zone in machine.zones)


Heard = dict[str, asyncio.Queue[NodeResourceTopology]]


@asynccontextmanager
async def followed(client: KubeClient) -> AsyncIterator[Heard]:
    """Reports by node, as a scheduler hears of them."""
    heard: Heard = defaultdict(asyncio.Queue)

    async def listen() -> None:
        async for news in follow(client, NODE_RESOURCE_TOPOLOGIES):
            match news:
                case Listed(items=items):
                    reports = items
                case Changes(changes=changes):
                    reports = [change.object for change in changes]
                case _:
                    reports = []
            for report in reports:
                heard[report.metadata.name].put_nowait(report)

    listening = asyncio.create_task(listen())
    try:
        yield heard
    finally:
        listening.cancel()


async def close_the_loop(virtual: VirtualNode, state: ClusterState, client: KubeClient, heard: Heard) -> int:
    """Let pods come and go, and compare after every step; how often something was written."""
    troubles = Troubles()
    publisher = Publisher(client, virtual.name, troubles)
    scanner = Scanner(settings_for(virtual), known_pods=lambda: alive_on(virtual))
    agent = Agent(scanner, publisher, troubles, AgentMetrics(troubles))
    writes = 0
    for what in live(Random(virtual.name), virtual, STEPS):
        assert await agent.look(rescan=False)
        if publisher.waits:
            assert await publisher.write(), troubles.current
            writes += 1
            async with asyncio.timeout(PATIENCE):
                state.set_topology(await heard[virtual.name].get())
        assert agent.last is not None
        columns = zones_in(state, virtual.name, agent.last.document)
        assert columns == free_of(virtual.kubelet), f"{virtual.name} {what}"
    assert not troubles.current
    return writes


def alive_on(virtual: VirtualNode) -> KnownPods:
    return KnownPods(frozenset(uid_of(key) for key in virtual.kubelet.pods), frozenset(), frozenset())


@pytest.mark.parametrize("policy", Policy, ids=lambda policy: policy.text)
def test_the_schedulers_columns_are_the_kubelets_free_state_after_every_step(
    policy: Policy, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    install_reports(control_plane)

    async def story(nodes: list[VirtualNode]) -> int:
        state = ClusterState()
        for each in nodes:
            state.set_node(node(each.name, {}))
        async with (
            KubeClient(find_access(str(control_plane.kubeconfig))) as client,
            followed(client) as heard,
            asyncio.TaskGroup() as group,
        ):
            lives = [group.create_task(close_the_loop(each, state, client, heard)) for each in nodes]
        return sum(each.result() for each in lives)

    with ExitStack() as stack:
        nodes = []
        for number, kubelet in enumerate(kubelets_with(policy)):
            name = f"{policy.text}-{number}"
            register(control_plane, name)
            nodes.append(stack.enter_context(VirtualNode(tmp_path / name, kubelet, name)))
        writes = asyncio.run(story(nodes))
    control_plane.delete(REPORTS)
    assert len(nodes) * STEPS / 3 < writes < len(nodes) * STEPS  # pods that were refused change nothing
