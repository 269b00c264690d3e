"""Which zones a pod gets on one node, and what that takes out of each: the detail behind a verdict.

The columns say *whether* (`engine/numa/admission.py`, all nodes); this module says *where*, for the node that was
chosen. As long as each container in turn fits into one zone, it gets the lowest such zone: that is the kubelet's
answer, and it needs amounts only (10 us). Where a container takes over from an init container or spans zones, the
admission is replayed exactly as the kubelet would do it (`engine/kubelet/`, 1 to 5 ms), which may also turn the
columns' yes into a no. Policy `none` aligns nothing, so which zone is charged makes no difference there.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import Struct

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.pods.request import CPU, PodRequest, is_memory
from bayplan.cluster.reports.kubelet_settings import FULL_PCPUS_ONLY, Assumptions, Policy, Scope
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.state import ClusterState, ZoneCharge
from bayplan.engine.kubelet import (
    REPORT_BEHIND,
    TOO_MANY_ZONES,
    Admission,
    ContainerPlacement,
    NodeKnowledge,
    ZoneCounts,
    admit,
    from_counts,
    with_inventory,
)
from bayplan.engine.kubelet.masks import zones_in
from bayplan.engine.kubelet.verdict import no_healthy_devices
from bayplan.engine.numa.admission import relevant_wants, single_zones, smallest_set_on
from bayplan.engine.numa.demand import HOST_RESOURCES, Demand, Step
from bayplan.engine.numa.one_node import lowest_zone_that_holds

# Not a reason of the kubelet's: it would admit the pod, and use more zones than the pod allows.
TOO_MANY_ZONES_USED = "TooManyNUMAZones"
_WAITS_FOR_REPORT = Admission(
    admitted=False,
    reason=REPORT_BEHIND,
    message=(
        "the node's report does not show yet all pods that were sent there, and this one depends on more than amounts"
    ),
)


class ContainerZones(Struct, frozen=True, gc=False):
    """The NUMA ids in which a container will hold CPUs, memory or devices; None if none are known.

    Amounts alone do not always tell. `estimated` zones are the likely ones; without `shares_known` the zones are right,
    but not what is taken from each.
    """

    container: str
    zones: tuple[int, ...] | None
    estimated: bool = False
    shares_known: bool = True


class Placement(Struct, frozen=True, gc=False):
    """Zones per container and the amounts taken; or, in `refusal`, why the kubelet would say no after all.

    `by_amounts` is False if amounts alone did not say so and the admission had to be replayed.
    """

    containers: tuple[ContainerZones, ...] = ()
    charges: tuple[ZoneCharge, ...] = ()
    by_amounts: bool = True
    refusal: Admission | None = None


def place_on(state: ClusterState, row: int, request: PodRequest, demand: Demand, assumptions: Assumptions) -> Placement:
    """Work out the zones of a pod on one node; the columns have already said that it fits."""
    for device, container in demand.zero_devices:
        if _has_only_broken(state, row, device):
            return Placement(refusal=no_healthy_devices(device, container))
    report = state.reports[row]
    # Columns know nothing of pods that are served as a whole, which few kubelets do.
    as_a_whole = request.pod_level is not None and report is not None and report.settings.pod_level_managers
    counted = None if as_a_whole else place_by_amounts(state, row, demand, assumptions)
    if counted is not None or report is None or not report.usable:
        return counted or Placement()
    if state.waits_for_report(row):
        return Placement(refusal=_WAITS_FOR_REPORT)
    placement = _replayed(state, row, request, assumptions, report)
    if placement.refusal is not None and placement.refusal.reason == TOO_MANY_ZONES:
        return _of_many_zones(state, row, demand, assumptions, report) or placement
    return placement


def _has_only_broken(state: ClusterState, row: int, device: str) -> bool:
    """Whether a node has a plugin for a device, and none that works."""
    index = state.columns.resource_index.get(device)
    return index is not None and bool(state.columns.offered[index, row]) and not state.columns.allocatable[index, row]


def within_zones(placement: Placement, most: int) -> Placement:
    """A placement, or the refusal of one whose containers hold something in more than `most` zones."""
    zones = {zone for each in placement.containers for zone in each.zones or ()}
    if len(zones) <= most:
        return placement
    message = f"the kubelet would use {len(zones)} NUMA zones, the pod allows {most}"
    return Placement(refusal=Admission(admitted=False, reason=TOO_MANY_ZONES_USED, message=message))


def place_by_amounts(state: ClusterState, row: int, demand: Demand, assumptions: Assumptions) -> Placement | None:
    """The placement if amounts alone determine it, else None."""
    report = state.reports[row]
    if report is None or not report.zones or demand.nothing_to_align or state.columns.topology[row] != TOPOLOGY_USABLE:
        return Placement()
    return None if says_more_than_amounts(report) else _counted(state, row, demand, assumptions, report)


def knowledge_of(state: ClusterState, row: int, assumptions: Assumptions) -> NodeKnowledge | None:
    """What is known about a node's kubelet, for an exact replay; None without usable topology data."""
    report = state.reports[row]
    if report is None or not report.usable:
        return None
    columns = state.columns
    counts = []
    for position, zone in enumerate(report.zones):
        left = {
            name: int(columns.zone_available[columns.resource_index[name], position, row]) for name in zone.resources
        }
        cpu = zone.resources.get(CPU)
        counts.append(
            ZoneCounts(
                zone_id=zone.id,
                memory_group=zone.memory_group,
                cpus=None if cpu is None else (max(cpu.capacity, cpu.available) // 1000, left[CPU] // 1000),
                memory={
                    name: (max(amounts.allocatable, amounts.available), left[name])
                    for name, amounts in zone.resources.items()
                    if is_memory(name)
                },
                devices={
                    name: (max(amounts.capacity, amounts.available), left[name])
                    for name, amounts in zone.resources.items()
                    if name != CPU and not is_memory(name) and name not in HOST_RESOURCES
                },
            )
        )
    node = from_counts(
        counts,
        report.settings.resolved(assumptions),
        state.hardware_classes[columns.hardware_class[row]].distances,
        devices_without_zone=_devices_without_zone(state, row, counts),
        strict_memory_groups=assumptions.strict_memory_groups,
    )
    inventory = report.inventory
    # Which CPUs and devices promised pods will get is not in the inventory, so only amounts can be subtracted for them.
    if inventory is None or not inventory.zones <= set(node.zone_ids) or state.is_ahead_of_report(row):
        return node
    exact = with_inventory(node, inventory)
    # Devices that are not listed are still known by number.
    return replace(exact, devices={**node.devices, **exact.devices})


def _devices_without_zone(state: ClusterState, row: int, counts: list[ZoneCounts]) -> dict[str, tuple[int, int]]:
    """Devices that the node offers beyond those its zones report: (how many, how many of them are free)."""
    columns = state.columns
    found: dict[str, tuple[int, int]] = {}
    for name in {name for zone in counts for name in zone.devices}:
        in_zones = [zone.devices.get(name, (0, 0)) for zone in counts]
        index = columns.resource_index[name]
        total = int(columns.allocatable[index, row]) - sum(capacity for capacity, _ in in_zones)
        free = int(columns.free[index, row]) - sum(available for _, available in in_zones)
        if total > 0:
            found[name] = total, max(0, min(free, total))
    return found


def says_more_than_amounts(report: TopologyReport) -> bool:
    """True if amounts per zone do not decide alone: zone groups, odd devices or reservations, and two options."""
    settings = report.settings
    own_distances = {zone.costs.get(zone.id) for zone in report.zones}
    return (
        any(zone.memory_group is not None and len(zone.memory_group) > 1 for zone in report.zones)
        or (
            report.inventory is not None
            and not report.inventory.plain(whole_cores=FULL_PCPUS_ONLY in settings.cpu_options)
        )
        or "align-by-socket" in settings.cpu_options
        or (settings.prefer_closest and len(own_distances) > 1)
    )


def _counted(
    state: ClusterState, row: int, demand: Demand, assumptions: Assumptions, report: TopologyReport
) -> Placement | None:
    """The placement that follows from amounts alone; None if some step does not fit into one zone."""
    if report.settings.policy is Policy.NONE:
        return _without_affinity(state, row, demand, assumptions)
    in_turn = single_zones(state.columns, demand, row, assumptions)
    if in_turn is None:
        return None
    taken: dict[tuple[int, int], float] = {}
    zones: dict[str, tuple[int, ...] | None] = {}
    for step, position, wants in in_turn:
        # Zero devices draw a container to a zone; they hold nothing there.
        zones[step.container] = (report.zones[position].id,) if any(want for _, want in wants) else None
        for index, want in wants:
            taken[index, position] = taken.get((index, position), 0.0) + want
    # At pod scope the one step stands for all containers that hold something.
    containers = tuple(
        ContainerZones(
            step.container,
            zones[step.container]
            if step.container in zones
            else zones[""]
            if _holds_something(state, row, step, assumptions)
            else None,
        )
        for step in demand.container_steps
    )
    charges = tuple(ZoneCharge(index, zone, amount) for (index, zone), amount in taken.items() if amount)
    return Placement(containers, charges)


def _holds_something(state: ClusterState, row: int, step: Step, assumptions: Assumptions) -> bool:
    return any(want for _, want in relevant_wants(state.columns, step.wants, row, assumptions))


def _without_affinity(state: ClusterState, row: int, demand: Demand, assumptions: Assumptions) -> Placement | None:
    """What a kubelet with policy none takes: CPUs and devices from anywhere, memory from the zone of its own choice.

    Which CPUs makes no difference to such a kubelet. Memory does: its manager looks for the lowest zone that holds a
    container's, and where there is none, amounts are not all that decides.
    """
    if demand.has_init_containers:
        return None
    memory: dict[tuple[int, int], float] = {}
    for step in demand.container_steps:
        asked = tuple((name, want) for name, want in step.wants if is_memory(name))
        wants = relevant_wants(state.columns, asked, row, assumptions)
        zone = lowest_zone_that_holds(state.columns, wants, row, memory)
        if zone is None:
            return None
        for index, want in wants:
            memory[index, zone] = memory.get((index, zone), 0.0) + want
    others = tuple((name, want) for name, want in demand.in_sum if not is_memory(name))
    charges = [ZoneCharge(index, zone, amount) for (index, zone), amount in memory.items()]
    containers = tuple(ContainerZones(step.container, None) for step in demand.container_steps)
    return Placement(containers, (*charges, *_lowest_first(state, row, others, assumptions)))


def _of_many_zones(
    state: ClusterState, row: int, demand: Demand, assumptions: Assumptions, report: TopologyReport
) -> Placement | None:
    """A node with too many zones to replay: what the columns know about it; None if that is not enough."""
    if report.settings.policy is Policy.BEST_EFFORT:
        # Such a kubelet takes what there is, and the zones have it in sum. Of so many the lowest are the likely ones.
        charges = _lowest_first(state, row, demand.in_sum, assumptions)
        likely = tuple(sorted({report.zones[charge.zone].id for charge in charges}))
        containers = tuple(
            ContainerZones(step.container, likely, estimated=True, shares_known=False)
            for step in demand.container_steps
            if _holds_something(state, row, step, assumptions)
        )
        return Placement(containers, charges, by_amounts=False)
    bits = 0
    if report.settings.policy is Policy.RESTRICTED and not demand.scope_matters:
        bits = smallest_set_on(state.columns, demand, row, assumptions)
    if not bits:
        return None
    inside = [position for position in range(len(report.zones)) if bits >> position & 1]
    zones = tuple(report.zones[position].id for position in inside)
    charges = _lowest_first(state, row, demand.in_sum, assumptions, inside)
    # No smaller set has as much of anything, so some of each zone is taken.
    estimated = report.settings.prefer_closest or report.inventory is None
    containers = (ContainerZones(demand.container_steps[0].container, zones, estimated=estimated, shares_known=False),)
    return Placement(containers, charges, by_amounts=False)


def _lowest_first(
    state: ClusterState,
    row: int,
    asked: tuple[tuple[str, int], ...],
    assumptions: Assumptions,
    inside: list[int] | None = None,
) -> tuple[ZoneCharge, ...]:
    """Charges for all that is asked, zone after zone, in some of the zones or all."""
    charges = []
    for index, want in relevant_wants(state.columns, asked, row, assumptions):
        missing = float(want)
        left = state.columns.zone_available[index, :, row].tolist()
        for zone in range(len(left)) if inside is None else inside:
            share = min(missing, left[zone])
            if share > 0:
                charges.append(ZoneCharge(index, zone, share))
                missing -= share
    return tuple(charges)


def _replayed(
    state: ClusterState, row: int, request: PodRequest, assumptions: Assumptions, report: TopologyReport
) -> Placement:
    node = knowledge_of(state, row, assumptions)
    assert node is not None
    return placement_of(state, node, admit(node, request), report)


def placement_of(state: ClusterState, node: NodeKnowledge, admission: Admission, report: TopologyReport) -> Placement:
    """What a replayed admission takes of the node as it was before."""
    if not admission.admitted:
        return Placement(refusal=admission)
    containers = tuple(_zones_of(node, placed) for placed in admission.containers)
    return Placement(containers, _charges(state, node, admission, report), by_amounts=False)


def zones_held(node: NodeKnowledge, placed: ContainerPlacement) -> set[int]:
    """The zones of a container's CPUs, memory and devices."""
    devices = {name for used in placed.devices.values() for name in used}
    held = {node.cpus.numa[cpu] for cpu in placed.cpus} | {zone for block in placed.memory for zone in block.zones}
    return held | {
        zone
        for resource in placed.devices
        for device in node.devices[resource]
        if device.id in devices
        for zone in zones_in(device.zones)
    }


def _zones_of(node: NodeKnowledge, placed: ContainerPlacement) -> ContainerZones:
    """Where a container holds something, and how sure that is.

    With CPUs and devices by name the replay is exact. Without, it still is for what lies in one zone; and if a
    container needs all zones, it uses them all. Otherwise, and under policy none, the names decide.
    """
    zones = tuple(sorted(zones_held(node, placed))) or None
    settings = node.settings
    if zones is None or settings.policy is Policy.NONE:
        return ContainerZones(placed.name, None)
    in_one_zone = placed.zones is not None and len(placed.zones) == 1 and zones == placed.zones
    if node.by_name or in_one_zone or len(node.zone_ids) == 1:
        # How many CPUs of an init container stay with the pod depends on the cores they are on.
        return ContainerZones(placed.name, zones, shares_known=node.by_name)
    # A set of all zones is the only one of its size. Which smaller set is chosen depends on kubelet options that a
    # plain report does not state.
    used_whole = placed.preferred and settings.scope is Scope.CONTAINER and zones == placed.zones == node.zone_ids
    return ContainerZones(placed.name, zones, estimated=not used_whole, shares_known=False)


def _charges(
    state: ClusterState, node: NodeKnowledge, admission: Admission, report: TopologyReport
) -> tuple[ZoneCharge, ...]:
    """What the replay handed out, summed per resource and zone."""
    position_of = {zone.id: position for position, zone in enumerate(report.zones)}
    taken: dict[tuple[str, int], float] = {}

    def add(resource: str, zone_id: int, amount: float) -> None:
        key = (resource, position_of[zone_id])
        taken[key] = taken.get(key, 0.0) + amount

    # Containers that ran before may share CPUs and devices with later ones, so each is counted once.
    for cpu in {cpu for placed in admission.containers for cpu in placed.cpus}:
        add(CPU, node.cpus.numa[cpu], 1000.0)
    for resource, devices in node.devices.items():
        used = {name for placed in admission.containers for name in placed.devices.get(resource, ())}
        for device in devices:
            if device.id in used:
                # One that is attached to several zones is counted by each of them.
                for zone_id in zones_in(device.zones):
                    add(resource, zone_id, 1.0)
    for placed in admission.containers:
        for block in placed.memory:
            missing = float(block.size)
            for zone_id in block.zones:
                position = position_of[zone_id]
                left = state.columns.zone_available[
                    state.columns.resource_index[block.type], position, state.rows[report.node]
                ]
                share = min(missing, float(left) - taken.get((block.type, position), 0.0))
                if share > 0:
                    add(block.type, zone_id, share)
                    missing -= share
    index_of = state.columns.resource_index
    return tuple(ZoneCharge(index_of[resource], zone, amount) for (resource, zone), amount in taken.items())
