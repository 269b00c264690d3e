"""Pod affinity of gangs: which nodes other pods close to members, and the rules among members.

Other pods become a mask on slots, terms among members become rules for the whole gang (`member_rules.py`). Pod
preferences do not order seats: the topology decides a gang's place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

import numpy as np

from bayplan.cluster.pods.label_selectors import NOTHING
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import PodSelector, PodTerms
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.problem import Counts
from bayplan.engine.numa.rows import Mask
from bayplan.gangs.model import Gang
from bayplan.gangs.relations.member_rules import MemberRules, asked_for, counts_members, member_rules
from bayplan.gangs.relations.members import (
    MemberClass,
    MemberKind,
    affinity_by_key,
    number_of_terms,
    numbers_of_pods,
    singled_out,
    told_apart,
)
from bayplan.gangs.relations.shared_claims import one_volume_rules
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import PASSES, Profile

# Limit on different terms times different labels of members; a pair takes 4 us. Ten thousand ranks with two dozen equal
# terms stay below it.
MOST_PAIRS = 250_000
# Limit on classes that terms divide, each with slots of its own: 40 kB at 5,000 nodes.
MOST_DIVIDED = 1_000
# Members that can join one of several kinds of others try at most so many of them, in gangs with fewer pairs: each try
# reads all terms again.
MOST_ANCHORED = 4
MOST_PAIRS_ANCHORED = MOST_PAIRS // 25
NO_PODS = PodSelector(frozenset(), NOTHING, NOTHING)
LARGEST_SKEW = 2**31 - 1
TOO_MANY = "its pods have too many different terms about each other"


@dataclass(frozen=True)
class GangRelations:
    """Limits on a gang's slots beyond amounts. `problem` says why it must not be placed yet."""

    problem: str = ""
    open_rows: Mapping[MemberClass, Mask] = field(default_factory=dict)
    fellows: MemberRules = field(default_factory=MemberRules)
    numbers: Mapping[str, int] = field(default_factory=dict)
    """By pod, the number of its `MemberClass` if that is not 0."""
    coarser: GangRelations | None = None
    """The same with a node closed to all members of a shape if it is closed to one; None if that changes nothing."""

    def class_of(self, state: ClusterState, pod: Pod) -> MemberClass:
        """Return the class of a member."""
        return MemberClass(state.classes.of(pod), self.numbers.get(pod_key(pod), 0) if self.numbers else 0)

    def limit(self, pod: MemberClass, tree: Tree, slots: Counts) -> Counts:
        """Limit slots, by position in the tree, to those that other pods and one-per-node members leave open."""
        if pod in self.fellows.one_per_node:
            slots = np.minimum(slots, 1)
        is_open = self.open_rows.get(pod)
        return slots if is_open is None else slots * is_open[tree.rows]


NO_RELATIONS = GangRelations()


def may_concern(state: ClusterState, gang: Gang, profile: Profile) -> bool:
    """False if no member has terms about other pods, and no other pod can have terms about a member."""
    return bool(profile.relation_filters) and (state.neighbours.hold_terms or gang.has_pod_terms)


