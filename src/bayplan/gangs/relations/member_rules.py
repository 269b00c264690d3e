"""Affinity, anti-affinity and spread among the members of one gang, as limits on the search.

kube-scheduler judges such terms pod by pod, so the first pod's node decides whether the others fit. Here they hold for
the gang as a whole:

* *together*: members with affinity to others share one value of the label with all of them, or if that has no room,
  with one of them; or they join pods outside that match as well.
* *companions*: no member starts without the members that it asks for.
* *apart*: at most one of them per value, or two kinds of members in different values.
* *evenly*: counts per value, other pods included, differ by at most `maxSkew` once all members are placed.
* *one volume*: members that share a claim go where its volume can be.

`member_rules` reads them; `gangs/relations/layouts.py` turns them into nodes and caps for the search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.labels import ABSENT
from bayplan.cluster.pods.label_selectors import EVERYTHING
from bayplan.cluster.pods.terms import PodSelector, PodTerm, PodTerms, SpreadRule, labels_of, namespace_of
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Mask
from bayplan.gangs.relations.members import MemberClass, MemberKind, affinity_by_key, selects
from bayplan.gangs.relations.shared_claims import OneVolume
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.base import IncomingPod
from bayplan.plugins.inter_pod_affinity import NAME as INTER_POD_AFFINITY
from bayplan.plugins.pod_topology_spread import NAME as POD_TOPOLOGY_SPREAD

Classes = frozenset[MemberClass]
# By class, the classes from which each of its members keeps apart, in order.
Neighbours = dict[MemberClass, dict[MemberClass, None]]


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Members of these classes share one value of a label, because the holders ask for the others.

    Holders can also join pods outside the gang, on `joined` rows. Not `exact` if there are several of the others:
    then one of them would do (`beside`). That holders divide themselves over several is not searched.
    """

    topology_key: str
    classes: Classes
    holders: Classes
    joined: Mask | None = None
    exact: bool = True

    def __str__(self) -> str:
        return f"podAffinity by {self.topology_key}"


@dataclass(frozen=True, slots=True)
class Apart:
    """Members of the two sides share no value of the label; equal sides mean one member per value."""

    topology_key: str
    one: Classes
    other: Classes

    def __str__(self) -> str:
        return f"podAntiAffinity by {self.topology_key}"


@dataclass(frozen=True, slots=True)
class Evenly:
    """Members of these classes are spread as the holders ask; `incoming` is one of them.

    Where others are counted without asking, kube-scheduler may place them last and unevenly, which is not searched.
    """

    rule: SpreadRule
    incoming: IncomingPod
    classes: Classes
    holders: Classes

    @property
    def exact(self) -> bool:
        """True if all who are counted ask for it."""
        return self.classes == self.holders

    def __str__(self) -> str:
        return f"topologySpreadConstraints by {self.rule.topology_key}, maxSkew {self.rule.max_skew}"


@dataclass(frozen=True, slots=True)
class Companions:
    """The holder, and every member with equal terms, starts only beside a pod that all selectors match."""

    holder: MemberKind
    selectors: tuple[PodSelector, ...]
    askers: Classes
    asked: Classes

    def is_met(self, state: ClusterState, pods: Sequence[Pod]) -> bool:
        """True if none of these pods asks, or one is asked for."""
        if not any(state.classes.terms_of(pod) is self.holder.terms for pod in pods):
            return True
        return any(selects(state, self.selectors, namespace_of(pod), labels_of(pod)) for pod in pods)

    def __str__(self) -> str:
        return f"pod {self.holder.example} asks by podAffinity for pods that are left out"


Rule = Together | Apart | Evenly | OneVolume


