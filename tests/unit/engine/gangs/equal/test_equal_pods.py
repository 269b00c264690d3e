"""Equal pods under one constraint: the tightest domain, the fewest domains, the least room left
over, spread, slices.
"""

from __future__ import annotations

import pytest

from bayplan.engine.gangs.equal.choice import EqualPods
from bayplan.engine.gangs.equal.equal_pods import place_equal
from bayplan.engine.gangs.equal.segments import SegmentLayer
from bayplan.engine.gangs.objective import LOWEST_COMMON_DOMAIN, objective_of
from tests.unit.engine.gangs.small_trees import BLOCK, NODE, RACK, by_rack, racks

TWO_BLOCKS = ("b1/r1: 4 4", "b1/r2: 3 3", "b2/r1: 8 2", "b2/r2: 1 1")


@pytest.mark.parametrize(
    "lines, wish, expected",
    [
        # Required: of the domains that hold all pods, the one where they are closest; of equals the one with the least
        # room.
        (TWO_BLOCKS, EqualPods(2, required=RACK), {"b1/r2": 2}),
        (TWO_BLOCKS, EqualPods(6, required=RACK), {"b2/r1": 6}),
        (TWO_BLOCKS, EqualPods(7, required=RACK), {"b2/r1": 7}),
        (TWO_BLOCKS, EqualPods(9, required=RACK), {"b2/r1": 9}),
        (TWO_BLOCKS, EqualPods(8, required=NODE), {"b2/r1": 8}),
        (TWO_BLOCKS, EqualPods(13, required=BLOCK), {"b1/r1": 8, "b1/r2": 5}),
        # Equally tight: the first.
        (("b1/r1: 2", "b1/r2: 2"), EqualPods(2, required=RACK), {"b1/r1": 2}),
        # Preferred: as few as possible, whatever lies above.
        (TWO_BLOCKS, EqualPods(10, preferred=RACK), {"b2/r1": 10}),
        (TWO_BLOCKS, EqualPods(18, preferred=RACK), {"b1/r1": 8, "b2/r1": 10}),
        # Both: the fewest racks inside one block, though a tighter block would need three.
        (
            ("b1/r1: 4", "b1/r2: 4", "b1/r3: 3", "b2/r1: 6", "b2/r2: 6"),
            EqualPods(11, required=BLOCK, preferred=RACK),
            {"b2/r1": 6, "b2/r2": 5},
        ),
        # Of equally few racks, those with the least room in sum: 5 and 3, not 5 and 4.
        (("b1/r1: 5", "b1/r2: 4", "b1/r3: 3"), EqualPods(8, preferred=RACK), {"b1/r1": 5, "b1/r3": 3}),
        # Six and four are closer to each other than five and five.
        (("b1/r1: 6", "b1/r2: 5", "b1/r3: 5"), EqualPods(10, preferred=RACK), {"b1/r1": 6, "b1/r2": 4}),
        (
            ("b1/r1: 6", "b1/r2: 5", "b1/r3: 5"),
            EqualPods(10, preferred=RACK, objective=objective_of(["fewest-domains", "least-leftover"])),
            {"b1/r2": 5, "b1/r3": 5},
        ),
        # Two racks of one block, though two of different blocks would leave nothing over.
        (("b1/r1: 4", "b1/r2: 4", "b2/r1: 3"), EqualPods(7, preferred=RACK), {"b1/r1": 4, "b1/r2": 3}),
        # A preferred level that is wider than the required one adds nothing.
        (TWO_BLOCKS, EqualPods(6, required=RACK, preferred=BLOCK), {"b2/r1": 6}),
        # Nothing asked for: as close together as possible, on as few nodes as possible.
        (TWO_BLOCKS, EqualPods(12), {"b2/r1": 10, "b2/r2": 2}),
        (TWO_BLOCKS, EqualPods(10), {"b2/r1": 10}),
        (TWO_BLOCKS, EqualPods(16), {"b1/r1": 4, "b2/r1": 10, "b2/r2": 2}),
        # The lowest common domain first: one rack, though two nodes of different racks would be closer on average.
        (("b1/r1: 1 1 1", "b1/r2: 2", "b1/r3: 1"), EqualPods(3), {"b1/r1": 3}),
        (("b1/r1: 1 1 1", "b1/r2: 2", "b2/r3: 1"), EqualPods(3, objective=LOWEST_COMMON_DOMAIN), {"b1/r1": 3}),
        # The roomiest domain instead of the tightest: of racks, of blocks, and of as few racks as possible.
        (TWO_BLOCKS, EqualPods(2, required=RACK, roomiest=True), {"b2/r1": 2}),
        (("b1/r1: 2 2", "b2/r1: 3 3"), EqualPods(2, required=BLOCK, roomiest=True), {"b2/r1": 2}),
        (("b1/r1: 5", "b1/r2: 4", "b1/r3: 3"), EqualPods(7, preferred=RACK, roomiest=True), {"b1/r1": 5, "b1/r2": 2}),
        (
            ("b1/r1: 2", "b1/r2: 4", "b1/r3: 2"),
            EqualPods(2, preferred=RACK, running_at=(2,), roomiest=True),
            {"b1/r3": 2},
        ),
        # Racks that the gang stands in already cost nothing.
        (("b1/r1: 2", "b1/r2: 4", "b1/r3: 2"), EqualPods(2, preferred=RACK, running_at=(2,)), {"b1/r3": 2}),
        (TWO_BLOCKS, EqualPods(2, preferred=RACK, running_at=(0, 7)), {"b1/r1": 2}),
    ],
)
def test_where_they_go(lines: tuple[str, ...], wish: EqualPods, expected: dict[str, int]) -> None:
    tree, slots = racks(*lines)
    found = place_equal(tree, slots, wish)
    assert found.counts is not None
    assert by_rack(tree, found.counts) == expected
    assert (found.counts <= slots).all()


