"""What a node reports about itself: a NodeResourceTopology object read into zones and kubelet settings.

In comes the wire object in any of its forms, out goes a `TopologyReport` whose zones are in ascending NUMA id, with
exact integer amounts, plus a list of everything in the object that could not be used as written.
`cluster/reports/reported_settings.py` reads policy, scope and options. `cluster/state.py` writes the report into the
columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

import msgspec

from bayplan.cluster.limits import (
    LONGEST_NAME,
    MOST_ATTRIBUTES,
    MOST_NAMES,
    MOST_TOLD,
    MOST_ZONES,
    OF_ONE_OBJECT,
    left_out,
)
from bayplan.cluster.pods.request import AmountError, amount_of, is_memory
from bayplan.cluster.reports.fingerprint import (
    ANNOTATION,
    ATTRIBUTE,
    METHOD_EXCLUSIVE,
    PREFIX,
    VERSION,
    is_comparable,
    published_in,
)
from bayplan.cluster.reports.inventory import (
    CPUS,
    MADE_AT,
    PODS,
    STALE_SINCE,
    Inventory,
    NotUnderstood,
    PodHoldings,
    read_inventory,
    read_moment,
    read_pods,
    stale_mark,
)
from bayplan.cluster.reports.kubelet_settings import REFUSING_POLICIES, Assumptions, KubeletSettings
from bayplan.cluster.reports.reported_settings import settings_of, upstream_settings_of
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.topology_v1alpha2 import (
    NodeResourceTopology,
    Zone,
    ZoneResource,
    attributes_of,
    costs_of,
    resources_of,
    shows_what_is_left,
    zones_of,
)

# The kubelet keeps NUMA ids as bits of a 64-bit mask, so no id above 63 can ever be aligned to.
LARGEST_ZONE_ID = 63
# `node-` and four digits; a name that is longer is not kept.
LONGEST_ZONE_NAME = 9
# Resources that a sentence names.
MOST_NAMED = 8
UNKNOWN_DISTANCE = 255
LARGEST_DISTANCE = 65_535

MEMORY_GROUP_ATTRIBUTE = "bayplan.io/memory-group"

_Value = TypeVar("_Value")

_ZONE_NAME = re.compile(r"node-([0-9]+)")


@dataclass(frozen=True, slots=True)
class ObjectRemark:
    """Something a user should know about an object that was used nevertheless, or ignored."""

    at: ObjectPath
    text: str

    def __str__(self) -> str:
        return f"{self.at}: {self.text}"


@dataclass(frozen=True, slots=True)
class ZoneAmounts:
    """One resource in one zone: hardware total, what pods may use, what is left."""

    capacity: int
    allocatable: int
    available: int

    def total_of(self, resource: str) -> int:
        """What the kubelet's managers call the total: memory less reservations, CPUs and devices all of them."""
        return max(self.allocatable if is_memory(resource) else self.capacity, self.available)


@dataclass(frozen=True, slots=True)
class ZoneReport:
    """One NUMA zone."""

    id: int
    resources: dict[str, ZoneAmounts]
    costs: dict[int, int]
    memory_group: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TopologyReport:
    """A node's zones in ascending id, its kubelet settings, and what was wrong with the object."""

    node: str
    settings: KubeletSettings
    zones: tuple[ZoneReport, ...]
    problems: list[ObjectRemark] = field(default_factory=list)
    shows_use: bool = True
    """False if some resource has neither `available` nor `allocatable`: what is in use is unknown."""
    inventory: Inventory | None = None
    """CPUs and devices by name, where the node lists them."""
    pods: PodHoldings | None = None
    """What each pod holds in zones, where the node lists them; None if it does not."""
    made_at: float | None = None
    """When all this was true, in seconds since 1970, if the node says so."""
    marked_stale: bool = False
    """`bayplan agent-gc` found that its agent has long not renewed it."""
    fingerprint: str = ""
    """Which pods it shows, as `cluster/reports/fingerprint.py` writes it; empty if the node does not say so."""
    only_exclusive: bool = False
    """Whether the fingerprint is only over pods that hold something in zones."""
    upstream_settings: KubeletSettings = field(default_factory=KubeletSettings)
    """Policy and scope as scheduler-plugins reads them."""
    readable: bool = True
    """False if the object could not be read at all, so that nothing else here means anything."""

    @property
    def usable(self) -> bool:
        """False if it could not be read or its zones contradict each other, so that no verdict can be built on them."""
        return self.readable and len({zone.id for zone in self.zones}) == len(self.zones)

    @property
    def tells_enough(self) -> bool:
        """False if the kubelet refuses pods for what stands in which zone, and the report names no zone."""
        return bool(self.zones) or self.settings.policy not in REFUSING_POLICIES