@dataclass(frozen=True)
class MemberRules:
    """Rules among members; `problem` if one is not supported.

    One member per node is the common case and not a rule: classes in `one_per_node` have one slot per node.
    """

    rules: tuple[Rule, ...] = ()
    companions: tuple[Companions, ...] = ()
    one_per_node: Classes = frozenset()
    problem: str = ""

    def __str__(self) -> str:
        return " and ".join(dict.fromkeys(map(str, self.rules)))

    @property
    def unmet(self) -> str:
        """What is said if no place satisfies the rules."""
        claims = [rule.claim for rule in self.rules if isinstance(rule, OneVolume)]
        if len(claims) == len(self.rules) == 1:
            return f"no volume for claim {claims[0]} is where all pods that share it have room"
        return f"no place satisfies {self} among its pods"

    def are_covered(self, *, are_uniform: bool) -> bool:
        """True if the rules are infeasible whenever no layout satisfies them.

        Layouts choose nodes for `Apart` and shares for `Evenly` without knowing what other classes, groups or segments
        need: they are sure for a uniform gang, which has none.
        """
        dividing = [rule for rule in self.rules if isinstance(rule, Apart | Evenly)]
        searched = all(rule.exact for rule in self.rules if isinstance(rule, Together | Evenly))
        return searched and (not dividing or (len(dividing) == 1 and are_uniform))

    @property
    def keep_the_best(self) -> bool:
        """True if the best placement that satisfies the rules is in some layout."""
        return all(isinstance(rule, OneVolume) or (isinstance(rule, Together) and rule.exact) for rule in self.rules)

    @property
    def is_monotone(self) -> bool:
        """True if members that satisfy the rules still do without some of them."""
        return not self.companions and not self.depend_on_all

    @property
    def depend_on_all(self) -> bool:
        """True if some members may satisfy a rule only together with the others."""
        return any(map(_demands, self.rules))

    def only_forbidding(self) -> MemberRules:
        """Return the rules without those that demand other members: spread constraints, and affinity to them."""
        return replace(self, rules=tuple(rule for rule in self.rules if not _demands(rule)), companions=())

    def among(self, classes: Collection[MemberClass]) -> MemberRules:
        """Return the rules for a part of the gang with these classes: without those about members that are left out."""
        left = [rule for rule in self.rules if _concerns(rule, classes)]
        return self if len(left) == len(self.rules) else replace(self, rules=tuple(left))

    def sides_with(self, pod: MemberClass) -> tuple[int, ...]:
        """Return on which sides of which rules a class is."""
        needed = ((pod in each.askers) + 2 * (pod in each.asked) for each in self.companions)
        return (*(_sides_with(rule, pod) for rule in self.rules), *needed, int(pod in self.one_per_node))

    def undecided(self) -> list[Together]:
        """Return the rules by which members could join one of several others, and which take all of these along."""
        return [rule for rule in self.rules if isinstance(rule, Together) and not rule.exact]

    def beside(self, anchors: Sequence[MemberClass]) -> MemberRules:
        """Return the rules with each undecided one about its holders and one class of the others, its anchor."""
        left, rules = iter(anchors), list(self.rules)
        for number, rule in enumerate(rules):
            if isinstance(rule, Together) and not rule.exact:
                rules[number] = replace(rule, classes=rule.holders | {next(left)})
        return replace(self, rules=tuple(rules))

    def renamed(self, new: Mapping[MemberClass, MemberClass]) -> MemberRules:
        """Return the rules with other names of classes."""
        return replace(
            self,
            rules=tuple(_renamed(rule, new) for rule in self.rules),
            companions=tuple(
                replace(each, askers=_named(each.askers, new), asked=_named(each.asked, new))
                for each in self.companions
            ),
            one_per_node=_named(self.one_per_node, new),
        )


def _demands(rule: Rule) -> bool:
    """True if members may satisfy a rule only with others: in even numbers, or where those others are."""
    return isinstance(rule, Evenly) or (isinstance(rule, Together) and rule.joined is not None)


def _concerns(rule: Rule, classes: Collection[MemberClass]) -> bool:
    if isinstance(rule, Together):
        return not rule.holders.isdisjoint(classes)
    return not isinstance(rule, Apart) or not (rule.one.isdisjoint(classes) or rule.other.isdisjoint(classes))


def _sides_with(rule: Rule, pod: MemberClass) -> int:
    match rule:
        case Together() | Evenly():
            return (pod in rule.classes) + 2 * (pod in rule.holders)
        case Apart():
            return (pod in rule.one) + 2 * (pod in rule.other)
    return int(pod in rule.classes)


def _renamed(rule: Rule, new: Mapping[MemberClass, MemberClass]) -> Rule:
    match rule:
        case Together() | Evenly():
            return replace(rule, classes=_named(rule.classes, new), holders=_named(rule.holders, new))
        case Apart():
            return replace(rule, one=_named(rule.one, new), other=_named(rule.other, new))
    return replace(rule, classes=_named(rule.classes, new))


def _named(classes: Classes, new: Mapping[MemberClass, MemberClass]) -> Classes:
    return frozenset(new[each] for each in classes)


