"""How many equal pods the domains of each level hold."""

from __future__ import annotations

from bayplan.gangs.trees import rooms_of
from tests.unit.engine.gangs.small_trees import racks


def test_per_level_how_many_hold_all_and_the_most_that_one_holds() -> None:
    tree, slots = racks("b1/r1: 2 2", "b1/r2: 3", "b2/r1: 1")
    assert [(room.level, room.domains, room.holding_all, room.most) for room in rooms_of(tree, slots, 5)] == [
        ("block", 2, 1, 7),
        ("rack", 3, 0, 4),
        ("node", 4, 0, 3),
    ]


def test_no_domain_has_the_most_where_none_holds_a_pod() -> None:
    tree, slots = racks("b1/r1: 0 0", "b2/r1: 0")
    assert [(room.most, room.best) for room in rooms_of(tree, slots, 2)] == [(0, ())] * 3