@pytest.mark.parametrize(
    "wish, most",
    [
        (EqualPods(27), 26),
        (EqualPods(27, preferred=RACK), 26),
        (EqualPods(15, required=BLOCK), 14),
        (EqualPods(11, required=RACK, preferred=NODE), 10),
        (EqualPods(9, required=NODE), 8),
        (EqualPods(12, required=BLOCK, layers=(SegmentLayer(RACK, 6),)), 12),
        (EqualPods(18, required=BLOCK, layers=(SegmentLayer(RACK, 6),)), 12),
        (EqualPods(24, layers=(SegmentLayer(NODE, 4),)), 16),
    ],
)
def test_how_many_fit_at_most(wish: EqualPods, most: int) -> None:
    tree, slots = racks(*TWO_BLOCKS)
    found = place_equal(tree, slots, wish)
    assert (found.counts is None) == (most < wish.pods)
    assert found.most == most


@pytest.mark.parametrize(
    "wish, domains",
    [
        (EqualPods(10, preferred=RACK), 1),
        (EqualPods(11, preferred=RACK), 2),
        (EqualPods(26, preferred=RACK), 4),
        (EqualPods(26, preferred=BLOCK), 2),
        (EqualPods(8, required=BLOCK, preferred=NODE), 1),
        (EqualPods(5, required=RACK, preferred=BLOCK), 1),
        (EqualPods(26), 0),
        (EqualPods(3, preferred=RACK, running_at=(6,)), 2),
        (EqualPods(2, preferred=RACK, running_at=(0, 7)), 2),
    ],
)
def test_how_many_preferred_domains_are_in_use_then(wish: EqualPods, domains: int) -> None:
    tree, slots = racks(*TWO_BLOCKS)
    assert place_equal(tree, slots, wish).domains == domains


@pytest.mark.parametrize(
    "lines, pods, expected",
    [
        (("b1/r1: 4 4 4",), 3, [1, 1, 1]),
        (("b1/r1: 4 4 4",), 4, [2, 1, 1]),
        (("b1/r1: 4 1 4",), 7, [3, 1, 3]),
        (("b1/r1: 4 0 4",), 8, [4, 0, 4]),
    ],
)
def test_spread_evenly_over_the_nodes_of_a_rack(lines: tuple[str, ...], pods: int, expected: list[int]) -> None:
    tree, slots = racks(*lines)
    found = place_equal(tree, slots, EqualPods(pods, required=RACK, spread=True))
    assert found.counts is not None
    assert found.counts.tolist() == expected


