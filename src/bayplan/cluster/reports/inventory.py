"""What a node may say beyond amounts: which CPUs it has and which are free, each device, and what each pod holds where.

Amounts per zone decide most admissions, not all: a pod that spans zones, a core split between pods, a device in two
zones need names and numbers. An agent that knows them writes them into attributes of the node's NodeResourceTopology:

    bayplan.io/cpus           {"core": [0, 1], "socket": [0, 0], "zone": [0, 0], "cache": [0, 0]}
                              one number per CPU id, -1 if offline
    bayplan.io/free-cpus      2-15,18-31, CPUs that can be handed out exclusively now
    bayplan.io/reserved-cpus  0-1, CPUs reserved for the system
    bayplan.io/devices        {"example.com/gpu": [["gpu-0", [0], "free"]]}, states free, used, unhealthy
    bayplan.io/pods           {"telco/upf-0": {"cpu": {"0": 4000}}}, pod, resource, zone id, amount; cpu in milli
    bayplan.io/made-at        1760000000.25, when all this was true, in seconds since 1970

`bayplan agent-gc` marks a report that its agent has long not renewed with the annotation `bayplan.io/stale-since` and
that moment.

`cluster/reports/topology_report.py` reads them here; the exact replay (`engine/numa/placement.py`) and the ledger use
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Annotated, Literal, TypeVar

import msgspec

from bayplan.cluster.limits import MOST_DEVICES, MOST_NAMES, MOST_PODS
from bayplan.cluster.pods.request import LARGEST_AMOUNT
from bayplan.kube.json_text import decode

CPUS = "bayplan.io/cpus"
FREE_CPUS = "bayplan.io/free-cpus"
RESERVED_CPUS = "bayplan.io/reserved-cpus"
DEVICES = "bayplan.io/devices"
PODS = "bayplan.io/pods"
MADE_AT = "bayplan.io/made-at"
STALE_SINCE = "bayplan.io/stale-since"
AGENT_VERSION = "bayplan.io/agent-version"

# Up to the year 5138, so that it is a date as well.
_SECONDS = re.compile(r"[0-9]{1,11}(\.[0-9]{1,9})?")

CpuSet = int
"""A set of logical CPUs: bit i is CPU i."""

MOST_CPUS = 4096
OFFLINE = -1
# The kubelet keeps zones as bits of a 64-bit mask.
LARGEST_ZONE = 63
LONGEST_SHOWN = 60
# Characters of an attribute that are worth keeping beside what they mean.
LONGEST_KEPT = 64 << 10

FREE, USED, UNHEALTHY = "free", "used", "unhealthy"

ZoneHoldings = Mapping[str, Mapping[int, int]]
"""What a pod holds: resource to zone id to amount."""

PodHoldings = Mapping[str, ZoneHoldings]
"""What each pod holds, by `namespace/name`."""


_Value = TypeVar("_Value")
_Zone = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_ZONE)]
# A CPU id that no CPU has, or whose CPU is offline, is in no zone.
_ZoneOfCpu = Annotated[int, msgspec.Meta(ge=OFFLINE, le=LARGEST_ZONE)]
_Amount = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_AMOUNT)]
_Pods = dict[str, dict[str, dict[_Zone, _Amount]]]
_Devices = dict[str, list[tuple[str, list[_Zone], Literal["free", "used", "unhealthy"]]]]
_PART_OF_A_LIST = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


class NotUnderstood(ValueError):
    """An attribute that cannot be read; the text says which, what would be allowed and what is there instead."""


@dataclass(frozen=True)
class CpuLayout:
    """Where each logical CPU sits, one column per kind of unit, indexed by CPU id.

    `OFFLINE` where no CPU has that id.
    """

    core: tuple[int, ...]
    socket: tuple[int, ...]
    numa: tuple[int, ...]
    l3: tuple[int, ...]

    @cached_property
    def by_core(self) -> dict[int, CpuSet]:
        """CPUs of each physical core."""
        return _grouped(self.core)

    @cached_property
    def by_socket(self) -> dict[int, CpuSet]:
        """CPUs of each socket."""
        return _grouped(self.socket)

    @cached_property
    def by_zone(self) -> dict[int, CpuSet]:
        """CPUs of each NUMA zone; a zone with memory only is not in it."""
        return _grouped(self.numa)

    @cached_property
    def by_l3(self) -> dict[int, CpuSet]:
        """CPUs behind each last-level cache, which the kubelet calls uncore cache."""
        return _grouped(self.l3)

    @cached_property
    def sockets_of_zone(self) -> dict[int, frozenset[int]]:
        """Which sockets a zone's CPUs sit on."""
        return {
            zone: frozenset(socket for numa, socket in zip(self.numa, self.socket, strict=True) if numa == zone)
            for zone in self.by_zone
        }

    @cached_property
    def cpus_in_zone(self) -> dict[int, int]:
        """How many CPUs each zone has, reserved ones included."""
        return {zone: cpus.bit_count() for zone, cpus in self.by_zone.items()}

    @cached_property
    def count(self) -> int:
        """How many CPUs there are."""
        return len(self.core) - self.core.count(OFFLINE)

    @property
    def threads_per_core(self) -> int:
        """Averages, rounded down, as the kubelet takes them: uneven machines are judged by them too."""
        return self.count // len(self.by_core)

    @property
    def cpus_per_socket(self) -> int:
        """See `threads_per_core`."""
        return self.count // len(self.by_socket)

    @property
    def cpus_per_l3(self) -> int:
        """See `threads_per_core`."""
        return self.count // len(self.by_l3)

    def splits_a_core(self, cpus: CpuSet) -> bool:
        """True if some core is partly inside the set."""
        return any(cpus & core not in (0, core) for core in self.by_core.values())


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """One device as its node lists it; no zones means that its location is unknown."""

    id: str
    zones: tuple[int, ...]
    state: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """CPUs and devices by name, and what of them is free.

    `kernel_cores` are the cores as the node's kernel numbers them, in every socket anew; empty if the node does not
    say.
    """

    cpus: CpuLayout
    free_cpus: CpuSet
    reserved_cpus: CpuSet
    devices: Mapping[str, tuple[ListedDevice, ...]]
    kernel_cores: tuple[int, ...] = ()

    @property
    def zones(self) -> frozenset[int]:
        """Every zone that something is said to be in."""
        of_devices = (device.zones for listed in self.devices.values() for device in listed)
        return frozenset(self.cpus.by_zone).union(*of_devices)

    def plain(self, *, whole_cores: bool) -> bool:
        """True if amounts say all there is to say about a pod that fits into one zone.

        That is: every device is healthy and in one zone and, where CPUs are handed out in `whole_cores`, no core is
        partly reserved.
        """
        devices = (device for listed in self.devices.values() for device in listed)
        return not (whole_cores and self.cpus.splits_a_core(self.reserved_cpus)) and all(
            len(device.zones) == 1 and device.state != UNHEALTHY for device in devices
        )


