"""Plan a preemption for a whole gang: the cheapest pods whose eviction lets all of it start, or nothing.

    domains that could hold it -> pods to evict at most -> seats -> cheapest victims under the seats -> GangPreemption

Costs are compared as for single pods (`scheduling/preemption/plan.py`), over all victims together. Every plan is
confirmed by a dry run of the gang's own search, so a required level, ranks and rules between members hold afterwards.
Where few pods can be evicted, all sets are compared and the plan is proven; elsewhere it is the best that was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.cluster.dry_run import without
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.budget import Budget, OutOfWork
from bayplan.engine.preemption.victims import NO_COST, PRIORITY_OFFSET, Candidate, Cost, GangVictims, cost_of
from bayplan.engine.slots.slots import slots
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Seat
from bayplan.gangs.scheduler import GangScheduler
from bayplan.scheduling.preemption.candidates import EvictionRules, candidates_on, priority_of, terminating_on
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.preemption.on_node import Preemptor, victims_on
from bayplan.scheduling.preemption.plan import NEVER, NoPreemption
from bayplan.scheduling.profile import PASSES

# Work of one plan, in the units of `engine/budget.py`, and of a dry run of the gang's search beside its own.
WORK_OF_A_GANG_PLAN = 8_000_000
WORK_OF_A_TRIAL = 1_000
# Domains are tried in the order of their bounds, so many at most.
MOST_DOMAINS = 16
# Up to so many pods, all sets of victims are compared.
FEW_PODS = 14
# So many victims are tried one by one: can the gang do without evicting it?
MOST_SPARED = 64
# A gang that evicts others does not wait for a better place as well.
PATIENCE_ENDED = 1e12


class GangPreemption(Struct, frozen=True):
    """Evict these pods, and the gang fits, with its pods on these nodes."""

    gang: str
    nodes: tuple[tuple[str, str], ...]
    """Each pod of the gang and the node that it is to get."""
    victims: tuple[Candidate, ...]
    cost: Cost
    leaving: tuple[str, ...] = ()
    proven: bool = False


def plan_gang_preemption(
    scheduler: GangScheduler, gang: Gang, freeable: Freeable, rules: EvictionRules, work: float = WORK_OF_A_GANG_PLAN
) -> GangPreemption | NoPreemption:
    """Plan the cheapest preemption for a gang that fits nowhere. The state is as before afterwards."""
    if any(pod.spec.preemption_policy == NEVER for pod in gang.pods):
        return NoPreemption("not eligible: preemptionPolicy is Never")
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    if tree is None or not gang.pods:
        return NoPreemption("the topology of its levels is not known")
    plan = _Plan(scheduler, gang, tree, freeable, rules, Budget(work, hard=True))
    try:
        plan.search()
    except OutOfWork:
        plan.proven = False
    if plan.best is None:
        reason = "" if plan.proven else "search limit reached before victims were found"
        return NoPreemption(reason, no_victims=tree.size)
    cost, victims, seats, leaving = plan.best
    ordered = sorted(victims, key=lambda each: (-each.priority, each.key))
    nodes = tuple((seat.pod, seat.node) for seat in seats)
    return GangPreemption(gang.name, nodes, tuple(ordered), cost, leaving, proven=plan.proven)


@dataclass
class _Plan:
    scheduler: GangScheduler
    gang: Gang
    tree: Tree
    freeable: Freeable
    rules: EvictionRules
    budget: Budget
    best: tuple[Cost, tuple[Candidate, ...], Sequence[Seat], tuple[str, ...]] | None = None
    proven: bool = True
    lowest_highest: int = -PRIORITY_OFFSET
    """No plan does without victims of this priority, as far as amounts tell."""
    _tried: dict[frozenset[str], GangDecision] = field(default_factory=dict)

    @property
    def priority(self) -> int:
        """The priority of its least important pod: only pods below it may go."""
        return min(priority_of(pod) for pod in self.gang.pods)

    def search(self) -> None:
        """Look into the domains in the order of what they cost at least."""
        domains = list(self._domains())
        self.proven = len(domains) <= MOST_DOMAINS
        for rows in domains[:MOST_DOMAINS]:
            leaving = tuple(key for row in rows for key in terminating_on(self.scheduler.state, row, self.rules))
            with without(self.scheduler.state, leaving, logged=True):
                self._tried.clear()
                self._search_in(rows, leaving)
            if self.best is not None and (self.best[0] == NO_COST or self._is_good_enough(self.best[0])):
                return

    def _is_good_enough(self, cost: Cost) -> bool:
        """True where proving is out of reach, and no domain has a plan with fewer violations or less important victims."""
        return not self.proven and not cost[0] and cost[1] <= self.lowest_highest

    # -- domains --------------------------------------------------------------------------------------------------

    def _domains(self) -> Iterator[list[int]]:
        """The rows of each domain that could hold the gang if all less important pods left.

        The least to evict first.
        """
        tree = self.tree
        if not tree.size:
            return
        level = tree.level_number(self.gang.whole.required) if self.gang.whole.required else None
        starts = np.zeros(1, dtype=np.intp)
        if level is not None:
            starts = tree.starts[level] if level < tree.node_level else np.arange(tree.size)
        ends = np.append(starts[1:], tree.size)
        wanted = self._wanted()
        names = frozenset(name for pod in wanted for name in pod.request.total) | {PODS}
        self.freeable.refresh(names)
        now, then = ({pod: self._slots(pod, below) for pod in wanted} for below in (None, self.priority))

        def enough(slots: Mapping[PodClass, NDArray[np.float64]]) -> NDArray[np.bool_]:
            held: NDArray[np.bool_] = np.ones(len(starts), dtype=np.bool_)
            for pod, count in wanted.items():
                held &= np.add.reduceat(slots[pod], starts) >= count
            return held

        able = enough(then)
        # The lowest priority up to which pods must leave some domain at least: those where that suffices come first.
        below, least = self.priority, then
        levels = self.freeable.priorities_below(self.priority)
        low, high = 0, max(len(levels) - 1, 0)
        while low < high and able.any():
            middle = (low + high) // 2
            slots_then = {pod: self._slots(pod, levels[middle] + 1) for pod in wanted}
            if enough(slots_then).any():
                high, below, least = middle, levels[middle] + 1, slots_then
            else:
                low = middle + 1
        self.lowest_highest = below - 1
        first = enough(least)
        pods_on = self.freeable.pods_below(below)[tree.rows]
        found: list[tuple[bool, float, int]] = []
        for number in np.flatnonzero(able).tolist():
            part = slice(starts[number], ends[number])
            victims = sum(
                _least_pods(now[pod][part], least[pod][part], pods_on[part], count) for pod, count in wanted.items()
            )
            found.append((not first[number], victims, number))
        for _, _, number in sorted(found):
            part = slice(starts[number], ends[number])
            useful = np.flatnonzero(np.maximum.reduce([then[pod][part] for pod in wanted]) > 0) + part.start
            yield [int(row) for row in tree.rows[useful]]

    def _slots(self, pod: PodClass, below: int | None) -> NDArray[np.float64]:
        """By position in the tree, how many pods of a class fit at most once those below a priority have left."""
        scheduler = self.scheduler
        slots = self.freeable.slots(pod, scheduler.profile, self.tree.rows, below)
        by_node = scheduler.answers.for_class(pod, scheduler.profile).blocked_by_node[self.tree.rows]
        return np.where(by_node == PASSES, slots, 0.0)

    def _wanted(self) -> dict[PodClass, int]:
        """How many pods of each class must start together."""
        wanted: dict[PodClass, int] = {}
        for group in self.gang.whole.every_group():
            for pod in group.pods[: group.least]:
                pod_class = self.scheduler.state.classes.of(pod)
                wanted[pod_class] = wanted.get(pod_class, 0) + 1
        return wanted or {self.scheduler.state.classes.of(self.gang.pods[0]): 1}

    # -- one domain -----------------------------------------------------------------------------------------------

    def _search_in(self, rows: list[int], leaving: tuple[str, ...]) -> None:
        """Look for the cheapest victims on some rows, where pods that are leaving have left already."""
        evictable, gangs = self._evictable(rows)
        if self._offer((), leaving):
            return
        if not self._fits(evictable.values()):
            return
        before = self.best
        most = self._least_that_suffices(evictable, gangs)
        if most is not None:
            if not self._offer(self._under_seats(most, gangs), leaving):
                self._offer(most, leaving)
            if self.best is not before and self._has_slack(
                rows
            ):  # else it is a plan of another domain, with other gangs
                self._spare(gangs, leaving)
        if len(evictable) <= FEW_PODS:
            self._compare_all(sorted(evictable.values(), key=lambda each: each.key), gangs, leaving)
        else:
            self.proven = False

    def _evictable(self, rows: list[int]) -> tuple[dict[str, Candidate], dict[str, GangVictims]]:
        """All pods on some rows that may go."""
        found: dict[str, Candidate] = {}
        gangs: dict[str, GangVictims] = {}
        for row in rows:
            candidates, of_row = candidates_on(self.scheduler.state, row, self.priority, self.rules, ())
            found |= {each.key: each for each in candidates}
            gangs |= of_row
        return found, gangs

    def _least_that_suffices(
        self, evictable: Mapping[str, Candidate], gangs: Mapping[str, GangVictims]
    ) -> tuple[Candidate, ...] | None:
        """The pods up to the lowest priority that suffice, at best without those whose budget is used up.

        None if all do not.
        """
        allowed = self.rules.budgets.allowed()
        protected = {key for key, each in evictable.items() if any(allowed.get(pdb, 0) <= 0 for pdb in each.pdbs)}
        priorities = sorted({each.priority for each in evictable.values()})
        for spared in (protected, set()) if protected else (protected,):
            pool = [each for key, each in evictable.items() if key not in spared]
            if not pool or not self._fits(_closed(pool, gangs)):
                continue
            for highest in priorities:
                chosen = _closed([each for each in pool if each.priority <= highest], gangs)
                if chosen and self._fits(chosen):
                    return chosen
        return None

    def _under_seats(self, most: tuple[Candidate, ...], gangs: Mapping[str, GangVictims]) -> tuple[Candidate, ...]:
        """Of the pods that may go, the cheapest ones under the seats that the gang gets without them, node by node."""
        state = self.scheduler.state
        decision = self._decision(frozenset(each.key for each in most))
        pods = {pod_key(pod): pod for pod in self.gang.pods}
        seated: dict[int, list[PodClass]] = {}
        for seat in decision.seats:
            seated.setdefault(state.rows[seat.node], []).append(state.classes.of(pods[seat.pod]))
        highest = max(each.priority for each in most)
        on_row: dict[int, list[Candidate]] = {}
        for each in most:
            on_row.setdefault(state.pods[each.key].row, []).append(each)
        chosen: list[Candidate] = []
        for row, classes in seated.items():
            if row not in on_row:
                continue
            found = None
            if len(set(classes)) == 1:
                preemptor = Preemptor(classes[0], None, highest + 1, self.scheduler.profile, len(classes))
                found = victims_on(
                    state, row, preemptor, self.rules, self.budget.at_most(self.budget.left / 8), floor=highest
                )
            chosen += on_row[row] if found is None else found.pods
        known = {each.key: each for each in most}
        return _closed([known.get(each.key, each) for each in chosen], gangs)

    def _has_slack(self, rows: list[int]) -> bool:
        """False if without its victims the gang's nodes hold it exactly: then no victim can be spared."""
        wanted = self._wanted()
        if self.best is None or len(wanted) > 1:
            return True
        state, ((pod, count),) = self.scheduler.state, wanted.items()
        topology = self.scheduler.profile.topology
        assumptions = topology.arguments.assumptions if topology is not None else Assumptions()
        with without(state, [each.key for each in self.best[1]]):
            return int(slots(state, pod, assumptions, np.array(rows), count + 1).sum()) > count

    def _spare(self, gangs: Mapping[str, GangVictims], leaving: tuple[str, ...]) -> None:
        """Try for each victim, the most important first, whether the gang can do without evicting it."""
        if self.best is None:
            return
        victims = sorted(self.best[1], key=lambda each: (-each.priority, each.key))
        for each in victims[:MOST_SPARED]:
            gang = gangs.get(each.gang)
            group = {each.key} if gang is None else {other.key for other in self.best[1] if other.gang == each.gang}
            for spared in ({each.key}, group) if len(group) > 1 else ({each.key},):
                fewer = tuple(other for other in self.best[1] if other.key not in spared)
                if len(fewer) < len(self.best[1]) and _closed(fewer, gangs) == fewer and self._offer(fewer, leaving):
                    break

    def _compare_all(
        self, evictable: Sequence[Candidate], gangs: Mapping[str, GangVictims], leaving: tuple[str, ...]
    ) -> None:
        """Try every set of victims that could cost less than the best one."""
        allowed = self.rules.budgets.allowed()

        def extend(start: int, chosen: tuple[Candidate, ...]) -> None:
            for index in range(start, len(evictable)):
                if evictable[index].key in {each.key for each in chosen}:
                    continue
                larger = _closed((*chosen, evictable[index]), gangs)
                cost = cost_of(larger, allowed)
                if self.best is not None and cost >= self.best[0]:
                    continue
                if larger and not self._offer(larger, leaving) and self._fits((*larger, *evictable[index + 1 :])):
                    extend(index + 1, larger)

        extend(0, ())

    # -- dry runs -------------------------------------------------------------------------------------------------

    def _offer(self, victims: tuple[Candidate, ...], leaving: tuple[str, ...]) -> bool:
        """Take a set of victims as the best plan if it suffices and costs less; True if it suffices."""
        if not self._fits(victims):
            return False
        cost = cost_of(victims, self.rules.budgets.allowed()) if victims else NO_COST
        if self.best is None or cost < self.best[0]:
            self.best = cost, victims, self._decision(frozenset(each.key for each in victims)).seats, leaving
        return True

    def _fits(self, victims: Iterable[Candidate]) -> bool:
        return self._decision(frozenset(each.key for each in victims)).placed

    def _decision(self, victims: frozenset[str]) -> GangDecision:
        known = self._tried.get(victims)
        if known is None:
            self.budget.spend(WORK_OF_A_TRIAL)
            with without(self.scheduler.state, sorted(victims), logged=True):
                decision = schedule_gang(self.scheduler, self.gang, PATIENCE_ENDED, self.budget)
                # Seats are worked out when they are first read, which must happen before the pods are back.
                known = self._tried[victims] = replace(decision, seats=tuple(decision.seats))
        return known