def unreadable(node: str) -> TopologyReport:
    """The report of a node whose object could not be read: there is a report, but its content is unknown."""
    return TopologyReport(node, KubeletSettings(), (), readable=False)


def read_report(topology: NodeResourceTopology, assumptions: Assumptions = Assumptions()) -> TopologyReport:  # noqa: B008 - immutable
    """Read one object. Wrong quantities raise `InvalidObject`; odd zones and attributes become problems.

    `assumptions` say what to believe where the object names a policy or scope that no kubelet has, or none.
    """
    at = ObjectPath.of(topology)
    problems: list[ObjectRemark] = []
    zones: list[ZoneReport] = []
    beyond = len(topology.attributes or ()) - MOST_ATTRIBUTES
    if beyond > 0:
        problems.append(ObjectRemark(at.child("attributes"), f"{beyond} left out: at most {MOST_ATTRIBUTES} are read"))
        topology = msgspec.structs.replace(topology, attributes=(topology.attributes or [])[:MOST_ATTRIBUTES])
    names = _Names()
    shows_use = True
    keyed = isinstance(topology.zones, dict)
    for index, zone in enumerate(zones_of(topology)):
        where = at.child("zones").entry(zone.name) if keyed else at.child("zones").item(index)
        if zone.type != "Node":
            continue  # sockets, dies and the like carry no amounts that the kubelet aligns to
        if len(zones) == MOST_ZONES or len(problems) > MOST_ZONES:
            problems.append(
                ObjectRemark(at.child("zones"), f"zones from here on left out: at most {MOST_ZONES} are read")
            )
            break
        zone_id = zone_id_of(zone.name)
        if zone_id is None:
            text = f'"{zone.name}" is not a NUMA zone name; expected node-0 to node-{LARGEST_ZONE_ID}: zone ignored'
            problems.append(ObjectRemark(where.child("name"), text))
            continue
        if any(known.id == zone_id for known in zones):
            text = f'"{zone.name}" appears twice: the node\'s topology data cannot be used'
            problems.append(ObjectRemark(where.child("name"), text))
        zones.append(_zone_report(zone, zone_id, where, names, problems))
        shows_use = shows_use and all(shows_what_is_left(resource) for _, resource in resources_of(zone))
    _note_mixed_forms(topology, at, problems)
    if names.beyond:
        problems.append(ObjectRemark(at.child("zones"), left_out(names.beyond, OF_ONE_OBJECT)))
    if not zones:
        problems.append(
            ObjectRemark(at.child("zones"), "holds no NUMA zone (type Node, name node-0): nothing can be aligned")
        )
    settings = settings_of(topology, assumptions, lambda where, text: problems.append(ObjectRemark(where, text)))
    in_order = tuple(sorted(zones, key=lambda zone: zone.id))
    attributes = {attribute.name: attribute.value for attribute in topology.attributes or []}
    annotations = topology.metadata.annotations or {}
    # In v1alpha1, which has no attributes, the moment is among the annotations.
    made_at = _understood(lambda: read_moment({**annotations, **attributes}), at.key(MADE_AT), problems)
    published = published_in(topology)
    if published.fingerprint and not is_comparable(published.fingerprint):
        text = f'"{published.fingerprint}" is ignored: expected {PREFIX}{VERSION} and 16 hexadecimal digits'
        in_annotations = at.child("metadata").child("annotations")
        where = in_annotations.key(ANNOTATION) if published.in_annotation else at.child("attributes").key(ATTRIBUTE)
        problems.append(ObjectRemark(where, text))
    listed = _understood(lambda: read_inventory(attributes), at.key(CPUS), problems)
    if listed is not None:
        # On machines whose cores differ the kubelet takes the average, which no attribute has a word for.
        settings = replace(settings, threads_per_core=listed.cpus.threads_per_core)
    return TopologyReport(
        topology.metadata.name,
        settings,
        in_order,
        _few(problems, at),
        shows_use,
        inventory=listed,
        pods=_understood(lambda: read_pods(attributes), at.key(PODS), problems),
        made_at=made_at,
        marked_stale=STALE_SINCE in annotations
        and made_at is not None
        and annotations[STALE_SINCE] == stale_mark(made_at),
        fingerprint=published.fingerprint if is_comparable(published.fingerprint) else "",
        only_exclusive=published.method == METHOD_EXCLUSIVE,
        upstream_settings=upstream_settings_of(topology),
    )