def read_inventory(attributes: Mapping[str, str]) -> Inventory | None:
    """The inventory among a node's attributes, None if there is none.

    Raises `NotUnderstood` where it makes no sense.
    """
    if CPUS not in attributes or FREE_CPUS not in attributes:
        return None
    layout = _read(attributes, CPUS, _layout)
    free, reserved = (
        _read(attributes, name, lambda text: _cpus_among(layout, text)) for name in (FREE_CPUS, RESERVED_CPUS)
    )
    devices = _read(attributes, DEVICES, _devices_in) if DEVICES in attributes else {}
    return Inventory(layout, free, reserved, devices)


def read_pods(attributes: Mapping[str, str]) -> PodHoldings | None:
    """What each pod holds in zones, None if the node does not list its pods."""
    return _read(attributes, PODS, _pods) if PODS in attributes else None


def read_moment(attributes: Mapping[str, str]) -> float | None:
    """When the report was true, in seconds; None if it does not say."""
    return _read(attributes, MADE_AT, _moment) if MADE_AT in attributes else None


def stale_mark(made_at: float) -> str:
    """The value of `bayplan.io/stale-since` for a report of this moment.

    A report that was renewed since has another one.
    """
    return datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(text: str) -> float:
    if not _SECONDS.fullmatch(text):
        raise NotUnderstood("seconds since 1970 such as 1760000000.25")
    return float(text)


def cpu_set(text: str) -> CpuSet:
    """The CPUs of a Linux list such as `0-3,8`."""
    cpus = 0
    for part in text.split(",") if text else ():
        match = _PART_OF_A_LIST.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, MOST_CPUS)
        if not first <= last < MOST_CPUS:
            raise NotUnderstood(f"a list of CPU ids from 0 to {MOST_CPUS - 1} such as 0-3,8")
        cpus |= (1 << last + 1) - (1 << first)
    return cpus


