"""The zones of a node's report: from the wire object in any of its forms to exact integer amounts.

`topology_report.py` reads the rest of the report.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from bayplan.cluster.limits import (
    LONGEST_NAME,
    MOST_NAMES,
    MOST_ZONES,
)
from bayplan.cluster.pods.request import LONGEST_KEPT, AmountError, amount_of, is_memory
from bayplan.cluster.remarks import ObjectRemark
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.node_resource_topology_v1alpha2 import (
    QuantityText,
    Zone,
    ZoneResource,
    attributes_of,
    costs_of,
    resources_of,
    shows_available,
    shows_what_is_left,
)

# The kubelet keeps NUMA ids as bits of a 64-bit mask, so no id above 63 can ever be aligned to.
LARGEST_ZONE_ID = 63
# `node-` and four digits; a name that is longer is not kept.
LONGEST_ZONE_NAME = 9
# Resources that a sentence names.
MOST_NAMED = 8
# Zones that are kept, and the bytes of one that is.
MOST_KNOWN_ZONES = 4096
LONGEST_KNOWN_ZONE = 2048
UNKNOWN_DISTANCE = 255
LARGEST_DISTANCE = 65_535
MEMORY_GROUP_ATTRIBUTE = "bayplan.io/memory-group"
Amount = QuantityText | None
_ZONE_NAME = re.compile(r"node-([0-9]+)")


@dataclass(frozen=True, slots=True)
class ZoneAmounts:
    """One resource in one zone: hardware total, what pods may use, what is left."""

    capacity: int
    allocatable: int
    available: int

    def total_of(self, resource: str) -> int:
        """What the kubelet's managers call the total: memory less reservations, CPUs and devices all of them."""
        return max(self.allocatable if is_memory(resource) else self.capacity, self.available)

    @property
    def offered(self) -> int:
        """What pods may use in all, reservations subtracted."""
        return max(self.allocatable, self.available)


@dataclass(frozen=True, slots=True)
class ZoneReport:
    """One NUMA zone. Its amounts also stand as sequences in the order of `names`: thousands of nodes share a zone, and
    each writes them into its columns.
    """

    id: int
    resources: dict[str, ZoneAmounts]
    costs: dict[int, int]
    memory_group: tuple[int, ...] | None = None
    names: tuple[str, ...] = field(init=False, compare=False, repr=False)
    totals: tuple[int, ...] = field(init=False, compare=False, repr=False)
    offered: tuple[int, ...] = field(init=False, compare=False, repr=False)
    available: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Read the amounts once."""
        object.__setattr__(self, "names", tuple(self.resources))
        totals = tuple([amounts.total_of(name) for name, amounts in self.resources.items()])
        object.__setattr__(self, "totals", totals)
        object.__setattr__(self, "offered", tuple([amounts.offered for amounts in self.resources.values()]))
        object.__setattr__(self, "available", tuple([amounts.available for amounts in self.resources.values()]))


def read_zones(
    written: list[Zone], at: ObjectPath, names: ResourceNames, remarks: list[ObjectRemark], *, keyed: bool
) -> tuple[list[ZoneReport], bool]:
    """The zones that can be used, and whether each resource says what is left of it."""
    zones: list[ZoneReport] = []
    ids: set[int] = set()
    shows_use = all_known = True
    for index, zone in enumerate(written):
        if zone.type != "Node":
            all_known = False
            continue  # sockets, dies and the like carry no amounts that the kubelet aligns to
        if len(zones) == MOST_ZONES or len(remarks) > MOST_ZONES:
            text = f"zones from here on left out: at most {MOST_ZONES} are read"
            remarks.append(ObjectRemark(at.child("zones"), text))
            break
        zone_id = zone_id_of(zone.name)
        is_new = zone_id is not None and zone_id not in ids
        content = msgspec.json.encode(zone)
        known = _known_zones.get(content)
        if is_new and known is not None and names.take_all(known.resources):
            ids.add(known.id)
            zones.append(known)
            continue
        where = at.child("zones").entry(zone.name) if keyed else at.child("zones").item(index)
        if zone_id is None:
            text = f'"{zone.name}" is not a NUMA zone name; expected node-0 to node-{LARGEST_ZONE_ID}: zone ignored'
            remarks.append(ObjectRemark(where.child("name"), text))
            continue
        if not is_new:
            text = f'"{zone.name}" appears twice: the node\'s topology data cannot be used'
            remarks.append(ObjectRemark(where.child("name"), text))
        ids.add(zone_id)
        told = len(remarks)
        zones.append(_zone_report(zone, zone_id, where, names, remarks))
        all_known = False
        shows_use = shows_use and all(shows_what_is_left(resource) for _, resource in resources_of(zone))
        if len(remarks) == told and not names.beyond and shows_available(zone):
            _known_zones.keep(content, zones[-1])
    if not all_known:
        _note_mixed_forms(written, at, remarks)
    return zones, shows_use


class _KnownZones:
    """Zones that were read before, by their content: of thousands of nodes with the same hardware, most are alike.

    Only those that gave no cause for a remark are kept, and whose resources all say what is available.
    """

    def __init__(self) -> None:
        self._zones: dict[bytes, ZoneReport] = {}
        self.get = self._zones.get

    def keep(self, content: bytes, zone: ZoneReport) -> None:
        if len(content) > LONGEST_KNOWN_ZONE:
            return
        if len(self._zones) >= MOST_KNOWN_ZONES:
            self._zones.clear()
        self._zones[content] = zone


class ResourceNames:
    """The resource names of a report: those that are read, and those that are too many or too long."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self.beyond: dict[str, None] = {}

    def takes(self, name: str) -> bool:
        """Take a name; False if it is left out."""
        if name in self._read:
            return True
        if not name:
            return False
        if len(self._read) >= MOST_NAMES or len(name) > LONGEST_NAME:
            self.beyond[name] = None
            return False
        self._read.add(name)
        return True

    def take_all(self, names: Mapping[str, object]) -> bool:
        """Take names that are all short enough; False and nothing if they would be too many."""
        if self._read.issuperset(names):
            return True
        together = self._read.union(names)
        if len(together) > MOST_NAMES:
            return False
        self._read = together
        return True


