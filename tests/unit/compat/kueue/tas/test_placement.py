"""Where pod sets go: required, preferred, unconstrained and implied, alone and one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.compat.kueue.tas import Assignment, Profile, place, snapshot_of
from tests.unit.compat.kueue.tas.builders import BLOCK, HOST, RACK, leaf, placed, pods, racks

# b1: racks of 5 and 4; b2: racks of 3 and 1
CLUSTER = {"b1/r1/x1": 2, "b1/r1/x2": 3, "b1/r2/x3": 4, "b2/r1/x4": 3, "b2/r2/x5": 1, "b2/r2/x6": 0}


@pytest.mark.parametrize(
    "count, level, expected",
    [
        pytest.param(1, HOST, {"x5": 1}, id="the tightest host"),
        pytest.param(3, HOST, {"x2": 3}, id="of equals the first by name"),
        pytest.param(4, RACK, {"x3": 4}, id="the tightest rack"),
        pytest.param(5, RACK, {"x1": 2, "x2": 3}, id="the only rack that is large enough"),
        pytest.param(4, BLOCK, {"x4": 3, "x5": 1}, id="the tightest block"),
        pytest.param(6, BLOCK, {"x1": 2, "x3": 4}, id="largest host first, the last one tightest"),
    ],
)
def test_required(count: int, level: str, expected: dict[str, int]) -> None:
    assert placed(racks(CLUSTER), pods(count, required=level)) == expected


def test_required_says_how_many_fit_into_the_best_domain() -> None:
    assert placed(racks(CLUSTER), pods(6, required=RACK)) == (
        'topology "default" allows to fit only 5 out of 6 pod(s). Total nodes: 6; excluded: resource "cpu": 1'
    )


@pytest.mark.parametrize(
    "count, level, expected",
    [
        pytest.param(4, RACK, {"x3": 4}, id="as required while it fits"),
        pytest.param(6, RACK, {"x1": 2, "x3": 4}, id="one level up"),
        pytest.param(6, HOST, {"x1": 2, "x3": 4}, id="two levels up"),
        pytest.param(10, RACK, {"x1": 2, "x2": 3, "x3": 4, "x5": 1}, id="several blocks at last"),
    ],
)
def test_preferred_gives_way(count: int, level: str, expected: dict[str, int]) -> None:
    assert placed(racks(CLUSTER), pods(count, preferred=level)) == expected


def test_preferred_says_how_many_fit_anywhere() -> None:
    assert placed(racks(CLUSTER), pods(14, preferred=RACK)) == (
        'topology "default" allows to fit only 13 out of 14 pod(s). Total nodes: 6; excluded: resource "cpu": 1'
    )


@pytest.mark.parametrize(
    "count, settings, expected",
    [
        pytest.param(2, {}, {"x1": 2}, id="the smallest host that holds all"),
        pytest.param(5, {}, {"x1": 2, "x2": 2, "x5": 1}, id="the smallest hosts first"),
        pytest.param(5, {"profile": Profile.BEST_FIT}, {"x3": 4, "x5": 1}, id="best fit without the profile"),
    ],
)
def test_unconstrained(count: int, settings: dict[str, Any], expected: dict[str, int]) -> None:
    assert placed(racks(CLUSTER), pods(count, unconstrained=True), **settings) == expected
    assert placed(racks(CLUSTER), pods(count, implied=True), **settings) == expected


def test_racks_as_lowest_level_are_listed_with_their_path() -> None:
    cluster = racks({"b1/r1": 2, "b1/r2": 3, "b2/r1": 4}, (BLOCK, RACK))
    outcome = place(cluster, [pods(5, required=BLOCK)])["main"]
    assert outcome.assignment == Assignment((BLOCK, RACK), ((("b1", "r1"), 2), (("b1", "r2"), 3)))


def test_nodes_of_one_rack_are_added_up_where_racks_are_lowest() -> None:
    cluster = snapshot_of("default", (BLOCK, RACK), [leaf("b1/r1", cpu=2), leaf("b1/r1", cpu=1)])
    assert placed(cluster, pods(3, required=RACK)) == {"b1/r1": 3}


def test_equal_names_under_different_parents_are_different_domains() -> None:
    cluster = racks({"b1/r1/x1": 2, "b2/r1/x2": 2})
    assert placed(cluster, pods(3, required=RACK)) == 'topology "default" allows to fit only 2 out of 3 pod(s)'


def test_domains_come_in_the_order_of_their_whole_path() -> None:
    cluster = racks({"b1/r1/x9": 1, "b2/r1/x1": 1, "b10/r1/x5": 1})
    assert list(placed(cluster, pods(3, preferred=BLOCK))) == ["x9", "x5", "x1"]


def test_a_pod_set_sees_what_the_earlier_ones_took() -> None:
    cluster = racks({"b1/r1/x1": 3, "b1/r1/x2": 2})
    first, second = pods(2, name="first", required=HOST), pods(2, name="second", required=HOST)
    assert placed(cluster, first, second) == {"first": {"x2": 2}, "second": {"x1": 2}}


def test_the_first_pod_set_that_does_not_fit_ends_it() -> None:
    cluster = racks({"b1/r1/x1": 3})
    found = placed(cluster, *(pods(2, name=name, required=HOST) for name in ("first", "second", "third")))
    assert found == {"first": {"x1": 2}, "second": 'topology "default" allows to fit only 1 out of 2 pod(s)'}


@pytest.mark.parametrize(
    "amounts, short",
    [
        ({"cpu": 0, "memory": 9}, 'resource "cpu": 1'),
        ({"cpu": 9, "memory": 0}, 'resource "memory": 1'),
        ({"cpu": 0, "memory": 0}, 'resource "cpu": 1'),
        ({"cpu": 9}, 'resource "memory": 1'),
        ({"cpu": -3, "memory": 9}, 'resource "cpu": 1'),
        ({"cpu": 9, "memory": 9, "pods": 0}, 'resource "pods": 1'),
    ],
)
def test_a_reason_names_the_scarcest_resource(amounts: dict[str, Any], short: str) -> None:
    cluster = snapshot_of("default", (HOST,), [leaf("x1", **amounts)])
    found = placed(cluster, pods(1, required=HOST, requests={"cpu": 1, "memory": 2}))
    assert found == f'topology "default" doesn\'t allow to fit any of 1 pod(s). Total nodes: 1; excluded: {short}'
