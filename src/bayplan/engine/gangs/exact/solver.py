"""HiGHS, limited by work: simplex iterations, branch nodes and checkpoints. The clock is only a guard.

One thread and no reachable time limit make it deterministic. `highspy` is an optional dependency (`pip install
bayplan[exact]`). Without it bayplan still counts, packs and searches, and reports `highspy is not installed` if only a
program could decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget

NOT_INSTALLED = "highspy is not installed (pip install bayplan[exact])"
OUT_OF_WORK = "exact search: out of work"
GUARD = "exact search: stopped by its clock, which is only a guard: the machine is overloaded"
GUARD_SECONDS = 60.0
# Measured: an iteration of the simplex takes 20 to 200 us, by the size of the program; between two checkpoints there
# are 10 to 300 of them.
WORK_OF_AN_ITERATION = 60
WORK_OF_A_CHECKPOINT = 15_000
WORK_OF_A_NODE = 500
FIRST_TRY = 150_000


class SolverStatus(Enum):
    """What came of a program."""

    BEST = auto()
    SOME = auto()
    NONE = auto()
    STOPPED = auto()


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """Values of the variables, if any; no solution costs less than `least`. `why` says what stopped the solver."""

    status: SolverStatus
    values: NDArray[np.float64]
    least: float = 0.0
    why: str = ""


@dataclass
class Program:
    """Integer variables from 0 to `most` with a cost each, and sparse rows with a lower and an upper bound."""

    cost: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def variable(self, most: float, cost: float = 0.0) -> int:
        """A new variable's column."""
        self.cost.append(cost)
        self.most.append(most)
        return len(self.cost) - 1

    def row(self, entries: list[tuple[int, float]], lower: float = -np.inf, upper: float = np.inf) -> None:
        """A new constraint."""
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)
        for column, value in entries:
            self.columns.append(column)
            self.values.append(value)

    def solve(self, budget: Budget) -> SolverAnswer:
        """Minimise the cost with the rest of a budget.

        Without costs, the question is only feasibility. Its time depends on luck: one in ten takes ten times as long.
        So it restarts with another seed and twice the work each time.
        """
        if any(self.cost):
            return self._solve(budget, 0)
        work, seed = FIRST_TRY, 0
        while True:
            answer = self._solve(budget.at_most(work), seed)
            if answer.status is not SolverStatus.STOPPED or answer.why != OUT_OF_WORK or budget.is_spent:
                return answer
            work, seed = 2 * work, seed + 1

    def _solve(self, budget: Budget, seed: int) -> SolverAnswer:
        nothing = np.zeros(0)
        try:
            import highspy
        except ImportError:
            return SolverAnswer(SolverStatus.STOPPED, nothing, why=NOT_INSTALLED)
        if budget.is_spent:
            return SolverAnswer(SolverStatus.STOPPED, nothing, why=OUT_OF_WORK)
        if not self.cost:
            holds = all(lower <= 0.0 <= upper for lower, upper in zip(self.lower, self.upper, strict=True))
            return SolverAnswer(SolverStatus.BEST if holds else SolverStatus.NONE, nothing)
        solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.silent()
        solver.setOptionValue("time_limit", GUARD_SECONDS)
        solver.setOptionValue("mip_max_nodes", 1 + int(budget.left / WORK_OF_A_NODE))
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("random_seed", seed)
        iterations = 1 + int(budget.left / WORK_OF_AN_ITERATION)
        # This limits each linear program; their sum is checked whenever the solver asks.
        solver.setOptionValue("simplex_iteration_limit", iterations)
        checkpoints = _stop_after(solver, 2 + int(budget.left / WORK_OF_A_CHECKPOINT), iterations)
        solver.passModel(self._model(highspy))
        solver.run()
        known, status = solver.getInfo(), solver.getModelStatus()
        work = known.simplex_iteration_count * WORK_OF_AN_ITERATION + max(known.mip_node_count, 0) * WORK_OF_A_NODE
        budget.spend(max(work, (1 + len(checkpoints)) * WORK_OF_A_CHECKPOINT))
        # Every variable has bounds, so that only one reading is left of the second.
        if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
            return SolverAnswer(SolverStatus.NONE, nothing)
        why = GUARD if status == highspy.HighsModelStatus.kTimeLimit else OUT_OF_WORK
        values = np.asarray(solver.getSolution().col_value)
        if not len(values) or known.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return SolverAnswer(SolverStatus.STOPPED, nothing, why=why)
        if status == highspy.HighsModelStatus.kOptimal:
            return SolverAnswer(SolverStatus.BEST, values, float(known.objective_function_value))
        return SolverAnswer(SolverStatus.SOME, values, float(known.mip_dual_bound), why)

    def _model(self, highspy: Any) -> Any:
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.lower)
        lp.col_cost_ = np.array(self.cost)
        lp.col_lower_ = np.zeros(len(self.cost))
        lp.col_upper_ = np.array(self.most)
        lp.row_lower_ = np.array(self.lower)
        lp.row_upper_ = np.array(self.upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array([*self.starts, len(self.columns)], dtype=np.int32)
        lp.a_matrix_.index_ = np.array(self.columns, dtype=np.int32)
        lp.a_matrix_.value_ = np.array(self.values)
        lp.integrality_ = [highspy.HighsVarType.kInteger] * len(self.cost)
        return lp


def _stop_after(solver: Any, checkpoints: int, iterations: int) -> list[int]:
    """Interrupt a solver at its n-th checkpoint or after some iterations; the list has the checkpoints passed."""
    seen: list[int] = []

    def check(event: Any) -> None:
        seen.append(1)
        if len(seen) >= checkpoints or event.data_out.simplex_iteration_count >= iterations:
            event.interrupt()

    solver.cbMipInterrupt.subscribe(check)
    return seen
