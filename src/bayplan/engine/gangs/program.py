"""The gang as an integer program, solved by HiGHS: what remains when counting and quick packing have no proof.

Variables are how many pods of a part go into a cell, which domain a part takes, and which preferred domains are touched. A cell is a
node, or, if all pods have one shape, a whole domain of the lowest level that matters: capacities add up then, and the program
stays small. Minimised are the preferred domains, then the room left over in them. Where shapes mix on a node whose kubelet looks
into zones, `Problem.mixes` is asked afterwards, and a mix it refuses is cut off (with everything larger).

`highspy` is an optional dependency; without it there is no answer from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.gangs.budget import Budget
from bayplan.engine.gangs.problem import Counts, Problem, Solution, Spots, Status, infeasible, wished_domains, within

MOST_ROUNDS = 40
# Larger programs are not even built: HiGHS would need its whole time for the presolve.
MOST_VARIABLES = 60_000
# What it takes to write a program down, measured on gangs of 8 to 64 groups: 10 to 30 us a variable.
SECONDS_PER_VARIABLE = 20e-6

Mix = tuple[int, ...]
"""How many pods of each shape meet on a node."""


def solve(problem: Problem, budget: Budget) -> Solution:
    """The best placement; `LIMIT_REACHED` if there is no time, no room or no HiGHS for one."""
    program = _Program(problem)
    if program.too_large:
        return Solution(Status.LIMIT_REACHED, bound="too large for an exact search")
    if budget.is_spent:
        return Solution(Status.LIMIT_REACHED, bound="exact search: out of time")
    program.build()
    budget.spend(len(program.cost) * SECONDS_PER_VARIABLE)
    for _ in range(MOST_ROUNDS):
        solution = program.run(budget)
        refused = _refused_mixes(problem, solution) if solution.found and problem.mixes is not None else {}
        if not refused:
            return _if_sure(problem, solution)
        for position, counts in refused:
            program.cut_off(position, counts)
    return Solution(Status.LIMIT_REACHED, bound=f"every one of {MOST_ROUNDS} exact answers had a mix no kubelet admits")


def _if_sure(problem: Problem, solution: Solution) -> Solution:
    """What is proven only as far as all orders of pods on a node were tried is not proven."""
    if problem.mixes is None or not problem.mixes.gave_up:
        return solution
    if solution.found:
        return replace(solution, status=Status.FEASIBLE, gap=wished_domains(problem, solution))
    return Solution(Status.LIMIT_REACHED, bound=f"{solution.bound}; not every order of pods on a node was tried")


def _refused_mixes(problem: Problem, solution: Solution) -> dict[tuple[int, Mix], None]:
    """Mixes of shapes that kubelets do not take together, by position: those of the solution, and the same on equal nodes."""
    assert problem.mixes is not None
    together = np.zeros((len(problem.slots), problem.tree.size), dtype=np.int64)
    for placed in solution.placed:
        for shape, spots in enumerate(placed):
            together[shape, spots.positions] += spots.counts
    refused: dict[tuple[int, Mix], None] = {}
    for position in np.flatnonzero((together > 0).sum(axis=0) > 1):
        answer = problem.mixes.refused(int(position), tuple(int(count) for count in together[:, position]))
        if answer is not None:
            smallest, positions = answer
            refused |= dict.fromkeys((each, smallest) for each in positions)
    return refused


@dataclass
class _Rows:
    """Constraints in the form HiGHS takes: sparse rows with a lower and an upper bound."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, entries: list[tuple[int, float]], lower: float = -np.inf, upper: float = np.inf) -> None:
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)
        for column, value in entries:
            self.columns.append(column)
            self.values.append(value)


