"""Place a whole gang: the counterpart of `cycle.py` for pods that start together or not at all.

    classes of the gang's pods -> slots per node (what kubelets would admit, and pods beside them leave) -> search in the tree
    -> seats in the order of ranks

`schedule_gang` changes nothing. `assume_gang` takes the seats one by one, with the zones of each pod, and gives everything back if one of
them cannot be had after all. Optional things are given up in this order: segments that are only wished for, extra members, groups
beyond the minimum. What is required is never given up. Of the places that are left, one with room for members that are still to come is taken (`gangs/room.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from bayplan.cluster.columns.columns import NO_TOPOLOGY
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.reports.recent import Recent
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.budget import LIMIT_REACHED, UNLIMITED, WORK, WORK_OF_A_DECISION, Budget, OutOfWork
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts, Problem, Solution, Status, domains_used, infeasible
from bayplan.engine.gangs.search import search
from bayplan.engine.numa.demand import demand
from bayplan.engine.numa.mixes import NodeMixes, needs_mixes
from bayplan.extensions import PLACEMENT_STYLE, compat
from bayplan.gangs.assuming import SeatTaker
from bayplan.gangs.checks import problem_of
from bayplan.gangs.class_slots import ClassSlots
from bayplan.gangs.fellows import MOST_LAYOUTS, Classes, FellowRules, Member, layouts
from bayplan.gangs.model import BAYPLAN, Gang, GangDecision, Group
from bayplan.gangs.numa_level import NO_UNIT, in_zone_words, torn_unit
from bayplan.gangs.numbers import NO_SUMS, Outline, Tried, node_sums, outline_of, resources_of
from bayplan.gangs.patience import patience_left
from bayplan.gangs.plans import Outcome, best_part
from bayplan.gangs.preferences import FOUND
from bayplan.gangs.ranks.late_segments import by_segments
from bayplan.gangs.ranks.parallelism import preferring_groups
from bayplan.gangs.relations import (
    NO_RELATIONS,
    GangRelations,
    gang_relations,
    may_concern,
    members_of,
)
from bayplan.gangs.room import with_room
from bayplan.gangs.seats import Seats
from bayplan.gangs.trees import Trees
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import Profile

# Slots are counted at least so far, even for a gang of two: otherwise an empty node would look as tight as one with two slots left.
TELLS_NODES_APART = 16
# Slots are cached for this many classes, 130 kB each at 5,000 nodes; the least recently used class is evicted first.
MOST_CLASSES = 1024
# Answers that another search would only repeat.
PROVEN = (Status.OPTIMAL, Status.INFEASIBLE)
UNCOUNTED = "the slots of its pods are not all counted"
Counted = dict[tuple[PodClass, int, int], Counts]
"""Slots by class, unit and the most that were counted."""
HELPED = "unless different pods on one node help each other, which is not looked into"


@dataclass
class GangScheduler:
    """What placing gangs needs beside the gang: the cluster, its trees, the profile and everything that is kept per class."""

    state: ClusterState
    trees: Trees
    profile: Profile
    answers: ClassAnswers

    def __post_init__(self) -> None:
        self._slots: Recent[_KeptSlots] = Recent(MOST_CLASSES)
        self._outlines: WeakKeyDictionary[Gang, Outline] = WeakKeyDictionary()
        self._settled: WeakKeyDictionary[Gang, Tried] = WeakKeyDictionary()
        self._members: WeakKeyDictionary[Gang, tuple[Member, ...]] = WeakKeyDictionary()

    def outline(self, gang: Gang, whole: Group, tree: Tree) -> Outline:
        """A gang's parts and shapes; cached for gangs that retry and have no running members."""
        if whole is not gang.whole or any(group.running for group in whole.every_group()):
            return outline_of(self.state, tree, whole)
        known = self._outlines.get(gang)
        if known is None or known.levels != tree.levels:
            known = self._outlines[gang] = outline_of(self.state, tree, whole)
        return known

    def relations(self, gang: Gang) -> GangRelations:
        """What pods on the nodes, and the gang's own, say about where its members may be."""
        if not may_concern(self.state, gang, self.profile):
            return NO_RELATIONS
        return gang_relations(self.state, self.members(gang), self.profile)

    def members(self, gang: Gang) -> tuple[Member, ...]:
        """The sorts of a gang's members."""
        if gang not in self._members:
            self._members[gang] = members_of(self.state, gang.pods)
        return self._members[gang]

    def place(
        self,
        gang: Gang,
        whole: Group,
        tree: Tree,
        budget: Budget,
        relations: GangRelations = NO_RELATIONS,
        *,
        reported_only: bool = False,
        counted: Counted | None = None,
        work: float = WORK,
    ) -> Tried:
        """Search a place for a part of a gang; with `reported_only` members that prefer nodes with reports find no other ones.

        `counted` are the slots that were counted for other parts in the same decision. `work` is what the search may take, without counting.
        """
        outline = self.outline(gang, whole, tree)
        if outline.problem:
            return Tried(outline, Problem(tree, outline.parts, (), *NO_SUMS), infeasible(outline.problem))
        most = max(outline.pods, TELLS_NODES_APART)
        kept = {} if counted is None else counted
        try:
            for key in zip(outline.classes, outline.units, strict=True):
                if (*key, most) not in kept:
                    pod, unit = key
                    kept[*key, most] = relations.limit(pod, tree, self.slots(pod, tree, most, unit, budget))
        except OutOfWork:
            unknown = Solution(Status.LIMIT_REACHED, bound=f"{LIMIT_REACHED}: {UNCOUNTED}")
            return Tried(outline, Problem(tree, outline.parts, (), *NO_SUMS), unknown)
        slots = tuple(kept[*key, most] for key in zip(outline.classes, outline.units, strict=True))
        if reported_only:
            reported = self.state.columns.topology[tree.rows] > NO_TOPOLOGY
            slots = tuple(
                np.where(reported, counts, 0) if self._prefers_reported(pod) else counts
                for pod, counts in zip(outline.classes, slots, strict=True)
            )
        budget = budget.at_most(work)
        if relations.fellows.rules:
            return self._beside_fellows(gang, tree, outline, slots, budget, relations.fellows)
        known = self._settled.get(gang)
        if known is not None and known.answers(outline, tree, slots):
            return known
        tried = self._search(gang, tree, outline, slots, budget)
        if whole is gang.whole and len(slots) == 1 and tried.status in PROVEN:
            self._settled[gang] = tried
        return tried

    def _beside_fellows(
        self,
        gang: Gang,
        tree: Tree,
        outline: Outline,
        slots: tuple[Counts, ...],
        budget: Budget,
        fellows: FellowRules,
    ) -> Tried:
        """Search inside layouts that satisfy what members ask of each other, and take the best of what is found."""
        totals = Problem(tree, outline.parts, slots, *NO_SUMS).totals[0]
        by_class = dict(zip(outline.classes, slots, strict=True))
        required = WHOLE_TREE if outline.parts[0].required is None else outline.parts[0].required
        tries: list[Tried] = []
        wanted = {pod: totals.get(shape, 0) for shape, pod in enumerate(outline.classes)}
        for layout in layouts(self.state, tree, fellows.rules, wanted, by_class, required):
            if tries and budget.is_spent:
                break
            limited = tuple(layout.limit(pod, each) for pod, each in by_class.items())
            tries.append(self._search(gang, tree, outline, limited, budget, layout.caps))
        found = [tried for tried in tries if tried.status in FOUND]
        settled = len(tries) < MOST_LAYOUTS and all(tried.status in PROVEN for tried in tries)
        if found:
            best = min(found, key=lambda tried: tried.domains)
            if settled and fellows.leave_the_best:
                return best
            bound = f"{best.solution.bound}; searched where {fellows} among its pods can hold"
            return replace(best, solution=replace(best.solution, status=Status.FEASIBLE, bound=bound))
        status = Status.INFEASIBLE if settled and fellows.covered else Status.LIMIT_REACHED
        problem = Problem(tree, outline.parts, slots, *NO_SUMS)
        return Tried(outline, problem, Solution(status, bound=f"no place satisfies {fellows} among its pods"))

    def _search(
        self,
        gang: Gang,
        tree: Tree,
        outline: Outline,
        slots: tuple[Counts, ...],
        budget: Budget,
        caps: Sequence[tuple[Classes, Counts]] = (),
    ) -> Tried:
        mixes: NodeMixes | None = None
        amounts, free = NO_SUMS
        resources: tuple[str, ...] = ()
        if len(outline.classes) > 1:
            resources = resources_of(outline.classes)
            amounts, free = node_sums(self.state, tree, outline.classes, resources)
            for classes, cap in caps:
                # A cap on several shapes together is one more thing that a node has so much of.
                resources = (*resources, "pods that its members allow")
                amounts = np.column_stack((amounts, [float(pod in classes) for pod in outline.classes]))
                free = np.vstack((free, cap.astype(np.float64)))
            if needs_mixes(self.state, outline.classes):
                mixes = NodeMixes(self.state, tree, outline.classes, self._assumptions, budget)
        wishes = (gang.spread, mixes, gang.objective, gang.roomiest)
        problem = Problem(tree, outline.parts, slots, amounts, free, *wishes, resources)
        try:
            solution = search(problem, budget, outline.layers)
        except OutOfWork:
            solution = Solution(Status.LIMIT_REACHED, bound=LIMIT_REACHED)
        if mixes is not None:
            mixes.budget = UNLIMITED  # seats are taken in the orders that it found
        if mixes is not None and solution.status is Status.INFEASIBLE and any(map(_may_be_helped, outline.classes)):
            solution = replace(solution, status=Status.LIMIT_REACHED, bound=f"{solution.bound}, {HELPED}")
        return Tried(outline, problem, solution, mixes)

    def prefers_reported(self, gang: Gang) -> bool:
        """Whether some members prefer nodes with reports, and there are nodes with and without."""
        columns = self.state.columns
        if columns.everywhere("topology") is not None:
            return False
        reported = columns.topology[: columns.size][columns.present[: columns.size]] > NO_TOPOLOGY
        return bool(reported.any() and not reported.all()) and any(
            self._prefers_reported(self.state.classes.of(pod)) for pod in gang.pods
        )

    def _prefers_reported(self, pod: PodClass) -> bool:
        return self.profile.topology is not None and self.profile.topology.prefers_reported(pod)

    @property
    def _assumptions(self) -> Assumptions:
        return self.profile.topology.arguments.assumptions if self.profile.topology else Assumptions()

    def preferring_groups(self, gang: Gang, whole: Group, tree: Tree) -> Group:
        """A gang that prefers to keep its innermost parallel groups together."""
        if not gang.parallelism or not whole.pods:
            return whole
        slots = self.slots(self.state.classes.of(whole.pods[0]), tree, max(len(whole.pods), TELLS_NODES_APART))
        return preferring_groups(whole, gang, tree, slots)

    def slots(self, pod: PodClass, tree: Tree, most: int, unit: int = NO_UNIT, budget: Budget = UNLIMITED) -> Counts:
        """By position in the tree, how many pods of a class each node's kubelet would admit, at most `most`; in units that share a NUMA zone.

        Returns the same read-only array until a count changes.
        """
        key = (pod, unit)
        known = self._slots.get(key)
        if known is None:
            answer = self.answers.for_class(pod, self.profile)
            known = self._slots.put(key, _KeptSlots(ClassSlots(self.state, pod, self.profile, answer, unit)))
        return known.by_position(tree, most, budget)


