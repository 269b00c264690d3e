"""Pod affinity of gangs: which nodes other pods close to members, and the rules among members.

Other pods become a mask on slots, terms among members become rules for the whole gang (`member_rules.py`). Pod
preferences do not order seats: the topology decides a gang's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import labels_of, namespace_of
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.problem import Counts
from bayplan.engine.numa.rows import Mask
from bayplan.gangs.model import Gang
from bayplan.gangs.relations.member_rules import MemberKind, MemberRules, about_others, member_rules
from bayplan.gangs.relations.shared_claims import OneVolume
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.profile import Profile

# Limit on different terms times different labels of members; a pair takes 4 us. Ten thousand ranks with two dozen equal
# terms stay below it.
MOST_PAIRS = 250_000
TOO_MANY = "its pods have too many different terms about each other"


@dataclass(frozen=True)
class GangRelations:
    """Limits on a gang's slots beyond amounts. `problem` says why it must not be placed yet."""

    problem: str = ""
    open_rows: dict[PodClass, Mask] = field(default_factory=dict)
    fellows: MemberRules = field(default_factory=MemberRules)

    def limit(self, pod: PodClass, tree: Tree, slots: Counts) -> Counts:
        """Limit slots, by position in the tree, to those that other pods and one-per-node members leave open."""
        if pod in self.fellows.one_per_node:
            slots = np.minimum(slots, 1)
        is_open = self.open_rows.get(pod)
        return slots if is_open is None else slots * is_open[tree.rows]

    def with_rules(self, rules: Sequence[OneVolume]) -> GangRelations:
        """Return the same relations with rules about shared claims."""
        return replace(self, fellows=replace(self.fellows, rules=(*self.fellows.rules, *rules)))


NO_RELATIONS = GangRelations()


def may_concern(state: ClusterState, gang: Gang, profile: Profile) -> bool:
    """False if no member has terms about other pods, and no other pod can have terms about a member."""
    return bool(profile.relation_filters) and (state.neighbours.hold_terms or gang.has_pod_terms)


def members_of(state: ClusterState, pods: Sequence[Pod]) -> tuple[MemberKind, ...]:
    """Return the kinds of members. Independent of placed pods, so it can be cached with the gang."""
    found: dict[tuple[PodClass, str, frozenset[tuple[str, str]], int], MemberKind] = {}
    numbers: dict[object, int] = {}
    for pod in pods:
        pod_class, terms = state.classes.of(pod), state.classes.terms_of(pod)
        namespace, labels = namespace_of(pod), labels_of(pod)
        key = (pod_class, namespace, frozenset(labels.items()), id(terms))
        numbers[key] = numbers.get(key, 0) + 1
        if key not in found:
            found[key] = MemberKind(pod_class, namespace, labels, terms, 0, pod_key(pod))
    return tuple(
        MemberKind(each.pod_class, each.namespace, each.labels, each.terms, numbers[key], each.example)
        for key, each in found.items()
    )


def gang_relations(state: ClusterState, members: Sequence[MemberKind], profile: Profile) -> GangRelations:
    """Return what other pods and the members themselves demand of a gang's place."""
    by_terms = _with_equal_terms(members)
    if sum(_number_of_terms(each) for each in by_terms) * len(members) > MOST_PAIRS:
        return GangRelations(TOO_MANY)
    fellows = member_rules(state, members, by_terms)
    return GangRelations(fellows.problem, _open_rows(state, members, profile), fellows)


def _with_equal_terms(members: Sequence[MemberKind]) -> list[MemberKind]:
    """Return members with terms, one for each set of equal terms."""
    found: dict[tuple[PodClass, int], MemberKind] = {}
    numbers: dict[object, int] = {}
    for each in members:
        if _number_of_terms(each):
            key = (each.pod_class, id(each.terms))
            found.setdefault(key, each)
            numbers[key] = numbers.get(key, 0) + each.number
    return [
        MemberKind(each.pod_class, each.namespace, each.labels, each.terms, numbers[key], each.example)
        for key, each in found.items()
    ]


def _number_of_terms(member: MemberKind) -> int:
    return len(member.terms.affinity) + len(member.terms.anti_affinity) + len(member.terms.spread)


def _open_rows(state: ClusterState, members: Sequence[MemberKind], profile: Profile) -> dict[PodClass, Mask]:
    """Return, for each class, the rows that pods outside the gang leave open to all its members.

    Members that look equal to those pods are checked once: ten thousand ranks differ only in a label that no term
    selects.
    """
    found: dict[PodClass, Mask] = {}
    asked: set[object] = set()
    for member in members:
        known_by = member.namespace, state.neighbours.labels_of_namespace(member.namespace), member.labels
        held = tuple(map(id, state.neighbours.anti_affinity.against(*known_by)))
        key = (member.pod_class, id(member.terms), held)
        if key in asked:
            continue
        asked.add(key)
        incoming = member.incoming(state, about_others(state, member, members))
        for _, plugin in profile.relation_filters:
            codes = plugin.refusals_of(state, incoming)
            if codes is not None:
                is_open: Mask = codes == 0
                found[member.pod_class] = found.get(member.pod_class, is_open) & is_open
    return found
