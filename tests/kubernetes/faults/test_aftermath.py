"""The checks after a fault can fail: a witness that finds nothing wrong must be able to."""

from __future__ import annotations

import pytest

from tests.kubernetes.faults.aftermath import Sighting, bound_twice

FIRST = Sighting("p0", "uid-1", "n1")


@pytest.mark.parametrize(
    "second, replaced, found",
    [
        (FIRST, (), {}),
        (Sighting("p1", "uid-2", "n2"), (), {}),
        (Sighting("p0", "uid-1", "n2"), (), {"p0": {"n1", "n2"}}),
        (Sighting("p0", "uid-2", "n2"), (), {"p0": {"n1", "n2"}}),
        (Sighting("p0", "uid-2", "n2"), ("p0",), {}),
        (Sighting("p0", "uid-1", "n2"), ("p0",), {"p0": {"n1", "n2"}}),
    ],
    ids=["seen twice", "another pod", "told of two nodes", "made anew", "replaced by the test", "replaced and twice"],
)
def test_a_pod_with_two_nodes_is_found(second: Sighting, replaced: tuple[str, ...], found: dict[str, set[str]]) -> None:
    assert bound_twice([FIRST, second], replaced) == found
