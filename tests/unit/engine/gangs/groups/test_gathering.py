"""Groups that move closer to each other, and those that have nowhere to move to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups import gathering
from bayplan.engine.gangs.groups.gathering import gathered
from bayplan.engine.gangs.problem import Spots
from tests.unit.engine.gangs.small_trees import RACK, equal_pods, gang, group, racks


def spots(*positions: int) -> Spots:
    return Spots(np.array(positions, dtype=np.intp), np.ones(len(positions), dtype=np.int64))


@pytest.mark.parametrize(
    "lines, looks_for_another",
    [
        pytest.param(("b1/r1: 4 4 4 4", "b1/r2: 4"), True, id="another rack"),
        pytest.param(("b1/r1: 4 4 4 4",), False, id="only one rack"),
    ],
)
def test_a_group_in_every_domain_of_its_level_is_not_moved(
    monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], *, looks_for_another: bool
) -> None:
    asked: list[Any] = []
    with_room = gathering._with_room

    def watched(*of: Any) -> Any:
        asked.append(of)
        return with_room(*of)

    monkeypatch.setattr(gathering, "_with_room", watched)
    problem = equal_pods(*racks(*lines), gang(), group("a", 2, RACK), group("b", 2, RACK))
    gathered(problem, ({}, {0: spots(0, 1)}, {0: spots(2, 3)}), Budget())
    assert bool(asked) is looks_for_another
