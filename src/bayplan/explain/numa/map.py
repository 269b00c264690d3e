"""A node's NUMA zones for pictures: packages, zones, free amounts, pods.

A row of the cluster state comes in; a `NumaMap` without layout goes out. `text.py` and `svg.py` draw it, and
`numa_document` is for programs. Pods are in the zones that the node reports, else in those of their annotation
(`cluster/reports/pod_zones.py`), or where amounts leave only one place, or in those just assigned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayplan.cluster.arrangements import inferred_zones_on
from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.node_status import closing
from bayplan.cluster.pods.request import CPU, ContainerRequest, PodRequest, Role, is_memory, sidecar_aware_sum
from bayplan.cluster.pods.tolerations import taint_text
from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.reports.pod_zones import ZonesByContainer, zones_on_node
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.reports.zone_reports import UNKNOWN_DISTANCE
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.demand import HOST_RESOURCES, demand_of
from bayplan.engine.numa.placement import ContainerZones
from bayplan.explain.amounts import usual_order
from bayplan.explain.documents import API_VERSION, Document, amounts_document
from bayplan.explain.numa.labels import zone_numbers


@dataclass(frozen=True, slots=True)
class ZoneResource:
    """One resource in one zone: what is free, what pods can use, and what the hardware has."""

    name: str
    free: int
    total: int
    capacity: int

    @property
    def is_device(self) -> bool:
        """True for resources counted one by one: network cards, GPUs."""
        return self.name != CPU and not is_memory(self.name) and self.name not in HOST_RESOURCES


@dataclass(frozen=True, slots=True)
class PodInZone:
    """Containers of a pod that use one or several zones; `new` if the pod was just placed.

    `whole` is False if other containers of the pod are elsewhere.
    """

    key: str
    containers: tuple[str, ...]
    amounts: Mapping[str, int]
    zones: tuple[int, ...]
    new: bool
    whole: bool

    @property
    def title(self) -> str:
        """The pod's name, and what distinguishes this part."""
        parts = "" if self.whole else f" ({', '.join(self.containers)})"
        return f"{self.key}{parts}" + (f" (zones {zone_numbers(self.zones)})" if len(self.zones) > 1 else "")


@dataclass(frozen=True, slots=True)
class ZoneView:
    """One zone. Distances are in the order of the node's zones; `unowned` is in use by pods of which it is not known
    that they are here.
    """

    id: int
    resources: tuple[ZoneResource, ...]
    distances: tuple[int, ...]
    pods: tuple[PodInZone, ...]
    unowned: Mapping[str, int]

    @property
    def owners(self) -> tuple[PodInZone, ...]:
        """What is drawn: the pods, and at last the owners that are not reported."""
        rest = (PodInZone("owner not reported", (), self.unowned, (self.id,), new=False, whole=True),)
        return self.pods + (rest if self.unowned else ())


@dataclass(frozen=True, slots=True)
class PackageView:
    """Zones of one package. The name is empty if unknown."""

    name: str
    zones: tuple[ZoneView, ...]


@dataclass(frozen=True, slots=True)
class PodOutside:
    """A pod on the node without a zone on the map."""

    key: str
    amounts: Mapping[str, int]
    new: bool


@dataclass(frozen=True, slots=True)
class NumaMap:
    """Everything to be drawn about a node."""

    node: str
    policy: str
    scope: str
    cpu_manager: str
    memory_manager: str
    remarks: tuple[str, ...]
    packages: tuple[PackageView, ...]
    zone_not_reported: tuple[PodOutside, ...]
    not_pinned: tuple[PodOutside, ...]

    @property
    def zones(self) -> list[ZoneView]:
        """All zones, package by package."""
        return [zone for package in self.packages for zone in package.zones]

    def distance_row(self, zone: ZoneView) -> str:
        """`10 12 | 32 32`: distances by zone id, with a bar between packages whose zones are consecutive.

        An unreported distance is a question mark.
        """
        if all(distance == UNKNOWN_DISTANCE for distance in zone.distances):
            return "not reported"
        order = [other.id for other in self.zones]
        starts = set()
        if order == sorted(order):
            sizes = [len(package.zones) for package in self.packages]
            starts = {sum(sizes[:number]) for number in range(1, len(sizes))}
        words = ["?" if distance == UNKNOWN_DISTANCE else str(distance) for distance in zone.distances]
        return " ".join(f"| {word}" if position in starts else word for position, word in enumerate(words))


