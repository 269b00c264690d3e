"""Turn the agent's account into a NodeResourceTopology, or into Volcano's Numatopology (`forms/volcano_exporter.py`).

In come a `NodeAccount`, the kubelet's setup and a timestamp; out goes a document to print or apply. Attributes have
what every agent reports (policy, scope, fingerprint of the pods) and what the scheduler would otherwise guess: options,
managers, CPUs, devices and pods by name (`cluster/reports/inventory.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from hashlib import blake2b
from typing import Any

import msgspec

from bayplan import __version__
from bayplan.cluster.reports import fingerprint, inventory
from bayplan.cluster.reports.inventory import cpu_list
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.cluster.reports.numatopology import lowest_cores
from bayplan.cluster.reports.reported_settings import POD_LEVEL_GATE
from bayplan.cluster.reports.zone_reports import MEMORY_GROUP_ATTRIBUTE
from bayplan.kube.wire.node_resource_topology_v1alpha2 import GROUP
from bayplan.services.agent.accounting import NodeAccount, ZoneAccount, zones_of
from bayplan.services.agent.forms.placement_encoding import (
    METADATA_ATTRIBUTE,
    VECTOR_ATTRIBUTE,
    EncodedPlacement,
    encode_placement,
)
from bayplan.services.agent.forms.volcano_exporter import (
    CpuUse,
    cpus_in_list,
    numatopology_document,
    places_on,
    policies_of,
)
from bayplan.services.agent.sources.kubelet_config import KubeletSetup
from bayplan.services.agent.sources.sysfs import Hardware
from bayplan.services.agent.sources.sysfs_files import members

KIND = "NodeResourceTopology"
# Far below the 1.5 MiB that etcd accepts: a node may have tens of thousands of devices, and there are other writers.
MAX_BYTES = 512 << 10
LEFT_OUT = "bayplan.io/left-out"
# Least important first: zones still count devices, and the fingerprint covers pods.
DETAILS = {inventory.DEVICES: "devices by name", inventory.PODS: "what each pod holds"}
METHOD_ALL = "all"
# Threads per core of machines with equal cores.
_EVEN_THREADS = (1, 2, 4, 8)

Document = dict[str, Any]


class ReportFormat(Enum):
    """Which object is published."""

    V1ALPHA2 = "v1alpha2"
    V1ALPHA1 = "v1alpha1"
    NUMATOPOLOGY = "numatopology"


class FingerprintMethod(Enum):
    """Which pods the fingerprint covers. Pods without exclusive resources cause no new report."""

    ALL = METHOD_ALL
    EXCLUSIVE = fingerprint.METHOD_EXCLUSIVE


def topology_document(
    node: str,
    account: NodeAccount,
    hardware: Hardware,
    setup: KubeletSetup | None,
    *,
    made_at: float,
    all_pods: Iterable[fingerprint.PodName] | None = None,
    version: ReportFormat = ReportFormat.V1ALPHA2,
    pods_known: bool = True,
) -> Document:
    """The node's report. The fingerprint covers `all_pods`, or else pods that hold something in a zone.

    Without `pods_known`, the report omits pods: an empty list would mean that there are none.
    """
    if version is ReportFormat.NUMATOPOLOGY:
        return _numatopology(node, account, hardware, setup, made_at)
    document: Document = {"apiVersion": f"{GROUP}/{version.value}", "kind": KIND, "metadata": {"name": node}}
    if version is ReportFormat.V1ALPHA1:
        # v1alpha1 has no attributes: the timestamp becomes an annotation.
        document["metadata"]["annotations"] = {inventory.MADE_AT: f"{made_at:.6f}"}
        document["topologyPolicies"] = (
            [legacy_policy(setup.settings.policy.text, setup.settings.scope.text)] if setup else []
        )
    else:
        document["attributes"] = attribute_list(
            _settings(setup.settings) if setup else {},
            _names(account, hardware),
            _pods(account, hardware, all_pods) if pods_known else {},
            {inventory.MADE_AT: f"{made_at:.6f}", inventory.AGENT_VERSION: __version__},
        )
    vectors: Mapping[int, str] = {}
    placement = _placement(account, hardware, setup) if pods_known and "attributes" in document else None
    if placement is not None:
        document["attributes"] += attribute_list({METADATA_ATTRIBUTE: str(placement.metadata)})
        vectors = placement.vectors
    document["zones"] = [_zone(zone, vectors.get(zone.id)) for zone in account.zones]
    return document


def _placement(account: NodeAccount, hardware: Hardware, setup: KubeletSetup | None) -> EncodedPlacement | None:
    """Placement vectors for scheduler-plugins' preemption, which supports only one zone per container and dense ids."""
    ids = range(len(account.zones))
    if setup is None or setup.settings.policy is not Policy.SINGLE_NUMA_NODE or hardware.zone_ids != set(ids):
        return None
    homes = {
        (pod.namespace, pod.name, container.name): zones
        for pod in account.pods
        for container in pod.containers
        if (zones := zones_of(container, hardware))
    }
    if any(len(zones) > 1 for zones in homes.values()):
        return None
    return encode_placement(len(ids), {name: min(zones) for name, zones in homes.items()})


