"""Segments that a gang would like: as many are kept as have a place together, and what was given up is said."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from random import Random

import pytest

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.attempt import PartTrial
from bayplan.gangs.model import Group, Segments
from bayplan.gangs.parts import PartOutcome
from bayplan.gangs.preferences import most_preferences, preferences_of, without_preferences
from tests.builders.objects import simple_pods
from tests.unit.gangs.scripted_attempt import ScriptedAttempt

ROW, RACK = "example.com/row", "example.com/rack"


def trial(root: Group, allows: Callable[[set[str]], bool], budget: Budget | None = None) -> PartTrial:
    """A search that finds a place for these sets of groups with segments, and for no others."""

    def status_of(part: Group) -> Status:
        sliced = {group.name for group in part.every_group() if group.segments}
        return Status.OPTIMAL if allows(sliced) else Status.INFEASIBLE

    return PartTrial(ScriptedAttempt(root, status_of, budget))


def wishing(names: str) -> Group:
    """A gang of groups, no two of the same size, whose pods would like to be in racks by pairs."""
    wish = (Segments(2, RACK, required=False),)
    return Group(
        groups=tuple(
            Group(name, simple_pods({"cpu": 1}, 2 * number), segments=wish) for number, name in enumerate(names, 1)
        )
    )


def kept(names: str, allows: Callable[[set[str]], bool]) -> tuple[set[str], bool]:
    root = wishing(names)
    parts, part = trial(root, allows), without_preferences(root)
    found = most_preferences(parts, part, parts.place(part), root)
    return {group.name for group in found.root.every_group() if group.segments}, found.proven


@pytest.mark.parametrize(
    "together, expected",
    [
        (["abc"], "abc"),
        (["ab", "c"], "ab"),
        # What the first two could have is less than what the others can.
        (["a", "bcd"], "bcd"),
        (["ad", "bd", "cd"], "ad"),
        # One that cannot be had at all spoils nothing for the others.
        (["bcd"], "bcd"),
        ([""], ""),
    ],
)
def test_as_many_wishes_are_kept_as_have_a_place_together(together: list[str], expected: str) -> None:
    assert kept("abcd", lambda optional: any(optional <= set(each) for each in together)) == (set(expected), True)


@pytest.mark.parametrize("seed", range(60))
def test_no_choice_has_more(seed: int) -> None:
    random = Random(seed)
    names = "abcdef"[: random.randint(1, 6)]
    together = [set(random.sample(names, random.randint(0, len(names)))) for _ in range(random.randint(1, 4))]

    def has_place(optional: set[str]) -> bool:
        return any(optional <= each for each in together)

    choices = (set(choice) for number in range(len(names), -1, -1) for choice in combinations(names, number))
    assert kept(names, has_place) == (next(choice for choice in choices if has_place(choice)), True)


def test_where_there_are_too_many_choices_nothing_is_called_the_most() -> None:
    names = "abcdefghijklmnop"
    # Neighbours in a ring exclude each other: eight are the most, but there are thousands of larger choices.
    ring = {frozenset(pair) for pair in zip(names, names[1:] + names[0], strict=True)}
    found, proven = kept(names, lambda optional: not any(pair <= optional for pair in ring))
    assert (len(found), proven) == (8, False)


def test_of_groups_that_differ_only_in_name_the_first_get_their_preference() -> None:
    root = Group(
        groups=tuple(
            Group(f"g{index}", simple_pods({"cpu": 1}, 2), segments=(Segments(2, RACK, required=False),))
            for index in range(64)
        )
    )
    attempts: list[int] = []

    def at_most_forty(optional: set[str]) -> bool:
        attempts.append(len(optional))
        return len(optional) <= 40

    parts, part = trial(root, at_most_forty), without_preferences(root)
    found = most_preferences(parts, part, parts.place(part), root)
    assert [group.name for group in found.root.groups if group.segments] == [f"g{index}" for index in range(40)]
    assert found.proven
    assert len(attempts) < 20


def test_without_any_time_left_no_wish_is_kept_and_nothing_is_called_the_most() -> None:
    root = wishing("ab")
    parts, part = trial(root, lambda _: True, Budget(0.0)), without_preferences(root)
    found = most_preferences(parts, part, parts.place(part), root)
    assert (found.root, found.proven) == (part, False)


def test_what_was_given_up_is_said_with_the_group() -> None:
    layers = (Segments(8, ROW, required=False), Segments(4, RACK, required=False))
    root = Group(
        pods=simple_pods({"cpu": 1}, 8),
        segments=layers,
        groups=(Group("b", simple_pods({"cpu": 1}, 4), segments=layers[1:]),),
    )
    outcome = PartOutcome(without_preferences(root), trial(root, lambda _: True).place(root))
    assert outcome.relaxed(root) == ("segments of 8", "segments of 4", "segments of 4 in group b")


def test_a_group_that_is_a_wish_itself_gives_up_its_domain() -> None:
    waits = Group("segment 1", simple_pods({"cpu": 1}, 1), required=RACK, apart="/rack", optional=True)
    runs = Group("segment 0", running=simple_pods({"cpu": 1}, 1), required=RACK, apart="/rack", optional=True)
    root = Group(groups=(runs, waits))
    assert [wish.text for wish in preferences_of(root)] == ["segment 1"]
    kept_out, freed = without_preferences(root).groups
    assert (kept_out.required, kept_out.apart) == (RACK, "/rack")
    assert (freed.required, freed.apart) == (None, None)
