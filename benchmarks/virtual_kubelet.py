"""Admissions by the virtual kubelet: one Guaranteed pod of 4 CPUs, 8 GiB and 1 of 8 GPUs on an empty node, admitted and
removed.

The nodes have 64 CPUs on 2 and 4 zones and 128 CPUs on 8. For comparison, one Admit of the real kubelet v1.36.4
(without the removal, with its checkpoint files on tmpfs), average on two shared cores, in ms; best-effort is like
restricted:

    hints from     2 restricted   2 single   4 restricted   8 restricted   8 single
    cpu                    0.42       0.42           0.43            6.1        7.6
    cpu+gpu                0.52       0.61           0.52             23        8.4
    cpu+mem                0.59       0.61           0.68             18        7.8
    cpu+mem+gpu            0.67       0.70            1.6           4093        8.3

`split` is what no zone set suits: 5 GPUs, which no zone has, with CPUs and memory that fit one. `admissions` packs an
empty node with pods of 2 CPUs and 4 GiB until one is refused.
"""

from __future__ import annotations

import time
from functools import partial
from statistics import median

from bayplan.cluster.pods.request import PodRequest, effective_request
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy
from bayplan.simulate.kubelet import (
    Cpu,
    KubeletConfiguration,
    Machine,
    MachineDevice,
    MachineZone,
    VirtualKubelet,
)
from benchmarks.clusters import GIB, pod
from benchmarks.measure import median_seconds, report

GPU = "vendor.com/gpu"
ZONE_MEMORY = 64 * GIB
CPUS = {2: 64, 4: 64, 8: 128}
ASKED = {
    "cpu": effective_request(pod("cpu", cpu=4, memory="8Gi")),
    "cpu+gpu": effective_request(pod("gpu", cpu=4, memory="8Gi", gpu=1)),
}
SPLIT = effective_request(pod("split", cpu=4, memory="8Gi", gpu=5))
SMALL = effective_request(pod("small", cpu=2, memory="4Gi"))
FILLS = 7


def run() -> None:
    """Print all figures of this group."""
    for zones in CPUS:
        for policy in (Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE):
            for memory in (False, True):
                node = kubelet(zones, policy, memory=memory)
                for name, asked in ASKED.items():
                    hints = name.replace("cpu", "cpu+mem") if memory else name
                    seconds = median_seconds(partial(_admit_and_remove, node, asked), seconds=0.3)
                    report(f"virtual-kubelet/{policy.text}/{hints}/{zones}-zones", seconds * 1e3, "ms")
        for policy in (Policy.RESTRICTED, Policy.BEST_EFFORT):
            seconds = median_seconds(partial(_admit_and_remove, kubelet(zones, policy), SPLIT), seconds=0.3)
            report(f"virtual-kubelet/{policy.text}/split/{zones}-zones", seconds * 1e3, "ms")
        filling = median(_mean_seconds_to_fill(zones) for _ in range(FILLS))
        report(f"virtual-kubelet/admissions/{zones}-zones", 1 / filling, "admissions/s")
        starting = median_seconds(partial(kubelet, zones, Policy.RESTRICTED), seconds=0.3)
        report(f"virtual-kubelet/start/{zones}-zones", starting * 1e3, "ms")


def machine(zones: int) -> Machine:
    """Two sockets, two threads a core, siblings half the CPUs apart, the GPUs dealt out to the zones."""
    cpus = CPUS[zones]
    cores = cpus // 2
    per_zone = cores // zones
    return Machine(
        zones=tuple(
            MachineZone(zone, ZONE_MEMORY, distances=tuple(10 if other == zone else 21 for other in range(zones)))
            for zone in range(zones)
        ),
        cpus=tuple(
            Cpu(core=core, socket=core * 2 // cores, zone=core // per_zone, cache=core // per_zone)
            for core in (cpu % cores for cpu in range(cpus))
        ),
        devices={GPU: tuple(MachineDevice(f"gpu-{number}", (number % zones,)) for number in range(8))},
    )


def kubelet(zones: int, policy: Policy, *, memory: bool = True) -> VirtualKubelet:
    """An empty node with one core and 1 GiB reserved."""
    settings = KubeletSettings(policy=policy, cpu_static=True, memory_static=memory)
    reserved = {0: {"memory": GIB}}
    return VirtualKubelet(
        machine(zones), KubeletConfiguration(settings, reserved_cpu_milli=2000, reserved_memory=reserved)
    )


def _admit_and_remove(node: VirtualKubelet, asked: PodRequest) -> None:
    if node.admit("pod", asked).admitted:
        node.remove("pod")


def _mean_seconds_to_fill(zones: int) -> float:
    node = kubelet(zones, Policy.RESTRICTED)
    before = time.thread_time()
    admitted = 0
    while node.admit(f"pod-{admitted}", SMALL).admitted:
        admitted += 1
    return (time.thread_time() - before) / (admitted + 1)
