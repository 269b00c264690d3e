"""Small nodes and pods for the stories told in this folder."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.cluster.pods.request import ContainerRequest, PodRequest, QoS, Role
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.engine.kubelet import CpuLayout, Device, NodeKnowledge, ZoneMemory
from bayplan.engine.kubelet.masks import mask_of

GI = 2**30
GPU = "example.com/gpu"


def settings(
    policy: Policy = Policy.RESTRICTED,
    scope: Scope = Scope.CONTAINER,
    *,
    options: tuple[str, ...] = (),
    memory_manager: bool = True,
    pod_level_managers: bool = False,
) -> KubeletSettings:
    """CPU and Memory Manager static, which is where alignment gets interesting."""
    return KubeletSettings(
        policy=policy,
        scope=scope,
        cpu_static=True,
        cpu_options=frozenset(options),
        memory_static=memory_manager,
        pod_level_managers=pod_level_managers,
    )


def node(
    configured: KubeletSettings,
    *,
    zones: int = 2,
    cpus: int = 16,
    threads: int = 1,
    reserved: tuple[int, ...] = (),
    taken: tuple[int, ...] = (),
    memory: int = 64 * GI,
    free_memory: Mapping[int, int] | None = None,
    groups: Mapping[int, int] | None = None,
    gpus: tuple[tuple[int, ...], ...] = (),
) -> NodeKnowledge:
    """Equal zones, a socket each; CPU ids run zone by zone, siblings next to each other.

    `groups` maps a zone that is in use to the mask it is used in. `gpus` lists for each GPU the zones it is in.
    """
    ids = range(zones * cpus)
    column = tuple(cpu // cpus for cpu in ids)
    return NodeKnowledge(
        zone_ids=tuple(range(zones)),
        settings=configured,
        cpus=CpuLayout(core=tuple(cpu // threads for cpu in ids), socket=column, numa=column, l3=column),
        free_cpus=mask_of(ids) & ~mask_of(reserved) & ~mask_of(taken),
        reserved_cpus=mask_of(reserved),
        memory={
            zone: ZoneMemory(
                allocatable={"memory": memory},
                free={"memory": (free_memory or {}).get(zone, memory)},
                group=(groups or {}).get(zone, 1 << zone),
                assignments=1 if zone in (groups or {}) else 0,
            )
            for zone in range(zones)
        },
        devices={GPU: tuple(Device(f"gpu-{index}", mask_of(where)) for index, where in enumerate(gpus))},
    )


def container(
    name: str = "main", *, cpu: float = 0, memory: int = GI, gpus: int = 0, role: Role = Role.APP
) -> ContainerRequest:
    """A container whose limits equal its requests."""
    amounts = {"cpu": int(cpu * 1000), "memory": memory}
    if gpus:
        amounts[GPU] = gpus
    return ContainerRequest(name, role, amounts, amounts)


def pod(
    *containers: ContainerRequest, qos: QoS = QoS.GUARANTEED, pod_level: Mapping[str, int] | None = None
) -> PodRequest:
    """A Guaranteed pod unless said otherwise."""
    return PodRequest(containers=containers, qos=qos, overhead={}, pod_level=pod_level)
