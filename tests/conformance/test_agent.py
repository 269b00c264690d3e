"""Node agents as recorded: nfd-topology-updater, resource-topology-exporter and Volcano's resource-exporter.

The agent's own accounting is checked in tests/unit; here the modules that count as those agents do (`nfd`, `rte`,
`volcano_exporter`) and what they share with bayplan's agent answer for the recordings.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bayplan.cluster.reports.fingerprint import ATTRIBUTE, published_in
from bayplan.cluster.reports.inventory import cpu_list
from bayplan.cluster.reports.zone_reports import zone_id_of
from bayplan.kube.errors import InvalidObject
from bayplan.kube.quantity import parse
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology, PodAllocation
from bayplan.services.agent.accounting import ZoneAccount, excluded_on
from bayplan.services.agent.forms import volcano_exporter
from bayplan.services.agent.forms.placement_encoding import (
    PlacementError,
    container_hash,
    encode_number,
    encode_placement,
    encode_vector,
)
from bayplan.services.agent.report import attribute_list, legacy_policy, zone_name
from bayplan.services.agent.sources.pod_resources import (
    Allocatable,
    ContainerResources,
    DeviceGroup,
    MemoryBlock,
    PodPattern,
    PodResources,
    matches_any,
)
from bayplan.services.agent.sources.state_files import cpu_state_of
from bayplan.services.agent.sources.sysfs import huge_pages_name, read_hardware, total_memory
from tests.conformance.node_agents import nfd, rte, volcano
from tests.conformance.node_agents.placement import read_metadata
from tests.conformance.node_agents.rte import ListedZone, holds_exclusively, in_some_zone

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

Problem = str | None


def differs(found: object, expected: object) -> Problem:
    return None if found == expected else f"found {found}, expected {expected}"


# -- inputs ----------------------------------------------------------------------------------------------------------


def devices(listed: list[dict[str, Any]] | None) -> tuple[DeviceGroup, ...]:
    return tuple(DeviceGroup(each["resource"], tuple(each["ids"]), tuple(each["numa"] or ())) for each in listed or ())


def memory(listed: list[dict[str, Any]] | None) -> tuple[MemoryBlock, ...]:
    return tuple(MemoryBlock(each["type"], each["size"], tuple(each["numa"] or ())) for each in listed or ())


def pods(listed: list[dict[str, Any] | None]) -> list[PodResources]:
    return [
        PodResources(
            pod.get("namespace", ""),
            pod.get("name", ""),
            tuple(
                ContainerResources(
                    each["name"],
                    tuple(each.get("cpu_ids") or ()),
                    devices(each.get("devices")),
                    memory(each.get("memory")),
                )
                for each in pod["containers"] or ()
                if each is not None
            ),
        )
        for pod in listed
        if pod is not None
    ]


def allocatable(given: dict[str, Any]) -> Allocatable:
    listed = given["allocatable"]
    return Allocatable(tuple(listed["cpu_ids"]), devices(listed["devices"]), memory(listed["memory"]))


def machine(given: dict[str, Any]) -> list[ListedZone]:
    return [ListedZone(zone["id"], zone["cpus"], zone["distances"]) for zone in given["topology"]]


def capacity(given: dict[str, Any]) -> dict[int, dict[str, int]]:
    return {int(zone): amounts for zone, amounts in (given.get("memory_capacity") or {}).items()}


def excluded(given: dict[str, Any]) -> frozenset[str]:
    if "exclude_resources" in given:
        return frozenset(given["exclude_resources"] or ())
    return excluded_on(given.get("node_name", ""), given.get("exclude") or {})


# -- outputs ---------------------------------------------------------------------------------------------------------


def zones_problem(found: tuple[ZoneAccount, ...], expected: list[dict[str, Any]]) -> Problem:
    shown = {
        zone_name(zone.id): (
            {zone_name(other): distance for other, distance in zone.distances.items()},
            {name: tuple(amounts) for name, amounts in zone.amounts.items()},
        )
        for zone in found
    }
    recorded = {
        zone["name"]: (
            {cost["name"]: cost["value"] for cost in zone.get("costs") or ()},
            {
                each["name"]: tuple(parse(each[field]).value() for field in ("capacity", "allocatable", "available"))
                for each in zone.get("resources") or ()
            },
        )
        for zone in expected
    }
    return differs(shown, recorded)


def attributes_problem(found: Any, expected: list[dict[str, str]] | None) -> Problem:
    return differs(dict(found), {each["name"]: each["value"] for each in expected or ()})


# -- nfd-topology-updater ----------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/agent_nfd")
def test_nfd_topology_updater(conformance: Conformance) -> None:
    conformance.check_each(nfd_problem)


def nfd_problem(case: Case) -> Problem:
    given, expected = case["input"], case["expect"]
    if case["op"] == "aggregate":
        accounted = {
            (pod["namespace"], pod["name"]): {
                container["name"]: [
                    nfd.AccountedResource(
                        each["name"], tuple(each["data"]), None if each["numa"] is None else tuple(each["numa"])
                    )
                    for each in container["resources"]
                ]
                for container in pod["containers"]
            }
            for pod in given["accounted_pods"] or ()
        }
        return nfd_zones_problem(given, accounted, expected)
    known = [msgspec.convert(pod, Pod) for pod in given["pods"] or ()]
    try:
        scan = nfd.scan(
            pods(given["pod_resources"]),
            {(pod.metadata.namespace or "", pod.metadata.name): pod for pod in known},
            given["watch_namespace"],
            fingerprint=given.get("pods_fingerprint", True),
        )
    except nfd.PodMissing as error:
        return None if expected.get("error") else f"gave up: {error}"
    if expected.get("error"):
        return f"did not give up as expected: {expected['error']}"
    problem = attributes_problem(scan.attributes, expected["attributes"])
    if problem or case["op"] == "scan":
        return problem or differs(accounted_documents(scan.pods), by_name(expected["accounted_pods"]))
    return nfd_zones_problem(given, scan.pods, expected)


def nfd_zones_problem(given: dict[str, Any], accounted: nfd.AccountedPods, expected: dict[str, Any]) -> Problem:
    found = nfd.aggregate(machine(given), capacity(given), allocatable(given), accounted, excluded(given))
    return zones_problem(found, expected["zones"])


def accounted_documents(accounted: nfd.AccountedPods) -> list[Any]:
    return by_name(
        [
            {
                "namespace": namespace,
                "name": name,
                "containers": [
                    {
                        "name": container,
                        "resources": [
                            {
                                "name": each.name,
                                "data": list(each.data),
                                "numa": list(each.zones) if each.zones else None,
                            }
                            for each in resources
                        ],
                    }
                    for container, resources in containers.items()
                ],
            }
            for (namespace, name), containers in accounted.items()
        ]
    )


def by_name(accounted: list[dict[str, Any]] | None) -> list[Any]:
    for pod in accounted or ():
        for container in pod["containers"]:
            container["resources"].sort(key=lambda each: (each["name"], each["data"]))
    return sorted(accounted or (), key=lambda pod: (pod["namespace"], pod["name"]))


# -- resource-topology-exporter
# ------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/agent_rte")
def test_resource_topology_exporter(conformance: Conformance) -> None:
    conformance.check_each(rte_problem)


def rte_problem(case: Case) -> Problem:
    given, expected = case["input"], case["expect"]
    patterns = pod_patterns(given)
    listed = [pod for pod in pods(given["pod_resources"]) if not matches_any(pod.key, patterns)]
    reference = given.get("reference_container")
    found = rte.scan(
        machine(given),
        capacity(given),
        allocatable(given),
        listed,
        excluded=excluded(given),
        namespace=given.get("watch_namespace", "").replace("*", ""),
        method=given["fingerprint_method"] if given.get("pods_fingerprint", True) else None,
        reference=container_name(reference) if reference else None,
    )
    return (
        zones_problem(found.zones, expected["zones"])
        or attributes_problem(found.attributes, expected["attributes"])
        or differs(found.annotations, expected["annotations"])
    )


def container_name(reference: Any) -> tuple[str, str, str]:
    """`namespace/pod/container`, or the three in a mapping."""
    if isinstance(reference, str):
        namespace, pod, container = reference.split("/")
        return namespace, pod, container
    names = {name.removesuffix("_name"): value for name, value in reference.items()}
    return names["namespace"], names["pod"] if "pod" in names else names["name"], names["container"]


def pod_patterns(given: dict[str, Any]) -> list[PodPattern]:
    listed = given.get("podExclude") or given.get("pod_exclude") or ()
    return [PodPattern(each["namespacePattern"], each["namePattern"]) for each in listed]


# -- small parts -------------------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/misc")
def test_small_parts(conformance: Conformance) -> None:
    conformance.check_each(misc_problem)


def misc_problem(case: Case) -> Problem:
    given, expected = case["input"], case["expect"]
    match case["op"]:
        case "legacy_policy":
            return differs(legacy_policy(given["policy"], given["scope"]), expected["topologyPolicy"])
        case "hugepage_resource_name":
            return differs(huge_pages_name(given["size_kb"]), expected["name"])
        case "numa_memory_resources":
            return numa_memory_problem(given["nodes"], expected)
        case "pod_exclude":
            return differs(matches_any((given["namespace"], given["name"]), pod_patterns(given)), expected["excluded"])
        case "has_numa_locality":
            return differs(in_some_zone(given["numa"] or ()), expected["result"])
        case "podresources_exclusive":
            listed = pods([given]) if given.get("containers") else []
            return differs(any(map(holds_exclusively, listed)), expected["result"])
        case "zone_name_to_id" | "zone_id_to_name" | "numa_meminfo":
            return written_zone_problem(given, expected)
        case "attribute_get":
            return differs(attribute_named(given["attributes"] or [], given["name"]), expected["value"])
        case "attribute_merge":
            parts = ({each["name"]: each["value"] for each in given[part] or ()} for part in ("existing", "updated"))
            return differs(attribute_list(*parts), expected["attributes"] or [])
        case op if "exclude" in op:
            return exclude_list_problem(given, expected)
    return f"unknown op {case['op']}"


def written_zone_problem(given: dict[str, Any], expected: dict[str, Any]) -> Problem:
    """How a zone is called in a report, and its memory in sysfs."""
    if "text" in given:
        return differs(total_memory(given["text"]), expected["bytes"])
    if "numa_id" in given:
        numa_id = given["numa_id"]
        return differs(zone_name(numa_id) if numa_id >= 0 else None, expected["name"])
    if expected["numa_id"] is None:
        return differs(zone_id_of(given["name"]), None)
    return differs(zone_name(expected["numa_id"]), given["name"])


def attribute_named(listed: list[dict[str, str]], name: str) -> str | None:
    """Of equal names the first counts: asked for as the fingerprint, which is read like that."""
    renamed = [{**each, "name": ATTRIBUTE if each["name"] == name else "other"} for each in listed]
    topology = msgspec.convert({"attributes": renamed}, NodeResourceTopology)
    return published_in(topology).fingerprint or None


def numa_memory_problem(nodes: dict[str, Any], expected: dict[str, Any]) -> Problem:
    """A sysfs tree of these nodes is read; sizes without a page, which the recording lists, count as 0."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        write(root / "devices/system/cpu/online", "0")
        (root / "devices/system/cpu/cpu0").mkdir(parents=True)
        for zone, said in nodes.items():
            node = root / f"devices/system/node/node{zone}"
            write(node / "meminfo", f"Node {zone} MemTotal:       {said['memtotal_kb']} kB")
            for size, pages in said["nr_hugepages"].items():
                write(node / f"hugepages/hugepages-{size}kB/nr_hugepages", pages)
        found = {str(zone.id): zone.capacity for zone in read_hardware(root).zones}
    listed = {zone: {name: found[zone].get(name, 0) for name in amounts} for zone, amounts in expected.items()}
    return differs(listed, expected)


