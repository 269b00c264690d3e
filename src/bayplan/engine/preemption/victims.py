"""Choose the cheapest victims on one node.

A set of victims is judged in upstream's order: violated disruption budgets, highest priority, sum of priorities with
2^31 added to each, number of victims. An alternative says how much must be freed where, such as 4 CPUs in zone 1; it is
necessary, and `admits` tells whether it is sufficient. For each alternative the least number of violations and the
lowest highest priority that suffice are found first; within these, branch and bound minimises the rest. The search is
exact; one that reaches its limit returns the best set so far and says that it is not proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.engine.budget import Budget, OutOfWork

# Upstream adds this to each priority in a sum, so that a further victim never makes a set cheaper.
PRIORITY_OFFSET = 1 << 31
# One step takes 5 to 20 us, more with hundreds of candidates; the replay charges its own admissions.
WORK_OF_A_STEP = 15
WORK_OF_A_POD = 0.5

Cell = tuple[str, int | None]
"""A resource of a zone, by the zone's position; of the whole node if that is None."""
Needs = Mapping[Cell, int]
"""How much must become free in each cell, only where something is missing."""
Cost = tuple[int, int, int, int]
"""Violated budgets, highest priority, sum of priorities with the offset, number of victims: compared in this order."""
NO_COST: Cost = (0, -PRIORITY_OFFSET, 0, 0)
"""What it costs to evict nothing."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may be evicted. `frees` is what its node gains, by cell; a pod of another node frees nothing here.

    `pdbs` are the PodDisruptionBudgets that cover it. Members of a `gang` beyond its surplus are evicted together or
    not at all. If it is not known where the pod is, `frees` is the most that it can free, and `alike` is what it has in
    common with others that may be in the same places; 0 if it is known.
    """

    key: str
    priority: int
    frees: Mapping[Cell, int]
    pdbs: tuple[str, ...] = ()
    gang: str = ""
    started: float = 0.0
    alike: int = 0


