"""One admission, against the kubelet's own managers.

A Guaranteed pod of 4 CPUs, 8 GiB and a GPU on an empty node with static CPU and Memory Managers.

The kubelet writes checkpoints, on tmpfs where there is one; bayplan keeps what it knows in memory. `bayplan` is the
virtual kubelet's admission, which tracks the node over all pods as the real one does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.simulate.kubelet import Machine
from benchmarks.clusters import GIB
from benchmarks.peers.contest import asked_for_times, in_turns, ratio, seconds_of
from benchmarks.virtual_kubelet import ASKED, GPU, kubelet, machine
from tests.peers.asking import Asked, Json
from tests.peers.catalogue import find_peer

ZONES = (2, 8)
ROUNDS = 3
RUNS = 25
PEER_RUNS = {2: 25, 8: 2}
MOST_SECONDS = 300.0


def run() -> None:
    """Print all figures of this group."""
    peer = find_peer("kubelet")
    with Asked(peer, seconds=MOST_SECONDS) as real:
        for zones in ZONES:
            for policy in (Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE):
                compare(real, zones, policy)


def compare(real: Asked, zones: int, policy: Policy) -> None:
    """Time both sides; both admit."""
    virtual = kubelet(zones, policy)
    question = {"machine": written(machine(zones)), "kubelet": _configuration(policy), "steps": [_admission()]}

    def ask() -> Mapping[str, Sequence[float]]:
        answer = asked_for_times(real, {**question, "repeat": PEER_RUNS[zones]})
        assert answer["admit"], f"{real.peer} refuses the pod"
        return {f"kubelet-{real.peer.version}": seconds_of(answer, "admit_ns")}

    def decide() -> Mapping[str, Sequence[float]]:
        taken = []
        for _ in range(RUNS):
            before = time.process_time()
            admission = virtual.admit("pod", ASKED["cpu+gpu"])
            taken.append(time.process_time() - before)
            assert admission.admitted
            virtual.remove("pod")
        return {"bayplan": taken}

    name = f"admission/{policy.text}/{zones}-zones"
    medians = in_turns(name, ROUNDS, ask, decide)
    ratio(f"{name}/kubelet-to-bayplan", medians[f"kubelet-{real.peer.version}"], medians["bayplan"])


def written(given: Machine) -> Json:
    """A machine as the kubelet's program takes it."""
    return {
        "sockets": len({cpu.socket for cpu in given.cpus}),
        "numa": [{"id": zone.id, "mem": zone.memory, "dist": list(zone.distances)} for zone in given.zones],
        "cpu": {
            "core": [cpu.core for cpu in given.cpus],
            "socket": [cpu.socket for cpu in given.cpus],
            "numa": [cpu.zone for cpu in given.cpus],
            "l3": [cpu.cache for cpu in given.cpus],
        },
        "devices": {
            name: [{"id": device.id, "numa": list(device.zones)} for device in devices]
            for name, devices in given.devices.items()
        },
    }


def _configuration(policy: Policy) -> Json:
    return {
        "topology_policy": policy.text,
        "topology_scope": "container",
        "cpu_policy": "static",
        "memory_policy": "Static",
        "reserved_cpu_milli": 2000,
        "reserved_memory": {"0": {"memory": GIB}},
    }


def _admission() -> Json:
    amounts = {"cpu": 4000, "memory": 8 * GIB, GPU: 1}
    return {"op": "admit", "pod": {"name": "pod", "containers": [{"name": "main", "req": amounts, "lim": None}]}}
