"""A machine from one line of text, in the manner of hwloc's synthetic topologies.

`pack:2 numa:2 core:16 pu:2 mem:64Gi gpu:2@numa` is a machine of 2 packages with 2 NUMA zones each, 16 cores in every
zone, 2 threads on every core, 64Gi of memory and 2 GPUs per zone. In comes such a text, out goes a `Machine` whose CPUs
have the numbers that Linux usually gives them on servers; docs/scenarios.md has the table of words. `nodes.py` asks for
one per group of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from bayplan.cluster.pods.request import HUGEPAGES_PREFIX, AmountError, amount_of
from bayplan.simulate.kubelet.machine import Cpu, Machine, MachineDevice, MachineZone
from bayplan.simulate.scenario.lines import suggestion

# From the widest to the narrowest, which is the order in which they must be written.
LEVELS = ("pack", "numa", "l3", "core", "pu")
WORDS = (*LEVELS, "mem", "hugepages-1Gi", "hugepages-2Mi", "memonly", "distance", "DEVICE:COUNT@PLACE")
PLACES = ("numa", "pack", "machine")
SHORT_NAMES_BELONG_TO = "example.com"

MOST_ZONES = 64  # the kubelet keeps zones as bits of a 64-bit mask
MOST_CPUS = 4096
MOST_DEVICES = 4096

LOCAL = 10
WITHIN_PACKAGE = 12
ACROSS_PACKAGES = 21
# What memory behind a link (CXL) usually adds to the way.
BEHIND_A_LINK = 4

_WORD = re.compile(r"(?P<name>[^:@]+):(?P<amount>[^:@]+)(?:@(?P<place>[^:@]+))?")
_PAGE_SIZE = re.compile(r"[1-9][0-9]*[KMG]i")
_DEVICE_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


class MachineTextError(ValueError):
    """A text that describes no machine; names the word and what is allowed."""


@dataclass(frozen=True, slots=True)
class _Word:
    """One word of the text: `gpu:2@numa`."""

    text: str
    name: str
    amount: str
    place: str | None


@dataclass(frozen=True, slots=True)
class _Shape:
    """How many there are of each level inside the next wider one."""

    packs: int
    zones: int
    caches: int
    cores: int
    threads: int

    @property
    def zones_with_cpus(self) -> int:
        return self.packs * self.zones

    @property
    def all_cores(self) -> int:
        return self.zones_with_cpus * self.caches * self.cores

    def pack_of(self, zone: int) -> int:
        """The package that a zone with CPUs lies in."""
        return zone // self.zones


@lru_cache(maxsize=1024)
def machine_of(text: str) -> Machine:
    """The machine that a text describes; raises `MachineTextError`.

    >>> machine = machine_of("pack:2 numa:1 core:4 pu:2 mem:8Gi")
    >>> len(machine.zones), len(machine.cpus), machine.cpus[9].core
    (2, 16, 1)
    """
    words = _words(text)
    shape = _shape(words, text)
    memory_only = _memory_only(words, shape)
    packs = [*map(shape.pack_of, range(shape.zones_with_cpus)), *(pack for pack, _ in memory_only)]
    if len(packs) > MOST_ZONES:
        raise MachineTextError(f'"{text}" has {len(packs)} zones: must be at most {MOST_ZONES}')
    near, far = _distances(words)
    memory, huge_pages = _memory(words, text)
    zones = []
    for zone, pack in enumerate(packs):
        has_cpus = zone < shape.zones_with_cpus
        distances = tuple(
            LOCAL
            if zone == other
            else (near if pack == other_pack else far)
            + BEHIND_A_LINK * ((not has_cpus) + (other >= shape.zones_with_cpus))
            for other, other_pack in enumerate(packs)
        )
        own = memory if has_cpus else memory_only[zone - shape.zones_with_cpus][1]
        zones.append(MachineZone(zone, own, huge_pages if has_cpus else {}, distances))
    return Machine(tuple(zones), _cpus(shape), _devices(words, shape, len(packs)))


def _words(text: str) -> dict[str, _Word]:
    """The words by name, each known, and each once."""
    words: dict[str, _Word] = {}
    for written in text.split():
        match = _WORD.fullmatch(written)
        if match is None:
            raise MachineTextError(f'"{written}" is not understood: must be NAME:NUMBER or DEVICE:COUNT@PLACE')
        word = _Word(written, match["name"], match["amount"], match["place"])
        if word.place is None and word.name not in WORDS and not word.name.startswith(HUGEPAGES_PREFIX):
            hint = suggestion(word.name, WORDS)
            raise MachineTextError(f'"{written}" is unknown{hint} (a device says where it is: {written}@numa)')
        if word.place is not None and word.name in WORDS and word.name != "memonly":
            raise MachineTextError(f'"{written}" is not allowed: only devices and memonly have a place')
        if word.name in words:
            raise MachineTextError(f'"{written}" comes after "{words[word.name].text}": {word.name} is said twice')
        words[word.name] = word
    return words


def _shape(words: Mapping[str, _Word], text: str) -> _Shape:
    if "core" not in words:
        raise MachineTextError(f'"{text}" has no core: how many cores does a zone have, such as core:16?')
    named = [name for name in words if name in LEVELS]
    for before, after in pairwise(named):
        if LEVELS.index(before) > LEVELS.index(after):
            order = " ".join(LEVELS)
            raise MachineTextError(f'"{words[after].text}" comes after "{words[before].text}": the order is {order}')
    counts = [_count(words[level], MOST_CPUS) if level in words else 1 for level in LEVELS]
    shape = _Shape(*counts)
    if shape.all_cores * shape.threads > MOST_CPUS:
        cpus = shape.all_cores * shape.threads
        raise MachineTextError(f'"{text}" has {cpus} CPUs: must be at most {MOST_CPUS}')
    return shape


def _memory(words: Mapping[str, _Word], text: str) -> tuple[int, dict[str, int]]:
    """Bytes of a zone in all, and those of them that are huge pages, by resource name."""
    if "mem" not in words:
        raise MachineTextError(f'"{text}" has no mem: how much memory does a zone have, such as mem:64Gi?')
    memory = _bytes(words["mem"])
    huge_pages: dict[str, int] = {}
    for word in words.values():
        if not word.name.startswith(HUGEPAGES_PREFIX):
            continue
        size = word.name.removeprefix(HUGEPAGES_PREFIX)
        if not _PAGE_SIZE.fullmatch(size):
            raise MachineTextError(f'"{word.text}" has no page size: must be like hugepages-1Gi or hugepages-2Mi')
        huge_pages[word.name] = _count(word, 2**40) * amount_of("memory", size)
    if sum(huge_pages.values()) > memory:
        pages = " ".join(words[name].text for name in huge_pages)
        raise MachineTextError(f'"{pages}" is more than the {words["mem"].amount} of memory that a zone has')
    return memory, huge_pages


def _memory_only(words: Mapping[str, _Word], shape: _Shape) -> list[tuple[int, int]]:
    """Package and bytes of every zone that has memory and no CPUs: `memonly:256Gi@pack`."""
    word = words.get("memonly")
    if word is None:
        return []
    if word.place not in ("pack", "machine"):
        raise MachineTextError(f'"{word.text}" has no such place: must be memonly:SIZE@pack or memonly:SIZE@machine')
    return [(pack, _bytes(word)) for pack in range(shape.packs if word.place == "pack" else 1)]


def _distances(words: Mapping[str, _Word]) -> tuple[int, int]:
    """Between zones of a package, and across packages: `distance:12,32`."""
    word = words.get("distance")
    if word is None:
        return WITHIN_PACKAGE, ACROSS_PACKAGES
    parts = word.amount.split(",")
    near, far = (int(part) if part.isdecimal() and len(part) < 4 else 0 for part in (parts * 2)[:2])
    if len(parts) != 2 or not LOCAL < near <= far <= 254 - 2 * BEHIND_A_LINK:
        raise MachineTextError(
            f'"{word.text}" is not allowed: must be two distances above {LOCAL}, within a package and across '
            "packages, such as distance:12,32"
        )
    return near, far


def _cpus(shape: _Shape) -> tuple[Cpu, ...]:
    """CPUs in Linux' usual order: the first thread of every core of the machine, then the second ones."""
    first_threads = []
    for core in range(shape.all_cores):
        cache = core // shape.cores
        zone = cache // shape.caches
        first_threads.append(Cpu(core=core, socket=shape.pack_of(zone), zone=zone, cache=cache))
    return tuple(first_threads * shape.threads)


