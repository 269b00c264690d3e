"""Pods on the nodes of one domain: few nodes are filled without NumPy, with the same result."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.groups import nodes
from bayplan.engine.gangs.groups.nodes import Fill, Nodes
from bayplan.engine.gangs.problem import Part, Problem
from tests.unit.engine.gangs.small_trees import racks

SHAPES = 3
RESOURCES = 2


def random_problem(random: Random) -> Problem:
    """One rack of up to twelve nodes, some of them overcommitted or with fewer slots than their amounts allow."""
    size = random.randint(1, 12)
    tree, _ = racks("b1/r1: " + " ".join(["1"] * size))
    amounts = np.array([[random.randint(0, 3) for _ in range(RESOURCES)] for _ in range(SHAPES)], dtype=np.float64)
    free = np.array([[random.randint(-1, 9) for _ in range(size)] for _ in range(RESOURCES)], dtype=np.float64)
    slots = tuple(np.array([random.randint(0, 6) for _ in range(size)]) for _ in range(SHAPES))
    return Problem(tree, (Part("", -1, dict.fromkeys(range(SHAPES), 1)),), slots, amounts, free)


@pytest.mark.parametrize("fill", Fill)
@pytest.mark.parametrize("seed", range(200))
def test_few_nodes_are_filled_as_many_are(seed: int, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    problem = random_problem(random)
    # The first shape comes twice: its own pods take slots, too.
    wanted = [(shape, random.randint(2, 5)) for shape in (0, 1, 2, 0)]
    found = []
    for few in (0, nodes.FEW_NODES):
        monkeypatch.setattr(nodes, "FEW_NODES", few)
        asked = Nodes(problem, Budget())
        filling = asked.added(asked.empty(0, problem.tree.size), wanted, fill)
        found.append(
            filling
            and (
                filling.free.tolist(),
                {shape: (spots.positions.tolist(), spots.counts.tolist()) for shape, spots in filling.spots.items()},
            )
        )
    assert found[0] == found[1]
