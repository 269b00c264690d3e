"""One decision about a gang: tries parts of it one after another within one budget.

    GangAttempt(scheduler, gang, whole, tree, budget, relations).place(part) -> Tried

`gangs/plans.py` asks which part can start, `gangs/preferences.py` which preferences can be kept, `gangs/room.py` where
later members have room. `PartTrial` remembers what was tried. Slots are counted once for all parts;
`engine/gangs/search.py` searches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bayplan.cluster.columns.columns import NO_TOPOLOGY
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.topology.tree import Tree
from bayplan.cluster.volumes.mixes import volume_sums
from bayplan.engine.budget import LIMIT_REACHED, UNLIMITED, WORK, Budget, OutOfWork
from bayplan.engine.gangs.by_goals import by_goals
from bayplan.engine.gangs.objective import Goal
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts, Problem, Solution, Status, infeasible
from bayplan.engine.gangs.search import search
from bayplan.engine.numa.demand import demand
from bayplan.engine.numa.mixes import NodeMixes, needs_mixes
from bayplan.gangs.class_slots import NODES_PER_WORK
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.outline import NO_SUMS, Outline, Tried, node_sums, resources_of
from bayplan.gangs.relations.gang_relations import NO_RELATIONS, GangRelations
from bayplan.gangs.relations.layouts import MOST_LAYOUTS, layouts
from bayplan.gangs.relations.member_rules import Classes, MemberRules
from bayplan.gangs.relations.members import MemberClass
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod

# Slots are counted at least this far: otherwise an empty node would look as tight as one with two slots left.
LEAST_SLOTS_COUNTED = 16
# Statuses of a part that fits, and of answers that another search would only repeat.
FOUND = (Status.OPTIMAL, Status.FEASIBLE)
PROVEN = (Status.OPTIMAL, Status.INFEASIBLE)
# Of a gang with rules among its members: about 1 s in all, and a third of it for one layout.
WORK_OF_ALL_LAYOUTS = WORK / 2
WORK_OF_A_LAYOUT = WORK / 6
MEMBERS = "pods that its members allow"
UNCOUNTED = "the slots of its pods are not all counted"
HELPED = "unless different pods on one node help each other, which is not searched"


@dataclass
class GangAttempt:
    """Tries parts of one gang. `reported_only` restricts members that prefer reported nodes to those."""

    scheduler: GangScheduler
    gang: Gang
    root: Group
    tree: Tree
    budget: Budget
    relations: GangRelations = NO_RELATIONS
    reported_only: bool = False
    _counted: dict[tuple[MemberClass, int, int], Counts] = field(default_factory=dict)
    """Slots by class, bundle and limit."""

    def place(self, part: Group) -> Tried:
        """Search a place for a part. The whole gang gets the full budget of work, each smaller part a quarter."""
        outline = self.scheduler.outline(self.gang, part, self.tree, self.relations.numbers)
        if outline.problem:
            return Tried(outline, Problem(self.tree, outline.parts, (), *NO_SUMS), infeasible(outline.problem))
        try:
            slots = self._slots(outline)
        except OutOfWork:
            unknown = Solution(Status.LIMIT_REACHED, bound=f"{LIMIT_REACHED}: {UNCOUNTED}")
            return Tried(outline, Problem(self.tree, outline.parts, (), *NO_SUMS), unknown)
        budget = self.budget.at_most(WORK if part is self.root else WORK / 4)
        fellows = self.relations.fellows.among(outline.members)
        pods = [pod for group in part.every_group() for pod in group.pods] if fellows.companions else []
        unmet = next((each for each in fellows.companions if not each.is_met(self.scheduler.state, pods)), None)
        if unmet is not None:
            return Tried(outline, Problem(self.tree, outline.parts, slots, *NO_SUMS), infeasible(str(unmet)))
        if fellows.rules:
            return self._beside_fellows(outline, slots, budget, fellows)
        settled = self.scheduler.settled
        known = settled.get(self.gang)
        if known is not None and known.answers(outline, self.tree, slots):
            return known
        tried = self._search(outline, slots, budget)
        if part is self.gang.root and len(slots) == 1 and tried.status in PROVEN:
            settled[self.gang] = tried
        return tried

    def class_of(self, pod: Pod) -> MemberClass:
        """Return the class of a member."""
        return self.relations.class_of(self.scheduler.state, pod)

    def _slots(self, outline: Outline) -> tuple[Counts, ...]:
        """Return the slots of each shape, counted once for all parts of the gang."""
        most = max(outline.pods, LEAST_SLOTS_COUNTED)
        keys = list(zip(outline.members, outline.bundles, strict=True))
        for pod, bundle in keys:
            if (pod, bundle, most) not in self._counted:
                if pod.number:
                    self.budget.spend(self.tree.size / NODES_PER_WORK)
                counts = self.scheduler.slots(pod.pod_class, self.tree, most, bundle, self.budget)
                self._counted[pod, bundle, most] = self.relations.limit(pod, self.tree, counts)
        slots = tuple(self._counted[pod, bundle, most] for pod, bundle in keys)
        if not self.reported_only:
            return slots
        reported = self.scheduler.state.columns.topology[self.tree.rows] > NO_TOPOLOGY
        return tuple(
            np.where(reported, counts, 0) if self._prefers_reported(pod.pod_class) else counts
            for (pod, _), counts in zip(keys, slots, strict=True)
        )

    def _beside_fellows(
        self, outline: Outline, slots: tuple[Counts, ...], budget: Budget, fellows: MemberRules
    ) -> Tried:
        """Search inside layouts that satisfy the rules among members, and take the best result."""
        tree, members = self.tree, outline.members
        budget = budget.at_most(WORK_OF_ALL_LAYOUTS)
        totals = Problem(tree, outline.parts, slots, *NO_SUMS).totals[0]
        # Pods of one class have several shapes if only some share NUMA zones.
        by_class: dict[MemberClass, Counts] = {}
        wanted: dict[MemberClass, int] = {}
        for shape, (pod, counts) in enumerate(zip(members, slots, strict=True)):
            by_class[pod] = np.maximum(by_class.get(pod, counts), counts)
            wanted[pod] = wanted.get(pod, 0) + totals.get(shape, 0)
        required = WHOLE_TREE if outline.parts[0].required is None else outline.parts[0].required
        tries: list[Tried] = []
        complete = True
        try:
            for layout in layouts(self.scheduler.state, tree, fellows.rules, wanted, by_class, required, budget):
                if tries and budget.is_spent:
                    complete = False
                    break
                limited = tuple(layout.limit(pod, each) for pod, each in zip(members, slots, strict=True))
                tries.append(self._search(outline, limited, budget.at_most(WORK_OF_A_LAYOUT), layout.caps))
        except OutOfWork:
            complete = False
        found = [tried for tried in tries if tried.status in FOUND]
        settled = complete and len(tries) < MOST_LAYOUTS and all(tried.status in PROVEN for tried in tries)
        if found:
            return _best_of(found, fellows, settled=settled)
        # What has no room without the rules has none with them, and says so in plainer words.
        without = self._search(outline, slots, budget)
        if without.status is Status.INFEASIBLE:
            return without
        are_uniform = len(members) == len(outline.parts) == 1 and not outline.layers
        proven = settled and fellows.are_covered(are_uniform=are_uniform)
        status = Status.INFEASIBLE if proven else Status.LIMIT_REACHED
        problem = Problem(tree, outline.parts, slots, *NO_SUMS)
        return Tried(outline, problem, Solution(status, bound=fellows.unmet))

    def _search(
        self,
        outline: Outline,
        slots: tuple[Counts, ...],
        budget: Budget,
        caps: Sequence[tuple[Classes, Counts]] = (),
    ) -> Tried:
        state, tree, gang = self.scheduler.state, self.tree, self.gang
        caps = (*caps, *self._one_per_node(outline))
        mixes: NodeMixes | None = None
        amounts, free = NO_SUMS
        resources: tuple[str, ...] = ()
        if len(outline.classes) > 1:
            resources = resources_of(outline.classes)
            amounts, free = node_sums(state, tree, outline.classes, resources)
            of_volumes = volume_sums(state.volumes, [pod.volumes for pod in outline.classes], state.columns.size)
            for name, takes, room in (
                *((name, takes, room[tree.rows]) for name, takes, room in of_volumes),
                # A cap on several shapes together is one more resource of a node.
                *((MEMBERS, [int(pod in classes) for pod in outline.members], cap) for classes, cap in caps),
            ):
                resources = (*resources, name)
                amounts = np.column_stack((amounts, takes))
                free = np.vstack((free, room.astype(np.float64)))
            if needs_mixes(state, outline.classes):
                mixes = NodeMixes(state, tree, outline.classes, self.scheduler.profile.assumptions, budget)
        preferences = (gang.spread, mixes, gang.objective, gang.roomiest)
        problem = Problem(tree, outline.parts, slots, amounts, free, *preferences, resources)
        try:
            solution = search(problem, budget, outline.layers)
        except OutOfWork:
            solution = Solution(Status.LIMIT_REACHED, bound=LIMIT_REACHED)
        if mixes is not None:
            mixes.budget = UNLIMITED  # seats are taken in its order
        if mixes is not None and solution.status is Status.INFEASIBLE and any(map(_may_be_helped, outline.classes)):
            solution = replace(solution, status=Status.LIMIT_REACHED, bound=f"{solution.bound}, {HELPED}")
        return Tried(outline, problem, solution, mixes)

    def _one_per_node(self, outline: Outline) -> Iterator[tuple[Classes, Counts]]:
        """Yield caps on classes with one pod per node that are two shapes, because only some pods share NUMA zones."""
        several = Counter(outline.members) if self.relations.fellows.one_per_node else Counter[MemberClass]()
        for pod, shapes in several.items():
            if shapes > 1 and pod in self.relations.fellows.one_per_node:
                yield frozenset((pod,)), np.ones(self.tree.size, dtype=np.int64)

    @property
    def is_monotone(self) -> bool:
        """True if a place for a part is one for every smaller part: what holds still holds with fewer pods."""
        return self.relations.fellows.is_monotone

    def only_forbidding(self) -> GangAttempt:
        """Return this attempt without the rules that demand other members; what it refuses, they cannot allow."""
        if self.is_monotone:
            return self
        return replace(self, relations=replace(self.relations, fellows=self.relations.fellows.only_forbidding()))

    def stricter(self) -> Iterator[GangAttempt]:
        """Yield attempts that come first, on fewer nodes.

        Equal pods that are open to the same nodes are searched exactly and seated by rank; others are shapes of their
        own. Nodes without a report are for members that fit nowhere else.
        """
        coarser = self
        if self.relations.coarser is not None:
            coarser = self._with(self.relations.coarser)
        is_coarser = coarser is not self
        if self.prefers_reported:
            yield replace(coarser, reported_only=True)
            if is_coarser:
                yield replace(self, reported_only=True)
        if is_coarser:
            yield coarser

    def looser(self) -> Iterator[GangAttempt]:
        """Yield attempts for the whole gang that come last, where members that ask for others join some of them."""
        if self.relations.fellows.undecided():
            for relations in self.scheduler.anchored_relations(self.gang):
                anchored = self._with(relations)
                for each in (*anchored.stricter(), anchored):
                    if self.budget.is_spent:
                        return
                    yield each

    def _with(self, relations: GangRelations) -> GangAttempt:
        return replace(self, relations=relations, _counted={})

    @property
    def prefers_reported(self) -> bool:
        """True if members prefer nodes with reports, and the cluster has nodes with and without."""
        columns = self.scheduler.state.columns
        if columns.everywhere("topology") is not None:
            return False
        reported = columns.topology[: columns.size][columns.present[: columns.size]] > NO_TOPOLOGY
        return bool(reported.any() and not reported.all()) and any(
            self._prefers_reported(self.class_of(pod).pod_class) for pod in self.gang.pods
        )

    def _prefers_reported(self, pod: PodClass) -> bool:
        topology = self.scheduler.profile.topology
        return topology is not None and topology.prefers_reported(pod)


@dataclass
class PartTrial:
    """Tries parts of a gang, each once, and records which were refused, and whether any was undecided."""

    attempt: GangAttempt
    undecided: bool = False
    refused: list[tuple[Group, Tried]] = field(default_factory=list)
    # Holding the part keeps its id from being reused.
    _known: dict[int, tuple[Group, Tried]] = field(default_factory=dict)

    @property
    def budget(self) -> Budget:
        """The budget of the decision."""
        return self.attempt.budget

    def place(self, part: Group) -> Tried:
        """Search a place for a part."""
        if id(part) not in self._known:
            tried = self.attempt.place(part)
            self._known[id(part)] = part, tried
            self.undecided |= tried.status is Status.LIMIT_REACHED
            if tried.status not in FOUND:
                self.refused.append((part, tried))
        return self._known[id(part)][1]

    def only_forbidding(self) -> PartTrial:
        """Return trials of the same parts without the rules that demand other members."""
        return PartTrial(self.attempt.only_forbidding())


def _may_be_helped(pod: PodClass) -> bool:
    """True if a pod may fit only after another one, which changes the zones that its containers get."""
    return len(demand(pod).container_steps) > 1


def _best_of(found: Sequence[Tried], fellows: MemberRules, *, settled: bool) -> Tried:
    """The best of several layouts by the gang's goals; `settled` if all layouts were searched to a proof."""
    best = min(found, key=lambda tried: by_goals(tried.problem, tried.solution)) if len(found) > 1 else found[0]
    unsaid = _unsaid(found, fellows, settled=settled)
    if not unsaid:
        return best
    bound = f"{best.solution.bound}; {unsaid}"
    return replace(best, solution=replace(best.solution, status=Status.FEASIBLE, bound=bound))


def _unsaid(found: Sequence[Tried], fellows: MemberRules, *, settled: bool) -> str:
    """What keeps the best of several layouts from being the best of all; empty if nothing does."""
    if not fellows.keep_the_best:
        return f"searched where {fellows} among its pods can hold"
    if not settled:
        return f"not all places that satisfy {fellows} were compared"
    first = found[0].problem.objective[0]
    if len(found) > 1 and first is Goal.LEAST_LEFTOVER and found[0].outline.layers:
        return f"places for {fellows} were not compared by {first.value} of segments"
    return ""