class _KeptSlots:
    """The slots of one class, by row and as a tree's positions have them."""

    def __init__(self, slots: ClassSlots) -> None:
        self._slots = slots
        self._made_of: tuple[int, int, Tree] | None = None
        self._by_position: Counts = np.zeros(0, dtype=np.int64)

    def by_position(self, tree: Tree, most: int, budget: Budget) -> Counts:
        """At most `most` each; the same array as long as no count has changed."""
        counts, _ = self._slots.refresh(most, budget)
        version, before = self._slots.version, self._made_of
        if before is None or before[:2] != (version, most) or before[2] is not tree:
            self._made_of = version, most, tree
            self._by_position = counts[tree.rows].astype(np.int64)
            self._by_position.flags.writeable = False
        return self._by_position


def _may_be_helped(pod: PodClass) -> bool:
    """True if a pod may be admitted after another one and not before it: what that one takes leads its containers elsewhere."""
    return len(demand(pod).container_steps) > 1


def schedule_gang(
    scheduler: GangScheduler, gang: Gang, waited: float = 0.0, around: Budget | None = None
) -> GangDecision:
    """Decide where a gang goes. The state stays as it is; `waited` is for how many seconds the gang has been waiting.

    The decision takes no more than `WORK_OF_A_DECISION`, nor than is left of the budget `around` it. A gang that needs more has the status `LIMIT_REACHED`.
    """
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    wrong = problem_of(gang, tree, scheduler.trees.names)
    if wrong or tree is None:
        return GangDecision(gang.name, Status.INFEASIBLE, wrong, problem=wrong)
    relations = scheduler.relations(gang)
    if relations.problem:
        return GangDecision(gang.name, Status.INFEASIBLE, relations.problem, problem=relations.problem)
    if gang.style != BAYPLAN:
        if relations.fellows.rules:
            problem = f"its pods ask for {relations.fellows} among themselves, which style {gang.style} cannot judge"
            return GangDecision(gang.name, Status.INFEASIBLE, problem, problem=problem)
        place = compat(PLACEMENT_STYLE, gang.style)
        decision: GangDecision = place(scheduler.state, tree, gang, scheduler.profile, scheduler.answers)
        return decision

    whole = scheduler.preferring_groups(gang, by_segments(gang), tree)

    prefers_reported = scheduler.prefers_reported(gang)
    budget = Budget(WORK_OF_A_DECISION if around is None else min(WORK_OF_A_DECISION, around.left), around, hard=True)
    counted: Counted = {}

    def attempt(part: Group, *, reported_only: bool = False) -> Tried:
        # The whole gang gets the most work; parts of it get less, because there may be many.
        work = WORK if part is whole else WORK / 4
        return scheduler.place(
            gang, part, tree, budget, relations, reported_only=reported_only, counted=counted, work=work
        )

    if prefers_reported:
        # Nodes without a report only if some member has no place elsewhere.
        on_reported = partial(attempt, reported_only=True)
        outcome = Outcome(whole, on_reported(whole))
        if outcome.found:
            return _decision(gang, whole, with_room(outcome, on_reported, budget), waited)
    outcome = best_part(whole, scheduler.state.classes.of, attempt, budget)
    if outcome.tried.outline.problem:
        reason = outcome.tried.outline.problem
        return GangDecision(gang.name, Status.INFEASIBLE, reason, problem=reason)
    if outcome.found:
        return _decision(gang, whole, with_room(outcome, attempt, budget), waited)
    return GangDecision(gang.name, outcome.status, in_zone_words(gang, tree.levels, outcome.tried.solution.bound))


