"""A node whose kubelet is virtual but whose edges are real: a sysfs tree, state files, and a podresources socket that
speaks gRPC.

with VirtualNode(folder, kubelet) as node:
    node.admit("default/a", request)         # state files follow, as a kubelet's do
    agent reads node.sysfs, node.state_folder, node.socket

Everything on disk is what Linux and kubelet v1.36 would write for this machine and these pods. The socket can be told
to misbehave (`hanging`, `refusing`, `stop`, `start`).
"""

from __future__ import annotations

import json
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import grpc
import yaml

from bayplan.cluster.pods.request import MEMORY, PodRequest, Role
from bayplan.cluster.reports.inventory import cpu_list
from bayplan.services.agent.sources import podresources_pb2 as wire
from bayplan.services.agent.sources.podresources import MOST_BYTES, SERVICE
from bayplan.simulate.kubelet import Admission, Machine, MachineDevice, MachineZone, VirtualKubelet
from bayplan.simulate.kubelet.memory_zones import allocatable_memory
from tests.builders.bodies import Json

ANSWER_THREADS = 4
PAGE_SIZES = {"hugepages-2Mi": 2048, "hugepages-1Gi": 1048576}  # in KiB, as sysfs names them


class VirtualNode:
    """Files and socket of one virtual kubelet, under `folder`."""

    def __init__(self, folder: Path, kubelet: VirtualKubelet, name: str = "n1") -> None:
        self.name = name
        self.folder = folder
        self.kubelet = kubelet
        self.sysfs = folder / "sys"
        self.state_folder = folder / "kubelet"
        self.config_file = self.state_folder / "config.yaml"
        # The path of a unix socket has 107 bytes at most, and a test's own folder may have used them up.
        self._short_folder = tempfile.TemporaryDirectory(prefix="node-")
        self.socket = Path(self._short_folder.name) / "kubelet.sock"
        self.devices = dict(kubelet.machine.devices)
        self.server = PodResourcesServer(self)
        write_sysfs(kubelet.machine, self.sysfs)
        (self.state_folder / "device-plugins").mkdir(parents=True)
        self.config_file.write_text(yaml.safe_dump(kubelet_configuration(kubelet)))
        self.write_state_files()

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.server.stop()
        self._short_folder.cleanup()

    def admit(self, key: str, pod: PodRequest) -> Admission:
        """Let a pod in or not, start it, and write the state files: memory that was tried out comes back to other zones
        of its group.
        """
        with self.server.lock:
            admission = self.kubelet.admit(key, pod)
            if admission.admitted:
                self.kubelet.start(key)
        self.write_state_files()
        return admission

    def remove(self, key: str) -> None:
        """A pod has ended."""
        with self.server.lock:
            self.kubelet.remove(key)
        self.write_state_files()

    def write_state_files(self) -> None:
        """Checkpoints as the managers write them: a temporary file, renamed."""
        for file, content in state_files(self.kubelet).items():
            target = self.state_folder / file
            temporary = target.with_name(f".{target.name}.tmp")
            temporary.write_text(json.dumps(content))
            temporary.rename(target)


