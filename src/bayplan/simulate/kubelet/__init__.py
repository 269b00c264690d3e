"""The virtual kubelet: admits and refuses pods like kubelet v1.36, on real CPU ids, memory blocks and devices."""

from bayplan.simulate.kubelet.answer import (
    Admission,
    AdmittedPod,
    ContainerAllocation,
    FreeState,
    MemoryBlock,
    ZoneMemoryState,
)
from bayplan.simulate.kubelet.configuration import MOST_PODS, CannotStart, KubeletConfiguration, TooManyZones
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.machine import Cpu, Machine, MachineDevice, MachineZone

__all__ = [
    "MOST_PODS",
    "Admission",
    "AdmittedPod",
    "CannotStart",
    "ContainerAllocation",
    "Cpu",
    "FreeState",
    "KubeletConfiguration",
    "Machine",
    "MachineDevice",
    "MachineZone",
    "MemoryBlock",
    "TooManyZones",
    "VirtualKubelet",
    "ZoneMemoryState",
]
