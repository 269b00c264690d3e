"""The loop closed: virtual kubelet, real unix socket, real files, agent, report, scheduler's columns: equal to the
kubelet's own free state.

On random machines and kubelets pods come and go; after every step the agent looks and a scheduler reads its report.
Zones, CPUs, memory and devices must be what the kubelet could hand out at this moment, init containers included. An
agent that is forbidden to read pods can be wrong about one thing alone: devices that no running container holds.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import msgspec
import pytest

from bayplan.cluster.reports.inventory import cpu_set, read_inventory, read_pods
from bayplan.services.agent.scanner import Scanner
from bayplan.services.agent.sources.own_pods import KnownPods
from bayplan.simulate.kubelet.report import NodeAgent
from tests.closed_loop import ZoneAmounts, any_kubelet, attributes_in, columns_of, free_of, live, settings_for
from tests.virtual_node import VirtualNode, pod_resources, uid_of

STEPS = 250


@pytest.mark.parametrize("draw", range(12))
def test_columns_are_what_the_kubelet_has_free(draw: int, tmp_path: Path) -> None:
    asyncio.run(story(Random(draw), tmp_path))


async def story(random: Random, folder: Path) -> None:
    with VirtualNode(folder / "n1", any_kubelet(random)) as node:
        scanner = Scanner(settings_for(node), known_pods=lambda: alive_on(node))
        virtual_agent = NodeAgent("n1", node.kubelet)
        for what in live(random, node, STEPS):
            scan = await scanner.scan(rescan=False)
            assert columns_of(scan.document) == free_of(node.kubelet), what
            attributes = attributes_in(scan.document)
            inventory, pods = read_inventory(attributes), read_pods(attributes)
            assert inventory is not None
            free = node.kubelet.free().cpus
            if free is not None:
                assert inventory.free_cpus == cpu_set(",".join(map(str, sorted(free)))), what
            # What pods hold is what the kubelet lists: whose they were is unknown for init containers that ended.
            assert pods is not None
            assert set(pods) == set(node.kubelet.pods), what
            for key, held in pods.items():
                held_truly = msgspec.to_builtins(virtual_agent.holdings(key))
                assert set(held) <= set(held_truly), what


@pytest.mark.parametrize("draw", range(4))
def test_without_the_right_to_read_pods_only_init_devices_can_count_as_free(draw: int, tmp_path: Path) -> None:
    asyncio.run(story_without_pods(Random(draw), tmp_path))


async def story_without_pods(random: Random, folder: Path) -> None:
    with VirtualNode(folder / "n1", any_kubelet(random)) as node:
        scanner = Scanner(settings_for(node), known_pods=lambda: None)
        for what in live(random, node, STEPS):
            shown, free = columns_of((await scanner.scan(rescan=False)).document), free_of(node.kubelet)
            not_listed = idle_for_running_containers(node)
            for zone, amounts in free.items():
                devices = node.kubelet.machine.devices.keys() & amounts.keys()
                for name, amount in amounts.items():
                    most = not_listed[zone][name] if name in devices else amount
                    assert amount <= shown[zone][name] <= most, (what, zone, name)


def idle_for_running_containers(node: VirtualNode) -> ZoneAmounts:
    """Devices in each zone that no container holds which the kubelet lists."""
    listed = {
        (each.resource_name, device)
        for key in node.kubelet.pods
        for container in pod_resources(node, key).containers
        for each in container.devices
        for device in each.device_ids
    }
    return {
        zone.id: {
            resource: sum(zone.id in each.zones and (resource, each.id) not in listed for each in devices)
            for resource, devices in node.kubelet.machine.devices.items()
        }
        for zone in node.kubelet.machine.zones
    }


def alive_on(node: VirtualNode) -> KnownPods:
    return KnownPods(frozenset(uid_of(key) for key in node.kubelet.pods), frozenset(), frozenset())