class PodResourcesServer:
    """The kubelet's side of the podresources API, on threads of its own."""

    def __init__(self, node: VirtualNode) -> None:
        self._node = node
        self._server: grpc.Server | None = None
        self._may_answer = threading.Event()
        self._may_answer.set()
        self.lock = threading.Lock()
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.asked: list[str] = []
        self.without: set[str] = set()  # calls that this kubelet does not have
        self.disabled: dict[str, str] = {}  # calls that it has and refuses, with its words
        self.managers_started = True  # until then nothing is allocatable but devices
        self.more_pods: list[wire.PodResources] = []
        self.after_answer: Callable[[], None] = lambda: None  # happens between a `List` and whatever comes next

    def start(self) -> None:
        """Listen; a socket file that was left behind is replaced."""
        with suppress(FileNotFoundError):
            self._node.socket.unlink()
        limits = [("grpc.max_send_message_length", 4 * MOST_BYTES)]
        self._server = grpc.server(ThreadPoolExecutor(ANSWER_THREADS), options=limits)
        handlers = {
            call: grpc.unary_unary_rpc_method_handler(
                self._answer(call, make), question.FromString, lambda message: message.SerializeToString()
            )
            for call, question, make in (
                ("List", wire.ListPodResourcesRequest, self._list),
                ("GetAllocatableResources", wire.AllocatableResourcesRequest, self._allocatable),
                ("Get", wire.GetPodResourcesRequest, self._get),
            )
            if call not in self.without
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        assert self._server.add_insecure_port(f"unix://{self._node.socket}")
        self._server.start()

    def stop(self, *, leave_socket: bool = False) -> None:
        """End at once. A kubelet that is killed leaves the socket file behind."""
        self._may_answer.set()
        if self._server is not None:
            self._server.stop(grace=None).wait()
            self._server = None
        if leave_socket:
            with suppress(FileNotFoundError):
                self._node.socket.unlink()
            with socket.socket(socket.AF_UNIX) as left_behind:
                left_behind.bind(str(self._node.socket))

    def hang(self) -> None:
        """Take questions and do not answer."""
        self._may_answer.clear()

    def answer_again(self) -> None:
        """The end of `hang`."""
        self._may_answer.set()

    def _answer(self, call: str, make: Callable[[Any], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
        def answer(question: Any, context: grpc.ServicerContext) -> Any:
            self.asked.append(call)
            while not self._may_answer.wait(0.05) and context.is_active():
                pass
            if self.refusal is not None:
                context.abort(*self.refusal)
            if call in self.disabled:
                context.abort(grpc.StatusCode.UNKNOWN, self.disabled[call])
            with self.lock:
                try:
                    return make(question)
                except KeyError as error:
                    # As the kubelet: an error without a status of its own.
                    context.abort(grpc.StatusCode.UNKNOWN, str(error.args[0]))
                finally:
                    if call == "List":
                        self.after_answer()

        return answer

    def _list(self, _: wire.ListPodResourcesRequest) -> wire.ListPodResourcesResponse:
        pods = [pod_resources(self._node, key) for key in self._node.kubelet.pods]
        return wire.ListPodResourcesResponse(pod_resources=[*pods, *self.more_pods])

    def _allocatable(self, _: wire.AllocatableResourcesRequest) -> wire.AllocatableResourcesResponse:
        kubelet = self._node.kubelet
        settings = kubelet.configuration.settings
        hands_out_cpus = settings.cpu_static and self.managers_started
        cpus = set(range(len(kubelet.machine.cpus))) - kubelet.reserved_cpus if hands_out_cpus else ()
        memory: list[wire.ContainerMemory] = []
        if settings.memory_static and self.managers_started:
            for zone in kubelet.machine.zones:
                amounts = allocatable_memory(zone, kubelet.configuration.reserved_memory.get(zone.id, {}))
                memory += [memory_part(name, amount, (zone.id,)) for name, amount in amounts.items() if amount]
        devices = [
            part
            for resource, each in self._node.devices.items()
            for device in each
            if device.healthy
            for part in device_parts(resource, device)
        ]
        return wire.AllocatableResourcesResponse(cpu_ids=cpus, memory=memory, devices=devices)

    def _get(self, question: wire.GetPodResourcesRequest) -> wire.GetPodResourcesResponse:
        key = f"{question.pod_namespace}/{question.pod_name}"
        if key not in self._node.kubelet.pods:
            raise KeyError(f"pod {question.pod_name} in namespace {question.pod_namespace} not found")
        return wire.GetPodResourcesResponse(pod_resources=pod_resources(self._node, key))


# -- answers ---------------------------------------------------------------------------------------------------------


def pod_resources(node: VirtualNode, key: str) -> wire.PodResources:
    """A pod as `List` shows it: init containers that end are left out."""
    namespace, _, name = key.partition("/")
    pod = node.kubelet.pods[key]
    containers = [
        wire.ContainerResources(
            name=held.name,
            cpu_ids=held.cpus,
            memory=[memory_part(block.type, block.size, block.zones) for block in held.memory],
            devices=[
                part
                for resource, ids in held.devices.items()
                for device in node.devices[resource]
                if device.id in ids
                for part in device_parts(resource, device)
            ],
        )
        for asked, held in zip(pod.request.containers, pod.containers, strict=True)
        if asked.role is not Role.INIT
    ]
    return wire.PodResources(name=name, namespace=namespace, containers=containers)


def memory_part(name: str, size: int, zones: tuple[int, ...]) -> wire.ContainerMemory:
    return wire.ContainerMemory(memory_type=name, size=size, topology=topology(zones))


def device_parts(resource: str, device: MachineDevice) -> Iterator[wire.ContainerDevices]:
    """One part for each zone of a device."""
    if not device.zones:
        yield wire.ContainerDevices(resource_name=resource, device_ids=[device.id])
    for zone in device.zones:
        yield wire.ContainerDevices(resource_name=resource, device_ids=[device.id], topology=topology((zone,)))


def topology(zones: tuple[int, ...]) -> wire.TopologyInfo:
    return wire.TopologyInfo(nodes=[wire.NUMANode(ID=zone) for zone in zones])


# -- files -----------------------------------------------------------------------------------------------------------


def kubelet_configuration(kubelet: VirtualKubelet) -> Json:
    """The KubeletConfiguration that such a kubelet was started with."""
    settings = kubelet.configuration.settings
    written: Json = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "topologyManagerPolicy": settings.policy.text,
        "topologyManagerScope": settings.scope.text,
        "topologyManagerPolicyOptions": {
            "max-allowable-numa-nodes": str(settings.max_numa_nodes),
            "prefer-closest-numa-nodes": str(settings.prefer_closest).lower(),
        },
        "cpuManagerPolicy": "static" if settings.cpu_static else "none",
        "cpuManagerPolicyOptions": dict.fromkeys(sorted(settings.cpu_options), "true"),
        "memoryManagerPolicy": "Static" if settings.memory_static else "None",
    }
    if kubelet.configuration.reserved_cpus:
        written["reservedSystemCPUs"] = cpu_list(kubelet.configuration.reserved_cpus)
    elif kubelet.configuration.reserved_cpu_milli:
        written["kubeReserved"] = {"cpu": f"{kubelet.configuration.reserved_cpu_milli}m"}
    if kubelet.configuration.reserved_memory:
        written["reservedMemory"] = [
            {"numaNode": zone, "limits": {name: str(amount) for name, amount in amounts.items()}}
            for zone, amounts in kubelet.configuration.reserved_memory.items()
        ]
    return written


def uid_of(key: str) -> str:
    """The UID of a pod, which is made of its name here."""
    return f"uid-{key.replace('/', '-')}"


def state_files(kubelet: VirtualKubelet) -> dict[str, Json]:
    """The managers' checkpoints by file name. Only the kubelet checks the checksums."""
    free = kubelet.free()
    settings = kubelet.configuration.settings
    held = {uid_of(key): {each.name: each for each in pod.containers} for key, pod in kubelet.pods.items()}
    shared = kubelet.reserved_cpus | (free.cpus or frozenset())
    files: dict[str, Json] = {
        "cpu_manager_state": {
            "policyName": "static" if settings.cpu_static else "none",
            "defaultCpuSet": cpu_list(shared) if settings.cpu_static else "",
            "entries": {
                uid: {name: cpu_list(each.cpus) for name, each in containers.items() if each.cpus}
                for uid, containers in held.items()
                if any(each.cpus for each in containers.values())
            },
            "checksum": 0,
        },
        "memory_manager_state": {"policyName": "None", "machineState": {}, "checksum": 0},
        "device-plugins/kubelet_internal_checkpoint": {"Data": _device_checkpoint(kubelet, held), "Checksum": 0},
    }
    if free.memory is not None:
        files["memory_manager_state"] = {
            "policyName": "Static",
            "machineState": {str(zone.id): _memory_state(kubelet, zone) for zone in kubelet.machine.zones},
            "entries": {
                uid: {
                    name: [
                        {"numaAffinity": list(block.zones), "type": block.type, "size": block.size}
                        for block in each.memory
                    ]
                    for name, each in containers.items()
                    if each.memory
                }
                for uid, containers in held.items()
            },
            "checksum": 0,
        }
    return files


def _memory_state(kubelet: VirtualKubelet, zone: MachineZone) -> Json:
    memory = kubelet.free().memory
    assert memory is not None
    now = memory[zone.id]
    reserved = kubelet.configuration.reserved_memory.get(zone.id, {})
    totals = {MEMORY: zone.memory, **zone.huge_pages}
    return {
        "numberOfAssignments": now.assignments,
        "cells": list(now.group),
        "memoryMap": {
            name: {
                "total": totals[name],
                "systemReserved": reserved.get(name, 0),
                "allocatable": allocatable,
                "reserved": allocatable - now.free[name],
                "free": now.free[name],
            }
            for name, allocatable in allocatable_memory(zone, reserved).items()
        },
    }


def _device_checkpoint(kubelet: VirtualKubelet, held: Mapping[str, Mapping[str, Any]]) -> Json:
    devices = kubelet.machine.devices
    zones_of = {(name, device.id): device.zones for name, each in devices.items() for device in each}
    entries = []
    for uid, containers in held.items():
        for container, each in containers.items():
            for resource, ids in each.devices.items():
                by_zone: dict[str, list[str]] = {}
                for device in ids:
                    for zone in zones_of[resource, device] or (-1,):
                        by_zone.setdefault(str(zone), []).append(device)
                entries.append(
                    {"PodUID": uid, "ContainerName": container, "ResourceName": resource, "DeviceIDs": by_zone}
                )
    return {
        "PodDeviceEntries": entries,
        "RegisteredDevices": {name: [device.id for device in each if device.healthy] for name, each in devices.items()},
    }


def write_sysfs(machine: Machine, root: Path) -> None:
    """A machine as Linux shows it under /sys."""
    nodes, cpus = root / "devices/system/node", root / "devices/system/cpu"
    every_zone, every_cpu = cpu_list(zone.id for zone in machine.zones), cpu_list(range(len(machine.cpus)))
    by_core, by_socket, by_cache = (
        _grouped([getattr(cpu, unit) for cpu in machine.cpus]) for unit in ("core", "socket", "cache")
    )
    for zone in machine.zones:
        here = [number for number, cpu in enumerate(machine.cpus) if cpu.zone == zone.id]
        at = nodes / f"node{zone.id}"
        _write(at / "cpulist", cpu_list(here))
        _write(at / "distance", " ".join(map(str, zone.distances)))
        _write(at / "meminfo", f"Node {zone.id} MemTotal:       {zone.memory // 1024} kB")
        for name, size in PAGE_SIZES.items():
            _write(at / f"hugepages/hugepages-{size}kB/nr_hugepages", zone.huge_pages.get(name, 0) // (size * 1024))
    for folder, everything in ((nodes, every_zone), (cpus, every_cpu)):
        for file in ("online", "possible", "present"):
            _write(folder / file, everything)
    for number, cpu in enumerate(machine.cpus):
        at = cpus / f"cpu{number}"
        _write(at / "topology/core_id", cpu.core)
        _write(at / "topology/physical_package_id", cpu.socket)
        for file in ("thread_siblings_list", "core_cpus_list"):
            _write(at / "topology" / file, cpu_list(by_core[cpu.core]))
        for file in ("core_siblings_list", "package_cpus_list"):
            _write(at / "topology" / file, cpu_list(by_socket[cpu.socket]))
        _write(at / "cache/index3/level", 3)
        _write(at / "cache/index3/type", "Unified")
        _write(at / "cache/index3/id", cpu.cache)
        _write(at / "cache/index3/shared_cpu_list", cpu_list(by_cache[cpu.cache]))
        (at / f"node{cpu.zone}").symlink_to(nodes / f"node{cpu.zone}")


def _write(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{content}\n")


def _grouped(units: list[int]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for cpu, unit in enumerate(units):
        groups.setdefault(unit, []).append(cpu)
    return groups
