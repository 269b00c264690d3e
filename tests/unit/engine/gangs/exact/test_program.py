"""The integer program: what it minimises, what it keeps, and what it says when it cannot tell."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.exact import program, solver
from bayplan.engine.gangs.exact.solver import GUARD, OUT_OF_WORK, Program, SolverStatus
from bayplan.engine.gangs.problem import Mix, Part, Problem, Solution, Status, domains_used, preferred_domains
from tests.unit.engine.gangs.small_trees import BLOCK, RACK, equal_pods, gang, group, pods_of, racks

BYTES = 2**30


def two_shapes(lines: tuple[str, ...], parts: Sequence[Part], memory: Sequence[int], free: Sequence[float]) -> Problem:
    """Shapes that take so much memory; slots are only bounded by what each takes alone."""
    tree, _ = racks(*lines)
    room = np.array(free)
    slots = tuple(np.maximum(room // amount, 0).astype(np.int64) for amount in memory)
    return Problem(tree, tuple(parts), slots, np.array([[float(amount)] for amount in memory]), room[np.newaxis, :])


def by_position(problem: Problem, solution: Solution) -> list[tuple[int, ...]]:
    """Per position how many pods of each shape."""
    counts = np.zeros((len(problem.slots), problem.tree.size), dtype=np.int64)
    for placed in solution.placed:
        for shape, spots in placed.items():
            counts[shape, spots.positions] += spots.counts
    return [tuple(column) for column in counts.T.tolist()]


@pytest.mark.parametrize(
    "lines, parts, domains",
    [
        (("b1/r1: 4", "b1/r2: 4", "b1/r3: 8"), [gang(0, None, RACK), group("a", 4, RACK), group("b", 4, RACK)], 1),
        (("b1/r1: 4", "b1/r2: 4", "b1/r3: 5"), [gang(0, None, RACK), group("a", 4, RACK), group("b", 4, RACK)], 2),
        # Each group's own wish counts: together they would be in two racks, alone each is in one.
        (
            ("b1/r1: 3", "b1/r2: 3"),
            [gang(), structs.replace(group("a", 3), preferred=RACK), structs.replace(group("b", 3), preferred=RACK)],
            2,
        ),
        # Many wishes about much room must not add up to a domain.
        (
            ("b1/r1: 60", "b1/r2: 30", "b1/r3: 30"),
            [gang(), *(structs.replace(group(f"g{number}", 15), preferred=RACK) for number in range(4))],
            4,
        ),
    ],
)
def test_as_few_preferred_domains_as_possible(lines: tuple[str, ...], parts: list[Part], domains: int) -> None:
    problem = equal_pods(*racks(*lines), *parts)
    solution = program.solve(problem, Budget())
    assert (solution.status, solution.gap) == (Status.OPTIMAL, 0)
    assert preferred_domains(problem, solution) == domains


def test_of_equally_few_the_ones_with_the_least_room() -> None:
    problem = equal_pods(*racks("b1/r1: 9", "b1/r2: 4", "b1/r3: 6"), gang(0, None, RACK), group("a", 4, RACK))
    assert by_position(problem, program.solve(problem, Budget())) == [(0,), (4,), (0,)]


def test_mixed_sizes_on_nodes_that_hold_them_exactly() -> None:
    # 4, 1, 1 and 1 on nodes of 4 and 3: counting every pod as the largest would say no.
    problem = two_shapes(("b1/r1: 0 0",), [Part("", -1, pods_of(1, 3))], (4, 1), (4, 3))
    assert by_position(problem, program.solve(problem, Budget())) == [(1, 0), (0, 3)]


def test_amounts_are_exact_to_the_byte() -> None:
    parts = [Part("", -1, pods_of(1, 1))]
    enough = two_shapes(("b1/r1: 0",), parts, (40 * BYTES, 24 * BYTES), (64 * BYTES,))
    assert program.solve(enough, Budget()).found
    one_byte_less = replace(enough, free=enough.free - 1.0)
    assert program.solve(one_byte_less, Budget()).status is Status.INFEASIBLE


def test_a_node_that_has_less_than_nothing_keeps_others_in_business() -> None:
    # Overcommitted memory: a pod that asks for none can still go there.
    tree, _ = racks("b1/r1: 0 0")
    slots = (np.array([0, 2]), np.array([3, 3]))
    problem = Problem(tree, (Part("", -1, pods_of(2, 4)),), slots, np.array([[1.0], [0.0]]), np.array([[-5.0, 2.0]]))
    solution = program.solve(problem, Budget())
    assert solution.found
    assert [shapes[0] for shapes in by_position(problem, solution)] == [0, 2]


def test_required_domains_homes_and_distance() -> None:
    apart = [structs.replace(group(name, 2, RACK, parent=1), apart=0) for name in ("a", "b")]
    problem = equal_pods(*racks("b1/r1: 4", "b1/r2: 2", "b2/r1: 9"), gang(), group("all", 0, BLOCK), *apart)
    solution = program.solve(problem, Budget())
    assert by_position(problem, solution) == [(2,), (2,), (0,)]
    bound = replace(problem, parts=(*problem.parts[:1], structs.replace(problem.parts[1], home=1), *problem.parts[2:]))
    assert program.solve(bound, Budget()).status is Status.INFEASIBLE


def test_domains_where_members_run_cost_nothing_more() -> None:
    whole = structs.replace(gang(2, None, RACK), running_at=(1,))
    problem = equal_pods(*racks("b1/r1: 2", "b1/r2: 2"), whole)
    solution = program.solve(problem, Budget())
    assert by_position(problem, solution) == [(0,), (2,)]
    assert domains_used(problem, solution, 0) == 1


class Zones:
    """A node takes one pod of each shape, but not two of one beside one of the other. Nodes are all alike."""

    gave_up = False

    def __init__(self, positions: int) -> None:
        self.positions = positions
        self.asked: list[tuple[int, Mix]] = []

    def admits(self, position: int, counts: Mix) -> bool:
        return self.refused(position, counts) is None

    def refused(self, position: int, counts: Mix) -> tuple[Mix, Sequence[int]] | None:
        self.asked.append((position, counts))
        mix = dict(counts)
        if mix.get(0, 0) >= 2 and mix.get(1, 0) >= 1:
            return ((0, 2), (1, 1)), range(self.positions)
        return None


@pytest.mark.parametrize("nodes, found", [(2, True), (1, False)])
def test_mixes_that_a_kubelet_refuses_are_cut_off_on_all_equal_nodes(nodes: int, found: bool) -> None:
    problem = two_shapes((f"b1/r1: {'0 ' * nodes}",), [Part("", -1, pods_of(2, 1))], (1, 1), [3] * nodes)
    zones = Zones(nodes)
    solution = program.solve(replace(problem, mixes=zones), Budget())
    assert solution.found is found
    assert all(counts != (2, 1) for counts in by_position(problem, solution)) if found else not solution.placed
    assert len(zones.asked) <= nodes


def test_what_rests_on_orders_that_were_not_tried_is_no_proof() -> None:
    zones = Zones(1)
    zones.gave_up = True
    problem = two_shapes(("b1/r1: 0",), [Part("", -1, pods_of(2, 1))], (1, 1), [3])
    assert program.solve(replace(problem, mixes=zones), Budget()).status is Status.LIMIT_REACHED


def test_no_time_and_no_solver_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = equal_pods(*racks("b1/r1: 4", "b1/r2: 4"), gang(0, None, RACK), group("a", 3, RACK), group("b", 3, RACK))
    monkeypatch.setattr(program, "MOST_VARIABLES", 1)
    assert program.solve(problem, Budget()).bound == "too large for an exact search"
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "highspy", None)
    solution = program.solve(problem, Budget())
    assert solution.status is Status.LIMIT_REACHED
    assert solution.bound == "highspy is not installed (pip install bayplan[exact])"


def packing(pods: int, bins: int) -> Program:
    """Pods of sizes 2 to 9 into as few bins of 14 as possible."""
    program_ = Program()
    takes = {(pod, each): program_.variable(1.0) for pod in range(pods) for each in range(bins)}
    used = [program_.variable(1.0, 1.0) for _ in range(bins)]
    for pod in range(pods):
        program_.row([(takes[pod, each], 1.0) for each in range(bins)], 1.0, 1.0)
    for each in range(bins):
        sizes = [(takes[pod, each], float(2 + pod * 5 % 8)) for pod in range(pods)]
        program_.row([*sizes, (used[each], -14.0)], upper=0.0)
    return program_


def test_the_solver_stops_when_its_work_is_done_and_says_so() -> None:
    answers = [packing(40, 24).solve(Budget(100_000)) for _ in range(2)]
    assert {answer.why for answer in answers} == {OUT_OF_WORK}
    assert answers[0].status is answers[1].status is not SolverStatus.BEST
    assert answers[0].values.tolist() == answers[1].values.tolist()


def test_a_clock_that_strikes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "GUARD_SECONDS", 0.0)
    assert packing(40, 24).solve(Budget()).why == GUARD