@dataclass(frozen=True)
class RelationsReader:
    """Reads the relations of one gang.

    `by_terms` are the members with terms, one for each set of equal terms; `shared` are claims of several members.
    """

    state: ClusterState
    members: Sequence[MemberKind]
    by_terms: Sequence[MemberKind]
    profile: Profile
    answers: ClassAnswers
    shared: Collection[str]

    @property
    def pairs(self) -> int:
        """How many terms and members there are to compare."""
        return sum(map(number_of_terms, self.by_terms)) * len(self.members)

    def relations(self) -> GangRelations:
        """Return what other pods and the members themselves demand of a gang's place."""
        if self.pairs > MOST_PAIRS:
            return GangRelations(TOO_MANY)
        classes = told_apart(self.state, self.members, self.by_terms)
        if sum(each.number > 0 for each in set(classes)) > MOST_DIVIDED:
            return GangRelations(TOO_MANY)
        return self._relations(self.members, classes, self._rules(self.members, classes))

    def anchored(self, pods: Collection[str]) -> Iterator[GangRelations]:
        """Yield relations where members that ask for others are beside one of these, their anchor, not beside all.

        Anchors are some of these pods.
        """
        if self.pairs > MOST_PAIRS_ANCHORED:
            return
        classes = told_apart(self.state, self.members, self.by_terms)
        rules = self._rules(self.members, classes).undecided()
        others = [[each for each in dict.fromkeys(classes) if each in rule.classes - rule.holders] for rule in rules]
        for wanted in islice(product(*others), MOST_ANCHORED) if rules else ():
            singled = singled_out(self.members, classes, wanted, pods)
            if singled is not None:
                members, of_members, anchors = singled
                yield self._relations(members, of_members, self._rules(members, of_members).beside(anchors))

    def _rules(self, members: Sequence[MemberKind], classes: Sequence[MemberClass]) -> MemberRules:
        return member_rules(self.state, members, self.by_terms, classes, self.profile.filter_names)

    def _relations(
        self, members: Sequence[MemberKind], classes: Sequence[MemberClass], fellows: MemberRules
    ) -> GangRelations:
        """Return the relations of members of some classes with these rules."""
        open_rows = _open_rows(self.state, members, classes, self.profile)

        def with_names(new: Mapping[MemberClass, MemberClass]) -> GangRelations:
            named = [new[each] for each in classes]
            rules = fellows.renamed(new)
            volumes = one_volume_rules(self.state, dict.fromkeys(named)) if self.shared else ()
            rows: dict[MemberClass, Mask] = {}
            for each, is_open in open_rows.items():
                rows[new[each]] = rows.get(new[each], is_open) & is_open
            rules = replace(rules, rules=(*rules.rules, *volumes))
            return GangRelations(fellows.problem, rows, rules, numbers_of_pods(members, named))

        if not any(each.number for each in classes):
            return with_names({each: each for each in classes})
        by_rules = _merged(classes, lambda each: (each.pod_class, fellows.sides_with(each)))

        def usable(each: MemberClass) -> bytes:
            is_open = open_rows.get(each)
            passing = self.answers.for_class(each.pod_class, self.profile).blocked == PASSES
            return b"" if is_open is None else (~is_open & passing).tobytes().rstrip(b"\0")

        by_rows = _merged(classes, lambda each: (by_rules[each], usable(each)))
        relations = with_names(by_rows)
        divided = len(set(by_rows.values())) > len(set(by_rules.values()))
        return replace(relations, coarser=with_names(by_rules)) if divided else relations


def _merged(classes: Sequence[MemberClass], alike: Callable[[MemberClass], Hashable]) -> dict[MemberClass, MemberClass]:
    """Name classes anew, so that those that are alike have one name."""
    numbers: dict[PodClass, dict[Hashable, int]] = {}
    new: dict[MemberClass, MemberClass] = {}
    for each in dict.fromkeys(classes):
        of_class = numbers.setdefault(each.pod_class, {})
        new[each] = MemberClass(each.pod_class, of_class.setdefault(alike(each), len(of_class)))
    return new


def _open_rows(
    state: ClusterState, members: Sequence[MemberKind], classes: Sequence[MemberClass], profile: Profile
) -> dict[MemberClass, Mask]:
    """Return, for each class, the rows that pods outside the gang leave open to its members."""
    found: dict[MemberClass, Mask] = {}
    asked: set[MemberClass] = set()
    for member, member_class in zip(members, classes, strict=True):
        if member_class in asked:
            continue  # all of a class look alike to those pods
        asked.add(member_class)
        incoming = member.incoming(state, _about_others(state, member, members))
        for _, plugin in profile.relation_filters:
            codes = plugin.refusals_of(state, incoming)
            if codes is not None:
                is_open: Mask = codes == 0
                found[member_class] = found.get(member_class, is_open) & is_open
    return found


def _about_others(state: ClusterState, member: MemberKind, members: Sequence[MemberKind]) -> PodTerms:
    """Return the terms of a member without those that other members satisfy: these are rules of the gang."""
    terms = member.terms
    own = {key for key, selectors in affinity_by_key(terms) if asked_for(state, members, member, selectors)}
    # Nodes without the label of any constraint count for none: those about members stay, without pods to count.
    spread = tuple(
        replace(rule, pods=NO_PODS, max_skew=LARGEST_SKEW, min_domains=1)
        if rule.required and counts_members(state, member, rule, members)
        else rule
        for rule in terms.spread
    )
    affinity = tuple(term for term in terms.affinity if term.topology_key not in own)
    return replace(terms, affinity=affinity, spread=spread)