def _numatopology(
    node: str, account: NodeAccount, hardware: Hardware, setup: KubeletSetup | None, made_at: float
) -> Document:
    """Volcano's object. Readers take the lowest CPUs as reserved, so these are written as free.

    Other reserved CPUs (`reservedSystemCPUs`) are written as taken, which is equivalent for Volcano. An annotation
    always has the ids.
    """
    reserved = account.reserved_cpus
    lowest = reserved if hardware.layout is None else members(lowest_cores(hardware.layout, len(reserved)))
    count, free = (len(reserved), account.free_cpus | reserved) if reserved == lowest else (0, account.free_cpus)
    use = CpuUse(tuple(sorted(free)), cpus_in_list(hardware.cpus, account.pods).pods)
    policies = policies_of(_settings(setup.settings) if setup else None)
    document = numatopology_document(node, places_on(hardware), use, policies, str(count), now=made_at)
    if reserved:
        document["metadata"]["annotations"][inventory.RESERVED_CPUS] = cpu_list(reserved)
    return document


def substance(document: Mapping[str, Any]) -> bytes:
    """A digest of a report's content, without its timestamp."""
    lasting = [each for each in document.get("attributes", ()) if each["name"] != inventory.MADE_AT]
    parts = (lasting, document.get("topologyPolicies"), document.get("zones"), document.get("spec"))
    return blake2b(msgspec.json.encode(parts), digest_size=16).digest()


def attribute_list(*parts: Mapping[str, str]) -> list[dict[str, str]]:
    """Attributes in order; a later value replaces an earlier one of the same name."""
    values = {name: value for part in parts for name, value in part.items()}
    return [{"name": name, "value": value} for name, value in values.items()]


def without_attributes(document: Document, names: Collection[str]) -> Document:
    """The report without some attributes, if its format has attributes."""
    if "attributes" not in document:
        return document
    return {**document, "attributes": [each for each in document["attributes"] if each["name"] not in names]}


def fitting(document: Document, most: int = MAX_BYTES) -> tuple[Document, tuple[str, ...]]:
    """The document within the size limit, if omitting details suffices, and a message about them."""
    left_out: list[str] = []
    fits = document
    for name in DETAILS:
        if len(msgspec.json.encode(fits)) <= most:
            break
        if any(each["name"] == name for each in document.get("attributes", ())):
            left_out.append(name)
            fits = without_attributes(document, left_out)
            fits["attributes"] += attribute_list({LEFT_OUT: ",".join(left_out)})
    if not left_out:
        return document, ()
    details = " and ".join(DETAILS[name] for name in left_out)
    return fits, (f"the report would have more than {most >> 10} KiB: {details} are omitted",)


def zone_name(zone: int) -> str:
    """The name of a zone in a report."""
    return f"node-{zone}"


