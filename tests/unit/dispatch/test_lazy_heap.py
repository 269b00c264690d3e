"""A heap whose members can leave or move at any time."""

from __future__ import annotations

from bayplan.dispatch.lazy_heap import LEFTOVERS, LazyHeap


def in_order(line: LazyHeap[str]) -> list[str]:
    members = []
    while (first := line.first()) is not None:
        members.append(first[1])
        line.remove(first[1])
    return members


def test_the_lowest_is_first_and_equal_members_are_first_in_first_out() -> None:
    line: LazyHeap[str] = LazyHeap()
    for member, order in (("c", 3.0), ("a", 1.0), ("b1", 2.0), ("b2", 2.0)):
        line.put(member, (order,))
    assert line.first() == ((1.0,), "a")
    assert in_order(line) == ["a", "b1", "b2", "c"]
    assert line.first() is None


def test_a_member_put_again_moves() -> None:
    line: LazyHeap[str] = LazyHeap()
    line.put("a", (1.0,))
    line.put("b", (2.0,))
    line.put("a", (3.0,))
    assert len(line) == 2
    assert in_order(line) == ["b", "a"]


def test_removing_is_final_and_idempotent() -> None:
    line: LazyHeap[str] = LazyHeap()
    line.put("a", (1.0,))
    line.put("b", (2.0,))
    line.remove("a")
    line.remove("never came")
    assert len(line) == 1
    assert in_order(line) == ["b"]


def test_leftovers_do_not_accumulate() -> None:
    line: LazyHeap[str] = LazyHeap()
    for number in range(10_000):
        line.put("unsettled", (float(number),))
    assert len(line._heap) <= 2 + LEFTOVERS
    assert line.first() == ((9_999.0,), "unsettled")
