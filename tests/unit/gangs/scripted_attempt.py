"""An attempt whose answers are given: for tests of what is tried, not of where pods go."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.cluster.state import ClusterState
from bayplan.engine.budget import Budget
from bayplan.engine.gangs.problem import Problem, Solution, Status
from bayplan.gangs.attempt import GangAttempt
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.outline import NO_SUMS, Outline, Tried
from tests.builders.gangs import gang_scheduler
from tests.unit.engine.gangs.small_trees import racks


class ScriptedAttempt(GangAttempt):
    """Tries parts of a gang by asking a function for the status of each."""

    def __init__(self, root: Group, status_of: Callable[[Group], Status], budget: Budget | None = None) -> None:
        state = ClusterState()
        scheduler = gang_scheduler(state)
        super().__init__(scheduler, Gang("ml/train", root), root, racks("b1/r1: 1")[0], budget or Budget())
        self._status_of = status_of

    def place(self, part: Group) -> Tried:
        outline = Outline(self.tree.levels, (), (), (), (), "", (), 0, ())
        return Tried(outline, Problem(self.tree, (), (), *NO_SUMS), Solution(self._status_of(part)))
