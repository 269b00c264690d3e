"""Pods, nodes and reports for scheduler-plugins' NodeResourceTopologyMatch: its filter, its scores, and stories of its
caches.

Reports with none to nine zones, in any order and with gaps, of other types and with names that mean nothing, resources
that only some zones or only the node has, costs that are missing, policy and scope in each of the ways that nodes have
to say them; pods of every QoS class with init containers, sidecars, overhead, fractions and zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from bayplan.cluster.reports.fingerprint import fingerprint_of
from tests.conformance.test_nrt import filter_problem, score_problem
from tests.conformance.test_nrt_cache import scenario_problem
from tests.peers.asking import Json
from tests.peers.family import Family

NIC, GPU, NOWHERE = "vendor.com/nic", "vendor.com/gpu", "vendor.com/nonuma"
HUGE = "hugepages-1Gi"
POLICIES = ("none", "best-effort", "restricted", "single-numa-node", "single-numa-node", "single-numa-node")
LEGACY = ("SingleNUMANodeContainerLevel", "SingleNUMANodePodLevel", "RestrictedPodLevel", "BestEffort", "None", "Odd")
STRATEGIES = ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")


def draw_filter(random: Random, _version: str) -> Json:
    """One pod, one node."""
    given: Json = {"pod": _pod(random), "node": _node(random, "n1")}
    if random.random() < 0.96:
        given["nrt"] = _report(random, "n1")
    if random.random() < 0.02:
        given["cache_fresh"] = False
    return {"input": given}


def draw_score(random: Random, _version: str) -> Json:
    """One pod, a few nodes, one strategy."""
    names = [f"n{number}" for number in range(random.choice((1, 2, 4)))]
    given: Json = {
        "pod": _pod(random, guaranteed=0.9),
        "nodes": [_node(random, name) for name in names],
        "nrts": [_report(random, name) for name in names if random.random() < 0.95],
        "scoring_strategy": random.choice(STRATEGIES),
    }
    if random.random() < 0.4:
        given["weights"] = {name: random.choice((-1, 0, 1, 2, 10)) for name in ("cpu", "memory", NIC)}
    if random.random() < 0.03:
        given["stale_nodes"] = [names[0]]
    return {"input": given}


def _node(random: Random, name: str) -> Json:
    allocatable = {"cpu": "128", "memory": "512Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    allocatable |= {resource: "32" for resource in (NIC, GPU, NOWHERE) if random.random() < 0.8}
    if random.random() < 0.6:
        allocatable[HUGE] = "32Gi"
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable}}


def _report(random: Random, name: str) -> Json:
    number = random.choice((0, 1, 2, 2, 2, 3, 4, 4, 6, 8, 9))
    ids = list(range(number))
    if random.random() < 0.06:
        ids = sorted(random.sample(range(20), number))
    known = [resource for resource in ("cpu", "memory", HUGE, NIC, GPU) if random.random() < 0.85]
    zones = [_zone(random, zone, ids, known) for zone in ids]
    if random.random() < 0.1:
        random.shuffle(zones)
    if random.random() < 0.05:
        zones.append(
            {
                "name": random.choice(("socket-0", "node-x", "node--1", "disk")),
                "type": random.choice(("Node", "Socket")),
            }
        )
    report: Json = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": zones,
    }
    attributes = []
    if random.random() < 0.92:
        attributes.append({"name": "topologyManagerPolicy", "value": random.choice(POLICIES)})
    if random.random() < 0.85:
        attributes.append(
            {"name": "topologyManagerScope", "value": random.choice(("container", "container", "pod", "Pod"))}
        )
    if random.random() < 0.15:
        attributes.append(
            {"name": "topologyManagerMaxNUMANodes", "value": random.choice(("4", "8", "16", "1", "x", "100"))}
        )
    if attributes:
        report["attributes"] = attributes
    if random.random() < 0.15:
        report["topologyPolicies"] = [random.choice(LEGACY)]
    return report


def _zone(random: Random, zone: int, ids: list[int], known: list[str]) -> Json:
    resources = []
    for name in known:
        if random.random() < 0.08:
            continue
        most = {"cpu": 32, "memory": 64, HUGE: 8}.get(name, 8)
        left = random.choice((0, 1, 2, most // 2, most, random.randint(0, most)))
        unit = "Gi" if name in ("memory", HUGE) else ""
        written = str(left) + unit if random.random() < 0.9 or unit else f"{left * 1000}m"
        resources.append(
            {"name": name, "capacity": f"{most}{unit}", "allocatable": f"{most}{unit}", "available": written}
        )
    found: Json = {"name": f"node-{zone}", "type": "Node", "resources": resources}
    if random.random() < 0.85:
        found["costs"] = [
            {"name": f"node-{other}", "value": 10 if other == zone else random.choice((11, 12, 20, 21, 32))}
            for other in ids
            if random.random() < 0.98
        ]
    return found


def _pod(random: Random, guaranteed: float = 0.65) -> Json:
    kind = "Guaranteed" if random.random() < guaranteed else random.choice(("Burstable", "BestEffort"))
    spec: Json = {
        "containers": [_container(random, f"c{number}", kind) for number in range(random.choice((1, 1, 1, 2, 3)))]
    }
    init = [_container(random, f"i{number}", kind) for number in range(random.choice((0, 0, 0, 1, 2)))]
    for each in init:
        if random.random() < 0.3:
            each["restartPolicy"] = "Always"
    if init:
        spec["initContainers"] = init
    if random.random() < 0.05:
        spec["overhead"] = {"cpu": "250m", "memory": "64Mi"}
    return {"metadata": {"name": "pod", "namespace": "default"}, "spec": spec}


def _container(random: Random, name: str, kind: str) -> Json:
    requests: dict[str, str] = {}
    if kind != "BestEffort":
        requests["cpu"] = random.choice(("1", "2", "4", "8", "16", "500m", "1500m", "0"))
        requests["memory"] = random.choice(("1Gi", "4Gi", "16Gi", "40Gi", "100Mi"))
        if requests["cpu"] == "0" and kind == "Guaranteed":
            requests["cpu"] = "3"
        if random.random() < 0.15:
            requests[HUGE] = random.choice(("1Gi", "2Gi", "4Gi"))
    for device in (NIC, GPU, NOWHERE):
        if random.random() < 0.18:
            requests[device] = random.choice(("0", "1", "1", "2", "4"))
    if random.random() < 0.05:
        requests["ephemeral-storage"] = "1Gi"
    limits = (
        dict(requests)
        if kind != "Burstable"
        else {name: each for name, each in requests.items() if name not in ("cpu", "memory")}
    )
    return {"name": name, "resources": {"requests": requests, "limits": limits} if requests else {}}


# -- caches -----------------------------------------------------------------------------------------------------------

METHODS = ("Autodetect", "All", "OnlyExclusiveResources")


def draw_cache(random: Random, _version: str) -> Json:
    """Reports, pods that are reserved, let go and bound, refusals and resyncs, in any order; the cache is looked at
    again and again.
    """
    nodes = ["node1", "node2"]
    given = {
        "cache": random.choice(("OverReserve", "OverReserve", "OverReserve", "DiscardReserved", "Passthrough")),
        "resync_method": random.choice(METHODS),
        "informer_mode": random.choice(("Dedicated", "Shared")),
        "preemption_mode": "Disabled",
    }
    pods = [_cached_pod(random, number, nodes) for number in range(5)]
    steps: list[Json] = [
        {"op": "put_nrt", "nrt": _cached_report(random, node, [])} for node in nodes if random.random() < 0.9
    ]
    steps += [{"op": "set_pods", "pods": []}, {"op": "start"}]
    refused: set[str] = set()
    for _ in range(random.randint(4, 14)):
        steps += _cache_step(random, given["cache"], nodes, pods, refused)
        node = random.choice(nodes)
        steps.append({"op": "view", "node": node})
        if given["cache"] == "OverReserve":
            steps.append({"op": "desynced"})
    return {"input": given, "steps": steps}


def _cache_step(random: Random, cache: str, nodes: list[str], pods: list[Json], refused: set[str]) -> list[Json]:
    node, pod = random.choice(nodes), random.choice(pods)
    kinds = ["reserve", "reserve", "unreserve", "post_bind", "put_nrt"]
    if cache == "OverReserve":
        kinds += ["filter_rejected", "filter_rejected", "foreign_pod", "resync", "resync", "set_pods"]
    kind = random.choice(kinds)
    match kind:
        case "put_nrt":
            on_node = [each for each in pods if each["spec"]["nodeName"] == node and random.random() < 0.6]
            return [{"op": kind, "nrt": _cached_report(random, node, on_node)}]
        case "set_pods":
            return [{"op": kind, "pods": [each for each in pods if random.random() < 0.6]}]
        case "reserve":
            if node in refused:  # clears the mark in 0.34, and no longer does so since
                return []
            return [{"op": kind, "node": node, "pod": pod}]
        case "filter_rejected":
            refused.add(node)
            return [{"op": kind, "node": node}]
        case "foreign_pod":
            return [{"op": kind, "node": node}]
        case "resync":
            return [{"op": kind}]
        case _:
            return [{"op": kind, "node": node, "pod": pod}]


def _cached_pod(random: Random, number: int, nodes: list[str]) -> Json:
    pod = _pod(random)
    pod["metadata"] = {"name": f"p{number}", "namespace": "ns", "uid": f"uid-{number}"}
    pod["spec"]["nodeName"] = random.choice(nodes)
    pod["status"] = {"phase": random.choice(("Running", "Running", "Pending", "Succeeded"))}
    return pod


def _cached_report(random: Random, node: str, pods: list[Json]) -> Json:
    report = _report(random, node)
    # Quantities are compared by value, and a zone twice is an error of its own.
    report["zones"] = [
        zone for zone in report["zones"] if zone["name"].startswith("node-") and zone["name"][5:].isdigit()
    ]
    attributes: list[dict[str, Any]] = report.setdefault("attributes", [])
    if random.random() < 0.8:
        names = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]
        attributes.append({"name": "nodeTopologyPodsFingerprint", "value": fingerprint_of(names)})
        if random.random() < 0.5:
            method = random.choice(("all", "with-exclusive-resources"))
            attributes.append({"name": "nodeTopologyPodsFingerprintMethod", "value": method})
    return report


# -- where bayplan differs on purpose ---------------------------------------------------------------------------------


def documented(case: Json) -> str | None:
    """The three things that docs/configuration.md names."""
    given = case["input"]
    reports = given.get("nrts") or ([given["nrt"]] if given.get("nrt") else [])
    listed = [[zone["name"] for zone in report["zones"] if zone["type"] == "Node"] for report in reports]
    if any(len(set(names)) < len(names) for names in listed):
        return "a zone that is listed twice makes the report invalid"
    if any(names != [f"node-{number}" for number in range(len(names))] for names in listed):
        return "zones are kept by id, not by their place in the list"
    if any(not 0 <= score <= 100 for score in case.get("expect", {}).get("scores", {}).values()):
        return "scores stay between 0 and 100"
    return None


def documented_of_caches(case: Json) -> str | None:
    """bayplan's cache follows later versions in what makes a pod count in a fingerprint of exclusive ones."""
    reported = [
        {resource["name"] for zone in step["nrt"]["zones"] for resource in zone.get("resources", ())}
        for step in case["steps"]
        if step["op"] == "put_nrt"
    ]
    pods = [pod for step in case["steps"] if step["op"] == "set_pods" for pod in step["pods"]]
    containers = [
        each for pod in pods for kind in ("containers", "initContainers") for each in pod["spec"].get(kind, ())
    ]
    asked = {name for each in containers for name in each.get("resources", {}).get("requests", {}) if "/" in name}
    if any(asked - names for names in reported):
        return "devices that no zone of the node reports do not make a pod exclusive, as in later versions"
    if any(_asks_for_devices(pod["spec"].get("initContainers", ())) for pod in pods):
        return "what init containers held does not make a pod exclusive, as in later versions"
    return None


def _asks_for_devices(containers: Iterable[Json]) -> bool:
    return any("/" in name for each in containers for name in each.get("resources", {}).get("requests", {}))


FAMILIES = (
    Family("scheduler-plugins", "filter", "filter", draw_filter, filter_problem, documented=documented),
    Family("scheduler-plugins", "score", "score", draw_score, score_problem, documented=documented),
    Family("scheduler-plugins", "cache", "cache", draw_cache, scenario_problem, documented=documented_of_caches),
)
