"""Volcano's books: who is subtracted from a node's free CPUs, and until when."""

from __future__ import annotations

import pytest

from bayplan.compat.volcano.numa.books import (
    NodeBooks,
    PodId,
    allocated,
    clear_unassigned,
    is_listed,
    note_unassigned,
    released,
)

ONE, TWO = PodId("uid-1", "p1", "ns"), PodId("uid-2", "p2", "ns")
FREE = {"cpu": frozenset(range(4))}


def took(*cpus: int) -> dict[str, frozenset[int]]:
    return {"cpu": frozenset(cpus)}


@pytest.mark.parametrize(
    "listed, left, still",
    [
        pytest.param([], {3}, {ONE, TWO}, id="nobody is listed"),
        pytest.param([ONE], {3}, {ONE, TWO}, id="one is missing, so both stay subtracted"),
        pytest.param([ONE, TWO], {0, 1, 2, 3}, set[PodId](), id="all are listed"),
    ],
)
def test_all_or_nothing(listed: list[PodId], left: set[int], still: set[PodId]) -> None:
    books = NodeBooks(FREE, listed, {ONE: took(0, 1), TWO: took(2)})
    assert (books.refresh(), set(books.unassigned)) == (took(*left), still)


def test_without_an_object_there_is_nothing_to_see() -> None:
    assert NodeBooks(None, (), {ONE: took(0)}).refresh() is None


@pytest.mark.parametrize(
    "entry, listed",
    [
        (PodId(uid="uid-1"), True),
        (PodId(name="p1", namespace="ns"), True),
        (PodId(name="p1", namespace="other"), False),
        (PodId("uid-9", "p9", "ns"), False),
    ],
)
def test_a_pod_is_known_by_uid_or_by_name(entry: PodId, *, listed: bool) -> None:
    assert is_listed(ONE, [entry]) is listed


def test_pods_come_and_go() -> None:
    nodes = {"n1": NodeBooks(FREE)}
    note_unassigned(nodes, {"n1": {ONE: took(0)}, "gone": {TWO: took(1)}})
    note_unassigned(nodes, {"n1": {TWO: took(1)}})
    assert set(nodes["n1"].unassigned) == {ONE, TWO}
    clear_unassigned(nodes, ONE, "n1")
    clear_unassigned(nodes, ONE, "n1")
    clear_unassigned(nodes, TWO, "gone")
    assert set(nodes["n1"].unassigned) == {TWO}


def test_sets() -> None:
    assert allocated(FREE, took(0, 1)) == took(2, 3)
    assert released(allocated(FREE, took(0, 1)), took(0, 1)) == FREE
    assert allocated(FREE, {"gpu": frozenset({0})}) == FREE, "a resource that the node does not have"


def test_a_copy_keeps_apart() -> None:
    books = NodeBooks(FREE, (ONE,), {ONE: took(0)})
    books.copy().unassigned[TWO] = took(1)
    assert set(books.unassigned) == {ONE}


def test_a_pod_as_the_key_of_a_map() -> None:
    assert ONE.text() == '{"uid":"uid-1","name":"p1","namespace":"ns"}'
    assert PodId.of_text(ONE.text()) == ONE