@pytest.mark.parametrize(
    "pods, expected",
    [(4, [0, 4, 0]), (5, [0, 5, 0]), (6, [0, 5, 1]), (8, [3, 5, 0]), (9, [3, 5, 1])],
)
def test_packed_on_few_nodes_the_last_of_them_the_tightest(pods: int, expected: list[int]) -> None:
    tree, slots = racks("b1/r1: 3 5 1")
    found = place_equal(tree, slots, EqualPods(pods, required=RACK))
    assert found.counts is not None
    assert found.counts.tolist() == expected


# -- slices
# ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines, wish, expected",
    [
        # Only whole slices count: a rack with five slots has one slice of four.
        (("b1/r1: 5", "b1/r2: 5", "b1/r3: 4"), EqualPods(8, layers=(SegmentLayer(RACK, 4),)), {"b1/r1": 4, "b1/r2": 4}),
        (("b1/r1: 3", "b1/r2: 4 4"), EqualPods(8, layers=(SegmentLayer(RACK, 4),)), {"b1/r2": 8}),
        # Apart: one slice a rack, even where two would fit.
        (("b1/r1: 8", "b1/r2: 4"), EqualPods(8, layers=(SegmentLayer(RACK, 4, apart=True),)), {"b1/r1": 4, "b1/r2": 4}),
        # Two layers: slices of four in a rack, each of two halves on one node. 3+3+1 has room for seven, but for one
        # slice.
        (
            ("b1/r1: 3 3 1", "b1/r2: 2 2"),
            EqualPods(8, layers=(SegmentLayer(RACK, 4), SegmentLayer(NODE, 2))),
            {"b1/r1": 4, "b1/r2": 4},
        ),
        # Segments inside a required block and as few racks as possible.
        (
            ("b1/r1: 4", "b1/r2: 4", "b2/r1: 9"),
            EqualPods(8, required=BLOCK, preferred=RACK, layers=(SegmentLayer(RACK, 4),)),
            {"b2/r1": 8},
        ),
        # Segments wider than what is preferred: five and three in one block, not five and the other block's three.
        (
            ("b1/r1: 5", "b1/r2: 3", "b2/r1: 3"),
            EqualPods(8, preferred=RACK, layers=(SegmentLayer(BLOCK, 4),)),
            {"b1/r1": 5, "b1/r2": 3},
        ),
        (
            ("b1/r1: 5", "b1/r2: 3", "b2/r1: 4"),
            EqualPods(8, preferred=RACK, layers=(SegmentLayer(BLOCK, 4),)),
            {"b1/r1": 5, "b1/r2": 3},
        ),
        # The same where a slice has to be alone in its block.
        (
            ("b1/r1: 8", "b2/r1: 3", "b2/r2: 3"),
            EqualPods(8, preferred=RACK, layers=(SegmentLayer(BLOCK, 4, apart=True),)),
            {"b1/r1": 4, "b2/r1": 3, "b2/r2": 1},
        ),
        # A layer at or above the required level is kept by itself.
        (("b1/r1: 8", "b2/r1: 9"), EqualPods(8, required=RACK, layers=(SegmentLayer(BLOCK, 4),)), {"b1/r1": 8}),
        # On one node, though the other rack has fewer slots besides.
        (("b1/r1: 1 2", "b1/r2: 1 1"), EqualPods(2, required=RACK, layers=(SegmentLayer(RACK, 2),)), {"b1/r1": 2}),
    ],
)
def test_slices_stay_whole(lines: tuple[str, ...], wish: EqualPods, expected: dict[str, int]) -> None:
    tree, slots = racks(*lines)
    found = place_equal(tree, slots, wish)
    assert found.counts is not None
    assert by_rack(tree, found.counts) == expected
    for layer in wish.layers:
        assert not (tree.sums(found.counts, layer.level) % layer.size).any()


@pytest.mark.parametrize("level", [BLOCK, RACK])
def test_slices_apart_cannot_be_in_one_domain(level: int) -> None:
    tree, slots = racks("b1/r1: 8 8")
    found = place_equal(tree, slots, EqualPods(8, required=RACK, layers=(SegmentLayer(level, 4, apart=True),)))
    assert found.counts is None
    assert found.most == 4


def test_many_domains_are_searched_approximately_but_counted_exactly() -> None:
    tree, slots = racks(*(f"b1/r{number}: {100 + number % 7}" for number in range(200)))
    found = place_equal(tree, slots, EqualPods(5_000, preferred=RACK))
    assert found.counts is not None
    assert int(found.counts.sum()) == 5_000
    assert found.domains == 48
