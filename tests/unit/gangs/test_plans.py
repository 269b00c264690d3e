"""Which part of a gang starts, where the search cannot settle every part: nothing is called the best then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.budget import Budget
from bayplan.engine.gangs.problem import Problem, Solution, Status
from bayplan.gangs.model import Group
from bayplan.gangs.numbers import NO_SUMS, Outline, Tried
from bayplan.gangs.plans import best_part
from tests.helpers import simple_pod
from tests.unit.engine.gangs.small_trees import racks


def answering(status_of: Callable[[int], Status]) -> Callable[[Group], Tried]:
    """A search whose answer depends only on the number of pods."""
    tree, _ = racks("b1/r1: 1")

    def attempt(part: Group) -> Tried:
        outline = Outline(tree.levels, (), (), (), (), "")
        return Tried(outline, Problem(tree, (), (), *NO_SUMS), Solution(status_of(len(part.pods))))

    return attempt


@pytest.mark.parametrize(
    "beyond, seated, status",
    [
        # Four fit; whether five or six do is refuted, or not known.
        (Status.INFEASIBLE, 4, Status.OPTIMAL),
        (Status.LIMIT_REACHED, 4, Status.FEASIBLE),
    ],
)
def test_a_part_is_optimal_only_if_every_larger_one_is_refuted(beyond: Status, seated: int, status: Status) -> None:
    whole = Group(pods=tuple(simple_pod({"cpu": 1}, f"p{number}") for number in range(6)), minimum=2)
    attempt = answering(lambda pods: Status.OPTIMAL if pods <= 4 else beyond)
    outcome = best_part(whole, ClusterState().classes.of, attempt, Budget())
    assert (len(outcome.whole.pods), outcome.status) == (seated, status)


def test_where_nobody_must_start_and_nobody_can_the_smallest_part_says_why() -> None:
    whole = Group(pods=tuple(simple_pod({"cpu": 1}, f"p{number}") for number in range(4)), minimum=0)
    attempt = answering(lambda pods: Status.INFEASIBLE if pods else Status.OPTIMAL)
    outcome = best_part(whole, ClusterState().classes.of, attempt, Budget())
    assert (outcome.found, outcome.status, len(outcome.whole.pods)) == (False, Status.INFEASIBLE, 1)


def test_nothing_is_known_if_not_even_the_minimum_is_settled() -> None:
    whole = Group(pods=(simple_pod({"cpu": 1}, "a"), simple_pod({"cpu": 1}, "b")), minimum=1)
    outcome = best_part(whole, ClusterState().classes.of, answering(lambda _: Status.LIMIT_REACHED), Budget())
    assert (outcome.found, outcome.status) == (False, Status.LIMIT_REACHED)


def test_without_time_the_largest_groups_are_left_out_by_halving() -> None:
    """Sixty-four groups, of which those up to size 20 have a place: a handful of questions, not one for each way to leave some out."""
    sizes = range(1, 65)
    groups = tuple(
        Group(f"g{size}", tuple(simple_pod({"cpu": 1}, f"g{size}-{number}") for number in range(size)))
        for size in sizes
    )
    asked: list[int] = []
    tree, _ = racks("b1/r1: 1")

    def attempt(part: Group) -> Tried:
        asked.append(len(part.groups))
        status = Status.FEASIBLE if len(part.groups) <= 20 else Status.LIMIT_REACHED
        return Tried(Outline(tree.levels, (), (), (), (), ""), Problem(tree, (), (), *NO_SUMS), Solution(status))

    outcome = best_part(Group(groups=groups, minimum_groups=1), ClusterState().classes.of, attempt, Budget(0.0))
    assert [len(group.pods) for group in outcome.whole.groups] == list(range(1, 21))
    assert outcome.status is Status.FEASIBLE
    assert len(asked) < 12