def cpu_list(cpus: Iterable[int]) -> str:
    """CPU ids as a Linux list, ascending: the opposite of `cpu_set`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def _read(attributes: Mapping[str, str], name: str, parse: Callable[[str], _Value]) -> _Value:
    """One attribute, empty if it is not there; a fault names it and shows its text, or how that begins."""
    text = attributes.get(name, "")
    try:
        return parse(text)
    except NotUnderstood as error:
        shown = text if len(text) < LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
        raise NotUnderstood(f'{name} to be {error}, not "{shown}"') from None


class _Columns(msgspec.Struct, frozen=True):
    core: list[int]
    socket: list[int]
    zone: list[_ZoneOfCpu]
    cache: list[int]


def _layout(text: str) -> CpuLayout:
    """Nodes of one kind write the same text, so its groups of CPUs are worked out once for all of them.

    Very long texts are not kept.
    """
    return _kept_layout(text) if len(text) <= LONGEST_KEPT else _kept_layout.__wrapped__(text)


@lru_cache(maxsize=256)
def _kept_layout(text: str) -> CpuLayout:
    try:
        columns = decode(text, _Columns)
    except msgspec.DecodeError:
        example = '{"core": [0], "socket": [0], "zone": [0], "cache": [0]}'
        raise NotUnderstood(
            f"JSON such as {example} with zones from 0 to {LARGEST_ZONE}, {OFFLINE} if offline"
        ) from None
    sizes = {len(column) for column in (columns.core, columns.socket, columns.zone, columns.cache)}
    if len(sizes) != 1 or not 0 < max(sizes) <= MOST_CPUS:
        raise NotUnderstood(f"four lists of equal length, 1 to {MOST_CPUS}")
    online = [core != OFFLINE for core in columns.core]
    if not any(online) or online != [zone != OFFLINE for zone in columns.zone]:
        raise NotUnderstood(
            f"a core and a zone for at least one CPU, and {OFFLINE} in all lists for one that is offline"
        )
    return CpuLayout(tuple(columns.core), tuple(columns.socket), tuple(columns.zone), tuple(columns.cache))


def _cpus_among(layout: CpuLayout, text: str) -> CpuSet:
    cpus = cpu_set(text)
    if cpus >> len(layout.core):
        raise NotUnderstood(f"CPU ids below {len(layout.core)}, the number of CPUs in {CPUS}")
    if cpus & ~sum(layout.by_zone.values()):
        raise NotUnderstood(f"CPUs that are online in {CPUS}")
    return cpus


def _devices_in(text: str) -> dict[str, tuple[ListedDevice, ...]]:
    devices = _devices(text) if len(text) <= LONGEST_KEPT else _devices.__wrapped__(text)
    if sum(map(len, devices.values())) > MOST_DEVICES:
        raise NotUnderstood(f"at most {MOST_DEVICES} devices")
    return devices


@lru_cache(maxsize=4096)
def _devices(text: str) -> dict[str, tuple[ListedDevice, ...]]:
    try:
        listed = decode(text, _Devices)
    except msgspec.DecodeError:
        example = '{"example.com/gpu": [["gpu-0", [0], "free"]]}'
        raise NotUnderstood(
            f"JSON such as {example} with zones from 0 to {LARGEST_ZONE} and states {FREE}, {USED}, {UNHEALTHY}"
        ) from None
    return {
        resource: tuple(ListedDevice(name, tuple(zones), state) for name, zones, state in devices)
        for resource, devices in listed.items()
    }


def _pods(text: str) -> PodHoldings:
    try:
        pods = decode(text, _Pods)
    except msgspec.DecodeError:
        example = '{"telco/upf-0": {"cpu": {"0": 4000}}}'
        raise NotUnderstood(
            f"JSON such as {example} with zones from 0 to {LARGEST_ZONE} and amounts from 0 on"
        ) from None
    if len(pods) > MOST_PODS or any(len(held) > MOST_NAMES for held in pods.values()):
        raise NotUnderstood(f"at most {MOST_PODS} pods with at most {MOST_NAMES} resources each")
    return pods


def _grouped(unit_of_cpu: Sequence[int]) -> dict[int, CpuSet]:
    groups: dict[int, CpuSet] = {}
    for cpu, unit in enumerate(unit_of_cpu):
        if unit != OFFLINE:
            groups[unit] = groups.get(unit, 0) | 1 << cpu
    return groups
