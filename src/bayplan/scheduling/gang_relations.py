"""Gangs and the pods beside them: which nodes neighbours close to members, and what members ask of each other.

What stands outside of a gang is a mask on the slots of its pods. Among members one thing is common and can be counted: pods that want no fellow on
their node (required anti-affinity on the host name) have one slot per node. Any other demand among members would make the slots
of one node depend on who sits on another; such a gang is held back with a sentence instead of being placed wrongly. Preferences give
no order to seats: a gang's place is chosen by its topology.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayplan.cluster.label_selectors import Labels
from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.pod_terms import PodSelector, PodTerms, labels_of, namespace_of
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.tree import Tree
from bayplan.engine.gangs.problem import Counts
from bayplan.engine.rows import Mask
from bayplan.kube.core_v1 import Pod
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.plugins.base import Newcomer
from bayplan.scheduling.gang import Gang
from bayplan.scheduling.profile import Profile

# Different terms times different labels among members. Ten thousand ranks with the same terms are far below it.
MOST_PAIRS = 1_000_000
CANNOT_JUDGE = "pod {} asks for {} among the pods of its own gang, which this version of bayplan cannot judge yet"
TOO_MANY = "its pods say too many different things about each other"


@dataclass(frozen=True, slots=True)
class Member:
    """One sort of members: pods of a class with the same labels and terms. `example` is one of `number`."""

    pod_class: PodClass
    namespace: str
    labels: Labels
    terms: PodTerms
    number: int
    example: str


@dataclass(frozen=True)
class GangRelations:
    """What limits a gang's slots beside amounts. `problem` says why it must not be placed now whatever there is."""

    problem: str = ""
    one_per_node: frozenset[PodClass] = frozenset()
    open_rows: dict[PodClass, Mask] = field(default_factory=dict)

    def limit(self, pod: PodClass, tree: Tree, slots: Counts) -> Counts:
        """Slots by position in the tree, as far as neighbours and fellow members leave them."""
        if pod in self.one_per_node:
            slots = np.minimum(slots, 1)
        is_open = self.open_rows.get(pod)
        return slots if is_open is None else slots * is_open[tree.rows]


NO_RELATIONS = GangRelations()


def may_concern(state: ClusterState, gang: Gang, profile: Profile) -> bool:
    """False if no member says anything about other pods, and nobody could say anything about a member."""
    return bool(profile.relation_filters) and (state.neighbours.hold_terms or gang.speaks_of_neighbours)


def members_of(state: ClusterState, pods: Sequence[Pod]) -> tuple[Member, ...]:
    """The sorts of members. It does not depend on what stands anywhere, so it can be kept as long as the gang."""
    found: dict[tuple[PodClass, str, frozenset[tuple[str, str]], int], Member] = {}
    numbers: dict[object, int] = {}
    for pod in pods:
        pod_class, terms = state.classes.of(pod), state.classes.terms_of(pod)
        namespace, labels = namespace_of(pod), labels_of(pod)
        key = (pod_class, namespace, frozenset(labels.items()), id(terms))
        numbers[key] = numbers.get(key, 0) + 1
        if key not in found:
            found[key] = Member(pod_class, namespace, labels, terms, 0, pod_key(pod))
    return tuple(
        Member(each.pod_class, each.namespace, each.labels, each.terms, numbers[key], each.example)
        for key, each in found.items()
    )


def gang_relations(state: ClusterState, members: Sequence[Member], profile: Profile) -> GangRelations:
    """What pods on the nodes and members themselves mean for a gang."""
    by_terms = _with_equal_terms(members)
    if len(by_terms) * len(members) > MOST_PAIRS:
        return GangRelations(TOO_MANY)
    problem = _problem(state, by_terms, members)
    if problem:
        return GangRelations(problem)
    alone = frozenset(holder.pod_class for holder in by_terms if _keeps_apart(state, holder, members, HOSTNAME))
    return GangRelations("", alone, _open_rows(state, members, profile))


def _with_equal_terms(members: Sequence[Member]) -> list[Member]:
    """Members that say something, one for all that say the same."""
    found: dict[tuple[PodClass, int], Member] = {}
    numbers: dict[object, int] = {}
    for each in members:
        if each.terms.affinity or each.terms.anti_affinity or each.terms.spread:
            key = (each.pod_class, id(each.terms))
            found.setdefault(key, each)
            numbers[key] = numbers.get(key, 0) + each.number
    return [
        Member(each.pod_class, each.namespace, each.labels, each.terms, numbers[key], each.example)
        for key, each in found.items()
    ]


def _problem(state: ClusterState, by_terms: Sequence[Member], members: Sequence[Member]) -> str:
    """What members ask of each other that slots cannot express."""
    for holder in by_terms:
        asked = _asked_of_fellows(state, holder, members)
        if asked:
            return CANNOT_JUDGE.format(holder.example, asked)
    return ""


def _asked_of_fellows(state: ClusterState, holder: Member, members: Sequence[Member]) -> str:
    """The demand of one that is more than "nobody like me on my node"."""

    def means_any(pods: PodSelector) -> bool:
        return any(_means(state, holder, pods, fellow) for fellow in members)

    if any(means_any(term.pods) for term in holder.terms.affinity):
        return "spec.affinity.podAffinity"
    if any(rule.required and means_any(rule.pods) for rule in holder.terms.spread):
        return "spec.topologySpreadConstraints"
    for topology_key in dict.fromkeys(term.topology_key for term in holder.terms.anti_affinity):
        apart = _keeps_apart(state, holder, members, topology_key)
        if apart and topology_key != HOSTNAME:
            return f"spec.affinity.podAntiAffinity by {topology_key}"
        alike = [fellow for fellow in members if fellow.pod_class is holder.pod_class and _is_another(holder, fellow)]
        if apart and (apart != alike or any(fellow.terms is not holder.terms for fellow in apart)):
            return "spec.affinity.podAntiAffinity between some of them"
    return ""


def _keeps_apart(state: ClusterState, holder: Member, members: Sequence[Member], topology_key: str) -> list[Member]:
    """The fellows that a member wants no place to share with."""
    terms = [term for term in holder.terms.anti_affinity if term.topology_key == topology_key]
    return [fellow for fellow in members if any(_means(state, holder, term.pods, fellow) for term in terms)]


def _means(state: ClusterState, holder: Member, pods: PodSelector, fellow: Member) -> bool:
    of_namespace = state.neighbours.labels_of_namespace(fellow.namespace)
    return _is_another(holder, fellow) and pods.matches(fellow.namespace, of_namespace, fellow.labels)


def _is_another(holder: Member, fellow: Member) -> bool:
    """False if both are one and the same pod."""
    return holder.number > 1 or fellow.number > 1 or holder.example != fellow.example


def _open_rows(state: ClusterState, members: Sequence[Member], profile: Profile) -> dict[PodClass, Mask]:
    """For each class the rows that pods outside leave open to all its members.

    Members that those look at alike are asked about once: ten thousand ranks differ in a label that nobody asks for.
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
        newcomer = Newcomer(member.pod_class, *known_by, member.terms)
        for _, plugin in profile.relation_filters:
            codes = plugin.refusals_of(state, newcomer)
            if codes is not None:
                is_open: Mask = codes == 0
                found[member.pod_class] = found.get(member.pod_class, is_open) & is_open
    return found
