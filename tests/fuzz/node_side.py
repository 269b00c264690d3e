"""The node's side: an agent looks at spoiled sysfs trees, state files, configurations and podresources answers; a
scheduler takes its report.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.services.agent.scanner import CannotSee, Scanner
from bayplan.services.agent.sources import podresources_pb2 as wire
from tests.builders.objects import node as empty_node
from tests.closed_loop import any_kubelet, any_request, settings_for
from tests.fuzz.failures import Findings
from tests.fuzz.mutating import TEXTS, mutated
from tests.virtual_node import VirtualNode, memory_part, topology

IDS = (0, 1, 2, 7, 63, 64, 4096, -1, 2**31, 2**62)
CPU_LISTS = (
    "",
    "0",
    "0-3",
    "3-0",
    "0-999999999",
    "0,,1",
    "-1",
    "a-b",
    "0-3\n\n",
    "0-1,0-1",
    "\x00",
    "99999999999999999999",
)


def one_node(random: Random, findings: Findings) -> None:
    """A report that a scheduler can read, or one sentence about what is wrong."""
    with tempfile.TemporaryDirectory() as folder, VirtualNode(Path(folder), any_kubelet(random)) as node:
        for number in range(random.randint(0, 3)):
            node.admit(f"default/p{number}", any_request(random))
        for _ in range(random.randint(1, 4)):
            random.choice((_spoil_sysfs, _spoil_state, _spoil_answer, _spoil_configuration))(random, node)
        findings.objects += 1
        report = None
        with findings.step("agent looks"):
            report = asyncio.run(_looked(node))
        if report is not None:
            with findings.step("report is read"):
                state = ClusterState()
                state.set_node(empty_node(node.name))
                state.set_topology(msgspec.convert({**report, "metadata": {"name": node.name}}, NodeResourceTopology))


async def _looked(node: VirtualNode) -> Any:
    try:
        return (await Scanner(settings_for(node, patience=5.0)).scan()).document
    except CannotSee:
        return None


def _spoil_sysfs(random: Random, node: VirtualNode) -> None:
    files = sorted(file for file in node.sysfs.rglob("*") if file.is_file())
    file = random.choice(files)
    match random.randrange(4):
        case 0:
            file.unlink()
        case 1:
            file.write_bytes(random.randbytes(random.randint(0, 40)))
        case _:
            file.write_text(random.choice((*TEXTS, *CPU_LISTS)))


def _spoil_state(random: Random, node: VirtualNode) -> None:
    file = node.state_folder / random.choice(
        ("cpu_manager_state", "memory_manager_state", "device-plugins/kubelet_internal_checkpoint")
    )
    if not file.exists():
        return
    if random.random() < 0.2 or not _is_json(file):
        file.write_bytes(file.read_bytes()[: random.randint(0, 60)])
    else:
        file.write_text(json.dumps(mutated(random, json.loads(file.read_text()), random.randint(1, 3))))


def _is_json(file: Path) -> bool:
    """Whether it has not been cut off before."""
    try:
        json.loads(file.read_bytes())
    except ValueError:
        return False
    return True


def _spoil_configuration(random: Random, node: VirtualNode) -> None:
    import yaml

    node.config_file.write_text(
        json.dumps(mutated(random, yaml.safe_load(node.config_file.read_text()), random.randint(1, 2)))
    )


def _spoil_answer(random: Random, node: VirtualNode) -> None:
    zones = tuple(random.choices(IDS, k=random.randint(0, 3)))
    devices = wire.ContainerDevices(
        resource_name=_text(random),
        device_ids=[_text(random) for _ in range(random.randint(0, 3))],
        topology=topology(zones),
    )
    container = wire.ContainerResources(
        name=_text(random),
        devices=[devices],
        cpu_ids=random.choices(IDS, k=random.randint(0, 4)),
        memory=[memory_part(random.choice(("memory", "hugepages-2Mi", _text(random))), abs(random.choice(IDS)), zones)],
    )
    node.server.more_pods.append(wire.PodResources(name=_text(random), namespace=_text(random), containers=[container]))


def _text(random: Random) -> str:
    return random.choice(TEXTS)
