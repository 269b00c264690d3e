"""The whole search: which argument settles which gang, and the sentence that says so."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from bayplan.engine.budget import Budget, OutOfWork
from bayplan.engine.gangs import closeness
from bayplan.engine.gangs import search as module
from bayplan.engine.gangs.equal.segments import SegmentLayer
from bayplan.engine.gangs.exact import program
from bayplan.engine.gangs.problem import Part, Problem, Solution, Status, domains_used, preferred_domains
from bayplan.engine.gangs.search import search
from tests.unit.engine.gangs.small_trees import BLOCK, NO_SUMS, NODE, RACK, equal_pods, gang, group, pods_of, racks

LINES = ("b1/r1: 4 4", "b1/r2: 3 3", "b2/r1: 8 2")
TWO_APART = [structs.replace(group(f"segment {number}", 1, BLOCK, parent=1), apart=0) for number in range(2)]


@pytest.mark.parametrize(
    "parts, bound",
    [
        ([gang(25)], "the gang needs 25 slots, but can get at most 24"),
        ([gang(15, BLOCK)], "the gang needs 15 slots in one block, but can get at most 14"),
        ([gang(11, RACK)], "the gang needs 11 slots in one rack, but can get at most 10"),
        ([gang(9, NODE)], "the gang needs 9 slots on one node, but can get at most 8"),
        (
            [gang(0, RACK), group("a", 8), group("b", 3)],
            "the gang needs 11 slots in one rack, but can get at most 10",
        ),
        ([gang(), group("a", 11, RACK)], "group a needs 11 slots in one rack, but can get at most 10"),
        (
            [structs.replace(gang(7, RACK), home=1)],
            "the gang needs 7 slots in b1/r2, where members run, but can get at most 6",
        ),
        (
            [gang(), *(group(f"g{number}", 6, RACK) for number in range(4))],
            "the gang needs 24 slots in groups of 6, but can get at most 18",
        ),
        (
            [gang(), *(group(f"g{number}", pods, RACK) for number, pods in enumerate((6, 6, 6, 5)))],
            "every assignment of groups to domains was tried",
        ),
        ([gang(), group("all", 0, RACK), *TWO_APART], "segments apart from each other cannot all be in one block"),
    ],
)
def test_a_no_says_what_proves_it(parts: list[Part], bound: str) -> None:
    solution = search(equal_pods(*racks(*LINES), *parts), Budget())
    assert (solution.status, solution.bound) == (Status.INFEASIBLE, bound)
    assert solution.placed == ()


@pytest.mark.parametrize(
    "whole, layer, bound",
    [
        (gang(24), SegmentLayer(RACK, 8), "the gang needs 24 slots in segments of 8, but can get at most 16"),
        (
            gang(8, BLOCK),
            SegmentLayer(RACK, 2, apart=True),
            "the gang needs 8 slots in segments of 2 in one block, but can get at most 4",
        ),
        (
            gang(8, RACK),
            SegmentLayer(BLOCK, 4, apart=True),
            "the gang needs 8 slots in segments of 4 in one rack, but can get at most 4",
        ),
    ],
)
def test_a_no_about_slices(whole: Part, layer: SegmentLayer, bound: str) -> None:
    solution = search(equal_pods(*racks(*LINES), whole), Budget(), (layer,))
    assert (solution.status, solution.bound) == (Status.INFEASIBLE, bound)


@pytest.mark.parametrize(
    "parts, bound",
    [
        ([gang()], "there is nothing to place"),
        ([gang(24)], "equal pods: counted exactly"),
        ([gang(11, None, RACK)], "equal pods: counted exactly"),
        ([gang(0, BLOCK, RACK), group("a", 4), group("b", 4)], "equal pods: counted exactly"),
        ([gang(0, BLOCK), group("a", 6, RACK), group("b", 6, RACK)], "equal pods: counted exactly"),
        ([gang(), group("a", 8, RACK), group("b", 6, RACK)], "groups packed; nothing was preferred"),
        (
            [gang(0, None, RACK), group("a", 8, RACK), group("b", 6, RACK)],
            "groups packed; no fewer than 2 preferred domains hold all pods",
        ),
        # By room alone two racks would do (10 + 8); with these groups three are needed, and only the exact search
        # knows.
        (
            [gang(0, None, RACK), group("a", 6, RACK), group("b", 6, RACK), group("c", 5, RACK)],
            "exact search: nothing uses fewer domains",
        ),
    ],
)
def test_a_yes_says_what_it_rests_on(parts: list[Part], bound: str) -> None:
    solution = search(equal_pods(*racks(*LINES), *parts), Budget())
    assert (solution.status, solution.bound, solution.gap) == (Status.OPTIMAL, bound, 0)


def test_without_time_the_answer_has_a_gap() -> None:
    parts = [gang(0, None, RACK), group("a", 6, RACK), group("b", 6, RACK), group("c", 5, RACK)]
    problem = equal_pods(*racks(*LINES), *parts)
    solution = search(problem, Budget(0.0))
    assert (solution.status, domains_used(problem, solution, 0), solution.gap) == (Status.FEASIBLE, 3, 1)
    unproven = "not proven to be the best by fewest-domains of wider levels"
    assert solution.bound == f"groups packed; exact search: out of work; {unproven}"


def test_nodes_without_labels_are_a_reason_of_their_own() -> None:
    tree, slots = racks()
    assert search(equal_pods(tree, slots, gang(1)), Budget()).bound == "no node carries all labels of the topology"


def mixed(racks_of_four: int, large: int, small: int, preferred: int | None = RACK) -> Problem:
    """Racks of four nodes with eight units each; large pods take five of them, small ones three."""
    tree, _ = racks(*(f"b1/r{number}: 0 0 0 0" for number in range(racks_of_four)))
    free = np.full((1, tree.size), 8.0)
    slots = tuple(np.full(tree.size, 8 // amount) for amount in (5, 3))
    whole = Part("", -1, pods_of(large, small), preferred=preferred)
    return Problem(tree, (whole,), slots, np.array([[5.0], [3.0]]), free)


@pytest.mark.parametrize(
    "large, small, domains",
    [(4, 4, 1), (5, 3, 2), (2, 6, 1), (8, 8, 2), (0, 9, 2), (1, 7, 1), (1, 8, 2)],
)
def test_several_shapes_share_nodes(large: int, small: int, domains: int) -> None:
    problem = mixed(4, large, small)
    solution = search(problem, Budget())
    assert (solution.status, preferred_domains(problem, solution)) == (Status.OPTIMAL, domains)


def test_a_cluster_too_large_for_one_program_is_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = mixed(40, 16, 16)
    monkeypatch.setattr(program, "MOST_VARIABLES", 100)
    solution = search(problem, Budget())
    assert (solution.status, preferred_domains(problem, solution)) == (Status.OPTIMAL, 4)
    assert solution.bound.endswith("no fewer than 4 preferred domains hold all pods")


@pytest.mark.parametrize("preferred", [RACK, None])
def test_a_no_about_several_shapes_comes_from_the_exact_search(preferred: int | None) -> None:
    solution = search(mixed(1, 4, 5, preferred), Budget())
    assert solution.status is Status.INFEASIBLE
    assert solution.bound == "exact search: no assignment of parts to domains holds them all"


def test_running_members_draw_the_others_to_them() -> None:
    tree, slots = racks("b1/r1: 2", "b1/r2: 4", "b1/r3: 2")
    whole = structs.replace(gang(2, None, RACK), running_at=(2,))
    problem = Problem(tree, (whole,), (slots,), *NO_SUMS)
    solution = search(problem, Budget())
    assert solution.placed[0][0].positions.tolist() == [2]
    assert domains_used(problem, solution, 0) == 1


def test_a_place_that_was_found_survives_the_end_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_work(*_: object) -> Solution:
        raise OutOfWork

    problem = equal_pods(*racks("b1/r1: 4", "b1/r2: 4", "b2/r1: 4"), gang(), group("a", 3, RACK), group("b", 2, RACK))
    monkeypatch.setattr(module, "close_place", lambda *_: None)
    for step in ("_in_fewer_wider_domains", "_divided_anew", "_gathered"):
        with monkeypatch.context() as patched:
            patched.setattr(closeness, step, out_of_work)
            assert search(problem, Budget()).found