def _decision(gang: Gang, whole: Group, outcome: Outcome, waited: float) -> GangDecision:
    tried = outcome.tried
    used = None if gang.whole.preferred is None else domains_used(tried.problem, tried.solution, 0)
    left = 0.0 if used is None else patience_left(gang, used, len(tried.problem.used(0)), waited)
    waits = ""
    if left and gang.patience is not None:
        waits = f"{used} preferred domains, waits for {gang.patience.domains} up to {gang.patience.seconds:g} s"
    return GangDecision(
        gang.name,
        outcome.status,
        tried.solution.bound if outcome.complete else f"{tried.solution.bound}; more of it may have a place",
        Seats(gang, tried),
        tried.solution.gap,
        outcome.left_out(whole),
        outcome.relaxed(whole),
        used,
        waits,
        left,
        objective=gang.objective,
        parallelism=gang.parallelism,
    )


def assume_gang(scheduler: GangScheduler, gang: Gang, decision: GangDecision) -> list[Decision] | None:
    """Take every seat of a decision with the zones there; None, and nothing taken, if a node says no after all."""
    pods = {pod_key(pod): pod for pod in gang.pods}
    taker = SeatTaker(scheduler.state, scheduler.profile, scheduler.answers)
    for seat in decision.seats:
        if not taker.take(seat, pods[seat.pod]):
            taker.give_back()
            return None
    taken = {each.pod: each for each in taker.taken}
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    if tree is not None and torn_unit(gang, decision.seats, taken, tree.levels):
        taker.give_back()
        return None
    return [taken[seat.pod] for seat in decision.seats]
