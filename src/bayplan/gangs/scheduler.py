"""The context for placing gangs: the cluster, its trees, a profile, and caches per gang and per class of pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.recent import Recent
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.budget import UNLIMITED, Budget
from bayplan.engine.gangs.problem import Counts
from bayplan.gangs.class_slots import ClassSlots
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.numa_level import NO_BUNDLE
from bayplan.gangs.outline import Outline, Tried, outline_of
from bayplan.gangs.relations.gang_relations import NO_RELATIONS, GangRelations, RelationsReader, may_concern
from bayplan.gangs.relations.members import MemberKind, members_of, with_equal_terms
from bayplan.gangs.relations.shared_claims import share_claims
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile

# Slots are cached for this many classes, 130 kB each at 5,000 nodes; the least recently used class is evicted first.
MOST_CLASSES = 1024


@dataclass
class GangScheduler:
    """The cluster, its trees and a profile, with bounded caches."""

    state: ClusterState
    trees: Trees
    profile: Profile
    answers: ClassAnswers

    def __post_init__(self) -> None:
        self._slots: Recent[_KeptSlots] = Recent(MOST_CLASSES)
        self._outlines: WeakKeyDictionary[Gang, Outline] = WeakKeyDictionary()
        self.settled: WeakKeyDictionary[Gang, Tried] = WeakKeyDictionary()
        """Proven answers for gangs of equal pods, valid until a slot changes."""
        self._sharing: WeakKeyDictionary[Gang, frozenset[str]] = WeakKeyDictionary()
        self._members: WeakKeyDictionary[Gang, tuple[MemberKind, ...]] = WeakKeyDictionary()
        self._with_terms: WeakKeyDictionary[Gang, tuple[MemberKind, ...]] = WeakKeyDictionary()

    def outline(self, gang: Gang, root: Group, tree: Tree, numbers: Mapping[str, int]) -> Outline:
        """Return a gang's parts and shapes; cached for gangs without running members.

        `numbers` are those of classes that terms divide (`gangs/relations/members.py`).
        """
        if numbers or root is not gang.root or any(group.running for group in root.every_group()):
            return outline_of(self.state, tree, root, numbers)
        known = self._outlines.get(gang)
        if known is None or known.levels != tree.levels:
            known = self._outlines[gang] = outline_of(self.state, tree, root, numbers)
        return known

    def relations(self, gang: Gang) -> GangRelations:
        """Return what other pods and the gang's own members demand about where it goes."""
        shared = self.share_claims(gang)
        if not shared and not may_concern(self.state, gang, self.profile):
            return NO_RELATIONS
        return self._reader(gang).relations()

    def anchored_relations(self, gang: Gang) -> Iterator[GangRelations]:
        """Yield looser relations: members that ask for others by affinity are beside one of these, not beside all."""
        return self._reader(gang).anchored(frozenset(map(pod_key, gang.pods)))

    def _reader(self, gang: Gang) -> RelationsReader:
        shared, members = self.share_claims(gang), self.members(gang)
        return RelationsReader(self.state, members, self._with_terms[gang], self.profile, self.answers, shared)

    def share_claims(self, gang: Gang) -> frozenset[str]:
        """Have the classes of a gang's pods name the claims that several of them use, and return these."""
        if gang not in self._sharing:
            self._sharing[gang] = share_claims(self.state, gang.root)
        return self._sharing[gang]

    def members(self, gang: Gang) -> tuple[MemberKind, ...]:
        """Return the kinds of a gang's members, later ones included."""
        if gang not in self._members:
            # Those of one group that are still to come are copies of one pod, of which two stand for all.
            coming = chain.from_iterable(group.coming[:2] for group in gang.root.every_group())
            self._members[gang] = members_of(self.state, (*gang.pods, *coming))
            self._with_terms[gang] = with_equal_terms(self._members[gang])
        return self._members[gang]

    def without(self, pods: Iterable[Pod]) -> GangScheduler:
        """Return a scheduler for a copy of the cluster without some pods."""
        state = self.state.copy()
        for pod in pods:
            state.remove_pod(pod_key(pod))
        return GangScheduler(state, self.trees.over(state), self.profile, ClassAnswers(state))

    def slots(
        self, pod: PodClass, tree: Tree, most: int, bundle: int = NO_BUNDLE, budget: Budget = UNLIMITED
    ) -> Counts:
        """Return, by position in the tree, how many pods of a class each kubelet would admit, at most `most`.

        With a `bundle`, counts bundles of that many pods that share a NUMA zone. Returns the same read-only array until
        a count changes.
        """
        key = (pod, bundle)
        known = self._slots.get(key)
        if known is None:
            answer = self.answers.for_class(pod, self.profile)
            known = self._slots.put(key, _KeptSlots(ClassSlots(self.state, pod, self.profile, answer, bundle)))
        return known.by_position(tree, most, budget)


class _KeptSlots:
    """The slots of one class by position in a tree."""

    def __init__(self, slots: ClassSlots) -> None:
        self._slots = slots
        self._made_of: tuple[int, int, Tree] | None = None
        self._by_position: Counts = np.zeros(0, dtype=np.int64)

    def by_position(self, tree: Tree, most: int, budget: Budget) -> Counts:
        """Return at most `most` for each position; the same array until a count changes."""
        counts = self._slots.refresh(most, budget)
        version, before = self._slots.version, self._made_of
        if before is None or before[:2] != (version, most) or before[2] is not tree:
            self._made_of = version, most, tree
            self._by_position = counts[tree.rows].astype(np.int64)
            self._by_position.flags.writeable = False
        return self._by_position
