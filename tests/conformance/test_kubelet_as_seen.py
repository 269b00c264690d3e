"""The recorded kubelets judged through what a scheduler can see: a Node, its pods and its NodeResourceTopology.

Nobody reports which CPUs are free, which memory groups exist or what init containers hold, so full agreement cannot be had; how
much there is, is printed per policy with false accepts (a pod would die) and false refusals (room is wasted) apart:

    agreement kubelet/node as reported, restricted: 8000 admissions, 95.1 % agree, 2.0 % false accepts, 2.9 % false refusals

*As reported* is what today's agents publish: amounts, policy and scope. *With attributes* adds what bayplan reads where a node says
it: manager policies and options, threads per core, memory groups. Complete knowledge is in `test_kubelet.py`, and there the
demand is 100 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology_report import MEMORY_GROUP_ATTRIBUTE
from bayplan.kube.core_v1 import Node
from bayplan.kube.topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.profile import default_profile
from tests.conformance.test_kubelet import HUGE_PAGE_BYTES, cpu_ids, quantities, wire_pod

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

# Shares of false accepts (a pod would be lost) and of false refusals (room is wasted) that are never exceeded.
MOST_FALSE = {"as reported": (0.04, 0.02), "with attributes": (0.01, 0.01)}


@pytest.mark.fixture_files("kubelet/node", chunks=16)
@pytest.mark.parametrize("knowledge", ["as reported", "with attributes"])
def test_agrees_with_the_kubelet(conformance: Conformance, knowledge: str) -> None:
    accepts = refusals = total = 0
    for case in conformance.cases:
        label = f"{knowledge}, {case['kubelet']['topology_policy']}"
        for admitted, recorded in verdicts(case, with_attributes=knowledge == "with attributes"):
            conformance.compare(label, accepted=admitted, really=recorded)
            accepts += admitted and not recorded
            refusals += recorded and not admitted
            total += 1
    most_accepts, most_refusals = MOST_FALSE[knowledge]
    # A small chunk may hold a few by chance.
    assert accepts <= most_accepts * total + 3
    assert refusals <= most_refusals * total + 3


def verdicts(case: Case, *, with_attributes: bool) -> list[tuple[bool, bool]]:
    """(what bayplan says, what the kubelet did) for every admission of a recorded node."""
    state = ClusterState()
    allocatable = quantities(case["resolved"]["allocatable"])
    state.set_node(msgspec.convert({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}, Node))
    profile, answers = default_profile(), ClassAnswers(state)
    free = case["free0"]
    state.set_topology(topology(case, free, with_attributes=with_attributes))
    found = []
    for step in case["steps"]:
        if step["op"] == "admit":
            pod = wire_pod(step["pod"])
            decision = schedule_one(state, pod, profile, answers)
            found.append((decision.placed, step["out"]["admit"]))
            if step["out"]["admit"]:
                bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="n"))
                state.set_pod(bound)
        elif step["op"] == "remove":
            state.remove_pod(f"default/{step['name']}")
        if "free" in step:
            free = step["free"]
            state.set_topology(topology(case, free, with_attributes=with_attributes))
    return found


def topology(case: Case, free: dict[str, Any], *, with_attributes: bool) -> NodeResourceTopology:
    """What a node agent would publish about the recorded node at this moment."""
    kubelet = case["kubelet"]
    attributes = {
        "topologyManagerPolicy": kubelet["topology_policy"],
        "topologyManagerScope": kubelet["topology_scope"],
    }
    if with_attributes:
        options = kubelet.get("topology_options") or {}
        attributes |= {
            "cpuManagerPolicy": kubelet["cpu_policy"],
            "memoryManagerPolicy": kubelet["memory_policy"],
            "topologyManagerOptionPreferClosestNumaNodes": options.get("prefer-closest-numa-nodes", "false"),
            "bayplan.io/threads-per-core": threads_per_core(case),
            "cpuManagerPolicyOptions": ",".join(
                f"{name}={value}" for name, value in (kubelet.get("cpu_options") or {}).items()
            ),
        }
    zones = [
        {
            "name": f"node-{zone['id']}",
            "type": "Node",
            "attributes": memory_group(zone, free) if with_attributes else [],
            "costs": [
                {"name": f"node-{other['id']}", "value": zone["dist"][position]}
                for position, other in enumerate(case["machine"]["numa"])
            ],
            "resources": [
                {"name": name, "capacity": str(capacity), "allocatable": str(most), "available": str(left)}
                for name, (capacity, most, left) in zone_amounts(case, zone, free).items()
            ],
        }
        for zone in case["machine"]["numa"]
    ]
    written = {
        "metadata": {"name": "n"},
        "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
        "zones": zones,
    }
    return msgspec.convert(written, NodeResourceTopology)


def memory_group(zone: dict[str, Any], free: dict[str, Any]) -> list[dict[str, str]]:
    memory = free.get("mem", {}).get(str(zone["id"]))
    if not memory or not memory["n"]:
        return []
    return [{"name": MEMORY_GROUP_ATTRIBUTE, "value": ",".join(str(member) for member in memory["cells"])}]


def threads_per_core(case: Case) -> str:
    cores = case["machine"]["cpu"]["core"]
    return str(len(cores) // len(set(cores)))


def zone_amounts(case: Case, zone: dict[str, Any], free: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    """Capacity, allocatable and available per resource, CPUs as whole CPUs."""
    machine, kubelet = case["machine"], case["kubelet"]
    here = {cpu for cpu, numa in enumerate(machine["cpu"]["numa"]) if numa == zone["id"]}
    amounts: dict[str, tuple[int, int, int]] = {}
    if here:
        usable = here - set(cpu_ids(case["resolved"]["reserved_cpus"]))
        left = usable & set(cpu_ids(free["cpu"])) if "cpu" in free else usable
        amounts["cpu"] = len(here), len(usable), len(left)
    if "mem" in free:
        held = free["mem"][str(zone["id"])]["free"]
        pages = {f"hugepages-{size}": count * HUGE_PAGE_BYTES[size] for size, count in (zone.get("hp") or {}).items()}
        reserved = (kubelet["reserved_memory"].get(str(zone["id"])) or {}).get("memory", 0)
        amounts["memory"] = zone["mem"], zone["mem"] - reserved - sum(pages.values()), held["memory"]
        amounts |= {name: (size, size, held[name]) for name, size in pages.items()}
    for resource, devices in (machine.get("devices") or {}).items():
        healthy = [device for device in devices if zone["id"] in device["numa"] and not device.get("unhealthy")]
        left_ids = free.get("dev", {}).get(resource, ())
        if healthy:
            unused = sum(device["id"] in left_ids for device in healthy)
            amounts[resource] = len(healthy), len(healthy), unused
    return amounts
