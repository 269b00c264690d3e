"""Encode which container is in which zone: the placement vectors that scheduler-plugins' preemption reads.

Containers are numbered by the order of their hashes, XXH64 over `namespace NUL pod NUL container`. Each zone's vector
has the numbers of its containers, as differences in LEB89. The fullest zone has no vector: the rest is there. The
metadata are an attribute of the report, each vector is an attribute of its zone.

    npv0v001::ve=leb89::cc=10::nn=2::bn=0     ten containers in two zones, most of them in zone 0

LEB89 uses characters that JSON does not escape: 64 of them end a number, 25 continue it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayplan.cluster.reports.fingerprint import xxh64

METADATA_ATTRIBUTE = "topology.node.k8s.io/numaplacement-metadata"
VECTOR_ATTRIBUTE = "topology.node.k8s.io/numaplacement-vector"

PREFIX = "npv0v001"
SEPARATOR = "::"
LEB89 = "leb89"
UNKNOWN = -1

# Visible ASCII characters, except those that a JSON writer may escape.
CHARACTERS = "".join(character for character in map(chr, range(0x21, 0x7F)) if character not in '"&<>\\')
ENDING = 64
CONTINUING = len(CHARACTERS) - ENDING

ContainerName = tuple[str, str, str]
"""Namespace, pod and container."""


class PlacementError(ValueError):
    """An invalid placement; the text is scheduler-plugins' own."""


@dataclass(frozen=True, slots=True)
class PlacementMetadata:
    """The number of containers and zones, and the fullest zone, which has no vector."""

    containers: int = UNKNOWN
    zones: int = UNKNOWN
    busiest: int = UNKNOWN
    encoding: str = ""

    def __str__(self) -> str:
        fields = (f"ve={self.encoding}", f"cc={self.containers}", f"nn={self.zones}", f"bn={self.busiest}")
        return SEPARATOR.join((PREFIX, *fields))


@dataclass(frozen=True, slots=True)
class EncodedPlacement:
    """The metadata, and a vector for every zone with containers except the fullest."""

    metadata: PlacementMetadata
    vectors: Mapping[int, str]


def container_hash(container: ContainerName) -> int:
    """The hash that orders containers."""
    return xxh64("\0".join(container).encode())


def encode_placement(zones: int, zone_of: Mapping[ContainerName, int]) -> EncodedPlacement:
    """Encode the placement of containers on a node with zones 0 to `zones` - 1."""
    if zones <= 0:
        raise PlacementError("inconsistent NUMA node count")
    for zone in zone_of.values():
        if zone == UNKNOWN:
            raise PlacementError("unknown NUMA affinity not supported")
        if not 0 <= zone < zones:
            raise PlacementError("wrong NUMA affinity")
    by_hash = sorted((container_hash(container), zone) for container, zone in zone_of.items())
    in_zone: dict[int, list[int]] = {}
    for number, (_, zone) in enumerate(by_hash):
        in_zone.setdefault(zone, []).append(number)
    busiest = max(sorted(in_zone), key=lambda zone: len(in_zone[zone]), default=0)
    return EncodedPlacement(
        PlacementMetadata(len(zone_of), zones, busiest, LEB89),
        {zone: encode_vector(numbers) for zone, numbers in sorted(in_zone.items()) if zone != busiest},
    )


def encode_vector(numbers: Sequence[int]) -> str:
    """Encode ascending numbers: the first as it is, the others as differences."""
    return "".join(encode_number(number - before) for before, number in zip((0, *numbers), numbers, strict=False))


def encode_number(number: int) -> str:
    """Encode a number, 0 or more, in LEB89.

    >>> encode_number(63), encode_number(64), encode_number(1663)
    ('e', 'f!', '~e')
    """
    if number < ENDING:
        return CHARACTERS[number]
    rest, last = divmod(number - ENDING, ENDING)
    characters = [CHARACTERS[last]]
    while True:
        rest, digit = divmod(rest, CONTINUING)
        characters.append(CHARACTERS[ENDING + digit])
        if not rest:
            return "".join(reversed(characters))
