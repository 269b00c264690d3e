"""Small machines and kubelets for these tests, in one line each; pods are written with `tests/builders`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bayplan.cluster.pods.request import PodRequest, effective_request
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.simulate.kubelet import (
    Admission,
    Cpu,
    KubeletConfiguration,
    Machine,
    MachineDevice,
    MachineZone,
    VirtualKubelet,
)
from tests.builders.bodies import Json
from tests.builders.objects import GI, GPU, Amounts, container, pod

HUGE = "hugepages-1Gi"


def machine(
    zones: int = 2,
    *,
    cores: int = 4,
    threads: int = 2,
    zones_per_socket: int = 1,
    cores_per_cache: int = 4,
    memory: int = 16,
    huge_pages: int = 0,
    memory_only_zones: int = 0,
    gpus: Sequence[Iterable[int]] = (),
) -> Machine:
    """Equal zones; siblings lie half the CPUs apart; `gpus` are the zones of each GPU. Memory in GiB."""
    places = [(zone, core // cores_per_cache) for zone in range(zones) for core in range(cores)]
    ids = range(zones + memory_only_zones)
    return Machine(
        zones=tuple(
            MachineZone(
                zone,
                memory * GI,
                {HUGE: huge_pages * GI} if huge_pages else {},
                tuple(10 if other == zone else 10 + abs(other - zone) for other in ids),
            )
            for zone in ids
        ),
        cpus=tuple(
            Cpu(core, zone // zones_per_socket, zone, zone * 100 + cache)
            for _ in range(threads)
            for core, (zone, cache) in enumerate(places)
        ),
        devices={GPU: tuple(MachineDevice(f"gpu-{number}", tuple(at)) for number, at in enumerate(gpus))}
        if gpus
        else {},
    )


def configuration(
    *,
    policy: Policy = Policy.RESTRICTED,
    scope: Scope = Scope.CONTAINER,
    cpu: bool = True,
    options: Iterable[str] = (),
    memory: bool = True,
    reserved_cpus: Iterable[int] = (0,),
    reserved_memory: Mapping[int, Mapping[str, int]] | None = None,
    most_pods: int = 110,
    **settings: Any,
) -> KubeletConfiguration:
    """Both managers static; CPU 0 and 1 GiB of zone 0 are reserved."""
    return KubeletConfiguration(
        settings=KubeletSettings(
            policy=policy,
            scope=scope,
            cpu_static=cpu,
            cpu_options=frozenset(options),
            memory_static=memory,
            **settings,
        ),
        reserved_cpus=frozenset(reserved_cpus),
        reserved_memory={0: {"memory": GI}} if reserved_memory is None else reserved_memory,
        most_pods=most_pods,
    )


def kubelet(hardware: Machine | None = None, **settings: Any) -> VirtualKubelet:
    """A kubelet on a machine of two zones of four cores, or on the given one."""
    return VirtualKubelet(hardware or machine(), configuration(**settings))


def guaranteed(amounts: Amounts, init: Sequence[Json] = ()) -> PodRequest:
    """A pod of one container called main whose limits are its requests."""
    return effective_request(pod(container(amounts), init=init))


def request(*containers: Json, init: Sequence[Json] = (), **spec: Any) -> PodRequest:
    """A pod of these containers."""
    return effective_request(pod(*containers, init=init, **spec))


def cpus(admission: Admission) -> dict[str, tuple[int, ...]]:
    """The CPUs of each container."""
    return {each.name: each.cpus for each in admission.containers}