@dataclass(frozen=True, slots=True)
class GangVictims:
    """The members of a running gang: how many may go one by one, and the pods that go with any more of them.

    Not `whole` if some member must stay: then no more than the surplus can go.
    """

    surplus: int
    members: tuple[Candidate, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Victims:
    """A set of pods whose eviction is sufficient; not `proven` if the search had to stop before it had compared all."""

    pods: tuple[Candidate, ...]
    cost: Cost
    proven: bool = True

    @property
    def earliest_start(self) -> float:
        """When the first of the most important victims started: of equally cheap nodes,
        upstream takes the one where this is latest.
        """
        highest = max(pod.priority for pod in self.pods)
        return min(pod.started for pod in self.pods if pod.priority == highest)


def cost_of(victims: Iterable[Candidate], allowed: Mapping[str, int], floor: int = -PRIORITY_OFFSET) -> Cost:
    """What a set of victims costs; `allowed` are the disruptions that each PodDisruptionBudget still allows.

    Where several budgets cover a pod, the order in which pods are counted matters: the most important first, as
    upstream. With a `floor`, victims up to that priority count alike: others of that priority are evicted anyway.
    """
    pods = sorted(victims, key=lambda pod: (-pod.priority, pod.key))
    used: dict[str, int] = {}
    violations = 0
    for pod in pods:
        violated = False
        for pdb in pod.pdbs:
            used[pdb] = used.get(pdb, 0) + 1
            violated |= used[pdb] > allowed.get(pdb, 0)
        violations += violated
    highest = max((floor, *(pod.priority for pod in pods)))
    return violations, highest, sum(pod.priority + PRIORITY_OFFSET for pod in pods), len(pods)


def cheapest_victims(
    candidates: Sequence[Candidate],
    alternatives: Sequence[Needs],
    admits: Callable[[frozenset[str]], bool],
    allowed: Mapping[str, int],
    budget: Budget,
    gangs: Mapping[str, GangVictims] | None = None,
    at_most: Cost | None = None,
    floor: int = -PRIORITY_OFFSET,
) -> Victims | None:
    """The cheapest victims on one node; None if none suffice, or if all that do cost more than `at_most`.

    `floor` as in `cost_of`.
    """
    search = _Search(admits, allowed, gangs or {}, budget, at_most, floor)
    # Those that need least first: then the first set is a good bound for the others.
    try:
        helped = [(_helpers(candidates, needs), needs) for needs in alternatives]
        for useful, needs in sorted(helped, key=lambda each: len(each[0])):
            search.run(useful, needs)
    except OutOfWork:
        if search.best is None:
            raise
        search.stopped = True
    if search.best is None:
        return None
    cost, pods = search.best
    return Victims(pods, cost, proven=not search.stopped)


@dataclass
class _Search:
    admits: Callable[[frozenset[str]], bool]
    allowed: Mapping[str, int]
    gangs: Mapping[str, GangVictims]
    budget: Budget
    at_most: Cost | None
    floor: int
    best: tuple[Cost, tuple[Candidate, ...]] | None = None
    stopped: bool = False
    _answers: dict[frozenset[str], bool] = field(default_factory=dict)

    def run(self, useful: Sequence[Candidate], needs: Needs) -> None:
        """Search one alternative.

        Only candidates that free something needed, and those that go with them, can be in a cheapest set.
        """
        with_gangs = self._with_their_gangs(useful)
        covered = sum(1 for each in with_gangs if each.pdbs)
        priorities = sorted({max(each.priority, self.floor) for each in with_gangs})
        for violations in range(covered + 1):
            for highest in priorities:
                if self._is_too_dear((violations, highest)):
                    break
                within = [each for each in useful if each.priority <= highest]
                if not self._may_suffice(within, needs, violations):
                    continue
                _Branches(self, within, needs, violations, highest).explore()
                if self.stopped:
                    return
                if self.best is not None and self.best[0][:2] == (violations, highest):
                    return

    def _is_too_dear(self, least: tuple[int, int]) -> bool:
        """Whether sets with so many violations and such a highest priority cost more than what is known or allowed."""
        return (self.best is not None and least > self.best[0][:2]) or (
            self.at_most is not None and least > self.at_most[:2]
        )

    def _with_their_gangs(self, pods: Sequence[Candidate]) -> list[Candidate]:
        gangs = dict.fromkeys(each.gang for each in pods if each.gang in self.gangs)
        others = (member for name in gangs for member in self.gangs[name].members)
        return list({each.key: each for each in (*pods, *others)}.values())

    def _may_suffice(self, within: Sequence[Candidate], needs: Needs, violations: int) -> bool:
        """Whether these free enough of each cell, each by itself, if budgets are violated at most so often."""
        for cell, amount in needs.items():
            freed = sum(each.frees.get(cell, 0) for each in within if not each.pdbs or each.gang)
            by_pdb: dict[str, list[int]] = {}
            for each in within:
                if each.pdbs and not each.gang:
                    by_pdb.setdefault(each.pdbs[0], []).append(each.frees.get(cell, 0))
            for pdb, amounts in by_pdb.items():
                freed += sum(sorted(amounts, reverse=True)[: self.allowed.get(pdb, 0) + violations])
            if freed < amount:
                return False
        return True

    def with_victim(self, chosen: Mapping[str, Candidate], candidate: Candidate) -> dict[str, Candidate] | None:
        """One victim more, and the rest of its gang if that would be left below its minimum.

        None if the rest must stay.
        """
        larger = {**chosen, candidate.key: candidate}
        gang = self.gangs.get(candidate.gang)
        if gang is not None and sum(each.gang == candidate.gang for each in larger.values()) > gang.surplus:
            if not gang.whole:
                return None
            larger |= {each.key: each for each in gang.members}
        return larger

    def admitted(self, chosen: Mapping[str, Candidate]) -> bool:
        """Whether the removal of these is sufficient."""
        keys = frozenset(chosen)
        if keys not in self._answers:
            self._answers[keys] = self.admits(keys)
        return self._answers[keys]

    def can_be_best(self, cost: Cost) -> bool:
        """Whether a set that costs at least this can be better than the best."""
        if self.at_most is not None and cost > self.at_most:
            return False
        return self.best is None or cost < self.best[0]


_Set = tuple[int, Mapping[str, Candidate], Mapping[Cell, int]]
"""Victims, what is missing still, and the position from which on others are added."""


class _Branches:
    """Sets of candidates with at most so many violations and such a highest priority, the fewest and lightest first."""

    def __init__(
        self, search: _Search, within: Sequence[Candidate], needs: Needs, violations: int, highest: int
    ) -> None:
        self.search = search
        self.most = violations, highest
        self.needs = needs
        # Those that free most first: then the first set that suffices is small, and a good bound.
        self.pods = sorted(within, key=lambda each: (-_share(each, needs), each.priority, len(each.pdbs), each.key))
        # Members of a gang may come with a later one.
        last = {each.gang: index for index, each in enumerate(self.pods) if each.gang}
        self.until = [last.get(each.gang, index) for index, each in enumerate(self.pods)]
        self.by_value = {
            cell: sorted(
                (
                    (self.until[index], each.frees[cell], each.priority + PRIORITY_OFFSET)
                    for index, each in enumerate(self.pods)
                    if each.frees.get(cell)
                ),
                key=lambda value: value[2] / value[1],
            )
            for cell in needs
        }

    def explore(self) -> None:
        """Try every set that can be the best. Hundreds of victims are as many levels, so this does not call itself."""
        levels: list[Iterator[_Set]] = []
        if self._can_be_best({}, self.needs, 0):
            self._try_greedily()
            levels.append(self._larger(0, {}, dict(self.needs)))
        while levels and not self.search.stopped:
            found = next(levels[-1], None)
            if found is None:
                levels.pop()
            else:
                levels.append(self._larger(*found))

    def _try_greedily(self) -> None:
        """Take what frees most until nothing is missing: a plan even where hundreds must go and the work ends early.

        Where it is not known what pods free, others go with them until that suffices.
        """
        search = self.search
        search.budget.spend(len(self.pods) * WORK_OF_A_STEP)
        chosen: dict[str, Candidate] = {}
        missing = dict(self.needs)
        for candidate in self.pods:
            helps = any(candidate.frees.get(cell, 0) > 0 for cell in missing) or (candidate.alike and not missing)
            if candidate.key in chosen or not helps:
                continue
            larger = search.with_victim(chosen, candidate)
            if larger is None:
                continue
            for key in larger.keys() - chosen.keys():
                missing = {cell: amount - larger[key].frees.get(cell, 0) for cell, amount in missing.items()}
            chosen, missing = larger, {cell: amount for cell, amount in missing.items() if amount > 0}
            if not missing and (not candidate.alike or search.admitted(chosen)):
                break
        cost = cost_of(chosen.values(), search.allowed, search.floor)
        if not missing and cost[:2] <= self.most and search.can_be_best(cost) and search.admitted(chosen):
            search.best = cost, tuple(chosen.values())

    def _larger(self, start: int, chosen: Mapping[str, Candidate], missing: Mapping[Cell, int]) -> Iterator[_Set]:
        """Judge a set; the sets with one victim more that can be the best, if it does not suffice."""
        search = self.search
        search.budget.spend(WORK_OF_A_STEP)
        if search.budget.is_spent:
            search.stopped = True
            return
        if chosen and all(amount <= 0 for amount in missing.values()) and search.admitted(chosen):
            cost = cost_of(chosen.values(), search.allowed, search.floor)
            if search.can_be_best(cost):
                search.best = cost, tuple(chosen.values())
            return  # a larger set costs more
        seen: set[tuple[object, ...]] = set()
        for index in range(start, len(self.pods)):
            candidate = self.pods[index]
            if candidate.key in chosen:
                continue
            # Of candidates that make no difference here the first is tried.
            frees = tuple(min(candidate.frees.get(cell, 0), max(amount, 0)) for cell, amount in missing.items())
            kind = (candidate.priority, candidate.pdbs, candidate.gang, frees, candidate.alike)
            if kind in seen:
                continue
            seen.add(kind)
            larger = search.with_victim(chosen, candidate)
            if larger is None:
                continue
            left = {
                cell: amount - sum(larger[key].frees.get(cell, 0) for key in larger.keys() - chosen.keys())
                for cell, amount in missing.items()
            }
            if self._can_be_best(larger, left, index + 1):
                yield index + 1, larger, left

    def _can_be_best(self, chosen: Mapping[str, Candidate], missing: Mapping[Cell, int], start: int) -> bool:
        """Whether a set that contains these, and others from a position on, can be the best."""
        self.search.budget.spend((len(chosen) + len(self.pods)) * WORK_OF_A_POD)
        violations, highest, total, number = cost_of(chosen.values(), self.search.allowed, self.search.floor)
        if violations > self.most[0] or highest > self.most[1]:
            return False
        more = weight = 0
        for cell, amount in missing.items():
            if amount > 0:
                bound = _least_to_cover(self.by_value[cell], amount, start)
                if bound is None:
                    return False
                more, weight = max(more, bound[0]), max(weight, bound[1])
        return self.search.can_be_best((violations, highest, total + weight, number + more))


def _helpers(candidates: Sequence[Candidate], needs: Needs) -> list[Candidate]:
    """The candidates that free something needed."""
    return [each for each in candidates if any(each.frees.get(cell) for cell in needs)]


def _share(candidate: Candidate, needs: Needs) -> float:
    return sum(min(candidate.frees.get(cell, 0) / amount, 1.0) for cell, amount in needs.items() if amount > 0)


def _least_to_cover(by_value: Sequence[tuple[int, int, int]], amount: int, start: int) -> tuple[int, int] | None:
    """A bound on how many candidates from a position on free an amount, and on their weight.

    None if all of them do not.

    They come by what a unit costs, the cheapest first; the last one is taken in part.
    """
    left, weight, largest = amount, 0, 0
    for until, freed, each in by_value:
        if until < start:
            continue
        largest = max(largest, freed)
        if left > 0:
            taken = min(freed, left)
            weight += each * taken // freed
            left -= taken
    return None if left > 0 else (-(-amount // largest), weight)