def numa_map(
    state: ClusterState,
    row: int,
    assumptions: Assumptions,
    *,
    parents: Mapping[int, str] | None = None,
    placed: Mapping[str, Sequence[ContainerZones]] | None = None,
    problems: list[ObjectRemark] | None = None,
) -> NumaMap | None:
    """The map of one node; None if it reports no usable zones.

    `parents` has the package of zones that name one; `placed` has the zones of pods that were just placed.
    """
    report = state.reports[row]
    if report is None or not report.zones or state.columns.topology[row] != TOPOLOGY_USABLE:
        return None
    newly = placed or {}
    in_zones: dict[int, list[PodInZone]] = {zone.id: [] for zone in report.zones}
    not_reported: list[PodOutside] = []
    not_pinned: list[PodOutside] = []
    inferred = inferred_zones_on(state, row)
    for key in state.pods_on(row):
        request = state.pods[key].request
        new = key not in state.bound
        if new:
            zones = {entry.container: entry.zones for entry in newly.get(key, ()) if entry.zones}
        else:
            zones = zones_on_node(state.bound[key], key, request, report, problems) or inferred.get(key, {})
        standing = _standing_in(key, request, zones, new=new)
        for pod in standing:
            for zone in pod.zones:
                in_zones.setdefault(zone, []).append(pod)
        if not standing:
            outside = not_pinned if demand_of(request).nothing_to_align else not_reported
            outside.append(PodOutside(key, request.total, new))
    views = {
        zone.id: ZoneView(
            zone.id,
            _resources(state, row, report, position),
            state.hardware_classes[state.columns.hardware_class[row]].distances[position],
            tuple(in_zones[zone.id]),
            _unowned(state, row, report, position, in_zones[zone.id]),
        )
        for position, zone in enumerate(report.zones)
    }
    distances = {zone_id: dict(zip(views, view.distances, strict=True)) for zone_id, view in views.items()}
    settings = report.settings
    resolved = settings.resolved(assumptions)
    return NumaMap(
        node=state.names[row],
        policy=settings.policy.text,
        scope=settings.scope.text,
        cpu_manager=_manager("static" if resolved.cpu_static else "none", known=settings.cpu_static is not None),
        memory_manager=_manager(
            "Static" if resolved.memory_static else "None", known=settings.memory_static is not None
        ),
        remarks=_remarks(state, row),
        packages=tuple(
            PackageView(name, tuple(views[zone] for zone in members))
            for name, members in packages_of(distances, parents or {})
        ),
        zone_not_reported=tuple(not_reported),
        not_pinned=tuple(not_pinned),
    )


def numa_document(drawn: NumaMap) -> Document:
    """What `bayplan numa -o json` prints."""
    return {
        "apiVersion": API_VERSION,
        "kind": "NumaMap",
        "node": drawn.node,
        "policy": drawn.policy,
        "scope": drawn.scope,
        "cpuManager": drawn.cpu_manager,
        "memoryManager": drawn.memory_manager,
        "remarks": list(drawn.remarks),
        "zones": [
            {
                "id": zone.id,
                "package": package.name or None,
                "resources": {
                    resource.name: {
                        "available": amounts_document({resource.name: resource.free})[resource.name],
                        "allocatable": amounts_document({resource.name: resource.total})[resource.name],
                        "capacity": amounts_document({resource.name: resource.capacity})[resource.name],
                    }
                    for resource in zone.resources
                },
                "distances": [None if distance == UNKNOWN_DISTANCE else distance for distance in zone.distances],
                "pods": [
                    {
                        "pod": pod.key,
                        "containers": list(pod.containers),
                        "zones": list(pod.zones),
                        "amounts": amounts_document(pod.amounts),
                        "new": pod.new,
                    }
                    for pod in zone.pods
                ],
                "ownersNotReported": amounts_document(zone.unowned),
            }
            for package in drawn.packages
            for zone in package.zones
        ],
        "podsWithoutReportedZone": [pod.key for pod in drawn.zone_not_reported],
        "podsNotPinned": [pod.key for pod in drawn.not_pinned],
    }


