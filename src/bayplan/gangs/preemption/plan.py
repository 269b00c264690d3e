"""Plan a preemption for a whole gang: the cheapest pods whose eviction lets all of it start, or nothing.

    domains that could hold it (`domains.py`) -> room as bins (`bins.py`) -> cheapest victims (`cheapest.py`)

Costs are compared as for single pods (`scheduling/preemption/plan.py`), over all victims together. Every plan is
confirmed by a dry run of the gang's own search, so a required level, ranks and rules between members hold afterwards.
A plan is `proven` if every domain was searched or cannot be cheaper. Where that takes too much work, the first domain
with a good plan is taken, or as a last resort the cheapest pods under the seats that the gang would get.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from msgspec import Struct

from bayplan.cluster.dry_run import in_every_way, without
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.budget import Budget, OutOfWork
from bayplan.engine.preemption.covering import TooLarge
from bayplan.engine.preemption.victims import NO_COST, Candidate, Cost, GangVictims, cost_of
from bayplan.engine.slots.slots import slots
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Seat
from bayplan.gangs.preemption.bins import bins_of
from bayplan.gangs.preemption.cheapest import EvictionSearch, closed, search_domain
from bayplan.gangs.preemption.domains import DomainRows, DomainSearch, others_count, wanted_by
from bayplan.gangs.scheduler import GangScheduler
from bayplan.scheduling.preemption.candidates import EvictionRules, candidates_on, priority_of, terminating_on
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.preemption.on_node import Preemptor, victims_on
from bayplan.scheduling.preemption.plan import NEVER, NoPreemption

# Work of one plan, in the units of `engine/budget.py`, and of a dry run of the gang's search beside its own.
WORK_OF_A_GANG_PLAN = 8_000_000
WORK_OF_A_TRIAL = 2_000
# Of that, until a plan is found in one domain, and to prove that no other domain has a cheaper one: at leisure, and
# while other units wait for their turn.
WORK_OF_A_DOMAIN = 1_000_000
WORK_OF_A_PROOF = 5_000_000
WORK_OF_A_QUICK_PROOF = 40_000
WORK_OF_A_CANDIDATE = 30
# Where proofs are out of reach, at most this many domains are tried, in the order of about what they cost.
MOST_DOMAINS = 16
# This many victims are tried one by one: can the gang do without evicting it?
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
    scheduler: GangScheduler,
    gang: Gang,
    freeable: Freeable,
    rules: EvictionRules,
    work: float = WORK_OF_A_GANG_PLAN,
    proof: float = WORK_OF_A_PROOF,
) -> GangPreemption | NoPreemption:
    """Plan the cheapest preemption for a gang that fits nowhere. The state is as before afterwards."""
    meek = next((pod for pod in gang.pods if pod.spec.preemption_policy == NEVER), None)
    if meek is not None:
        return NoPreemption(f"not eligible: preemptionPolicy of pod {pod_key(meek)} is Never")
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    if tree is None or not gang.pods:
        return NoPreemption("the topology of its levels is not known")
    budget = Budget(work, hard=True)
    plan = _Plan(scheduler, gang, tree, freeable, rules, budget, budget.at_most(WORK_OF_A_DOMAIN), proof)
    try:
        plan.search()
    except OutOfWork:
        plan.proven, plan.limited = False, True
    if plan.best is None:
        reason = "search limit reached before victims were found" if plan.limited else ""
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
    proof: Budget
    """What is left of the work to prove that no plan costs less, or until the first is found."""
    work_of_a_proof: float
    best: tuple[Cost, tuple[Candidate, ...], Sequence[Seat], tuple[str, ...]] | None = None
    proven: bool = True
    limited: bool = False
    """Whether a limit of work kept the search from looking everywhere."""
    _tried: dict[frozenset[str], tuple[Seat, ...] | None] = field(default_factory=dict)

    @property
    def priority(self) -> int:
        """The priority of its least important pod: only pods below it may go."""
        return min(priority_of(pod) for pod in self.gang.pods)

    def search(self) -> None:
        """Look into the domains in the order of what they cost at least."""
        domains = list(DomainSearch(self.scheduler, self.gang, self.tree, self.freeable, self.priority).in_order())
        for number, domain in enumerate(domains):
            if self._is_dearer(domain):
                continue
            self.limited |= self.proof.is_spent
            if self.limited or not self._bounds_hold:
                self.proven = False
            if not self.proven and (number >= MOST_DOMAINS or self._is_good_enough(domains[0].least_highest)):
                self.limited = True
                return
            is_first = self.best is None
            self._look_into(domain)
            if domain.others:
                self.proven = False
                if self.best is None:
                    self._look_into(domain.whole())
            if is_first and self.best is not None:
                self.proof = self.budget.at_most(self.work_of_a_proof)
            if self.best is not None and self.best[0] == NO_COST:
                self.proven = True
                return

    def _look_into(self, domain: DomainRows) -> None:
        leaving = tuple(key for row in domain.rows for key in terminating_on(self.scheduler.state, row, self.rules))
        with without(self.scheduler.state, leaving, logged=True):
            self._tried.clear()
            self._search_in(domain, leaving)

    @property
    def cost(self) -> Cost | None:
        """What the best plan costs so far."""
        return None if self.best is None else self.best[0]

    @cached_property
    def _bounds_hold(self) -> bool:
        """False if victims outside a domain may make room in it, or if groups may be left out.

        Then it is open which pods must start together.
        """
        return not others_count(self.scheduler, self.gang, self.tree) and all(
            group.minimum_groups is None or group.minimum_groups >= len(group.groups)
            for group in self.gang.root.every_group()
        )

    def _is_dearer(self, domain: DomainRows) -> bool:
        """True if every plan in a domain has a more important victim than the best, which violates no budget."""
        return self.best is not None and (0, domain.least_highest) > self.best[0][:2]

    def _is_good_enough(self, lowest_highest: int) -> bool:
        """True if no domain has a plan with fewer violations or less important victims."""
        return self.best is not None and self.best[0][:2] <= (0, lowest_highest)

    # -- one domain -----------------------------------------------------------------------------------------------

    def _search_in(self, domain: DomainRows, leaving: tuple[str, ...]) -> None:
        """Look for the cheapest victims in a domain, where pods that are leaving have left already."""
        rows = domain.rows
        if leaving and self._offer((), leaving):
            return
        evictable, gangs = self._evictable(rows)
        if not evictable or self._prove(domain, evictable, gangs, leaving):
            return
        self.limited |= self.proven
        self.proven = False
        if self._is_good_enough(domain.least_highest) or not self._fits(evictable.values()):
            return
        before = self.best
        most = self._least_that_suffices(evictable, gangs)
        if most is not None:
            if not self._offer(self._under_seats(most, gangs), leaving):
                self._offer(most, leaving)
            # A plan of another domain has other gangs.
            if self.best is not before and self._has_slack(rows):
                self._spare(gangs, leaving)

    def _prove(
        self,
        within: DomainRows,
        evictable: Mapping[str, Candidate],
        gangs: Mapping[str, GangVictims],
        leaving: tuple[str, ...],
    ) -> bool:
        """Find the cheapest plan of a domain; False if the work for proofs does not suffice."""
        if not self.proven or self.proof.left < WORK_OF_A_CANDIDATE * len(evictable):
            return False
        wanted = wanted_by(self.scheduler, self.gang)
        self.proof.spend(WORK_OF_A_CANDIDATE * len(evictable))
        domain = EvictionSearch(
            bins_of(self.scheduler, within.rows, tuple(wanted), evictable.values()),
            tuple(wanted.values()),
            evictable,
            gangs,
            self.rules.budgets.allowed(),
            self._fits,
            lambda victims: self._offer(victims, leaving),
            lambda: self.cost,
            within.least_highest,
        )
        try:
            return search_domain(domain, self.proof)
        except TooLarge:
            return False

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
            if not pool or not self._fits(closed(pool, gangs)):
                continue
            for highest in priorities:
                chosen = closed([each for each in pool if each.priority <= highest], gangs)
                if chosen and self._fits(chosen):
                    return chosen
        return None

    def _under_seats(self, most: tuple[Candidate, ...], gangs: Mapping[str, GangVictims]) -> tuple[Candidate, ...]:
        """Of the pods that may go, the cheapest ones under the seats that the gang gets without them, node by node."""
        state = self.scheduler.state
        seats = self._seats(frozenset(each.key for each in most)) or ()
        pods = {pod_key(pod): pod for pod in self.gang.pods}
        seated: dict[int, list[PodClass]] = {}
        for seat in seats:
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
        return closed([known.get(each.key, each) for each in chosen], gangs)

    def _has_slack(self, rows: list[int]) -> bool:
        """False if without its victims the gang's nodes hold it exactly: then no victim can be spared."""
        wanted, state = wanted_by(self.scheduler, self.gang), self.scheduler.state
        if self.best is None or len(wanted) > 1:
            return True
        on_nodes = {state.rows[seat.node] for seat in self.best[2]}
        if any(state.pods[each.key].row not in on_nodes for each in self.best[1]):
            return True
        ((pod, count),) = wanted.items()
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
                if len(fewer) < len(self.best[1]) and closed(fewer, gangs) == fewer and self._offer(fewer, leaving):
                    break

    # -- dry runs -------------------------------------------------------------------------------------------------

    def _offer(self, victims: tuple[Candidate, ...], leaving: tuple[str, ...]) -> bool:
        """Take a set of victims as the best plan if it suffices and costs less; True if it suffices."""
        seats = self._seats(frozenset(each.key for each in victims))
        if seats is None:
            return False
        cost = cost_of(victims, self.rules.budgets.allowed()) if victims else NO_COST
        if self.best is None or cost < self.best[0]:
            self.best = cost, victims, seats, leaving
        return True

    def _fits(self, victims: Iterable[Candidate]) -> bool:
        return self._seats(frozenset(each.key for each in victims)) is not None

    def _seats(self, victims: frozenset[str]) -> tuple[Seat, ...] | None:
        """The gang's seats without some pods, if they are on the same nodes wherever these pods are."""
        if victims not in self._tried:
            found: list[tuple[Seat, ...]] = []

            def fits() -> bool:
                self.proof.spend(WORK_OF_A_TRIAL)
                decision = schedule_gang(self.scheduler, self.gang, PATIENCE_ENDED, self.budget)
                # Seats are worked out when they are first read, which must happen before the pods are back.
                found.append(tuple(decision.seats))
                nodes, first = ([(seat.pod, seat.node) for seat in seats] for seats in (found[-1], found[0]))
                return decision.placed and nodes == first

            held = in_every_way(self.scheduler.state, sorted(victims), fits, logged=True)
            self._tried[victims] = found[0] if held else None
        return self._tried[victims]
