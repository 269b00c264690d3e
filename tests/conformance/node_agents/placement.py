"""Read the placement vectors of a report as scheduler-plugins does, with its error texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from bayplan.services.agent.forms.placement_encoding import (
    CHARACTERS,
    CONTINUING,
    ENDING,
    LEB89,
    PREFIX,
    SEPARATOR,
    UNKNOWN,
    ContainerName,
    EncodedPlacement,
    PlacementError,
    PlacementMetadata,
    container_hash,
)

_VALUE_OF = {character: value for value, character in enumerate(CHARACTERS)}
_GO_INTEGER = re.compile(r"[+-]?[0-9]+")


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


def read_metadata(text: str) -> PlacementMetadata:
    """The metadata out of their attribute; what it does not say stays unknown."""
    start = PREFIX + SEPARATOR
    if not text.startswith(start):
        raise PlacementError("malformed metadata")
    metadata = PlacementMetadata()
    for part in text.removeprefix(start).split(SEPARATOR):
        try:
            metadata = _with_field(metadata, part)
        except PlacementError as error:
            raise PlacementError(f"error while setting {_quoted(part)}: {error}") from None
    return metadata


def _with_field(metadata: PlacementMetadata, part: str) -> PlacementMetadata:
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


def decode_vector(text: str) -> list[int]:
    """The numbers of a vector."""
    numbers: list[int] = []
    at = 0
    while at < len(text):
        difference, at = _decode_number(text, at)
        numbers.append(difference + (numbers[-1] if numbers else 0))
    return numbers


def _decode_number(text: str, at: int) -> tuple[int, int]:
    """One number, and where the next one begins."""
    digits, going_on = 0, False
    for position in range(at, len(text)):
        value = _VALUE_OF.get(text[position])
        if value is None:
            break
        if value < ENDING:
            return (ENDING + digits * ENDING + value if going_on else value), position + 1
        digits, going_on = digits * CONTINUING + value - ENDING, True
    raise PlacementError("corrupted NUMA vector")
