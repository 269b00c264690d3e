"""The agent asks a kubelet over a real unix socket: what it understands, and what it says when there is no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from bayplan.services.agent.sources import podresources_pb2 as wire
from bayplan.services.agent.sources.pod_resources import Allocatable, DeviceGroup, MemoryBlock, PodResources
from bayplan.services.agent.sources.podresources import KubeletSilent, kubelet_at, socket_path
from bayplan.simulate.kubelet import MachineDevice
from tests.builders.objects import GI, GPU, NIC, Amounts, container
from tests.scripted_api_server import asynchronous
from tests.unit.simulate.kubelet.nodes import guaranteed, kubelet, machine, request
from tests.virtual_node import VirtualNode

SOON = 0.3


@pytest.fixture
def node(tmp_path: Path) -> Iterator[VirtualNode]:
    """Two zones of 8 CPUs and 16 GiB, CPU 0 and 1 GiB reserved, a GPU in each zone and one in both."""
    with VirtualNode(tmp_path, kubelet(machine(gpus=[[0], [1], [0, 1]]))) as virtual:
        yield virtual


async def ask(node: VirtualNode) -> tuple[tuple[PodResources, ...], Allocatable]:
    async with kubelet_at(node.socket, patience=SOON) as asked:
        return await asked.pods(), await asked.allocatable()


@asynchronous
async def test_what_a_pod_holds(node: VirtualNode) -> None:
    node.admit("ml/train", guaranteed({"cpu": 2, "memory": "2Gi", GPU: 1}))
    (pod,), _ = await ask(node)
    assert pod.key == ("ml", "train")
    (main,) = pod.containers
    assert (main.name, main.cpus) == ("main", (1, 9))
    assert main.memory == (MemoryBlock("memory", 2 * GI, (0,)),)
    assert main.devices == (DeviceGroup(GPU, ("gpu-0",), (0,)),)


@asynchronous
async def test_allocatable_resources(node: VirtualNode) -> None:
    _, allocatable = await ask(node)
    assert sorted(allocatable.cpus) == list(range(1, 16))
    assert allocatable.memory == (MemoryBlock("memory", 15 * GI, (0,)), MemoryBlock("memory", 16 * GI, (1,)))
    # A device in two zones is told once for each.
    assert [(group.ids, group.zones) for group in allocatable.devices] == [
        (("gpu-0",), (0,)),
        (("gpu-1",), (1,)),
        (("gpu-2",), (0,)),
        (("gpu-2",), (1,)),
    ]


@asynchronous
async def test_devices_without_a_zone(node: VirtualNode) -> None:
    node.devices = {NIC: (MachineDevice("nic-0", ()),)}
    _, allocatable = await ask(node)
    assert allocatable.devices == (DeviceGroup(NIC, ("nic-0",), ()),)


@asynchronous
async def test_managers_that_are_not_static_have_nothing_to_hand_out(tmp_path: Path) -> None:
    with VirtualNode(tmp_path, kubelet(cpu=False, memory=False)) as node:
        assert await ask(node) == ((), Allocatable())


@asynchronous
async def test_sidecars_are_listed_and_init_containers_are_not(node: VirtualNode) -> None:
    small: Amounts = {"cpu": 1, "memory": "1Gi"}
    init = [container(small, "init"), container(small, "sidecar", sidecar=True)]
    node.admit("ml/train", request(container(small), init=init))
    (pod,), _ = await ask(node)
    assert [each.name for each in pod.containers] == ["sidecar", "main"]


@asynchronous
async def test_resource_claims_are_noted(node: VirtualNode) -> None:
    claim = wire.DynamicResource(claim_namespace="ml", claim_name="gpu-claim")
    node.server.more_pods = [
        wire.PodResources(
            name="dra", namespace="ml", containers=[wire.ContainerResources(name="main", dynamic_resources=[claim])]
        )
    ]
    (pod,), _ = await ask(node)
    assert pod.containers[0].claims == ("ml/gpu-claim",)


@asynchronous
async def test_one_pod_can_be_asked_for(node: VirtualNode) -> None:
    node.admit("ml/train", guaranteed({"cpu": 2, "memory": "2Gi"}))
    async with kubelet_at(node.socket) as asked:
        assert (await asked.pod("ml", "train")) == (await asked.pods())[0]
        assert await asked.pod("ml", "gone") is None


@pytest.mark.parametrize("why", ["too old", "feature gate off"])
@asynchronous
async def test_a_kubelet_that_cannot_be_asked_for_one_pod_is_asked_for_all(node: VirtualNode, why: str) -> None:
    node.admit("ml/train", guaranteed({"cpu": 2, "memory": "2Gi"}))
    node.server.stop()
    if why == "too old":
        node.server.without = {"Get"}
    else:
        node.server.disabled = {"Get": "PodResources API Get method disabled"}
    node.server.start()
    async with kubelet_at(node.socket) as asked:
        assert await asked.pod("ml", "train") == (await asked.pods())[0]
        assert await asked.pod("ml", "gone") is None


@pytest.mark.parametrize("megabytes, fits", [(10, True), (17, False)])
def test_answers_may_have_16_mebibytes(node: VirtualNode, megabytes: int, fits: bool) -> None:
    name = "x" * 1_000_000
    node.server.more_pods = [wire.PodResources(name=name, namespace="ml") for _ in range(megabytes)]

    async def count() -> int:
        async with kubelet_at(node.socket) as asked:
            return len(await asked.pods())

    if fits:
        assert asyncio.run(count()) == megabytes
    else:
        with pytest.raises(KubeletSilent, match="has more than 16 MiB"):
            asyncio.run(count())


@asynchronous
async def test_there_is_no_socket(tmp_path: Path) -> None:
    with pytest.raises(KubeletSilent, match=r"podresources socket .*/kubelet.sock is missing") as silent:
        async with kubelet_at(tmp_path / "kubelet.sock"):
            pass
    assert silent.value.kind == "missing"


@asynchronous
async def test_it_is_not_a_socket(tmp_path: Path) -> None:
    (tmp_path / "kubelet.sock").write_text("")
    with pytest.raises(KubeletSilent, match="is not a socket"):
        async with kubelet_at(tmp_path / "kubelet.sock"):
            pass


@asynchronous
async def test_no_process_listens(node: VirtualNode) -> None:
    node.server.stop(leave_socket=True)
    with pytest.raises(KubeletSilent, match=r"List: no process answers: Connection refused$") as silent:
        await ask(node)
    assert silent.value.kind == "unavailable"


@asynchronous
async def test_the_kubelet_hangs(node: VirtualNode) -> None:
    node.server.hang()
    with pytest.raises(KubeletSilent, match=r"List: no answer within 0.3 s") as silent:
        await ask(node)
    assert silent.value.kind == "timeout"
    node.server.answer_again()
    assert (await ask(node))[0] == ()


@asynchronous
async def test_the_kubelet_refuses(node: VirtualNode) -> None:
    node.server.refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
    with pytest.raises(KubeletSilent, match="RESOURCE_EXHAUSTED: rejected by rate limit") as silent:
        await ask(node)
    assert silent.value.kind == "resource_exhausted"


@asynchronous
async def test_a_kubelet_that_restarts_is_found_again(node: VirtualNode) -> None:
    await ask(node)
    node.server.stop()
    node.server.start()
    assert (await ask(node))[0] == ()


def test_a_socket_may_be_written_as_a_uri() -> None:
    texts = ("/run/kubelet.sock", "unix:///run/kubelet.sock", "unix:/run/kubelet.sock")
    assert {socket_path(text) for text in texts} == {Path("/run/kubelet.sock")}
