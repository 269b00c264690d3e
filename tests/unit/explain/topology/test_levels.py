"""Levels and domains in words."""

import pytest

from bayplan.cluster.topology.tree import Path
from bayplan.explain.amounts import count
from bayplan.explain.topology.levels import domain_name, in_short, place_phrase, ranks_text, short_levels

LEVELS = ("example.com/block", "example.com/rack")


@pytest.mark.parametrize(
    "levels, names",
    [
        (LEVELS, ("block", "rack", "node")),
        (("zone",), ("zone", "node")),
        (("a.io/rack", "b.io/rack"), ("a.io/rack", "b.io/rack", "node")),
        (("a.io/node",), ("a.io/node", "node")),
        ((), ("node",)),
    ],
)
def test_a_level_is_called_by_its_last_part_unless_two_look_alike(
    levels: tuple[str, ...], names: tuple[str, ...]
) -> None:
    assert short_levels(levels) == names


@pytest.mark.parametrize(
    "paths, phrase",
    [
        ([("b2", "r1", "n1")], "block b2, rack r1, node n1"),
        ([("b2", "r1", "n1"), ("b2", "r1", "n2")], "block b2, rack r1, 2 nodes"),
        ([("b2", "r1", "n1"), ("b2", "r2", "n2")], "block b2, 2 racks, 2 nodes"),
        ([("b1", "r1", "n1"), ("b2", "r1", "n2")], "2 blocks, 2 racks, 2 nodes"),
        ([("block-2", "rack7", "n1")], "block-2, rack7, node n1"),
    ],
)
def test_what_is_shared_is_named_and_the_rest_is_count(paths: list[Path], phrase: str) -> None:
    assert place_phrase(LEVELS, paths) == phrase


def test_sentences_use_the_short_names() -> None:
    assert in_short("40 slots in one example.com/block", LEVELS) == "40 slots in one block"


@pytest.mark.parametrize(
    "number, noun, words",
    [(1, "rack", "1 rack"), (2, "rack", "2 racks"), (0, "node", "0 nodes"), (3, "switch", "3 switches")],
)
def test_plurals(number: int, noun: str, words: str) -> None:
    assert count(number, noun) == words


def test_a_value_that_says_what_it_is_needs_no_level_before_it() -> None:
    assert [domain_name("rack", value) for value in ("7", "rack-7", "Rack7", "r7")] == [
        "rack 7",
        "rack-7",
        "Rack7",
        "rack r7",
    ]


@pytest.mark.parametrize("ranks, text", [([0], "0"), ([0, 1, 2], "0-2"), ([5, 1, 2, 9, 8], "1-2,5,8-9"), ([], "")])
def test_ranks_are_written_as_ranges(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text
