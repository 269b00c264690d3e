"""Fingerprints of pod sets, against values that the original implementation gave."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.reports.fingerprint import (
    ANNOTATION,
    ATTRIBUTE,
    METHOD_ATTRIBUTE,
    Check,
    Published,
    check,
    fingerprint_of,
    is_comparable,
    published_in,
    xxh64,
)
from bayplan.kube.wire.core_v1 import Metadata
from bayplan.kube.wire.node_resource_topology_v1alpha2 import Attribute, NodeResourceTopology

NO_PODS = "pfp0v001ef46db3751d8e999"
ONE = ("namespace1", "pod1")
OF_ONE = "pfp0v0019e0420efb37746c6"

NAMES = st.tuples(st.text("abc-", min_size=1), st.text("abc-", min_size=1))


@pytest.mark.parametrize(
    "data, seed, found",
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"message digest", 0, 0x066ED728FCEEB3BE),
        (b"abcdefghijklmnopqrstuvwxyz", 0, 0xCFE1F278FA89835C),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
        (b"", 0x9E3779B1, 0xAC75FDA2929B17EF),
    ],
)
def test_hash_is_xxh64(data: bytes, seed: int, found: int) -> None:
    assert xxh64(data, seed) == found


@pytest.mark.parametrize("pods, found", [([], NO_PODS), ([ONE], OF_ONE)])
def test_known_fingerprints(pods: list[tuple[str, str]], found: str) -> None:
    assert fingerprint_of(pods) == found


@given(st.lists(NAMES), st.randoms())
def test_order_does_not_matter(pods: list[tuple[str, str]], dice: object) -> None:
    shuffled = list(pods)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fingerprint_of(shuffled) == fingerprint_of(pods)


@given(st.sets(NAMES, max_size=6), NAMES)
def test_another_pod_is_another_fingerprint(pods: set[tuple[str, str]], other: tuple[str, str]) -> None:
    assert fingerprint_of([*pods, other]) != fingerprint_of(pods)


@pytest.mark.parametrize(
    "published, result",
    [
        (OF_ONE, Check.OK),
        (NO_PODS, Check.MISMATCH),
        (OF_ONE.upper().replace("PFP0V001", "pfp0v001"), Check.MISMATCH),
        (OF_ONE + "00", Check.MISMATCH),
        (OF_ONE.replace("v001", "v002"), Check.INCOMPATIBLE_VERSION),
        (OF_ONE.replace("pfp0", "pfp1"), Check.MALFORMED),
        (OF_ONE[:15], Check.MALFORMED),
        ("", Check.MALFORMED),
    ],
)
def test_check(published: str, result: Check) -> None:
    assert check(published, [ONE]) is result
    assert is_comparable(published) is (result in (Check.OK, Check.MISMATCH))


@pytest.mark.parametrize(
    "version, result",
    [
        ("v001", Check.OK),
        ("v002", Check.INCOMPATIBLE_VERSION),
        ("xxxx", Check.INCOMPATIBLE_VERSION),
    ],
)
def test_only_fingerprints_of_our_version_are_compared(version: str, result: Check) -> None:
    assert check(OF_ONE.replace("v001", version), [ONE]) is result


@pytest.mark.parametrize(
    "attributes, annotations, found",
    [
        pytest.param({}, {}, ("", "", True), id="none"),
        pytest.param({ATTRIBUTE: "x"}, {}, ("x", "", False), id="an agent that says no method"),
        pytest.param({ATTRIBUTE: "x", METHOD_ATTRIBUTE: "all"}, {}, ("x", "all", False), id="with its method"),
        pytest.param({ATTRIBUTE: "x"}, {ANNOTATION: "y"}, ("x", "", False), id="the attribute comes first"),
        pytest.param({ATTRIBUTE: ""}, {ANNOTATION: "y"}, ("", "", False), id="even an empty one"),
        pytest.param({METHOD_ATTRIBUTE: "all"}, {ANNOTATION: "y"}, ("y", "", True), id="a method of nothing"),
    ],
)
def test_where_it_is_published(
    attributes: dict[str, str], annotations: dict[str, str], found: tuple[str, str, bool]
) -> None:
    topology = NodeResourceTopology(
        metadata=Metadata(name="n1", annotations=annotations),
        attributes=[Attribute(name=name, value=value) for name, value in attributes.items()],
    )
    assert published_in(topology) == Published(*found)


def test_of_two_attributes_the_first_counts() -> None:
    twice = [Attribute(name=ATTRIBUTE, value="first"), Attribute(name=ATTRIBUTE, value="second")]
    assert published_in(NodeResourceTopology(attributes=twice)).fingerprint == "first"
