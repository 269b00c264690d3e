"""Numatopology (`nodeinfo.volcano.sh/v1alpha1`): what Volcano's agent says about a node's CPUs.

Zeros are left out where it is written: a CPU `{}` sits on NUMA node 0, socket 0, core 0. The structs write it the same
way. What the values mean is decided in `cluster/reports/numatopology.py`.
"""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Int64, Metadata, WireStruct

GROUP = "nodeinfo.volcano.sh"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "Numatopology"
PLURAL = "numatopologies"

CPU_MANAGER_POLICY = "CPUManagerPolicy"
TOPOLOGY_MANAGER_POLICY = "TopologyManagerPolicy"
TIMESTAMP_ANNOTATION = "timestamp"


class CpuInfo(WireStruct, frozen=True, omit_defaults=True):
    """Where one logical CPU sits. On most hardware core numbers repeat in every socket."""

    numa: Int64 = 0
    socket: Int64 = 0
    core: Int64 = 0


class ResourceInfo(WireStruct, frozen=True, omit_defaults=True):
    """One resource with ids: `allocatable` lists those that are *free* now, reserved ones among them.

    `capacity` counts all.
    """

    allocatable: str = ""
    capacity: Int64 = 0


class ContainerAllocation(WireStruct, frozen=True, omit_defaults=True):
    """What one container holds; for `cpu` a list of ids such as `0-3,8`."""

    name: str = ""
    allocations: dict[str, str] | None = None


class PodAllocation(WireStruct, frozen=True, omit_defaults=True):
    """What one pod holds.

    Agents that read state files know only its uid, those that ask the kubelet only namespace and name.
    """

    uid: str = ""
    name: str = ""
    namespace: str = ""
    container_allocations: list[ContainerAllocation] | None = None


class NumatopologySpec(WireStruct, frozen=True, omit_defaults=True):
    """Policies of the kubelet, CPUs by number, and who holds which."""

    policies: dict[str, str] | None = None
    res_reserved: dict[str, str | int | float] | None = None
    numares: dict[str, ResourceInfo] | None = None
    cpu_detail: dict[str, CpuInfo] | None = None
    pod_allocations: list[PodAllocation] | None = None


class Numatopology(WireStruct, frozen=True):
    """One node's CPUs; the object's name is the node's name."""

    metadata: Metadata = Metadata()
    spec: NumatopologySpec = NumatopologySpec()
