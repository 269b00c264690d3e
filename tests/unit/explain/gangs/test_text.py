"""What is said about a gang, for outcomes that are hard to come by in a small cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayplan.cluster.topology.tree import distances_among
from bayplan.engine.gangs.problem import Status
from bayplan.explain.gangs.document import gang_document
from bayplan.explain.gangs.outcome import GangOutcome, missing_labels, seat_rows
from bayplan.explain.gangs.text import gang_text
from bayplan.gangs.model import GangDecision, Seat

LEVELS = ("example.com/block", "example.com/rack")


def seats(*places: str, groups: str = "") -> tuple[Seat, ...]:
    """One pod on each of these nodes, written as block/rack/node; a letter for the group of each."""
    found = []
    for rank, (place, group) in enumerate(zip(places, groups or " " * len(places), strict=True)):
        path = tuple(place.split("/"))
        found.append(Seat(f"ml/g-{rank}", group.strip(), path[-1], path, rank))
    return tuple(found)


def outcome(status: Status, bound: str = "", *, gap: int = 0, on: tuple[Seat, ...] = ()) -> GangOutcome:
    return GangOutcome(GangDecision("ml/g", status, bound, on, gap), "net", LEVELS, 8, ())


@pytest.mark.parametrize(
    "told, answer",
    [
        (
            outcome(Status.FEASIBLE, gap=1, on=seats("b1/r1/n1", "b1/r2/n2")),
            "ml/g fits: block b1, 2 racks, 2 nodes (feasible, at most 1 domain more than needed)",
        ),
        (outcome(Status.FEASIBLE, on=seats("b1/r1/n1")), "ml/g fits: block b1, rack r1, node n1 (feasible)"),
        (
            outcome(Status.INFEASIBLE, "group a needs 9 slots in one example.com/rack, but can get at most 8"),
            "ml/g does not fit: group a needs 9 slots in one rack, but can get at most 8.",
        ),
        (outcome(Status.LIMIT_REACHED, "no answer in 5 s"), "ml/g might not fit: no answer in 5 s."),
    ],
)
def test_the_first_line_says_how_much_is_known(told: GangOutcome, answer: str) -> None:
    assert gang_text(told).partition("\n")[0] == answer
    assert gang_document(told)["answer"] == answer


@pytest.mark.parametrize(
    "status, last",
    [
        (Status.INFEASIBLE, "Proven: there is no place for it as long as nothing changes."),
        (Status.LIMIT_REACHED, "Not proven: bayplan cannot tell whether there is a place for it."),
    ],
)
def test_the_last_line_of_a_no_says_whether_it_is_proven(status: Status, last: str) -> None:
    assert gang_text(outcome(status, "whatever")).splitlines()[-1] == last


def test_what_was_not_searched_is_not_called_proven() -> None:
    wrong = replace(outcome(Status.INFEASIBLE, "x"), decision=GangDecision("ml/g", Status.INFEASIBLE, "x", problem="x"))
    assert "roven" not in gang_text(wrong)


@pytest.mark.parametrize("nodes, told", [(("n1", "n1"), False), (("n1", "n2"), True)])
def test_distances_are_told_only_between_nodes(nodes: tuple[str, ...], told: bool) -> None:
    places = seats(*(f"b1/r1/{node}" for node in nodes))
    placed = replace(outcome(Status.OPTIMAL, on=places), distances=distances_among([seat.path for seat in places]))
    assert ("distance  at most" in gang_text(placed)) is told


def test_seats_are_gathered_by_rack_and_group_in_the_order_of_ranks() -> None:
    places = seats("b1/r1/n1", "b1/r1/n2", "b1/r2/n3", "b1/r1/n1", groups="aabb")
    rows = seat_rows(places)
    assert seat_rows((*places[2:], *places[:2])) == rows
    assert [(row.domain, row.group, row.ranks, row.nodes) for row in rows] == [
        (("b1", "r1"), "a", (0, 1), ("n1", "n2")),
        (("b1", "r2"), "b", (2,), ("n3",)),
        (("b1", "r1"), "b", (3,), ("n1",)),
    ]


def test_outsiders_are_gathered_by_the_label_they_lack() -> None:
    assert missing_labels({"a": "rack", "b": "block", "c": "block"}) == (("block", ("b", "c")), ("rack", ("a",)))
