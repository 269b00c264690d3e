"""Client of the kubelet's podresources API (v1): gRPC over a unix socket.

Out go the plain values of `pod_resources.py`, or a `KubeletSilent` that names socket and cause. Each scan opens a
channel of its own (0.4 ms): a restarted kubelet listens on a new socket of the same name.

    async with kubelet_at("/var/lib/kubelet/pod-resources/kubelet.sock") as kubelet:
        pods, allocatable = await kubelet.pods(), await kubelet.allocatable()
"""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from bayplan.services.agent.sources import podresources_pb2 as wire
from bayplan.services.agent.sources.pod_resources import (
    Allocatable,
    ContainerResources,
    DeviceGroup,
    MemoryBlock,
    PodResources,
)

SERVICE = "v1.PodResourcesLister"
MOST_BYTES = 16 << 20  # of one answer; gRPC's default of 4 MiB is too small for nodes with many devices
PATIENCE = 10.0  # seconds, for one answer
_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.enable_http_proxy", 0),
    # By default, channels to one address share a connection, and so a peer that is gone.
    ("grpc.use_local_subchannel_pool", 1),
)


class KubeletSilent(Exception):
    """The kubelet gave no answer; the message says why. `kind` is a metric label."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class NotOffered(KubeletSilent):
    """The kubelet does not offer the call."""


class Kubelet:
    """One kubelet's podresources service."""

    def __init__(self, channel: grpc.aio.Channel, socket: Path, patience: float) -> None:
        self._channel = channel
        self._socket = socket
        self._patience = patience

    async def pods(self) -> tuple[PodResources, ...]:
        """What every pod on the node holds."""
        answer = await self._ask("List", wire.ListPodResourcesRequest(), wire.ListPodResourcesResponse)
        return tuple(_pod(each) for each in answer.pod_resources)

    async def allocatable(self) -> Allocatable:
        """Healthy devices, and unreserved CPUs and memory."""
        answer = await self._ask(
            "GetAllocatableResources", wire.AllocatableResourcesRequest(), wire.AllocatableResourcesResponse
        )
        return Allocatable(tuple(answer.cpu_ids), _devices(answer.devices), _memory(answer.memory))

    async def pod(self, namespace: str, name: str) -> PodResources | None:
        """What one pod holds; None if it is not on the node.

        Kubelets before v1.27, and those without the feature gate `KubeletPodResourcesGet`, are asked for all pods.
        """
        question = wire.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        try:
            answer = await self._ask("Get", question, wire.GetPodResourcesResponse)
        except NotOffered:
            return next((pod for pod in await self.pods() if pod.key == (namespace, name)), None)
        except KubeletSilent as error:
            # The kubelet has no status code for a missing pod.
            if error.kind == "unknown" and "not found" in str(error):
                return None
            raise
        return _pod(answer.pod_resources)

    async def _ask(self, call: str, question: Any, answer_type: Any) -> Any:
        method = self._channel.unary_unary(
            f"/{SERVICE}/{call}",
            request_serializer=type(question).SerializeToString,
            response_deserializer=answer_type.FromString,
        )
        try:
            answer = await method(question, timeout=self._patience)
        except grpc.aio.AioRpcError as error:
            raise self._silent(call, error) from None
        except grpc.aio.UsageError as error:
            raise KubeletSilent("closed", f"podresources socket {self._socket}: {call}: {error}") from None
        if answer is None:  # gRPC logs undecodable answers, and returns None
            where = f"podresources socket {self._socket}: {call}"
            raise KubeletSilent("garbled", f"{where}: the answer is not a kubelet's")
        return answer

    def _silent(self, call: str, error: grpc.aio.AioRpcError) -> KubeletSilent:
        code, details = error.code(), " ".join((error.details() or "").split())
        where = f"podresources socket {self._socket}: {call}"
        match code:
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return KubeletSilent("timeout", f"{where}: no answer within {self._patience:g} s")
            case grpc.StatusCode.UNAVAILABLE:
                # gRPC repeats the address; the reason comes last.
                return KubeletSilent("unavailable", f"{where}: no process answers: {details.rpartition(' error: ')[2]}")
            case grpc.StatusCode.UNIMPLEMENTED:
                return NotOffered("unimplemented", f"{where}: this kubelet does not offer it: {details}")
            case grpc.StatusCode.UNKNOWN if details.endswith(" disabled"):  # by its feature gate
                return NotOffered("disabled", f"{where}: this kubelet does not offer it: {details}")
            case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in details:
                return KubeletSilent(
                    "too-large", f"{where}: the answer has more than {MOST_BYTES >> 20} MiB: {details}"
                )
            case _:
                return KubeletSilent(code.name.lower(), f"{where}: {code.name}: {details}")


@asynccontextmanager
async def kubelet_at(socket: str | Path, *, patience: float = PATIENCE) -> AsyncIterator[Kubelet]:
    """The kubelet behind a socket (a path or `unix:///path`); raises `KubeletSilent` if there is no socket."""
    path = socket_path(socket)
    try:
        is_socket = stat.S_ISSOCK(path.stat().st_mode)
    except OSError as error:
        problem = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be used: {error.strerror or error}"
        raise KubeletSilent("missing", f"podresources socket {path} {problem}") from None
    if not is_socket:
        raise KubeletSilent("missing", f"podresources socket {path} is not a socket")
    async with grpc.aio.insecure_channel(f"unix://{path.absolute()}", options=_OPTIONS) as channel:
        yield Kubelet(channel, path, patience)


def socket_path(text: str | Path) -> Path:
    """The path of a socket that may be a URI.

    >>> str(socket_path("unix:///podresources/kubelet.sock"))
    '/podresources/kubelet.sock'
    """
    return Path(str(text).removeprefix("unix://").removeprefix("unix:"))


def _pod(pod: wire.PodResources) -> PodResources:
    containers = tuple(
        ContainerResources(
            name=each.name,
            cpus=tuple(sorted(each.cpu_ids)),
            devices=_devices(each.devices),
            memory=_memory(each.memory),
            claims=tuple(f"{claim.claim_namespace}/{claim.claim_name}" for claim in each.dynamic_resources),
        )
        for each in pod.containers
    )
    return PodResources(pod.namespace, pod.name, containers)


def _devices(devices: Iterable[wire.ContainerDevices]) -> tuple[DeviceGroup, ...]:
    return tuple(DeviceGroup(each.resource_name, tuple(each.device_ids), _zones(each.topology)) for each in devices)


def _memory(parts: Iterable[wire.ContainerMemory]) -> tuple[MemoryBlock, ...]:
    return tuple(MemoryBlock(each.memory_type, each.size, _zones(each.topology)) for each in parts)


def _zones(topology: wire.TopologyInfo) -> tuple[int, ...]:
    return tuple(node.ID for node in topology.nodes)
