"""Placement vectors: what is written can be read again, and what means nothing is refused in
scheduler-plugins' words.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.services.agent.forms.placement_encoding import (
    EncodedPlacement,
    PlacementError,
    PlacementMetadata,
    encode_placement,
    encode_vector,
)
from tests.conformance.node_agents.placement import decode_placement, decode_vector, read_metadata

A, B, C = (("ns", "pod", name) for name in "abc")


@given(st.dictionaries(st.tuples(st.text(), st.text(), st.text()), st.integers(0, 3)))
def test_an_encoded_placement_can_be_decoded(zone_of: dict[tuple[str, str, str], int]) -> None:
    placement = encode_placement(4, zone_of)
    read = EncodedPlacement(read_metadata(str(placement.metadata)), placement.vectors)
    assert decode_placement(read, zone_of) == zone_of


@given(st.lists(st.integers(0, 1_000_000), unique=True).map(sorted))
def test_vectors_are_ascending_numbers(numbers: list[int]) -> None:
    text = encode_vector(numbers)
    assert decode_vector(text) == numbers
    assert not set(text) & set('"&<>\\ ')


def test_the_fullest_zone_needs_no_vector() -> None:
    placement = encode_placement(2, {A: 1, B: 1, C: 0})
    assert str(placement.metadata) == "npv0v001::ve=leb89::cc=3::nn=2::bn=1"
    assert set(placement.vectors) == {0}


def test_of_equally_full_zones_the_lowest_needs_no_vector() -> None:
    assert encode_placement(2, {A: 1, B: 0}).metadata.busiest == 0


@pytest.mark.parametrize(
    "zones, zone, message",
    [
        (0, 0, "inconsistent NUMA node count"),
        (2, 2, "wrong NUMA affinity"),
        (2, -1, "unknown NUMA affinity not supported"),
    ],
)
def test_invalid_placements_are_not_encoded(zones: int, zone: int, message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        encode_placement(zones, {A: zone})


GOOD = PlacementMetadata(2, 2, 0, "leb89")


@pytest.mark.parametrize(
    "metadata, vectors, message",
    [
        (PlacementMetadata(2, 2, 0, "zip"), {}, "unsupported vector encoding"),
        (PlacementMetadata(2, 2, -1, "leb89"), {}, "unknown busiest node"),
        (PlacementMetadata(2, 2, 2, "leb89"), {}, "inconsistent busiest node data"),
        (PlacementMetadata(3, 2, 0, "leb89"), {}, "inconsistent container set"),
        (GOOD, {0: "!"}, "corrupted NUMA vector"),
        (GOOD, {2: "!"}, "corrupted NUMA vector"),
        (GOOD, {1: "%"}, "corrupted NUMA vector"),
        (GOOD, {1: "f"}, "corrupted NUMA vector"),
        (GOOD, {1: " "}, "corrupted NUMA vector"),
        (GOOD, {1: "!!"}, "duplicated data in multiple NUMA vectors"),
    ],
)
def test_invalid_vectors_are_not_decoded(metadata: PlacementMetadata, vectors: dict[int, str], message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        decode_placement(EncodedPlacement(metadata, vectors), [A, B])


@pytest.mark.parametrize(
    "text, message",
    [
        ("pfp0v001", "malformed metadata"),
        ("npv0v001::cc", 'error while setting "cc": malformed metadata pair'),
        ("npv0v001::cc=", 'error while setting "cc=": missing metadata value'),
        ("npv0v001::zz=1", 'error while setting "zz=1": unknown metadata field'),
    ],
)
def test_metadata_that_mean_nothing(text: str, message: str) -> None:
    with pytest.raises(PlacementError) as refused:
        read_metadata(text)
    assert str(refused.value) == message
