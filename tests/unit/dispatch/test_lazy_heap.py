"""A line that members may leave or change places in at any time."""

from __future__ import annotations

from bayplan.dispatch.lazy_heap import LEFTOVERS, LazyHeap


def in_order(line: LazyHeap[str]) -> list[str]:
    members = []
    while (first := line.first()) is not None:
        members.append(first[1])
        line.remove(first[1])
    return members


def test_the_lowest_is_first_and_equal_ones_come_as_they_came() -> None:
    line: LazyHeap[str] = LazyHeap()
    for member, order in (("c", 3.0), ("a", 1.0), ("b1", 2.0), ("b2", 2.0)):
        line.put(member, (order,))
    assert line.first() == ((1.0,), "a")
    assert in_order(line) == ["a", "b1", "b2", "c"]
    assert line.first() is None


def test_who_is_put_again_gives_up_the_place_it_had() -> None:
    line: LazyHeap[str] = LazyHeap()
    line.put("a", (1.0,))
    line.put("b", (2.0,))
    line.put("a", (3.0,))
    assert len(line) == 2
    assert in_order(line) == ["b", "a"]


def test_who_left_is_not_met_again_and_who_is_not_there_is_not_missed() -> None:
    line: LazyHeap[str] = LazyHeap()
    line.put("a", (1.0,))
    line.put("b", (2.0,))
    line.remove("a")
    line.remove("never came")
    assert len(line) == 1
    assert in_order(line) == ["b"]


def test_leftovers_do_not_pile_up() -> None:
    line: LazyHeap[str] = LazyHeap()
    for number in range(10_000):
        line.put("unsettled", (float(number),))
    assert len(line._heap) <= 2 + LEFTOVERS
    assert line.first() == ((9_999.0,), "unsettled")