def member_rules(
    state: ClusterState,
    members: Sequence[MemberKind],
    by_terms: Sequence[MemberKind],
    classes: Sequence[MemberClass],
    filters: Collection[str],
) -> MemberRules:
    """Read the rules among members of some classes that a profile's filters judge.

    `by_terms` has one member for each set of equal terms.
    """
    reader = _Reader(state, members, dict(zip(map(id, members), classes, strict=True)))
    for holder in by_terms:
        if INTER_POD_AFFINITY in filters:
            reader.read_affinity(holder)
            for term in holder.terms.anti_affinity:
                reader.read_anti_affinity(holder, term)
        for rule in holder.terms.spread if POD_TOPOLOGY_SPREAD in filters else ():
            if rule.required:
                reader.read_spread(holder, rule)
            if reader.problem:
                return MemberRules(problem=reader.problem)
    together = (_merged(same) for same in reader.together.values())
    apart = [rule for key, beside in reader.apart.items() for rule in _apart(key, beside, reader.single)]
    on_nodes = [rule for rule in apart if _is_one_per_node(state, rule)]
    alone = frozenset(each for rule in on_nodes for each in rule.one)
    apart = [rule for rule in apart if rule not in on_nodes]
    evenly = (rule for number, rule in enumerate(reader.evenly) if rule not in reader.evenly[:number])
    return MemberRules((*together, *apart, *evenly), tuple(reader.companions), alone)


@dataclass
class _Reader:
    state: ClusterState
    members: Sequence[MemberKind]
    class_of: Mapping[int, MemberClass]
    """By the id of a kind."""
    evenly: list[Evenly] = field(default_factory=list)
    apart: dict[str, Neighbours] = field(default_factory=dict)
    """By key, the classes from which each must keep apart; itself if one of its members does from the others."""
    together: dict[tuple[str, Classes, int], list[Together]] = field(default_factory=dict)
    companions: list[Companions] = field(default_factory=list)
    problem: str = ""

    @cached_property
    def single(self) -> Classes:
        """Classes with one member."""
        pods: Counter[MemberClass] = Counter()
        for member in self.members:
            pods[self.class_of[id(member)]] += member.number
        return frozenset(each for each, number in pods.items() if number == 1)

    def read_affinity(self, holder: MemberKind) -> None:
        """Affinity to other members. What only pods outside satisfy is no rule: it closes nodes."""
        asking = [member for member in self.members if member.terms is holder.terms]
        own = frozenset(self._own(holder))
        for key, selectors in affinity_by_key(holder.terms):
            matched = asked_for(self.state, self.members, holder, selectors)
            if not matched:
                continue
            joined = _rows_beside(self.state, key, holder.terms)
            meant = [each for each in self.members if selects(self.state, selectors, each.namespace, each.labels)]
            # The first of several pods that match their own terms starts by itself.
            can_be_first = {*map(id, asking)} <= {*map(id, meant)}
            needed = Companions(holder, selectors, self._classes(asking), self._classes(meant))
            if joined is None and not can_be_first and self.companions[-1:] != [needed]:
                self.companions.append(needed)
            classes = own | self._classes(matched)
            exact = {*map(id, meant)} <= {*map(id, asking)} or sum(each.number for each in meant) == 1
            same = key, classes, 0 if joined is None else id(holder)
            self.together.setdefault(same, []).append(Together(key, classes, own, joined, exact))

    def read_anti_affinity(self, holder: MemberKind, term: PodTerm) -> None:
        """Anti-affinity to other members: it holds in both directions."""
        matched = dict.fromkeys(
            self.class_of[id(each)] for each in self.members if means(self.state, holder, term.pods, each)
        )
        beside = self.apart.setdefault(term.topology_key, {})
        for one, other in product(self._own(holder), matched):
            if one != other or one not in self.single:
                beside.setdefault(one, {})[other] = None
                beside.setdefault(other, {})[one] = None

    def read_spread(self, holder: MemberKind, rule: SpreadRule) -> None:
        """A spread constraint that counts members."""
        if not counts_members(self.state, holder, rule, self.members):
            return
        counted = (each for each in self.members if selects(self.state, (rule.pods,), each.namespace, each.labels))
        matched = self._classes(counted)
        own = frozenset(self._own(holder))
        if not own <= matched:
            asked = f"pod {holder.example} asks for spec.topologySpreadConstraints over other pods of its gang"
            self.problem = f"{asked}, which bayplan supports only if they count the pod itself, too"
        self.evenly.append(Evenly(rule, holder.incoming(self.state, holder.terms), matched, own))

    def _own(self, holder: MemberKind) -> list[MemberClass]:
        alike = (each for each in self.members if each.terms is holder.terms and each.pod_class is holder.pod_class)
        return list(dict.fromkeys(self.class_of[id(member)] for member in alike))

    def _classes(self, members: Iterable[MemberKind]) -> Classes:
        return frozenset(self.class_of[id(member)] for member in members)