def _least_pods(now: NDArray[np.float64], then: NDArray[np.float64], pods: NDArray[np.float64], count: int) -> float:
    """About how many pods must leave a domain for `count` slots, from the nodes where a slot takes the fewest."""
    lacking = count - float(now.sum())
    gained = then - now
    rows = np.flatnonzero(gained > 0)
    if lacking <= 0 or not len(rows):
        return 0.0
    of_a_slot = pods[rows] / gained[rows]
    order = np.argsort(of_a_slot, kind="stable")
    taken = np.minimum(
        np.maximum(lacking - np.cumsum(gained[rows][order]) + gained[rows][order], 0), gained[rows][order]
    )
    return float((taken * of_a_slot[order]).sum())


def _closed(victims: Iterable[Candidate], gangs: Mapping[str, GangVictims]) -> tuple[Candidate, ...]:
    """Some victims, and with them all of a gang that would fall below its minimum; without those of a gang that cannot go."""
    chosen = {each.key: each for each in victims}
    for name, gang in gangs.items():
        of_gang = [each for each in chosen.values() if each.gang == name]
        if len(of_gang) <= gang.surplus:
            continue
        if gang.whole:
            chosen |= {each.key: each for each in gang.members}
        else:
            for each in sorted(of_gang, key=lambda each: (-each.priority, each.key))[: len(of_gang) - gang.surplus]:
                del chosen[each.key]
    return tuple(chosen.values())