class _Program:
    """Variables and constraints of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.one_shape = len(problem.shapes) == 1
        tree = problem.tree
        level = tree.node_level if not self.one_shape else max(problem.finest_level, 0)
        self.cell_level = min(level, tree.node_level)
        self.cells = self._useful_cells()
        self.rows = _Rows()
        self.cost: list[float] = []
        self.most: list[float] = []
        self.pods: dict[tuple[int, int, int], int] = {}
        self.in_cell: dict[int, list[tuple[int, int]]] = {}
        self.takes: dict[tuple[int, int], int] = {}

    @property
    def too_large(self) -> bool:
        return len(self.cells) * len(self.problem.parts) * len(self.problem.shapes) > MOST_VARIABLES

    def _useful_cells(self) -> list[int]:
        total = sum(self.problem.slots[shape] for shape in self.problem.shapes)
        return [int(cell) for cell in np.flatnonzero(self._cell_sums(np.asarray(total)))]

    def _cell_sums(self, counts: Counts) -> Counts:
        return self.problem.tree.sums(counts, self.cell_level)

    def _variable(self, most: float, cost: float = 0.0) -> int:
        self.cost.append(cost)
        self.most.append(most)
        return len(self.cost) - 1

    def build(self) -> None:
        problem = self.problem
        room = {shape: self._cell_sums(problem.slots[shape]) for shape in problem.shapes}
        for number, part in enumerate(problem.parts):
            for shape in problem.shapes:
                if part.pods[shape]:
                    self._place_all(number, shape, part.pods[shape], room[shape])
        self._respect_room(room)
        for number, part in enumerate(problem.parts):
            if not any(problem.totals[number]):
                continue
            if part.required is not None:
                self._keep_together(number, part.required)
            if part.preferred is not None:
                self._count_domains(number, part.preferred, room)
        self._keep_apart()

    def _place_all(self, number: int, shape: int, count: int, room: Counts) -> None:
        first, end = self.problem.home(number)
        mine = []
        for cell in self.cells:
            if room[cell] and first <= self.problem.tree.starts[self.cell_level][cell] < end:
                column = self.pods[number, shape, cell] = self._variable(float(min(count, room[cell])))
                mine.append((column, 1.0))
        self.rows.add(mine, lower=count, upper=count)

    def _respect_room(self, room: dict[int, Counts]) -> None:
        problem = self.problem
        for (_, shape, cell), column in self.pods.items():
            self.in_cell.setdefault(cell, []).append((shape, column))
        for cell, here in self.in_cell.items():
            for shape in problem.shapes:
                mine = [(column, 1.0) for own, column in here if own == shape]
                if mine:
                    self.rows.add(mine, upper=float(room[shape][cell]))
        if self.one_shape:
            return
        for resource in range(problem.free.shape[0]):
            # In units of what divides all amounts: bytes would be beyond the precision that HiGHS works with.
            amounts = [int(amount) for amount in problem.amounts[:, resource]]
            unit = gcd(*amounts)
            for cell, here in self.in_cell.items():
                taken = [(column, float(amounts[shape] // unit)) for shape, column in here if amounts[shape]]
                if len({shape for shape, _ in here if amounts[shape]}) > 1:
                    self.rows.add(taken, upper=float(problem.free[resource, cell] // unit))

    def _members(self, number: int) -> set[int]:
        return set(within(self.problem.parts, number))

    def _in_domains(self, number: int, level: int) -> dict[int, list[tuple[int, int, int, int]]]:
        """The part's variables by domain of a level: (part, shape, cell, column)."""
        members = self._members(number)
        found: dict[int, list[tuple[int, int, int, int]]] = {}
        for (part, shape, cell), column in self.pods.items():
            if part in members:
                found.setdefault(self._domain_of(cell, level), []).append((part, shape, cell, column))
        return found

    def _domain_of(self, cell: int, level: int) -> int:
        first, _ = self.problem.tree.bounds(self.cell_level, cell)
        return int(self.problem.tree.domain_at[level][first])

    def _keep_together(self, number: int, level: int) -> None:
        """All pods of a part in the one domain that it takes."""
        chosen = []
        for domain, variables in self._in_domains(number, level).items():
            takes = self.takes[number, domain] = self._variable(1.0)
            chosen.append((takes, 1.0))
            wanted: dict[tuple[int, int], list[int]] = {}
            for part, shape, _, column in variables:
                wanted.setdefault((part, shape), []).append(column)
            for (part, shape), columns in wanted.items():
                most = float(self.problem.parts[part].pods[shape])
                self.rows.add([(column, 1.0) for column in columns] + [(takes, -most)], upper=0.0)
        self.rows.add(chosen, lower=1.0, upper=1.0)

    def _keep_apart(self) -> None:
        """No domain is taken by two parts that avoid each other, nor by one where another of them runs."""
        rivals: dict[tuple[int, int], list[int]] = {}
        for (number, domain), takes in self.takes.items():
            part = self.problem.parts[number]
            if part.apart is not None and part.home is None:
                rivals.setdefault((part.apart, domain), []).append(takes)
                if domain in self.problem.closed(number):
                    self.rows.add([(takes, 1.0)], upper=0.0)
        for columns in rivals.values():
            if len(columns) > 1:
                self.rows.add([(column, 1.0) for column in columns], upper=1.0)

    def _count_domains(self, number: int, level: int, room: dict[int, Counts]) -> None:
        """Each domain that a part touches costs one, and a little for the room that it has: for all parts together less than a half."""
        used = self.problem.used(number)
        sums = {shape: self.problem.tree.sums(self.problem.slots[shape], level) for shape in room}
        wishes = sum(each.preferred is not None for each in self.problem.parts)
        everything = 1.0 + 2.0 * wishes * float(sum(counts.sum() for counts in sums.values()))
        for domain, variables in self._in_domains(number, level).items():
            if domain in used:
                continue
            left_over = float(sum(counts[domain] for counts in sums.values())) / everything
            touched = self._variable(1.0, cost=1.0 + left_over)
            for owner, shape, cell, column in variables:
                most = float(min(self.problem.parts[owner].pods[shape], room[shape][cell]))
                self.rows.add([(column, 1.0), (touched, -most)], upper=0.0)

    def cut_off(self, position: int, counts: Mix) -> None:
        """Forbid a mix of shapes on a node, and every larger one: at least one shape must have fewer pods there."""
        met = [shape for shape in self.problem.shapes if counts[shape]]
        if any(self.problem.slots[shape][position] < counts[shape] for shape in met):
            return
        fewer = []
        for shape in met:
            most = float(self.problem.slots[shape][position])
            less = self._variable(1.0)
            fewer.append((less, 1.0))
            here = [(column, 1.0) for own, column in self.in_cell.get(position, ()) if own == shape]
            self.rows.add([*here, (less, most - counts[shape] + 1.0)], upper=most)
        self.rows.add(fewer, lower=1.0)

    def run(self, budget: Budget) -> Solution:
        try:
            import highspy
        except ImportError:
            return Solution(Status.LIMIT_REACHED, bound="highspy is not installed (pip install bayplan[exact])")
        solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.silent()
        solver.setOptionValue("time_limit", budget.left)
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("threads", 1)
        solver.passModel(self._model(highspy))
        solver.run()
        budget.spend(solver.getRunTime())
        status = solver.getModelStatus()
        # Every variable has bounds, so that only one reading is left of the second.
        if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
            return infeasible("exact search: no assignment of parts to domains holds them all")
        values = np.asarray(solver.getSolution().col_value)
        known = solver.getInfo()
        if not len(values) or known.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return Solution(Status.LIMIT_REACHED, bound="exact search: out of time")
        proven = status == highspy.HighsModelStatus.kOptimal
        # What is added for room is below a half, so half a domain less is certainly needed.
        least = int(np.ceil(max(known.mip_dual_bound - 0.5, 0.0)))
        gap = 0 if proven else max(0, int(known.objective_function_value + 1e-6) - least)
        return Solution(
            Status.OPTIMAL if proven else Status.FEASIBLE,
            self._placed(values),
            "exact search: nothing uses fewer domains"
            if proven
            else "exact search: out of time, this is the best so far",
            gap,
        )

    def _model(self, highspy: Any) -> Any:
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.rows.lower)
        lp.col_cost_ = np.array(self.cost)
        lp.col_lower_ = np.zeros(len(self.cost))
        lp.col_upper_ = np.array(self.most)
        lp.row_lower_ = np.array(self.rows.lower)
        lp.row_upper_ = np.array(self.rows.upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array([*self.rows.starts, len(self.rows.columns)], dtype=np.int32)
        lp.a_matrix_.index_ = np.array(self.rows.columns, dtype=np.int32)
        lp.a_matrix_.value_ = np.array(self.rows.values)
        lp.integrality_ = [highspy.HighsVarType.kInteger] * len(self.cost)
        return lp

    def _placed(self, values: NDArray[np.float64]) -> tuple[tuple[Spots, ...], ...]:
        """Pods by position; a cell that is a domain is filled node by node, the largest first."""
        problem = self.problem
        left = [counts.copy() for counts in problem.slots]
        placed: list[list[dict[int, int]]] = [[{} for _ in problem.slots] for _ in problem.parts]
        for (part, shape, cell), column in self.pods.items():
            count = round(float(values[column]))
            first, end = problem.tree.bounds(self.cell_level, cell)
            while count > 0:
                position = first + int(left[shape][first:end].argmax())
                share = min(count, int(left[shape][position]))
                assert share > 0
                here = placed[part][shape]
                here[position] = here.get(position, 0) + share
                left[shape][position] -= share
                count -= share
        return tuple(tuple(_spots(counts) for counts in of_part) for of_part in placed)


def _spots(counts: dict[int, int]) -> Spots:
    positions = sorted(counts)
    return Spots(np.array(positions, dtype=np.intp), np.array([counts[at] for at in positions], dtype=np.int64))