_known_zones = _KnownZones()


def _note_mixed_forms(zones: list[Zone], at: ObjectPath, remarks: list[ObjectRemark]) -> None:
    """Some resources have `available` and some do not: no agent writes that."""
    named = [(name, each) for zone in zones for name, each in resources_of(zone)]
    without = [name for name, each in named if each.available is None and each.allocatable is not None]
    if without and any(each.available is not None for _, each in named):
        names = list(dict.fromkeys(without))
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        text = (
            f"{', '.join(names[:MOST_NAMED])}{more} has no available, other resources have: "
            "allocatable counts as what is left"
        )
        remarks.append(ObjectRemark(at.child("zones"), text))


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


def _zone_report(
    zone: Zone, zone_id: int, at: ObjectPath, names: ResourceNames, remarks: list[ObjectRemark]
) -> ZoneReport:
    resources: dict[str, ZoneAmounts] = {}
    for index, (name, resource) in enumerate(resources_of(zone)):
        if name in resources or not names.takes(name):
            _note_unread(zone, at, index, name, resources, remarks)
            continue
        amounts = resources[name] = _zone_amounts(name, resource, zone, at, index)
        if amounts.available > amounts.allocatable:
            text = f'"{resource.available}" is above allocatable "{resource.allocatable}": used as written'
            remarks.append(ObjectRemark(_resource_path(zone, at, index, name).child("available"), text))
    costs: dict[int, int] = {}
    for text, cost in costs_of(zone).items():
        other = zone_id_of(text)
        if other is not None and 0 <= cost <= LARGEST_DISTANCE:
            costs[other] = cost
        elif other is not None:
            remarks.append(ObjectRemark(at.child("costs").key(text), f"{cost} is no distance: taken as unknown"))
    return ZoneReport(zone_id, resources, costs, _memory_group(zone, at, remarks))


def _note_unread(
    zone: Zone, at: ObjectPath, index: int, name: str, known: Container[str], remarks: list[ObjectRemark]
) -> None:
    """A resource is not read: it has no name, or one that stood there before, or one too many, which is told once."""
    where = _resource_path(zone, at, index, name).child("name")
    if not name:
        remarks.append(ObjectRemark(where, "is missing: resource ignored"))
    elif name in known:
        remarks.append(ObjectRemark(where, f'"{name}" appears twice in the zone: the first one counts'))


def _resource_path(zone: Zone, at: ObjectPath, index: int, name: str) -> ObjectPath:
    listed = at.child("resources")
    return listed.key(name) if isinstance(zone.resources, dict) else listed.item(index)


def _memory_group(zone: Zone, at: ObjectPath, remarks: list[ObjectRemark]) -> tuple[int, ...] | None:
    """The zones whose memory is used together with this one's, or None if the zone does not say."""
    text = attributes_of(zone).get(MEMORY_GROUP_ATTRIBUTE)
    if text is None or not text.strip():
        return None
    ids = {zone_id_of(f"node-{part.strip()}") for part in text.split(",")}
    members = tuple(sorted(zone_id for zone_id in ids if zone_id is not None))
    if len(members) < len(ids):
        where = at.child("attributes").key(MEMORY_GROUP_ATTRIBUTE)
        remarks.append(ObjectRemark(where, f'"{text}" is ignored: expected zone ids such as 0,1'))
        return None
    return members


def _zone_amounts(name: str, resource: ZoneResource, zone: Zone, at: ObjectPath, index: int) -> ZoneAmounts:
    written = (resource.capacity, resource.allocatable, resource.available)
    try:
        is_long = any(isinstance(text, str) and len(text) > LONGEST_KEPT for text in (name, *written))
        return _amounts_of.__wrapped__(name, *written) if is_long else _amounts_of(name, *written)
    except AmountError as error:
        where, field_name = _resource_path(zone, at, index, name), _invalid_field(name, resource)
        raise InvalidObject(where.child(field_name) if field_name else where, str(error)) from None


@lru_cache(maxsize=65_536, typed=True)
def _amounts_of(name: str, capacity: Amount, allocatable: Amount, available: Amount) -> ZoneAmounts:
    """Kept, because the zones of a cluster are much alike: 0.2 us instead of 3."""
    total, usable, left = (
        None if text is None else amount_of(name, text) for text in (capacity, allocatable, available)
    )
    if total is None and usable is None and left is None:
        raise AmountError(f'resource "{name}" has none of capacity, allocatable, available')
    if left is None and usable is not None:
        # The forms before `available` existed: their daemon writes what is left as `allocatable`, so only `capacity`
        # tells the total.
        left, usable = usable, max(total or 0, usable)
    # A capacity alone describes an idle node: everything is left.
    left = left if left is not None else total or 0
    usable = usable if usable is not None else total if total is not None else left
    return ZoneAmounts(total if total is not None else usable, usable, left)


def _invalid_field(name: str, resource: ZoneResource) -> str:
    """The first field of a resource that is not an amount; empty if each one is."""
    for field_name in ("capacity", "allocatable", "available"):
        text = getattr(resource, field_name)
        try:
            if text is not None:
                amount_of(name, text)
        except AmountError:
            return field_name
    return ""