def _devices(words: Mapping[str, _Word], shape: _Shape, zone_count: int) -> dict[str, tuple[MachineDevice, ...]]:
    """Devices by resource name; their ids ascend with their zones."""
    devices: dict[str, tuple[MachineDevice, ...]] = {}
    for word in words.values():
        if word.place is None or word.name == "memonly":
            continue
        if not _DEVICE_NAME.fullmatch(word.name):
            raise MachineTextError(f'"{word.text}" names no device: must be like gpu:2@numa or nvidia.com/gpu:2@numa')
        resource = word.name if "/" in word.name else f"{SHORT_NAMES_BELONG_TO}/{word.name}"
        if resource in devices:
            raise MachineTextError(f'"{word.text}" says {resource} a second time')
        places = _places(word, shape, zone_count)
        each = _count(word, MOST_DEVICES)
        if each * len(places) > MOST_DEVICES:
            raise MachineTextError(f'"{word.text}" makes {each * len(places)} devices: must be at most {MOST_DEVICES}')
        homes = [zones for zones in places for _ in range(each)]
        short = word.name.rpartition("/")[2]
        devices[resource] = tuple(MachineDevice(f"{short}-{number:04}", zones) for number, zones in enumerate(homes))
    return devices


def _places(word: _Word, shape: _Shape, zone_count: int) -> list[tuple[int, ...]]:
    """The zones of each place that has the word's count of devices, lowest first."""
    match word.place:
        case "numa":
            return [(zone,) for zone in range(shape.zones_with_cpus)]
        case "pack":
            return [(pack * shape.zones,) for pack in range(shape.packs)]
        case "machine":
            return [()]
    zones = [int(part) if part.isdecimal() and len(part) < 4 else -1 for part in (word.place or "").split(",")]
    if len(set(zones)) < len(zones) or not all(0 <= zone < zone_count for zone in zones):
        allowed = f"{', '.join(PLACES)}, or zones from 0 to {zone_count - 1} such as 0,1"
        raise MachineTextError(f'"{word.text}" has no such place: must be {allowed}')
    return [(zone,) for zone in sorted(zones)]


def _count(word: _Word, most: int) -> int:
    if not word.amount.isdecimal() or not word.amount.isascii() or len(word.amount) > 15:
        raise MachineTextError(f'"{word.text}" has no whole number: must be 1 or more')
    number = int(word.amount)
    if not 1 <= number <= most:
        raise MachineTextError(f'"{word.text}" is not allowed: must be 1 to {most}')
    return number


def _bytes(word: _Word) -> int:
    try:
        amount = amount_of("memory", word.amount)
    except AmountError as error:
        raise MachineTextError(f'"{word.text}": {error}') from None
    if amount < 1:
        raise MachineTextError(f'"{word.text}" is not allowed: must be more than nothing, such as {word.name}:64Gi')
    return amount