def asked_for(
    state: ClusterState, members: Sequence[MemberKind], holder: MemberKind, selectors: tuple[PodSelector, ...]
) -> list[MemberKind]:
    """Return the members that satisfy a holder's required affinity.

    If pods outside match as well, only those that do not ask for the same: the others must join pods outside, too.
    """
    matched = [member for member in members if all(means(state, holder, each, member) for each in selectors)]
    if not len(_matching_outside(state, holder.terms)):
        return matched
    return [member for member in matched if member.terms is not holder.terms]


def counts_members(state: ClusterState, holder: MemberKind, rule: SpreadRule, members: Sequence[MemberKind]) -> bool:
    """True if a spread constraint counts other members; one with an empty selector counts no pods."""
    is_empty = rule.pods.selector == EVERYTHING
    return not is_empty and any(means(state, holder, rule.pods, other) for other in members)


def means(state: ClusterState, holder: MemberKind, pods: PodSelector, other: MemberKind) -> bool:
    """True if a member's selector matches another pod of the gang."""
    is_another = holder.number > 1 or other.number > 1 or holder.example != other.example
    return is_another and selects(state, (pods,), other.namespace, other.labels)


def _matching_outside(state: ClusterState, terms: PodTerms) -> NDArray[np.intp]:
    """Return the rows of pods outside that satisfy required affinity, on nodes with a label that it names."""
    rows = state.neighbours.tally(tuple(term.pods for term in terms.affinity)).rows
    counted = np.zeros(len(rows), dtype=np.bool_)
    for term in terms.affinity:
        counted |= state.labels.codes(term.topology_key)[rows] != ABSENT
    return rows[counted]


def _rows_beside(state: ClusterState, key: str, terms: PodTerms) -> Mask | None:
    """Return the rows in places of pods outside that match; None if there are no such pods."""
    rows = _matching_outside(state, terms)
    if not len(rows):
        return None
    codes = state.labels.codes(key)
    values = np.unique(codes[rows])
    return np.isin(codes, values[values != ABSENT])


def _apart(key: str, beside: Neighbours, single: Classes) -> Iterator[Apart]:
    """Yield who keeps apart by a key. Classes that all keep apart from each other are one rule.

    These have the same neighbours, themselves included.
    """
    by_neighbours: dict[Classes, list[MemberClass]] = {}
    for each, others in beside.items():
        if each in single or each in others:
            by_neighbours.setdefault(frozenset((*others, each)), []).append(each)
    mutual = {each: frozenset(same) for same in by_neighbours.values() for each in same}
    told: set[tuple[MemberClass, MemberClass]] = set()
    for each, others in sorted(beside.items(), key=lambda one: -len(one[1])):
        one = mutual.get(each, frozenset((each,)))
        if (len(one) > 1 or each in others) and (each, each) not in told:
            told.update((member, member) for member in one)
            yield Apart(key, one, one)
        left = frozenset(other for other in others if other not in one and (other, each) not in told)
        if left:
            told.update(product(one, left))
            told.update(product(left, one))
            yield Apart(key, one, left)


def _is_one_per_node(state: ClusterState, rule: Apart) -> bool:
    """True if a rule keeps the members of one class on different nodes, of which each has a hostname of its own."""
    if rule.topology_key != HOSTNAME or rule.one != rule.other or len(rule.one) > 1:
        return False
    codes = state.labels.codes(HOSTNAME)[: state.columns.size][state.columns.present[: state.columns.size]]
    return bool((np.bincount(codes, minlength=ABSENT + 2)[ABSENT + 1 :] <= 1).all() and (codes != ABSENT).all())


def _merged(same: Sequence[Together]) -> Together:
    """One rule for several holders that ask for the same members in the same place."""
    holders = frozenset[MemberClass]().union(*(rule.holders for rule in same))
    first = same[0]
    return replace(first, holders=holders, exact=all(rule.exact for rule in same))