def legacy_policy(policy: str, scope: str) -> str:
    """v1alpha1's word for policy and scope; `None` if it has no word."""
    words = {
        Policy.BEST_EFFORT.text: "BestEffort",
        Policy.RESTRICTED.text: "Restricted",
        Policy.SINGLE_NUMA_NODE.text: "SingleNUMANode",
    }
    levels = {Scope.POD.text: "PodLevel", Scope.CONTAINER.text: "ContainerLevel"}
    return words[policy] + levels[scope] if policy in words and scope in levels else "None"


def _settings(settings: KubeletSettings) -> dict[str, str]:
    """Settings that decide admissions, under the kubelet's own names."""
    gates = {"featureGates": f"{POD_LEVEL_GATE}=true"} if settings.pod_level_managers else {}
    return {
        "topologyManagerPolicy": settings.policy.text,
        "topologyManagerScope": settings.scope.text,
        "topologyManagerMaxNUMANodes": str(settings.max_numa_nodes),
        "topologyManagerOptionPreferClosestNumaNodes": str(settings.prefer_closest).lower(),
        "cpuManagerPolicy": "static" if settings.cpu_static else "none",
        "cpuManagerPolicyOptions": ",".join(f"{name}=true" for name in sorted(settings.cpu_options)),
        "memoryManagerPolicy": "Static" if settings.memory_static else "None",
        **gates,
    }


def _names(account: NodeAccount, hardware: Hardware) -> dict[str, str]:
    """CPUs and devices by name, if the CPU layout is known."""
    values: dict[str, str] = {}
    layout = hardware.layout
    if layout is not None and not hardware.nameless_zones:
        columns = {"core": layout.core, "socket": layout.socket, "zone": layout.numa, "cache": layout.l3}
        values[inventory.CPUS] = _json(columns)
        values[inventory.RESERVED_CPUS] = cpu_list(account.reserved_cpus)
        if layout.threads_per_core in _EVEN_THREADS:
            values["bayplan.io/threads-per-core"] = str(layout.threads_per_core)
        values[inventory.FREE_CPUS] = cpu_list(account.free_cpus)
        listed = {
            resource: [(device.id, device.zones, device.state) for device in devices]
            for resource, devices in account.devices.items()
        }
        values[inventory.DEVICES] = _json(listed)
    values.update({kind: cpu_list(cpus) for kind, cpus in (hardware.kinds or {}).items()})
    return values


def _pods(account: NodeAccount, hardware: Hardware, all_pods: Iterable[fingerprint.PodName] | None) -> dict[str, str]:
    """The pods in the report: their holdings by name, and their fingerprint."""
    listed = {f"{namespace}/{name}": held for (namespace, name), held in account.holdings.items()}
    holders = [pod for pod, held in account.holdings.items() if held]
    method = FingerprintMethod.EXCLUSIVE if all_pods is None else FingerprintMethod.ALL
    return {
        **({} if hardware.nameless_zones else {inventory.PODS: _json(listed)}),
        fingerprint.ATTRIBUTE: fingerprint.fingerprint_of(holders if all_pods is None else all_pods),
        fingerprint.METHOD_ATTRIBUTE: method.value,
    }


def _zone(zone: ZoneAccount, vector: str | None) -> Document:
    body: Document = {
        "name": zone_name(zone.id),
        "type": "Node",
        "costs": [{"name": zone_name(other), "value": value} for other, value in zone.distances.items()],
        "resources": [
            {
                "name": name,
                "capacity": str(amounts.capacity),
                "allocatable": str(amounts.allocatable),
                "available": str(amounts.available),
            }
            for name, amounts in zone.amounts.items()
        ],
    }
    attributes = {}
    if zone.memory_group is not None:
        attributes[MEMORY_GROUP_ATTRIBUTE] = ",".join(str(member) for member in zone.memory_group)
    if vector is not None:
        attributes[VECTOR_ATTRIBUTE] = vector
    if attributes:
        body["attributes"] = attribute_list(attributes)
    return body


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
