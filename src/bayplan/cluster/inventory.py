"""What a node may say beyond amounts: which CPUs it has and which are free, each device, and what each pod holds where.

Amounts per zone decide most admissions, not all: a pod that spans zones, a core split between pods, a device in two zones need
names and numbers. An agent that knows them writes them into attributes of the node's NodeResourceTopology:

    bayplan.io/cpus           {"core": [0, 1], "socket": [0, 0], "zone": [0, 0], "cache": [0, 0]}, one number per CPU id
    bayplan.io/free-cpus      2-15,18-31             CPUs that can be handed out exclusively now
    bayplan.io/reserved-cpus  0-1                    CPUs kept for the system
    bayplan.io/devices        {"example.com/gpu": [["gpu-0", [0], "free"]]}, states free, used, unhealthy
    bayplan.io/pods           {"telco/upf-0": {"cpu": {"0": 4000}}}: pod, resource, zone id, amount; cpu in milli

`cluster/topology_report.py` reads them here; the exact replay (`engine/placement.py`) and the ledger use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import msgspec

CPUS = "bayplan.io/cpus"
FREE_CPUS = "bayplan.io/free-cpus"
RESERVED_CPUS = "bayplan.io/reserved-cpus"
DEVICES = "bayplan.io/devices"
PODS = "bayplan.io/pods"

CpuSet = int
"""A set of logical CPUs: bit i is CPU i."""

MOST_CPUS = 4096

FREE, USED, UNHEALTHY = "free", "used", "unhealthy"

ZoneHoldings = Mapping[str, Mapping[int, int]]
"""What a pod holds: resource to zone id to amount."""

PodHoldings = Mapping[str, ZoneHoldings]
"""What each pod holds, by `namespace/name`."""


class NotUnderstood(ValueError):
    """An attribute that cannot be read; the text says what would be allowed."""


@dataclass(frozen=True)
class CpuLayout:
    """Where each logical CPU sits, one column per kind of unit, indexed by CPU id."""

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

    @property
    def threads_per_core(self) -> int:
        """Averages, rounded down, as the kubelet takes them: uneven machines are judged by them too."""
        return len(self.core) // len(self.by_core)

    @property
    def cpus_per_socket(self) -> int:
        """See `threads_per_core`."""
        return len(self.core) // len(self.by_socket)

    @property
    def cpus_per_l3(self) -> int:
        """See `threads_per_core`."""
        return len(self.core) // len(self.by_l3)

    def splits_a_core(self, cpus: CpuSet) -> bool:
        """True if some core is partly inside the set."""
        return any(cpus & core not in (0, core) for core in self.by_core.values())


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """One device as its node lists it; no zones: nobody knows where it is."""

    id: str
    zones: tuple[int, ...]
    state: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """CPUs and devices by name, and what of them is free."""

    cpus: CpuLayout
    free_cpus: CpuSet
    reserved_cpus: CpuSet
    devices: Mapping[str, tuple[ListedDevice, ...]]

    @property
    def plain(self) -> bool:
        """True if amounts say all there is to say about a pod that fits into one zone.

        That is: every device is healthy and in one zone, and the reservation does not split a core.
        """
        devices = (device for listed in self.devices.values() for device in listed)
        return not self.cpus.splits_a_core(self.reserved_cpus) and all(
            len(device.zones) == 1 and device.state != UNHEALTHY for device in devices
        )


def read_inventory(attributes: Mapping[str, str]) -> Inventory | None:
    """The inventory among a node's attributes, None if there is none; raises `NotUnderstood` where it makes no sense."""
    if CPUS not in attributes or FREE_CPUS not in attributes:
        return None
    layout = _layout(attributes[CPUS])
    free, reserved = (cpu_set(attributes.get(name, "")) for name in (FREE_CPUS, RESERVED_CPUS))
    if (free | reserved) >> len(layout.core):
        raise NotUnderstood(f"CPU ids below {len(layout.core)}, as in {CPUS}")
    return Inventory(layout, free, reserved, _devices(attributes.get(DEVICES, "{}")))


def read_pods(attributes: Mapping[str, str]) -> PodHoldings | None:
    """What each pod holds in zones, None if the node does not list its pods."""
    text = attributes.get(PODS)
    if text is None:
        return None
    try:
        return _PODS_DECODER.decode(text)
    except msgspec.DecodeError:
        raise NotUnderstood('JSON such as {"telco/upf-0": {"cpu": {"0": 4000}}}') from None


def cpu_set(text: str) -> CpuSet:
    """The CPUs of a Linux list such as `0-3,8`."""
    cpus = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) >= MOST_CPUS:
            raise NotUnderstood("a list of CPU ids such as 0-3,8")
        cpus |= (1 << int(last or first) + 1) - (1 << int(first))
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


class _Columns(msgspec.Struct, frozen=True):
    core: list[int]
    socket: list[int]
    zone: list[int]
    cache: list[int]


# Nodes of one kind write the same text, so its groups of CPUs are worked out once for all of them.
@lru_cache(maxsize=256)
def _layout(text: str) -> CpuLayout:
    try:
        columns = msgspec.json.decode(text, type=_Columns)
    except msgspec.DecodeError:
        raise NotUnderstood('JSON such as {"core": [0], "socket": [0], "zone": [0], "cache": [0]}') from None
    sizes = {len(column) for column in (columns.core, columns.socket, columns.zone, columns.cache)}
    if len(sizes) != 1 or not 0 < max(sizes) <= MOST_CPUS:
        raise NotUnderstood(f"four lists of equal length, 1 to {MOST_CPUS}")
    return CpuLayout(tuple(columns.core), tuple(columns.socket), tuple(columns.zone), tuple(columns.cache))


@lru_cache(maxsize=4096)
def _devices(text: str) -> dict[str, tuple[ListedDevice, ...]]:
    try:
        listed = _DEVICES_DECODER.decode(text)
    except msgspec.DecodeError:
        raise NotUnderstood('JSON such as {"example.com/gpu": [["gpu-0", [0], "free"]]}') from None
    for devices in listed.values():
        for _, _, state in devices:
            if state not in (FREE, USED, UNHEALTHY):
                raise NotUnderstood(f"device states {FREE}, {USED}, {UNHEALTHY}")
    return {
        resource: tuple(ListedDevice(name, tuple(zones), state) for name, zones, state in devices)
        for resource, devices in listed.items()
    }


def _grouped(unit_of_cpu: Sequence[int]) -> dict[int, CpuSet]:
    groups: dict[int, CpuSet] = {}
    for cpu, unit in enumerate(unit_of_cpu):
        groups[unit] = groups.get(unit, 0) | 1 << cpu
    return groups


_PODS_DECODER = msgspec.json.Decoder(dict[str, dict[str, dict[int, int]]])
_DEVICES_DECODER = msgspec.json.Decoder(dict[str, list[tuple[str, list[int], str]]])
