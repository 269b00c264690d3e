"""The gang as an integer program: what remains when counting and best fit have no proof.

Its cells are the domains of the lowest level that any part names, racks as a rule, not nodes: that keeps it small.
There is one binary for each group and domain that it may take, a number of pods for each cell where pods are not bound
to one, and a binary for each preferred domain, and each wider one, that is touched. Capacities of cells are the rows of
`groups/groups.py`. Whether the nodes of a cell hold what the program puts there is verified exactly
(`groups/nodes.py`); a cell that does not hold it is a cut, and the program is solved again.

Minimised are the preferred domains, then the domains of each wider level, then the room of the preferred ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.exact.solver import Program, SolverAnswer, SolverStatus
from bayplan.engine.gangs.groups.groups import WHOLE_GANG, capacity_rows_of_every_shape, groups_of
from bayplan.engine.gangs.groups.nodes import Filling, Nodes, Packed
from bayplan.engine.gangs.problem import Counts, Problem, Solution, Spots, Status, infeasible, preferred_domains, within

MOST_ROUNDS = 60
# Larger programs are not even built: HiGHS would need its whole work for the presolve.
MOST_VARIABLES = 60_000
# What it takes to write a program down: 5 to 15 us a variable.
WORK_OF_A_VARIABLE = 10
# A solver with a precision of a millionth cannot separate more goals.
SMALLEST_WEIGHT = 1e-4

TOO_LARGE = "too large for an exact search"
PROVEN = "exact search: nothing uses fewer domains"
UNSURE = "not every packing of pods on nodes was tried"
Values = NDArray[np.float64]
Mix = Mapping[int, int]
"""How many pods of each shape meet in a cell."""


def solve(problem: Problem, budget: Budget) -> Solution:
    """The best placement; `LIMIT_REACHED` if there is no work left, no room or no HiGHS for one."""
    gang = _GangProgram(problem, budget)
    if gang.too_large:
        return Solution(Status.LIMIT_REACHED, bound=TOO_LARGE)
    gang.build()
    budget.spend(len(gang.program.cost) * WORK_OF_A_VARIABLE)
    sure = True
    for _ in range(MOST_ROUNDS):
        answer = gang.program.solve(budget)
        if answer.status is SolverStatus.STOPPED:
            return Solution(Status.LIMIT_REACHED, bound=answer.why)
        if answer.status is SolverStatus.NONE:
            return gang.refused(sure=sure)
        mixes = gang.mixes(answer.values)
        packed = {cell: gang.packed(cell, mix) for cell, mix in mixes.items()}
        split = [cell for cell, each in packed.items() if each.filling is None]
        if not split:
            fillings = {cell: each.filling for cell, each in packed.items() if each.filling is not None}
            return gang.solution(answer, fillings, sure=sure)
        sure = sure and all(packed[cell].sure for cell in split)
        for cell in split:
            gang.cut_off(cell, mixes[cell], answer.values)
    return Solution(
        Status.LIMIT_REACHED, bound=f"{MOST_ROUNDS} exact answers had a domain whose nodes do not hold its pods"
    )


@dataclass
class _GangProgram:
    """Variables and constraints of one problem: `takes[group, domain]`, `pods[part, shape, cell]`."""

    problem: Problem
    budget: Budget
    program: Program = field(default_factory=Program)
    takes: dict[tuple[int, int], int] = field(default_factory=dict)
    pods: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problem = self.problem
        self.counts_wider = False
        self.tree = problem.tree
        self.groups = groups_of(problem)
        self.nodes = Nodes(problem, self.budget)
        self.level = min(max(problem.finest_level, 0), self.tree.node_level)
        total = np.add.reduce([problem.slots[shape] for shape in problem.shapes])
        self.cells = np.flatnonzero(self.tree.sums(total, self.level)).tolist()
        self.first = self.tree.starts[self.level].tolist()
        # The domain of every level around each cell.
        self.around = [at[self.tree.starts[self.level]].tolist() for at in self.tree.domain_at]

    @property
    def too_large(self) -> bool:
        loose = sum(len(self.problem.parts[part].pods) for part in self._loose_parts())
        return len(self.cells) * (len(self.groups.groups) + loose) > MOST_VARIABLES

    def _is_cell(self, group: int) -> bool:
        """True if a group takes exactly one cell, so that its pods need no variables of their own."""
        return self.groups.level_of[group] == self.level

    def _loose_parts(self) -> list[int]:
        return [part for group, parts in self.groups.members.items() if not self._is_cell(group) for part in parts]

    # -- what must hold ---------------------------------------------------------------------------------------------

    def build(self) -> None:
        self._take_domains()
        self._place_loose_pods()
        self._respect_room()
        self._keep_apart()
        self._count_domains()

    def _take_domains(self) -> None:
        """Every group takes one domain, inside the one that the group around it takes."""
        room = self.tree.sums(np.add.reduce([self.problem.slots[shape] for shape in self.problem.shapes]), self.level)
        for group in self.groups.groups:
            closed = set(self.problem.closed(group.part))
            first, end = self.problem.home(group.part)
            around = self.around[group.level]
            domains = dict.fromkeys(
                around[cell] for cell in self.cells if first <= self.first[cell] < end and room[cell]
            )
            chosen = []
            for domain in domains:
                if domain in closed:
                    continue
                takes = self.takes[group.part, domain] = self.program.variable(1.0)
                chosen.append((takes, 1.0))
                if group.around != WHOLE_GANG:
                    outer = self.groups.by_part[group.around]
                    at = int(self.tree.domain_at[outer.level][self.tree.starts[group.level][domain]])
                    wide = self.takes.get((outer.part, at))
                    if wide is None:
                        self.program.most[takes] = 0.0
                    else:
                        self.program.row([(takes, 1.0), (wide, -1.0)], upper=0.0)
            self.program.row(chosen, lower=1.0, upper=1.0)

    def _place_loose_pods(self) -> None:
        """Pods that are not bound to a single cell: all of a part's in the cells of the domain that its group takes."""
        for number in self._loose_parts():
            group = self.groups.bound_by[number]
            first, end = self.problem.home(number)
            level = self.groups.level_of[group]
            for shape, count in self.problem.parts[number].pods.items():
                room = self.tree.sums(self.problem.slots[shape], self.level)
                by_domain: dict[int, list[tuple[int, float]]] = {}
                for cell in self.cells:
                    domain = 0 if group == WHOLE_GANG else self.around[level][cell]
                    inside = group == WHOLE_GANG or (group, domain) in self.takes
                    if room[cell] and inside and first <= self.first[cell] < end:
                        column = self.program.variable(float(min(count, room[cell])))
                        self.pods[number, shape, cell] = column
                        by_domain.setdefault(domain, []).append((column, 1.0))
                if group == WHOLE_GANG:
                    self.program.row(by_domain.get(0, []), lower=count, upper=count)
                    continue
                for (part, domain), takes in list(self.takes.items()):
                    if part == group:
                        here = by_domain.get(domain, [])
                        self.program.row([*here, (takes, -float(count))], lower=0.0, upper=0.0)

    def _respect_room(self) -> None:
        """No cell holds more than its capacity rows say."""
        rows = capacity_rows_of_every_shape(self.problem)
        room = np.add.reduceat(rows.per_node, self.tree.starts[self.level], axis=1)
        entries: dict[int, list[tuple[int, Counts]]] = {}
        counts_of: dict[int, Counts] = {}
        for (part, domain), column in self.takes.items():
            if self._is_cell(part):
                if part not in counts_of:
                    counts_of[part] = rows.of(self.groups.own[part])
                entries.setdefault(domain, []).append((column, counts_of[part]))
        for (_, shape, cell), column in self.pods.items():
            entries.setdefault(cell, []).append((column, rows.per_pod[shape]))
        for cell, here in entries.items():
            for row in range(len(room)):
                counted = [(column, float(counts[row])) for column, counts in here if counts[row]]
                most = float(room[row, cell])
                if sum(value * self.program.most[column] for column, value in counted) > most:
                    self.program.row(counted, upper=most)

    def _keep_apart(self) -> None:
        """No domain is taken by two groups that avoid each other."""
        rivals: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for (number, domain), takes in self.takes.items():
            part = self.problem.parts[number]
            if part.apart is not None and part.home is None:
                rivals.setdefault((part.apart, domain), []).append((takes, 1.0))
        for columns in rivals.values():
            if len(columns) > 1:
                self.program.row(columns, upper=1.0)

    # -- what is best -----------------------------------------------------------------------------------------------

    def _count_domains(self) -> None:
        """The costs of touched domains: preferred ones cost one, wider ones less than that, room the least."""
        wishes = [number for number, part in enumerate(self.problem.parts) if part.preferred is not None]
        levels = sorted({level for number in wishes for level in range(self.problem.parts[number].preferred or 0)})
        weights: dict[int, float] = {}
        # The weights after a goal add up to less than a half of it.
        weight = 1.0
        for level in reversed(levels):
            weight /= 2.0 * (1 + len(self.tree.starts[level]) * len(wishes))
            weights[level] = weight if weight > SMALLEST_WEIGHT else 0.0
        self.counts_wider = all(weights.values())
        total = np.add.reduce([self.problem.slots[shape] for shape in self.problem.shapes])
        for number in wishes:
            preferred = self.problem.parts[number].preferred
            if preferred is None or not self.problem.totals[number]:
                continue
            room = self.tree.sums(total, preferred)
            last = min((value for value in weights.values() if value), default=1.0)
            of_room = last / (2.0 * len(wishes) * (1.0 + float(room.sum())))
            touched = self._touched(number, preferred)
            running_at = self.problem.parts[number].running_at
            for domain, column in touched.items():
                self.program.cost[column] = 1.0 + of_room * float(room[domain])
            for level in range(preferred - 1, -1, -1):
                if not weights[level]:
                    break
                known = {int(self.tree.domain_at[level][position]) for position in running_at}
                inner, touched = touched, {}
                for domain, column in inner.items():
                    at = int(self.tree.domain_at[level][self.tree.starts[level + 1][domain]])
                    if at in known:
                        continue
                    if at not in touched:
                        touched[at] = self.program.variable(1.0, weights[level])
                    self.program.row([(column, 1.0), (touched[at], -1.0)], upper=0.0)

    def _touched(self, number: int, level: int) -> dict[int, int]:
        """A variable for every domain of a level that a part's pods can touch, except those with running members."""
        inside = set(within(self.problem.parts, number))
        # Pods of the part that are bound to a group: by that group; others by themselves.
        bound = {self.groups.bound_by[part] for part in inside if self.problem.parts[part].pods} - {WHOLE_GANG}
        choosing = {group for group in bound if self.groups.level_of[group] >= level}
        by_domain: dict[int, dict[object, list[tuple[int, float]]]] = {}
        most: dict[object, float] = {}
        for (group, domain), column in self.takes.items():
            if group in choosing:
                at = int(self.tree.domain_at[level][self.tree.starts[self.groups.level_of[group]][domain]])
                by_domain.setdefault(at, {}).setdefault(("takes", group), []).append((column, 1.0))
                most["takes", group] = 1.0
        for (part, shape, cell), column in self.pods.items():
            if part in inside and self.groups.bound_by[part] not in choosing:
                at = self.around[level][cell]
                by_domain.setdefault(at, {}).setdefault((part, shape), []).append((column, 1.0))
                most[part, shape] = float(self.problem.parts[part].pods[shape])
        used = set(self.problem.used(number))
        touched = {}
        for at, terms in by_domain.items():
            if at in used:
                continue
            touched[at] = self.program.variable(1.0)
            for term, entries in terms.items():
                room = sum(self.program.most[column] for column, _ in entries)
                self.program.row([*entries, (touched[at], -min(most[term], room))], upper=0.0)
        return touched

    # -- answers ----------------------------------------------------------------------------------------------------

    def _in_cells(self, values: Values) -> dict[int, list[tuple[int, int, int]]]:
        """(part, shape, number) by cell."""
        found: dict[int, list[tuple[int, int, int]]] = {}
        for (group, domain), column in self.takes.items():
            if self._is_cell(group) and values[column] > 0.5:
                for part in self.groups.members[group]:
                    pods = self.problem.parts[part].pods
                    found.setdefault(domain, []).extend((part, shape, count) for shape, count in pods.items())
        for (part, shape, cell), column in self.pods.items():
            if values[column] > 0.5:
                found.setdefault(cell, []).append((part, shape, round(float(values[column]))))
        return found

    def mixes(self, values: Values) -> Mapping[int, Mix]:
        """What an answer puts into each cell."""
        mixes: dict[int, dict[int, int]] = {}
        for cell, here in self._in_cells(values).items():
            mix = mixes.setdefault(cell, {})
            for _, shape, number in here:
                mix[shape] = mix.get(shape, 0) + number
        return mixes

    def packed(self, cell: int, mix: Mix) -> Packed:
        """True if the nodes of a cell hold these pods."""
        return self.nodes.packed(*self.tree.bounds(self.level, cell), self.nodes.largest_first(mix))

    def cut_off(self, cell: int, mix: Mix, values: Values) -> None:
        """Forbid what a cell does not hold, and everything larger."""
        if not any(at == cell and values[column] > 0.5 for (_, _, at), column in self.pods.items()):
            here = [
                (column, 1.0)
                for (group, domain), column in self.takes.items()
                if domain == cell and self._is_cell(group) and self.groups.own[group] and values[column] > 0.5
            ]
            self.program.row(here, upper=len(here) - 1.0)
            return
        cells, smallest = self._refused_alike(cell, mix)
        for each in cells:
            self._fewer(each, smallest)

    def _refused_alike(self, cell: int, mix: Mix) -> tuple[list[int], Mix]:
        """Where else a mix is refused: on nodes in the same state, if kubelets were asked."""
        mixes = self.problem.mixes
        if mixes is None or self.level != self.tree.node_level:
            return [cell], mix
        answer = mixes.refused(cell, tuple(sorted(mix.items())))
        if answer is None:
            return [cell], mix
        smallest, positions = answer
        return list(positions), dict(smallest)

    def _fewer(self, cell: int, mix: Mix) -> None:
        """At least one shape must have fewer pods in a cell than a mix has."""
        terms: dict[int, list[tuple[int, float]]] = {shape: [] for shape in mix}
        for (group, domain), column in self.takes.items():
            if domain == cell and self._is_cell(group):
                for shape, count in self.groups.own[group].items():
                    if shape in terms:
                        terms[shape].append((column, float(count)))
        for (_, shape, at), column in self.pods.items():
            if at == cell and shape in terms:
                terms[shape].append((column, 1.0))
        most = {shape: sum(self.program.most[column] * value for column, value in terms[shape]) for shape in mix}
        if any(most[shape] < count for shape, count in mix.items()):
            return
        fewer = []
        for shape, count in mix.items():
            less = self.program.variable(1.0)
            fewer.append((less, 1.0))
            self.program.row([*terms[shape], (less, most[shape] - count + 1.0)], upper=most[shape])
        self.program.row(fewer, lower=1.0)

    def refused(self, *, sure: bool) -> Solution:
        """There is no answer, and no packing was left out unless the search is unsure."""
        bound = "exact search: no assignment of parts to domains holds them all"
        if not sure or self._gave_up:
            return Solution(Status.LIMIT_REACHED, bound=f"{bound}; {UNSURE}")
        return infeasible(bound)

    @property
    def _gave_up(self) -> bool:
        return self.problem.mixes is not None and self.problem.mixes.gave_up

    def solution(self, answer: SolverAnswer, fillings: Mapping[int, Filling], *, sure: bool) -> Solution:
        """Pods by position; `least` is a bound on the cost, of which less than a half is not for preferred domains."""
        found: dict[tuple[int, int], list[Spots]] = {}
        for cell, here in self._in_cells(answer.values).items():
            left = {shape: (spots.positions, spots.counts.copy()) for shape, spots in fillings[cell].spots.items()}
            for part, shape, number in sorted(here):
                positions, counts = left[shape]
                before = np.cumsum(counts) - counts
                share = np.clip(number - before, 0, counts)
                counts -= share
                used = np.flatnonzero(share)
                found.setdefault((part, shape), []).append(Spots(positions[used], share[used]))
        placed = tuple(
            {shape: _joined(found[number, shape]) for shape in part.pods}
            for number, part in enumerate(self.problem.parts)
        )
        proven = answer.status is SolverStatus.BEST and sure and not self._gave_up
        if proven:
            return Solution(Status.OPTIMAL, placed, PROVEN, wider_proven=self.counts_wider)
        why = answer.why or UNSURE
        solution = Solution(Status.FEASIBLE, placed, f"{why}, this is the best so far")
        running_at = sum(len(self.problem.used(number)) for number in range(len(self.problem.parts)))
        least = running_at + int(np.ceil(max(answer.least - 0.5, 0.0))) if sure and not self._gave_up else 0
        return replace(solution, gap=max(0, preferred_domains(self.problem, solution) - least))


def _joined(spots: list[Spots]) -> Spots:
    if len(spots) == 1:
        return spots[0]
    positions = np.concatenate([each.positions for each in spots]) if spots else np.zeros(0, dtype=np.intp)
    counts = np.concatenate([each.counts for each in spots]) if spots else np.zeros(0, dtype=np.int64)
    order = np.argsort(positions, kind="stable")
    return Spots(positions[order], counts[order])
