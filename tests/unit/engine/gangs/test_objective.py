"""Goals by name and in order."""

from __future__ import annotations

import re

import pytest

from bayplan.engine.gangs.objective import USUAL, in_order, objective_of


@pytest.mark.parametrize(
    "names, order",
    [
        ([], "fewest-domains, then mean-distance, then fewest-nodes, then least-leftover, then closest"),
        (["closest"], "closest, then fewest-domains, then mean-distance, then fewest-nodes, then least-leftover"),
        (
            ["least-leftover", "closest"],
            "least-leftover, then closest, then fewest-domains, then mean-distance, then fewest-nodes",
        ),
    ],
)
def test_goals_that_are_named_come_first(names: list[str], order: str) -> None:
    assert in_order(objective_of(names)) == order
    assert set(objective_of(names)) == set(USUAL)


@pytest.mark.parametrize(
    "names, message",
    [
        (["nearest"], '"nearest" must be one of fewest-domains, mean-distance, fewest-nodes, least-leftover, closest'),
        (["closest", "closest"], '"closest" is there twice'),
        ([""], '"" must be one of fewest-domains, mean-distance, fewest-nodes, least-leftover, closest'),
    ],
)
def test_other_names_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        objective_of(names)
