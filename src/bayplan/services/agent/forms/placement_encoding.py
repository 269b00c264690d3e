"""Which container is in which zone, in a few characters: the placement vectors that scheduler-plugins' preemption reads.

Nothing names a container. A reader that knows the node's containers can sort their hashes, XXH64 over `namespace NUL pod NUL container`, which
gives the numbers used in the vectors: one vector per zone with the numbers of its containers, as differences, each in LEB89. The fullest
zone needs no vector: it has all remaining containers. The metadata are one attribute of the report, and each vector is an attribute of its zone.

    npv0v001::ve=leb89::cc=10::nn=2::bn=0     ten containers in two zones, most of them in zone 0

LEB89 writes a number in characters that JSON leaves alone: 64 of them end a number, and 25 say that it goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bayplan.cluster.reports.fingerprint import xxh64

METADATA_ATTRIBUTE = "topology.node.k8s.io/numaplacement-metadata"
VECTOR_ATTRIBUTE = "topology.node.k8s.io/numaplacement-vector"

PREFIX = "npv0v001"
SEPARATOR = "::"
LEB89 = "leb89"
UNKNOWN = -1

# The visible characters of ASCII but for those that a JSON writer may escape.
_CHARACTERS = "".join(character for character in map(chr, range(0x21, 0x7F)) if character not in '"&<>\\')
_ENDING = 64
_GOING_ON = len(_CHARACTERS) - _ENDING
_VALUE_OF = {character: value for value, character in enumerate(_CHARACTERS)}
_GO_INTEGER = re.compile(r"[+-]?[0-9]+")

ContainerName = tuple[str, str, str]
"""Namespace, pod and container."""


class PlacementError(ValueError):
    """Metadata or vectors that mean nothing; the text is scheduler-plugins' own."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """How many containers and zones the vectors speak of, and which zone has none because it is the fullest."""

    containers: int = UNKNOWN
    zones: int = UNKNOWN
    busiest: int = UNKNOWN
    encoding: str = ""

    def __str__(self) -> str:
        fields = (f"ve={self.encoding}", f"cc={self.containers}", f"nn={self.zones}", f"bn={self.busiest}")
        return SEPARATOR.join((PREFIX, *fields))


@dataclass(frozen=True, slots=True)
class EncodedPlacement:
    """What is published: the metadata, and a vector for every zone with containers but the fullest."""

    metadata: Metadata
    vectors: Mapping[int, str]


def container_hash(container: ContainerName) -> int:
    """What stands for a container."""
    return xxh64("\0".join(container).encode())


def encode_placement(zones: int, zone_of: Mapping[ContainerName, int]) -> EncodedPlacement:
    """The placement of containers on a node with zones 0 to `zones` - 1."""
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
        Metadata(len(zone_of), zones, busiest, LEB89),
        {zone: encode_vector(numbers) for zone, numbers in sorted(in_zone.items()) if zone != busiest},
    )


def decode_placement(placement: EncodedPlacement, containers: Iterable[ContainerName]) -> dict[ContainerName, int]:
    """The zone of each container, if they are exactly those that the placement was made of."""
    metadata = placement.metadata
    if metadata.encoding != LEB89:
        raise PlacementError("unsupported vector encoding")
    if metadata.busiest == UNKNOWN:
        raise PlacementError("unknown busiest node")
    if not 0 <= metadata.busiest < metadata.zones:
        raise PlacementError("inconsistent busiest node data")
    by_hash = sorted((container_hash(container), container) for container in set(containers))
    if len(by_hash) != metadata.containers:
        raise PlacementError("inconsistent container set")
    found: dict[ContainerName, int] = {}
    for zone, vector in placement.vectors.items():
        if zone == metadata.busiest or not 0 <= zone < metadata.zones:
            raise PlacementError("corrupted NUMA vector")
        for number in decode_vector(vector):
            if number >= len(by_hash):
                raise PlacementError("corrupted NUMA vector")
            container = by_hash[number][1]
            if container in found:
                raise PlacementError("duplicated data in multiple NUMA vectors")
            found[container] = zone
    return {container: found.get(container, metadata.busiest) for _, container in by_hash}


def read_metadata(text: str) -> Metadata:
    """The metadata out of their attribute; what it does not say stays unknown."""
    start = PREFIX + SEPARATOR
    if not text.startswith(start):
        raise PlacementError("malformed metadata")
    metadata = Metadata()
    for part in text.removeprefix(start).split(SEPARATOR):
        try:
            metadata = _with_field(metadata, part)
        except PlacementError as error:
            raise PlacementError(f"error while setting {_quoted(part)}: {error}") from None
    return metadata


def _with_field(metadata: Metadata, part: str) -> Metadata:
    name, equals, value = part.partition("=")
    if not equals:
        raise PlacementError("malformed metadata pair")
    if not name:
        raise PlacementError("missing metadata key")
    if not value:
        raise PlacementError("missing metadata value")
    if name == "ve":
        return replace(metadata, encoding=value)
    if not _GO_INTEGER.fullmatch(value):
        reason = f"strconv.Atoi: parsing {_quoted(value)}: invalid syntax"
        raise PlacementError(f"error while parsing {_quoted(part)}: {reason}")
    match name:
        case "cc":
            return replace(metadata, containers=int(value))
        case "nn":
            return replace(metadata, zones=int(value))
        case "bn":
            return replace(metadata, busiest=int(value))
    raise PlacementError("unknown metadata field")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# -- vectors -----------------------------------------------------------------------------------------------------------


def encode_vector(numbers: Sequence[int]) -> str:
    """Ascending numbers: the first as it is, the others as differences."""
    return "".join(encode_number(number - before) for before, number in zip((0, *numbers), numbers, strict=False))


def decode_vector(text: str) -> list[int]:
    """The numbers of a vector."""
    numbers: list[int] = []
    at = 0
    while at < len(text):
        difference, at = _decode_number(text, at)
        numbers.append(difference + (numbers[-1] if numbers else 0))
    return numbers


def encode_number(number: int) -> str:
    """A number from 0 on in LEB89.

    >>> encode_number(63), encode_number(64), encode_number(1663)
    ('e', 'f!', '~e')
    """
    if number < _ENDING:
        return _CHARACTERS[number]
    rest, last = divmod(number - _ENDING, _ENDING)
    characters = [_CHARACTERS[last]]
    while True:
        rest, digit = divmod(rest, _GOING_ON)
        characters.append(_CHARACTERS[_ENDING + digit])
        if not rest:
            return "".join(reversed(characters))


def _decode_number(text: str, at: int) -> tuple[int, int]:
    """One number, and where the next one begins."""
    digits, going_on = 0, False
    for position in range(at, len(text)):
        value = _VALUE_OF.get(text[position])
        if value is None:
            break
        if value < _ENDING:
            return (_ENDING + digits * _ENDING + value if going_on else value), position + 1
        digits, going_on = digits * _GOING_ON + value - _ENDING, True
    raise PlacementError("corrupted NUMA vector")
