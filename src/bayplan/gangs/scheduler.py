"""What placing gangs needs beside the gang: the cluster, its trees, the profile, and everything that is kept per class of pods."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.recent import Recent
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.budget import UNLIMITED, Budget
from bayplan.engine.gangs.problem import Counts
from bayplan.gangs.class_slots import ClassSlots
from bayplan.gangs.fellows import Member
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.numa_level import NO_UNIT
from bayplan.gangs.numbers import Outline, Tried, outline_of
from bayplan.gangs.relations import NO_RELATIONS, GangRelations, gang_relations, may_concern, members_of
from bayplan.gangs.trees import Trees
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile

# Slots are cached for this many classes, 130 kB each at 5,000 nodes; the least recently used class is evicted first.
MOST_CLASSES = 1024


@dataclass
class GangScheduler:
    """The cluster, its trees and a profile. What it keeps is bounded, and forgotten with the gang or the class."""

    state: ClusterState
    trees: Trees
    profile: Profile
    answers: ClassAnswers

    def __post_init__(self) -> None:
        self._slots: Recent[_KeptSlots] = Recent(MOST_CLASSES)
        self._outlines: WeakKeyDictionary[Gang, Outline] = WeakKeyDictionary()
        self.settled: WeakKeyDictionary[Gang, Tried] = WeakKeyDictionary()
        """Proven answers about gangs of equal pods, good as long as no slot changes."""
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