def write(file: Path, text: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def exclude_list_problem(given: dict[str, Any], expected: dict[str, Any]) -> Problem:
    """A recording lists what is excluded, or asks about one resource."""
    lists = next(value for value in given.values() if isinstance(value, dict))
    node = next(value for name, value in given.items() if "node" in name)
    found = excluded_on(node, lists)
    if "resource" in given:
        return differs(given["resource"] in found, next(iter(expected.values())))
    recorded = next(iter(expected.values()))
    return differs(sorted(found), sorted(recorded or ()))


@pytest.mark.fixture_files("nrt/numa_placement")
def test_placement_encoding(conformance: Conformance) -> None:
    conformance.check_each(placement_problem)


def placement_problem(case: Case) -> Problem:
    given, expected = case["input"], case["expect"]
    match case["op"]:
        case "leb89_encode":
            return differs(encode_number(given["value"]), expected["encoded"])
        case "vector_encode":
            return differs(encode_vector(given["offsets"] or []), expected["encoded"])
        case "encode":
            return encode_problem(given, expected)
        case "unpack_metadata":
            return metadata_problem(given["metadata"], expected)
    return f"unknown op {case['op']}"


def encode_problem(given: dict[str, Any], expected: dict[str, Any]) -> Problem:
    zone_of = {
        (each["namespace"], each["pod"], each["container"]): each["numa_id"] for each in given["affinities"] or ()
    }
    try:
        found = encode_placement(given["numa_nodes"], zone_of)
    except PlacementError as error:
        return differs(str(error), expected.get("error"))
    shown = {
        "metadata": str(found.metadata),
        "vectors": {str(zone): vector for zone, vector in found.vectors.items()},
        "container_hashes_hex": sorted(
            f"{container_hash((each['namespace'], each['pod'], each['container'])):016x}"
            for each in given["affinities"] or ()
        ),
    }
    return differs({name: shown.get(name) for name in expected}, expected)


def metadata_problem(text: str, expected: dict[str, Any]) -> Problem:
    try:
        found = read_metadata(text)
    except PlacementError as error:
        return differs(str(error), expected.get("error"))
    if expected.get("error"):
        return f"was read, expected {expected['error']}"
    shown = {
        **dict.fromkeys(("containers", "cc"), found.containers),
        **dict.fromkeys(("numa_nodes", "nn"), found.zones),
        **dict.fromkeys(("busiest_node", "busiest", "bn"), found.busiest),
        **dict.fromkeys(("vector_encoding", "encoding", "ve"), found.encoding),
    }
    recorded = expected.get("fields") or {name: value for name, value in expected.items() if name != "error"}
    return differs({name: shown.get(name) for name in recorded}, recorded)


# -- Volcano's resource-exporter
# -----------------------------------------------------------------------------------------


@pytest.mark.fixture_files("volcano/exporter")
def test_volcano_exporter(conformance: Conformance) -> None:
    conformance.check_each(exporter_problem)


def exporter_problem(case: Case) -> Problem:
    given, expected = case["inputs"], case["expected"]
    match given["op"]:
        case "manager_state" | "podresources" | "alloc_update":
            return use_problem(given, expected)
        case "format_cpus":
            return differs(cpu_list(given["cpus"]), expected["text"])
        case "format_range":
            return differs(cpu_list(range(given["start"], given["end"] + 1)), expected["text"])
        case "sort_pods":
            listed = [PodAllocation(**pod) for pod in given["pods"]]
            found = [
                {name: getattr(pod, name) for name in given["pods"][0]} for pod in volcano_exporter.sorted_pods(listed)
            ]
            return differs(found, expected["pods"])
        case "sort_containers":
            return containers_problem(given, expected)
        case "parse_resource_list":
            return resource_list_problem(given, expected)
        case "reservation":
            return reservation_problem(given, expected)
        case "create_or_update":
            return written_again_problem(expected)
    return f"unknown op {given['op']}"


def use_problem(given: dict[str, Any], expected: dict[str, Any]) -> Problem:
    """Who has which CPUs, from the state file or from the kubelet's list; what was known before stays if there is
    neither.
    """
    numa_of = {int(cpu): numa for cpu, numa in (given.get("cpu2numa") or {}).items()}
    by_state = given["op"] == "manager_state" or given.get("backend") == "manager_state"
    try:
        use = use_in_state(given) if by_state else use_in_list(given, numa_of)
    except (volcano.CannotExport, InvalidObject) as error:
        if not expected.get("error"):
            return f"gave up: {error}"
        kept = given.get("prior_free") or {}
        return differs(expected.get("free_by_numa", kept), kept)
    if expected.get("error"):
        return f"did not give up: {use}"
    by_numa = {str(numa): cpus for numa, cpus in volcano.by_numa(use.free, numa_of).items()}
    shown = {"error": False, "free_cpus": list(use.free), "free_by_numa": by_numa} | allocation_facts(use, expected)
    return differs({name: shown.get(name) for name in expected}, expected)


def allocation_facts(use: volcano_exporter.CpuUse, expected: dict[str, Any]) -> dict[str, Any]:
    """What a recording may say about pods: their order, and the number, order and CPUs of their containers."""
    held = {
        pod.name or pod.uid: {each.name: (each.allocations or {})["cpu"] for each in pod.container_allocations or ()}
        for pod in use.pods
    }
    asked = expected.get("container_count") or {}
    only = next(iter(held.values()), {})
    in_order = expected.get("container_names_in_order")
    by_name = {pod.name or pod.uid: pod for pod in use.pods}
    return {
        "pod_allocation_count": len(use.pods),
        "pod_names_in_order": [pod.name for pod in use.pods],
        "pod_uids_in_order": [pod.uid for pod in use.pods],
        "container_count": {pod: len(held[pod]) for pod in asked},
        "container_names_in_order": {pod: list(held[pod]) for pod in in_order}
        if isinstance(in_order, dict)
        else list(only),
        **{
            name: {pod: as_recorded(by_name.get(pod), recorded) for pod, recorded in (expected.get(name) or {}).items()}
            for name in ("pod_allocations_by_name", "pod_allocations_by_uid")
        },
        "containers_in_order": list(only),
        "allocations": held,
        "pod_allocations": [{"uid": pod.uid, "containers": held[pod.uid]} for pod in use.pods if pod.uid],
    }


def as_recorded(pod: PodAllocation | None, recorded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The containers of a pod with what a recording says of each: it may leave allocations out."""
    found = [msgspec.to_builtins(each) for each in (pod.container_allocations if pod is not None else None) or ()]
    if len(found) != len(recorded):
        return found
    return [{name: each.get(name) for name in said} for each, said in zip(found, recorded, strict=True)]


def use_in_state(given: dict[str, Any]) -> volcano_exporter.CpuUse:
    checkpoint = given.get("checkpoint")
    if checkpoint is None:
        raise volcano.CannotExport("there is no such file")
    text = checkpoint if isinstance(checkpoint, str) else json.dumps(checkpoint)
    return volcano.cpus_in_state(cpu_state_of(text.encode(), "cpu_manager_state"))


def use_in_list(given: dict[str, Any], numa_of: dict[int, int]) -> volcano_exporter.CpuUse:
    listed = given.get("pod_resources")
    if listed is None or given.get("pod_resources_error"):
        raise volcano.CannotExport("no answer")
    return volcano_exporter.cpus_in_list(numa_of, pods(listed))


def containers_problem(given: dict[str, Any], expected: dict[str, Any]) -> Problem:
    def names(listed: list[Any]) -> list[str]:
        return [each["name"] if isinstance(each, dict) else each for each in listed]

    listed = next(value for value in given.values() if isinstance(value, list))
    recorded = next(value for value in expected.values() if isinstance(value, list))
    pod = PodResources("ns", "pod", tuple(ContainerResources(name, cpus=(0,)) for name in names(listed)))
    (found,) = volcano_exporter.cpus_in_list([0], [pod]).pods
    return differs(names([msgspec.to_builtins(each) for each in found.container_allocations or ()]), names(recorded))


def resource_list_problem(given: dict[str, Any], expected: dict[str, Any]) -> Problem:
    try:
        found = volcano.resource_list(given["map"])
    except volcano.CannotExport as error:
        return None if expected["error"] else f"gave up: {error}"
    entries = expected.get("entries") or 0
    return "did not give up" if expected["error"] else differs(len(found), entries)


def reservation_problem(given: dict[str, Any], expected: dict[str, Any]) -> Problem:
    configuration = given.get("kubelet_config") or {
        name: given.get(other) or given.get(name)
        for name, other in SNAKE_CASE.items()
        if given.get(other) or given.get(name)
    }
    total = given.get("machine_capacity") or given.get("capacity") or {"cpu": "4", "memory": "4Gi"}
    if "machine" in given:
        total = {"cpu": str(given["machine"]["num_cores"]), "memory": str(given["machine"]["memory_bytes"])}
    found = volcano.reserved_amounts(configuration, {name: parse(text) for name, text in total.items()})
    recorded = next((value for value in expected.values() if isinstance(value, dict)), expected)
    return differs({name: found.get(name) for name in recorded}, {name: parse(text) for name, text in recorded.items()})


SNAKE_CASE = {"kubeReserved": "kube_reserved", "systemReserved": "system_reserved", "evictionHard": "eviction_hard"}


def written_again_problem(expected: dict[str, Any]) -> Problem:
    """An object that exists is written as a whole, with a time stamp: nothing stale is left of it."""
    use = volcano_exporter.CpuUse((0,), [])
    document = volcano_exporter.numatopology_document(
        "node-a", {}, use, volcano_exporter.policies_of(None), "0", now=1_760_000_000
    )
    stamped = bool(document["metadata"]["annotations"]["timestamp"])
    fresh = "stale" not in document["spec"]["policies"].values()
    return None if stamped and fresh else f"{document} does not do: {expected}"


@pytest.mark.fixture_files("volcano/numatopology_objects_derived")
def test_numatopology_objects(conformance: Conformance) -> None:
    conformance.check_each(numatopology_problem)


def numatopology_problem(case: Case) -> Problem:
    given, expected = case["inputs"], case["expected"]
    configuration = given.get("kubelet_config")
    match given["op"]:
        case "parse":
            return parse_problem(given["object"], expected)
        case "export":
            return export_problem(given, expected)
        case "export_reserved":
            reserved = volcano.reserved_cpu(configuration or {}, (given.get("flags") or {}).get("res-reserved"))
            return differs({"cpu": reserved}, expected["resReserved"])
        case "export_policies":
            return differs(volcano_exporter.policies_of(configuration), expected["policies"])
    return f"unknown op {given['op']}"


def parse_problem(document: dict[str, Any], expected: dict[str, Any]) -> Problem:
    view = volcano.as_volcano_reads(msgspec.convert(document, Numatopology))
    places = {
        str(cpu): {"numa": place.numa, "socket": place.socket, "core": place.core} for cpu, place in view.places.items()
    }
    shown = {
        "reserved_cpu_milli": view.reserved_milli,
        "reserved_cpus_count": -(-(view.reserved_milli or 0) // 1000),
        "policies": dict(view.policies),
        "cpu": {"allocatable": list(view.free), "capacity": view.capacity},
        **{name: list(view.free) for name in ("allocatable", "allocatable_cpus", "free_cpus", "cpu_allocatable")},
        **dict.fromkeys(("capacity", "cpu_capacity"), view.capacity),
        **dict.fromkeys(("cpu_detail", "cpuDetail"), places),
        "name": document["metadata"]["name"],
        "numa_nodes": sorted({place.numa for place in view.places.values()}),
        "pod_allocations": [{name: getattr(pod, name) for name in ("uid", "name", "namespace")} for pod in view.pods],
    }
    unknown = expected.keys() - shown.keys()
    if unknown:
        return f"nothing is known about {', '.join(sorted(unknown))}"
    return differs({name: shown[name] for name in expected}, expected)


def export_problem(given: dict[str, Any], expected: dict[str, Any]) -> Problem:
    with TemporaryDirectory() as folder:
        for name, text in given["files_under_device_path"].items():
            write(Path(folder) / "devices/system" / name, text.strip())
        places = volcano_exporter.places_on(read_hardware(Path(folder)))
    configuration = given["kubelet_config"]
    use = volcano_exporter.cpus_in_list(places, pods(given["pod_resources"] or []))
    reserved = volcano.reserved_cpu(configuration, given["flags"].get("res-reserved"))
    policies = volcano_exporter.policies_of(configuration)
    document = volcano_exporter.numatopology_document("node", places, use, policies, reserved, now=0)
    return differs(document["spec"], expected["spec"])