def _resources(state: ClusterState, row: int, report: TopologyReport, position: int) -> tuple[ZoneResource, ...]:
    columns = state.columns
    return tuple(
        ZoneResource(
            name,
            int(columns.zone_available[columns.resource_index[name], position, row]),
            max(amounts.allocatable, amounts.available),
            amounts.capacity,
        )
        for name in usual_order(report.zones[position].resources)
        for amounts in (report.zones[position].resources[name],)
    )


def _unowned(
    state: ClusterState, row: int, report: TopologyReport, position: int, pods: Sequence[PodInZone]
) -> dict[str, int]:
    """What is in use in a zone beyond what pods are known to hold there, except where one of them spans zones."""
    unowned: dict[str, int] = {}
    for resource in _resources(state, row, report, position) if report.shows_use else ():
        shared = any(len(pod.zones) > 1 and pod.amounts.get(resource.name) for pod in pods)
        rest = resource.total - resource.free - sum(pod.amounts.get(resource.name, 0) for pod in pods)
        if rest > 0 and not shared:
            unowned[resource.name] = rest
    return unowned


def _standing_in(key: str, request: PodRequest, zones: ZonesByContainer, *, new: bool) -> list[PodInZone]:
    """A pod's containers by their zones, without init containers."""
    grouped: dict[tuple[int, ...], list[ContainerRequest]] = {}
    for container in request.containers:
        place = zones.get(container.name)
        if place and container.role is not Role.INIT:
            grouped.setdefault(place, []).append(container)
    return [
        PodInZone(
            key,
            tuple(container.name for container in containers),
            sidecar_aware_sum(containers),
            place,
            new=new,
            whole=len(grouped) == 1,
        )
        for place, containers in grouped.items()
    ]


def _manager(policy: str, *, known: bool) -> str:
    return policy if known else f"{policy} (assumed)"


def _remarks(state: ClusterState, row: int) -> tuple[str, ...]:
    by = closing(state, row)
    remarks = [*(["NotReady"] if by.not_ready else []), *(["cordoned"] if by.cordoned else [])]
    return (*remarks, *(f"taint {taint_text(taint)}" for taint in state.taint_sets[int(state.columns.taint_set[row])]))


# -- packages ---------------------------------------------------------------------------------------------------------


Packages = list[tuple[str, list[int]]]


def packages_of(distances: Mapping[int, Mapping[int, int]], parents: Mapping[int, str]) -> Packages:
    """Packages with a name and their zones; one nameless package if they are unknown."""
    zones = sorted(distances)
    if zones and all(zone in parents for zone in zones):
        by_parent: dict[str, list[int]] = {}
        for zone in zones:
            by_parent.setdefault(parents[zone], []).append(zone)
        return list(by_parent.items())
    clusters = _clusters(zones, distances)
    if len(clusters) in (1, len(zones)):
        return [("", zones)]
    return [(f"package {number}", members) for number, members in enumerate(clusters)]


def _clusters(zones: list[int], distances: Mapping[int, Mapping[int, int]]) -> list[list[int]]:
    """Zones connected by less than the largest distance, in ascending order."""
    others = [distances[zone][other] for zone in zones for other in zones if other != zone]
    if not others or UNKNOWN_DISTANCE in others:
        return [zones]
    farthest = max(others)
    clusters: list[list[int]] = []
    for zone in zones:
        near = [cluster for cluster in clusters if any(distances[zone][other] < farthest for other in cluster)]
        joined = sorted([zone, *(member for cluster in near for member in cluster)])
        clusters = [cluster for cluster in clusters if cluster not in near] + [joined]
    return sorted(clusters)
