"""The replayed kubelet against the recorded one (v1.36.4): every merge, and every pod of every recorded node.

A recorded node is a machine, a kubelet configuration and a sequence of pods admitted, started and removed. Before each
admission the node's true state is given, so each pod is judged on complete knowledge: verdict, reason, stage, message,
and for admitted pods the zones, CPUs, memory blocks and devices of every container.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bayplan.cluster.pods.request import PodRequest, effective_request
from bayplan.cluster.reports.kubelet_settings import POLICY_BY_TEXT, SCOPE_BY_TEXT, KubeletSettings
from bayplan.cluster.reports.kubelet_version import version_of
from bayplan.engine.kubelet import (
    Admission,
    ContainerPlacement,
    CpuLayout,
    Device,
    Hint,
    NodeKnowledge,
    ZoneMemory,
    admit,
    admits,
    merge,
)
from bayplan.engine.kubelet.masks import mask_of
from bayplan.kube.wire.core_v1 import Pod

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

# Recordings that do not say their kubelet's version are of this one.
RECORDED = "1.36.4"
# The ends of sentences in which the memory manager names one resource of several, as the order of a Go map has it.
NAMED_BY_CHANCE = re.compile(
    r"(?<=sum of exclusive container )\S+(?= requests equals pod budget, leaving no memory)"
    r"|(?<=but no )\S+(?= available for them)"
)
HUGE_PAGE_BYTES = {"64Ki": 2**16, "2Mi": 2 * 2**20, "32Mi": 2**25, "1Gi": 2**30}


@pytest.mark.fixture_files("kubelet/merge", "kubelet/merge_upstream")
def test_merges_hints_like_the_kubelet(conformance: Conformance) -> None:
    conformance.check_each(merge_problem)


@pytest.mark.fixture_files("kubelet/node", "kubelet/node_podlevel")
def test_admits_pods_like_the_kubelet(conformance: Conformance) -> None:
    conformance.check_each(lambda case: sequence_problem(case, conformance))


def merge_problem(case: Case) -> str | None:
    policy = POLICY_BY_TEXT[case["policy"]]
    providers = [
        provider
        and {
            name: hints and [Hint(mask, bool(preferred)) for mask, preferred in hints]
            for name, hints in provider.items()
        }
        for provider in case["prov"]
    ]
    distances = tuple(map(tuple, case["dist"])) if case.get("closest") else ()
    hint = merge(tuple(case["numa"]), policy, providers, distances)
    got = {"mask": hint.mask, "pref": hint.preferred, "admit": admits(policy, hint)}
    return None if got == case["out"] else f"got {got}, recorded {case['out']}"


def sequence_problem(case: Case, conformance: Conformance) -> str | None:
    label = f"complete knowledge, {case['kubelet']['topology_policy']}"
    free = case["free0"]
    on_node: dict[str, dict[str, int]] = {}
    for step in case["steps"]:
        if step["op"] == "admit":
            name = step["pod"]["name"]
            pod = effective_request(wire_pod(step["pod"]))
            node = node_knowledge(case, free)
            lacking = lacking_on_node(case["resolved"]["allocatable"], on_node, pod)
            admission = admit(node, pod)
            conformance.compare(label, accepted=admission.admitted and not lacking, really=step["out"]["admit"])
            problem = admission_problem(step["out"], pod, admission, lacking)
            if problem is not None:
                return f"pod {name}: {problem}"
            if step["out"]["admit"]:
                on_node[name] = pod.total
        elif step["op"] == "remove":
            on_node.pop(step["name"], None)
        elif step["op"] == "restart":
            for name in step["out"]["refused"]:
                del on_node[name]
        free = step.get("free", free)
    return None


def admission_problem(recorded: dict[str, Any], pod: PodRequest, got: Admission, lacking: list[str]) -> str | None:
    expected: dict[str, Any] = {
        "qos": recorded["qos"],
        "fit": recorded["fit"],
        "admit": recorded["admit"],
        "reason": recorded.get("reason", ""),
        "fail": recorded.get("fail", {}).get("stage", ""),
        "container": recorded.get("fail", {}).get("container", ""),
    }
    seen: dict[str, Any] = {
        "qos": pod.qos.value,
        "fit": not lacking,
        "admit": got.admitted and not lacking,
        "reason": got.reason if not got.admitted else f"OutOf{lacking[0]}" if lacking else "",
        "fail": got.stage if not got.admitted else "predicate" if lacking else "",
        "container": got.container,
    }
    if not got.admitted and recorded.get("msg"):
        expected["message"], seen["message"] = without_chance(recorded["msg"]), without_chance(got.message)
    if recorded["admit"]:
        expected |= {name: recorded_placement(placement) for name, placement in recorded["ctr"].items()}
        seen |= {placement.name: seen_placement(placement) for placement in got.containers}
    differing = {key for key in expected.keys() | seen.keys() if expected.get(key) != seen.get(key)}
    if not differing:
        return None
    return "; ".join(f"{key}: got {seen.get(key)}, recorded {expected.get(key)}" for key in sorted(differing))


def without_chance(message: str) -> str:
    """A message without the resource that the kubelet names: of several, its memory manager takes one from a Go map."""
    return NAMED_BY_CHANCE.sub("RESOURCE", message)


def recorded_placement(placement: dict[str, Any]) -> tuple[Any, ...]:
    blocks = [(block["type"], block["size"], tuple(block["numa"])) for block in placement.get("mem") or ()]
    devices = {resource: tuple(ids) for resource, ids in (placement.get("dev") or {}).items()}
    zones = None if placement["aff"] is None else tuple(placement["aff"])
    return zones, placement["pref"], cpu_ids(placement.get("cpus", "")), sorted(blocks), devices


def seen_placement(placement: ContainerPlacement) -> tuple[Any, ...]:
    blocks = [(block.type, block.size, block.zones) for block in placement.memory]
    return placement.zones, placement.preferred, placement.cpus, sorted(blocks), dict(placement.devices)


def lacking_on_node(allocatable: dict[str, int], on_node: dict[str, dict[str, int]], pod: PodRequest) -> list[str]:
    """Resources of which the node has too little in sum, in the order in which the kubelet names them."""
    lacking = [
        resource
        for resource, amount in pod.total.items()
        if amount > 0
        and amount + sum(other.get(resource, 0) for other in on_node.values()) > allocatable.get(resource, 0)
    ]
    if len(on_node) + 1 > allocatable["pods"]:
        lacking.append("pods")
    first = ("pods", "cpu", "memory")
    return sorted(lacking, key=lambda resource: (first.index(resource) if resource in first else len(first), resource))


def wire_pod(recorded: dict[str, Any]) -> Pod:
    spec: dict[str, Any] = {
        "initContainers": [wire_container(each) for each in recorded.get("init", ())],
        "containers": [wire_container(each) for each in recorded["containers"]],
    }
    if "pod_req" in recorded:
        spec["resources"] = {"requests": quantities(recorded["pod_req"]), "limits": quantities(recorded["pod_req"])}
    return msgspec.convert({"metadata": {"name": recorded["name"]}, "spec": spec}, Pod)


def wire_container(recorded: dict[str, Any]) -> dict[str, Any]:
    requests = recorded.get("req") or {}
    limits = requests if recorded.get("lim") is None else recorded["lim"]
    container: dict[str, Any] = {
        "name": recorded["name"],
        "resources": {"requests": quantities(requests), "limits": quantities(limits)},
    }
    if recorded.get("sidecar"):
        container["restartPolicy"] = "Always"
    return container


def quantities(amounts: dict[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}


def node_knowledge(case: Case, free: dict[str, Any]) -> NodeKnowledge:
    machine, kubelet = case["machine"], case["kubelet"]
    columns = machine["cpu"]
    zones = sorted(machine["numa"], key=lambda zone: zone["id"])
    return NodeKnowledge(
        zone_ids=tuple(zone["id"] for zone in zones),
        distances=tuple(tuple(zone["dist"]) for zone in zones),
        settings=settings_of(kubelet, case.get("version", RECORDED)),
        cpus=CpuLayout(
            core=tuple(columns["core"]),
            socket=tuple(columns["socket"]),
            numa=tuple(columns["numa"]),
            l3=tuple(columns.get("l3") or columns["socket"]),
        ),
        free_cpus=mask_of(cpu_ids(free.get("cpu", ""))),
        reserved_cpus=mask_of(cpu_ids(case["resolved"]["reserved_cpus"])),
        memory={zone["id"]: zone_memory(zone, kubelet, free["mem"]) for zone in zones} if "mem" in free else {},
        devices={
            resource: tuple(
                Device(
                    id=device["id"],
                    zones=mask_of(device["numa"]),
                    healthy=not device.get("unhealthy", False),
                    allocated=device["id"] not in free.get("dev", {}).get(resource, ()),
                )
                for device in devices
            )
            for resource, devices in (machine.get("devices") or {}).items()
        },
    )


def settings_of(kubelet: dict[str, Any], version: str = RECORDED) -> KubeletSettings:
    def switched_on(options: dict[str, str] | None) -> frozenset[str]:
        return frozenset(name for name, value in (options or {}).items() if value == "true")

    return KubeletSettings(
        policy=POLICY_BY_TEXT[kubelet["topology_policy"]],
        scope=SCOPE_BY_TEXT[kubelet.get("topology_scope", "container")],
        prefer_closest="prefer-closest-numa-nodes" in switched_on(kubelet.get("topology_options")),
        cpu_static=kubelet["cpu_policy"] == "static",
        cpu_options=switched_on(kubelet.get("cpu_options")),
        memory_static=kubelet["memory_policy"] == "Static",
        pod_level_managers=bool(kubelet.get("feature_gates", {}).get("PodLevelResourceManagers")),
        version=version_of(version)[0],
    )


def zone_memory(zone: dict[str, Any], kubelet: dict[str, Any], free: dict[str, Any]) -> ZoneMemory:
    reserved = (kubelet.get("reserved_memory") or {}).get(str(zone["id"]), {})
    huge = {f"hugepages-{size}": pages * HUGE_PAGE_BYTES[size] for size, pages in (zone.get("hp") or {}).items()}
    state = free[str(zone["id"])]
    allocatable = {name: amount - reserved.get(name, 0) for name, amount in huge.items()}
    allocatable["memory"] = zone["mem"] - sum(huge.values()) - reserved.get("memory", 0)
    return ZoneMemory(allocatable, state["free"], mask_of(state["cells"]), state["n"])


def cpu_ids(text: str) -> tuple[int, ...]:
    """The CPUs of a Linux list such as `0-3,8`."""
    ids: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        ids += range(int(first), int(last or first) + 1)
    return tuple(ids)
