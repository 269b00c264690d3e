"""Gangs and the pods beside them: which nodes neighbours close to members, and what members ask of each other.

What stands outside of a gang is a mask on the slots of its pods. What members ask of each other are rules for the gang as a whole
(`gangs/fellows.py`). Preferences give no order to seats: a gang's place is chosen by its topology.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import labels_of, namespace_of
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.problem import Counts
from bayplan.engine.numa.rows import Mask
from bayplan.gangs.fellows import FellowRules, MemberKind, about_others, fellow_rules
from bayplan.gangs.model import Gang
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.profile import Profile

# Different terms times different labels among members. Ten thousand ranks with the same terms are far below it.
MOST_PAIRS = 1_000_000
TOO_MANY = "its pods say too many different things about each other"


@dataclass(frozen=True)
class GangRelations:
    """What limits a gang's slots beside amounts. `problem` says why it must not be placed now whatever there is."""

    problem: str = ""
    open_rows: dict[PodClass, Mask] = field(default_factory=dict)
    fellows: FellowRules = field(default_factory=FellowRules)

    def limit(self, pod: PodClass, tree: Tree, slots: Counts) -> Counts:
        """Slots by position in the tree, as far as neighbours and members that want a node each leave them."""
        if pod in self.fellows.one_per_node:
            slots = np.minimum(slots, 1)
        is_open = self.open_rows.get(pod)
        return slots if is_open is None else slots * is_open[tree.rows]


NO_RELATIONS = GangRelations()


def may_concern(state: ClusterState, gang: Gang, profile: Profile) -> bool:
    """False if no member has terms about other pods, and no other pod can have terms about a member."""
    return bool(profile.relation_filters) and (state.neighbours.hold_terms or gang.speaks_of_neighbours)


def members_of(state: ClusterState, pods: Sequence[Pod]) -> tuple[MemberKind, ...]:
    """The sorts of members. It does not depend on what stands anywhere, so it can be kept as long as the gang."""
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
    """What pods on the nodes and members themselves mean for a gang."""
    by_terms = _with_equal_terms(members)
    if len(by_terms) * len(members) > MOST_PAIRS:
        return GangRelations(TOO_MANY)
    fellows = fellow_rules(state, members, by_terms)
    return GangRelations(fellows.problem, _open_rows(state, members, profile), fellows)


def _with_equal_terms(members: Sequence[MemberKind]) -> list[MemberKind]:
    """Members that say something, one for all that say the same."""
    found: dict[tuple[PodClass, int], MemberKind] = {}
    numbers: dict[object, int] = {}
    for each in members:
        if each.terms.affinity or each.terms.anti_affinity or each.terms.spread:
            key = (each.pod_class, id(each.terms))
            found.setdefault(key, each)
            numbers[key] = numbers.get(key, 0) + each.number
    return [
        MemberKind(each.pod_class, each.namespace, each.labels, each.terms, numbers[key], each.example)
        for key, each in found.items()
    ]


def _open_rows(state: ClusterState, members: Sequence[MemberKind], profile: Profile) -> dict[PodClass, Mask]:
    """For each class, the rows that pods outside the gang leave open to all its members.

    Members that look the same to those pods are checked once: ten thousand ranks differ only in a label that no term selects.
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
