"""Kueue's assignments: what all domains have in common is written once, and reading gives back what was written."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.kube.wire.kueue_v1beta2 import (
    MOST_SLICES,
    Assignment,
    Domain,
    TopologyAssignment,
    decoded,
    encoded,
    encoded_in_runs,
    shared_beginnings,
)

HOST = "kubernetes.io/hostname"


def on_hosts(*names: str) -> Assignment:
    return Assignment((HOST,), tuple(Domain((name,), 1) for name in names))


@pytest.mark.parametrize(
    "names, values",
    [
        (("n1", "n1"), {"universal": "n1"}),
        (("a-1.x", "a-2.x"), {"individual": {"prefix": "a-", "suffix": ".x", "roots": ["1", "2"]}}),
        (("aba", "ababa"), {"individual": {"suffix": "aba", "roots": ["", "ab"]}}),
        (("a", "b"), {"individual": {"roots": ["a", "b"]}}),
    ],
)
def test_common_ends_are_written_once(names: tuple[str, ...], values: dict[str, object]) -> None:
    (part,) = encoded(on_hosts(*names)).slices
    assert msgspec.json.decode(msgspec.json.encode(part)) == {
        "domainCount": 2,
        "valuesPerLevel": [values],
        "podCounts": {"universal": 1},
    }


def test_nothing_assigned_is_no_slice() -> None:
    assert encoded(Assignment((HOST,), ())) == TopologyAssignment(levels=(HOST,), slices=())


def test_runs_of_alike_names_are_slices_if_that_is_shorter() -> None:
    few = on_hosts("pool-a-1", "pool-a-2", "pool-b-1", "pool-b-2")
    many = on_hosts(*(f"pool-{pool}-node-{number:05}" for pool in "ab" for number in range(10)))
    assert (len(encoded(few).slices), len(encoded_in_runs(few).slices)) == (1, 2)
    assert len(encoded(many).slices) == 2


@pytest.mark.parametrize(
    "names, beginnings",
    [
        (("pool-a-1", "pool-a-2", "pool-b-1"), ["pool-a-", "pool-a-", "pool-"]),
        (("node-a", "host-b"), ["", ""]),
        (("nodea", "hostb"), []),
    ],
)
def test_beginnings_end_at_a_dash_and_are_shared(names: tuple[str, ...], beginnings: list[str]) -> None:
    assert shared_beginnings(names) == beginnings


def test_beginnings_are_cut_back_where_they_would_make_too_many_slices() -> None:
    in_turns = [f"a-{'xy'[number % 2]}-{number:04}" for number in range(MOST_SLICES + 1)]
    assert set(shared_beginnings(in_turns)) == {"a-"}
    unlike = [f"{'xy'[number % 2]}-{number:04}" for number in range(MOST_SLICES + 1)]
    assert shared_beginnings(unlike) == []


NAMES = st.lists(st.text("ab-.1", min_size=1, max_size=8), max_size=12)


@given(names=NAMES, racks=st.lists(st.sampled_from(["r1", "r2", "s1"]), min_size=12, max_size=12))
def test_what_is_written_is_read_again(names: list[str], racks: list[str]) -> None:
    domains = tuple(
        Domain((rack, name), number % 3 + 1) for number, (rack, name) in enumerate(zip(racks, names, strict=False))
    )
    for levels in (("rack", HOST), ("rack", "node")):
        plain = Assignment(levels, domains)
        for wire in (encoded(plain), encoded_in_runs(plain)):
            again = msgspec.json.decode(msgspec.json.encode(wire), type=TopologyAssignment)
            assert decoded(again) == plain