class _Names:
    """The resource names of a report: those that are read, and those that are too many or too long."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self.beyond: dict[str, None] = {}

    def takes(self, name: str) -> bool:
        if name in self._read:
            return True
        if len(self._read) >= MOST_NAMES or len(name) > LONGEST_NAME:
            self.beyond[name] = None
            return False
        self._read.add(name)
        return True


def _few(problems: list[ObjectRemark], at: ObjectPath) -> list[ObjectRemark]:
    """The first problems of very many."""
    if len(problems) <= MOST_TOLD:
        return problems
    more = ObjectRemark(at, f"{len(problems) - MOST_TOLD + 1} more problems are not told")
    return [*problems[: MOST_TOLD - 1], more]


def _note_mixed_forms(topology: NodeResourceTopology, at: ObjectPath, problems: list[ObjectRemark]) -> None:
    """Some resources have `available` and some do not: no agent writes that."""
    named = [(name, each) for zone in zones_of(topology) for name, each in resources_of(zone)]
    without = [name for name, each in named if each.available is None and each.allocatable is not None]
    if without and any(each.available is not None for _, each in named):
        names = list(dict.fromkeys(without))
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        text = (
            f"{', '.join(names[:MOST_NAMED])}{more} has no available, other resources have: "
            "allocatable counts as what is left"
        )
        problems.append(ObjectRemark(at.child("zones"), text))


def _understood(read: Callable[[], _Value], at: ObjectPath, problems: list[ObjectRemark]) -> _Value | None:
    """What an agent lists, or nothing and a problem if it cannot be read."""
    try:
        return read()
    except NotUnderstood as error:
        problems.append(ObjectRemark(at, f"is ignored: expected {error}"))
        return None


def same_use(before: TopologyReport, after: TopologyReport) -> bool:
    """True if two reports of a node show the same amounts as available."""

    def left(report: TopologyReport) -> list[tuple[int, dict[str, int]]]:
        return [
            (zone.id, {name: amounts.available for name, amounts in zone.resources.items()}) for zone in report.zones
        ]

    return before.shows_use == after.shows_use and left(before) == left(after)


def differ_in_use_only(before: TopologyReport, after: TopologyReport) -> bool:
    """True if two reports of a node tell of the same machine and the same kubelet, and only of other use."""

    def machine(zone: ZoneReport) -> tuple[object, ...]:
        totals = {name: amounts.total_of(name) for name, amounts in zone.resources.items()}
        return zone.id, zone.costs, totals

    return (
        before.settings == after.settings
        and after.usable
        and [machine(zone) for zone in before.zones] == [machine(zone) for zone in after.zones]
    )


def zone_id_of(name: str) -> int | None:
    """The NUMA id in a zone name `node-<N>`, or None."""
    return _zone_id_of(name) if len(name) <= LONGEST_ZONE_NAME else None


@lru_cache(maxsize=1024)
def _zone_id_of(name: str) -> int | None:
    match = _ZONE_NAME.fullmatch(name)
    if not match or len(match[1]) > 4:
        return None
    zone_id = int(match[1])
    return zone_id if zone_id <= LARGEST_ZONE_ID else None


def _zone_report(zone: Zone, zone_id: int, at: ObjectPath, names: _Names, problems: list[ObjectRemark]) -> ZoneReport:
    resources: dict[str, ZoneAmounts] = {}
    listed = at.child("resources")
    for index, (name, resource) in enumerate(resources_of(zone)):
        where = listed.key(name) if isinstance(zone.resources, dict) else listed.item(index)
        if not name:
            problems.append(ObjectRemark(where.child("name"), "is missing: resource ignored"))
            continue
        if not names.takes(name):
            continue
        if name in resources:
            problems.append(
                ObjectRemark(where.child("name"), f'"{name}" appears twice in the zone: the first one counts')
            )
            continue
        amounts = resources[name] = _zone_amounts(name, resource, where)
        if amounts.available > amounts.allocatable:
            text = f'"{resource.available}" is above allocatable "{resource.allocatable}": used as written'
            problems.append(ObjectRemark(where.child("available"), text))
    costs: dict[int, int] = {}
    for text, cost in costs_of(zone).items():
        other = zone_id_of(text)
        if other is not None and 0 <= cost <= LARGEST_DISTANCE:
            costs[other] = cost
        elif other is not None:
            problems.append(ObjectRemark(at.child("costs").key(text), f"{cost} is no distance: taken as unknown"))
    return ZoneReport(zone_id, resources, costs, _memory_group(zone, at, problems))


def _memory_group(zone: Zone, at: ObjectPath, problems: list[ObjectRemark]) -> tuple[int, ...] | None:
    """The zones whose memory is used together with this one's, or None if the zone does not say."""
    text = attributes_of(zone).get(MEMORY_GROUP_ATTRIBUTE)
    if text is None or not text.strip():
        return None
    ids = {zone_id_of(f"node-{part.strip()}") for part in text.split(",")}
    members = tuple(sorted(zone_id for zone_id in ids if zone_id is not None))
    if len(members) < len(ids):
        where = at.child("attributes").key(MEMORY_GROUP_ATTRIBUTE)
        problems.append(ObjectRemark(where, f'"{text}" is ignored: expected zone ids such as 0,1'))
        return None
    return members


def _zone_amounts(name: str, resource: ZoneResource, at: ObjectPath) -> ZoneAmounts:
    amounts: dict[str, int] = {}
    for field_name in ("capacity", "allocatable", "available"):
        text = getattr(resource, field_name)
        if text is None:
            continue
        try:
            amounts[field_name] = amount_of(name, text)
        except AmountError as error:
            raise InvalidObject(at.child(field_name), str(error)) from None
    if not amounts:
        raise InvalidObject(at, f'resource "{name}" has none of capacity, allocatable, available')
    if "available" not in amounts and "allocatable" in amounts:
        # The forms before `available` existed: their daemon writes what is left as `allocatable`, so only `capacity`
        # tells the total.
        amounts["available"] = amounts["allocatable"]
        amounts["allocatable"] = max(amounts.get("capacity", 0), amounts["available"])
    # A capacity alone describes an idle node: everything is left.
    left = amounts.get("available", amounts.get("capacity", 0))
    usable = amounts.get("allocatable", amounts.get("capacity", left))
    return ZoneAmounts(amounts.get("capacity", usable), usable, left)
