"""The members of a gang, told apart as far as terms about pods do.

    pods -> MemberKind (one class, equal labels, equal terms) -> MemberClass (what terms treat alike)

Ten thousand ranks that differ only in a label that no term selects are one `MemberClass`. A leader and a worker of
equal size are two if a term means only one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import NamedTuple

from bayplan.cluster.pods.label_selectors import Labels
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import PodSelector, PodTerms, labels_of, namespace_of
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.base import IncomingPod

# With more labels that terms name, members are looked at one by one.
MOST_KEYS = 32


class MemberClass(NamedTuple):
    """Members that nodes, other pods and the gang's rules treat alike: a class of pods, or a numbered part of it."""

    pod_class: PodClass
    number: int = 0


@dataclass(frozen=True, slots=True)
class MemberKind:
    """Members of one class with the same labels and terms."""

    pod_class: PodClass
    namespace: str
    labels: Labels
    terms: PodTerms
    pods: Sequence[str]
    """Their keys."""

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.pods)

    @property
    def example(self) -> str:
        """One of them."""
        return self.pods[0]

    def incoming(self, state: ClusterState, terms: PodTerms) -> IncomingPod:
        """Return the member as a pod that is placed by itself."""
        of_namespace = state.neighbours.labels_of_namespace(self.namespace)
        return IncomingPod(self.pod_class, self.namespace, of_namespace, self.labels, terms)


def members_of(state: ClusterState, pods: Sequence[Pod]) -> tuple[MemberKind, ...]:
    """Return the kinds of members. Independent of placed pods, so it can be cached with the gang."""
    found: dict[Hashable, MemberKind] = {}
    keys: dict[Hashable, list[str]] = {}
    for pod in pods:
        pod_class, terms = state.classes.of(pod), state.classes.terms_of(pod)
        namespace, labels = namespace_of(pod), labels_of(pod)
        kind = (pod_class, namespace, frozenset(labels.items()), id(terms))
        if kind not in found:
            found[kind] = MemberKind(pod_class, namespace, labels, terms, keys.setdefault(kind, []))
        keys[kind].append(pod_key(pod))
    return tuple(found.values())


def with_equal_terms(members: Sequence[MemberKind]) -> tuple[MemberKind, ...]:
    """Return members with terms, one for each class and set of equal terms. Can be cached as well."""
    found: dict[Hashable, MemberKind] = {}
    keys: dict[Hashable, list[str]] = {}
    for each in members:
        if number_of_terms(each):
            key = (each.pod_class, id(each.terms))
            if key not in found:
                found[key] = MemberKind(
                    each.pod_class, each.namespace, each.labels, each.terms, keys.setdefault(key, [])
                )
            keys[key] += each.pods
    return tuple(found.values())


def number_of_terms(member: MemberKind) -> int:
    """How many required terms a member has."""
    return len(member.terms.affinity) + len(member.terms.anti_affinity) + len(member.terms.spread)


def selects(state: ClusterState, selectors: Iterable[PodSelector], namespace: str, labels: Labels) -> bool:
    """True if all selectors match a pod."""
    of_namespace = state.neighbours.labels_of_namespace(namespace)
    return all(pods.matches(namespace, of_namespace, labels) for pods in selectors)


def affinity_by_key(terms: PodTerms) -> list[tuple[str, tuple[PodSelector, ...]]]:
    """Return the required affinity of a pod by key: one pod must match all terms, in the place of each key."""
    everything = tuple(term.pods for term in terms.affinity)
    return [(key, everything) for key in dict.fromkeys(term.topology_key for term in terms.affinity)]


def told_apart(
    state: ClusterState, members: Sequence[MemberKind], by_terms: Sequence[MemberKind]
) -> tuple[MemberClass, ...]:
    """Return the class of each kind: kinds of one class are one if all terms mean both or neither.

    Kinds are looked at by the labels that terms name: 1 us for each of ten thousand ranks instead of 4.
    """
    against = state.neighbours.anti_affinity
    asked = [asked for holder in by_terms for asked in _asked(holder.terms)]
    with_terms = {id(holder.terms) for holder in by_terms}
    keys = {*against.label_keys}.union(*(pods.label_keys() for selectors in asked for pods in selectors))
    numbers: dict[PodClass, dict[Hashable, int]] = {}
    known: dict[Hashable, MemberClass] = {}
    found: list[MemberClass] = []
    for member in members:
        labels = member.labels
        terms = id(member.terms) if id(member.terms) in with_terms else 0
        seen = tuple([labels.get(key) for key in keys]) if len(keys) <= MOST_KEYS else frozenset(labels.items())
        look = member.pod_class, terms, member.namespace, seen
        if look not in known:
            known_by = member.namespace, state.neighbours.labels_of_namespace(member.namespace), labels
            held = tuple(map(id, against.against(*known_by)))
            means = tuple([selects(state, selectors, member.namespace, labels) for selectors in asked])
            of_class = numbers.setdefault(member.pod_class, {})
            known[look] = MemberClass(member.pod_class, of_class.setdefault((terms, held, means), len(of_class)))
        found.append(known[look])
    return tuple(found)


def numbers_of_pods(members: Sequence[MemberKind], classes: Sequence[MemberClass]) -> Mapping[str, int]:
    """Return, by pod, the numbers of classes that terms divide; a pod that is not there has number 0."""
    return {
        pod: each.number for member, each in zip(members, classes, strict=True) if each.number for pod in member.pods
    }


def singled_out(
    members: Sequence[MemberKind], classes: Sequence[MemberClass], wanted: Sequence[MemberClass], pods: Collection[str]
) -> tuple[list[MemberKind], list[MemberClass], list[MemberClass]] | None:
    """Give one of these pods for each wanted class a class of its own, which is returned in their order.

    A class that is wanted more often than it has pods lends one to several.
    """
    number = 1 + max(each.number for each in classes)
    left, alone = Counter(wanted), dict[MemberClass, list[MemberClass]]()
    new_members: list[MemberKind] = []
    new_classes: list[MemberClass] = []
    for member, member_class in zip(members, classes, strict=True):
        chosen = list(islice((pod for pod in member.pods if pod in pods), left[member_class]))
        left[member_class] -= len(chosen)
        for pod in chosen:
            new_members.append(replace(member, pods=[pod]))
            new_classes.append(MemberClass(member.pod_class, number))
            alone.setdefault(member_class, []).append(new_classes[-1])
            number += 1
        if len(chosen) < member.number:
            taken = frozenset(chosen)
            new_members.append(replace(member, pods=[pod for pod in member.pods if pod not in taken]))
            new_classes.append(member_class)
    if not alone.keys() >= {*wanted}:
        return None
    lent = {each: cycle(some) for each, some in alone.items()}
    return new_members, new_classes, [next(lent[each]) for each in wanted]


def _asked(terms: PodTerms) -> Iterator[tuple[PodSelector, ...]]:
    """What terms mean, as selectors of which a pod must match all."""
    if terms.affinity:
        yield tuple(term.pods for term in terms.affinity)
    for term in terms.anti_affinity:
        yield (term.pods,)
    for rule in terms.spread:
        if rule.required:
            yield (rule.pods,)
