"""Which part of a gang starts, where the search cannot settle every part: nothing is called the best then."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.model import Group
from bayplan.gangs.plans import best_part
from tests.builders.objects import simple_pod
from tests.unit.gangs.scripted_attempt import ScriptedAttempt


@pytest.mark.parametrize(
    "beyond, seated, status",
    [
        # Four fit; whether five or six do is refuted, or not known.
        (Status.INFEASIBLE, 4, Status.OPTIMAL),
        (Status.LIMIT_REACHED, 4, Status.FEASIBLE),
    ],
)
def test_a_part_is_optimal_only_if_every_larger_one_is_refuted(beyond: Status, seated: int, status: Status) -> None:
    root = Group(pods=tuple(simple_pod({"cpu": 1}, f"p{number}") for number in range(6)), minimum=2)
    attempt = ScriptedAttempt(root, lambda part: Status.OPTIMAL if len(part.pods) <= 4 else beyond)
    outcome = best_part(attempt)
    assert (len(outcome.part.pods), outcome.status) == (seated, status)


def test_where_no_pod_must_start_and_none_can_the_smallest_part_says_why() -> None:
    root = Group(pods=tuple(simple_pod({"cpu": 1}, f"p{number}") for number in range(4)), minimum=0)
    outcome = best_part(ScriptedAttempt(root, lambda part: Status.INFEASIBLE if part.pods else Status.OPTIMAL))
    assert (outcome.found, outcome.status, len(outcome.part.pods)) == (False, Status.INFEASIBLE, 1)


def test_nothing_is_known_if_not_even_the_minimum_is_settled() -> None:
    root = Group(pods=(simple_pod({"cpu": 1}, "a"), simple_pod({"cpu": 1}, "b")), minimum=1)
    outcome = best_part(ScriptedAttempt(root, lambda _: Status.LIMIT_REACHED))
    assert (outcome.found, outcome.status) == (False, Status.LIMIT_REACHED)


def test_without_time_the_largest_groups_are_left_out_by_halving() -> None:
    """Sixty-four groups, of which those up to size 20 have a place: a handful of questions, not one for each way to
    leave some out.
    """
    sizes = range(1, 65)
    groups = tuple(
        Group(f"g{size}", tuple(simple_pod({"cpu": 1}, f"g{size}-{number}") for number in range(size)))
        for size in sizes
    )
    asked: list[int] = []

    def status_of(part: Group) -> Status:
        asked.append(len(part.groups))
        return Status.FEASIBLE if len(part.groups) <= 20 else Status.LIMIT_REACHED

    outcome = best_part(ScriptedAttempt(Group(groups=groups, minimum_groups=1), status_of, Budget(0.0)))
    assert [len(group.pods) for group in outcome.part.groups] == list(range(1, 21))
    assert outcome.status is Status.FEASIBLE
    assert len(asked) < 12


def equal_groups(number: int, minimum: int) -> Group:
    groups = (Group(f"g{each}", (simple_pod({"cpu": 1}, f"g{each}"),)) for each in range(number))
    return Group(groups=tuple(groups), minimum_groups=minimum)


def test_larger_parts_are_tried_where_the_smallest_is_undecided() -> None:
    attempt = ScriptedAttempt(
        equal_groups(8, 1), lambda part: Status.FEASIBLE if len(part.groups) == 5 else Status.LIMIT_REACHED
    )
    outcome = best_part(attempt)
    assert (len(outcome.part.groups), outcome.status) == (5, Status.FEASIBLE)


class Uneven(ScriptedAttempt):
    """An attempt for pods with spread constraints: without them, everything fits."""

    is_monotone = False

    def only_forbidding(self) -> ScriptedAttempt:
        return ScriptedAttempt(self.root, lambda _: Status.OPTIMAL)


@pytest.mark.parametrize(
    "number, fitting, most, status",
    [
        pytest.param(9, {7}, 7, Status.OPTIMAL, id="one after another"),
        pytest.param(300, {7, *range(100, 151)}, 150, Status.FEASIBLE, id="too many to try each"),
        pytest.param(800, set(range(0, 401, 4)), 400, Status.FEASIBLE, id="only every fourth number"),
        pytest.param(9, set(), 1, Status.INFEASIBLE, id="none"),
    ],
)
def test_where_fewer_groups_can_be_harder_than_more(number: int, fitting: set[int], most: int, status: Status) -> None:
    attempt = Uneven(
        equal_groups(number, 1), lambda part: Status.OPTIMAL if len(part.groups) in fitting else Status.INFEASIBLE
    )
    outcome = best_part(attempt)
    assert (len(outcome.part.groups), outcome.status) == (most, status)


def thousand_groups(memory: Callable[[int], int]) -> Group:
    groups = (
        Group(f"g{number}", (simple_pod({"cpu": 1, "memory": memory(number)}, f"g{number}"),)) for number in range(1000)
    )
    return Group(groups=tuple(groups), minimum_groups=100)


@pytest.mark.parametrize(
    "memory, status, questions",
    [
        pytest.param(lambda _: 1000, Status.OPTIMAL, 15, id="alike: only their number matters"),
        pytest.param(lambda number: 1000 + number, Status.FEASIBLE, 220, id="unlike: not every choice is tried"),
    ],
)
def test_a_thousand_optional_groups_take_few_questions_and_little_work(
    memory: Callable[[int], int], status: Status, questions: int
) -> None:
    asked: list[int] = []

    def status_of(part: Group) -> Status:
        asked.append(len(part.groups))
        return Status.OPTIMAL if len(part.groups) <= 700 else Status.INFEASIBLE

    started = time.thread_time()
    outcome = best_part(ScriptedAttempt(thousand_groups(memory), status_of))
    assert (len(outcome.part.groups), outcome.status) == (700, status)
    assert len(asked) <= questions
    assert time.thread_time() - started < 5  # 52 s when each part was made from the one before


def test_groups_inside_groups_are_left_out_where_the_outer_ones_must_stay() -> None:
    def outer(name: str, sizes: Sequence[int]) -> Group:
        inner = (
            Group(f"{name}{size}", tuple(simple_pod({"cpu": 1}, f"{name}{size}-{each}") for each in range(size)))
            for size in sizes
        )
        return Group(name, groups=tuple(inner), minimum_groups=1)

    root = Group(groups=(outer("a", (1, 2, 3)), outer("b", (4, 5))))

    def status_of(part: Group) -> Status:
        pods = sum(len(group.pods) for group in part.every_group())
        return Status.OPTIMAL if pods <= 7 else Status.INFEASIBLE

    outcome = best_part(ScriptedAttempt(root, status_of))
    assert [[group.name for group in each.groups] for each in outcome.part.groups] == [["a1", "a2"], ["b4"]]
    assert outcome.status is Status.OPTIMAL
