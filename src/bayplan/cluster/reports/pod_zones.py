"""The NUMA zones that a running pod was given, if an annotation records them.

The annotation `bayplan.io/numa-zones` on a bound pod holds JSON: container name to list of NUMA ids, `{"upf": [1]}`.
Any component that knows where the kubelet put a pod may write it. A pod without it may still be pinned; then its zone
is "not reported". Pictures show it; `cluster/state.py` needs it where a node's report does not show what is in use.
"""

from __future__ import annotations

import msgspec

from bayplan.cluster.pods.request import CPU, PODS, ContainerRequest, PodRequest, Role, is_memory
from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.kube.errors import ObjectPath
from bayplan.kube.json_text import decode
from bayplan.kube.wire.core_v1 import Pod

NUMA_ZONES = "bayplan.io/numa-zones"

ZonesByContainer = dict[str, tuple[int, ...]]
Holding = tuple[str, int, int]
"""Resource, position of the zone in the report, amount."""

# The kubelet's own: no plugin hands them out, so they stand in no zone.
_NOT_DEVICES = (PODS, "ephemeral-storage", "storage")


def zones_of_pod(pod: Pod, remarks: list[ObjectRemark] | None = None) -> ZonesByContainer:
    """Zones by container; empty if the pod does not say. What cannot be read is added to `remarks`."""
    text = (pod.metadata.annotations or {}).get(NUMA_ZONES)
    if text is None:
        return {}
    try:
        return {
            container: tuple(sorted(set(zones)))
            for container, zones in decode(text, dict[str, list[int]]).items()
            if zones
        }
    except msgspec.DecodeError:
        if remarks is not None:
            at = ObjectPath.of(pod).child("metadata").child("annotations").key(NUMA_ZONES)
            remarks.append(ObjectRemark(at, f'{text!r} is ignored: expected JSON such as {{"container": [0]}}'))
        return {}


def zones_on_node(
    pod: Pod, key: str, request: PodRequest, report: TopologyReport | None, remarks: list[ObjectRemark] | None = None
) -> ZonesByContainer:
    """Zones by container of a running pod: what its node reports about it counts more than the annotation.

    A report names the zones of the pod as a whole. The annotation adds which container stands in which, as long as both
    agree.
    """
    annotated = zones_of_pod(pod, remarks)
    held = (report.pods or {}).get(key) if report is not None else None
    if report is None or held is None:
        return annotated
    reported = {zone for in_zones in held.values() for zone, amount in in_zones.items() if amount}
    running = [container for container in request.containers if container.role is not Role.INIT]
    of_running = {zone for container in running for zone in annotated.get(container.name, ())}
    # Init containers may leave CPUs to the pod that no other container uses.
    if of_running and of_running <= reported <= {zone for zones in annotated.values() for zone in zones}:
        return annotated
    in_zones = tuple(sorted(reported))
    holding = [container for container in running if aligned(container, request, report)] or running
    return {container.name: in_zones for container in holding} if in_zones else {}


def holdings_of(pod: Pod, request: PodRequest, report: TopologyReport) -> tuple[list[Holding], bool]:
    """What a running pod holds in the zones of its node, as far as its annotation tells; and
    whether that is all of it.
    """
    zones = zones_of_pod(pod)
    positions = {zone.id: position for position, zone in enumerate(report.zones)}
    held: list[Holding] = []
    complete = True
    for container in request.containers:
        amounts = aligned(container, request, report) if container.role is not Role.INIT else {}
        named = zones.get(container.name, ())
        if amounts and (len(named) != 1 or named[0] not in positions):
            complete = False  # unknown, or spread over zones in unknown shares
        elif amounts:
            held += [(name, positions[named[0]], amount) for name, amount in amounts.items()]
    return held, complete


def could_hold(request: PodRequest, report: TopologyReport) -> list[Holding]:
    """What a pod may hold in a node's zones if its own zones are unknown: its amounts in every zone."""
    amounts: dict[str, int] = {}
    for container in request.containers:
        if container.role is not Role.INIT:
            for name, amount in aligned(container, request, report).items():
                amounts[name] = amounts.get(name, 0) + amount
    return [
        (name, position, amount)
        for position, zone in enumerate(report.zones)
        for name, amount in amounts.items()
        if name in zone.resources
    ]


def aligned(container: ContainerRequest, request: PodRequest, report: TopologyReport) -> dict[str, int]:
    """The amounts of a container that a manager of the kubelet takes out of zones; silent managers count as static."""
    reported = {name for zone in report.zones for name in zone.resources}
    settings = report.settings
    owns_cpus = settings.cpu_static is not False and request.exclusive_cpus(container) > 0
    owns_memory = settings.memory_static is not False and request.guaranteed and request.pod_level is None
    return {
        name: amount
        for name, amount in container.requests.items()
        if amount
        and name in reported
        and (owns_cpus if name == CPU else owns_memory if is_memory(name) else name not in _NOT_DEVICES)
    }
