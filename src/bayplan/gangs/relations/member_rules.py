"""Affinity, anti-affinity and spread among the members of one gang, as limits on the search.

kube-scheduler judges such terms pod by pod, so the first pod's node decides whether the others fit. Here they hold for
the gang as a whole:

* *together*: members with affinity to each other share one value of the label; none starts without the pods it needs.
* *apart*: at most one of them per value, or two kinds of members in different values.
* *evenly*: counts per value, other pods included, differ by at most `maxSkew` once all members are placed.
* *one volume*: members that share a claim go where its volume can be.

`member_rules` reads them; `layouts` yields layouts that close nodes and cap counts so that any placement inside
satisfies every rule. A rule about part of a class is applied to the whole class: safe, but then a "no" is not a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import NamedTuple

import numpy as np

from bayplan.cluster.columns.labels import ABSENT
from bayplan.cluster.pods.label_selectors import Labels
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import PodSelector, PodTerms, SpreadRule, labels_of, namespace_of
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree
from bayplan.cluster.volumes.sharing import distinct
from bayplan.engine.gangs.equal.equal_pods import fill_nodes
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts
from bayplan.engine.numa.rows import Mask
from bayplan.gangs.relations.shared_claims import OneVolume
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.base import IncomingPod
from bayplan.plugins.pod_topology_spread import SpreadCounts, spread_counts

# Limit on layouts for one gang; the first with room is usually among the first three.
MOST_LAYOUTS = 16
Classes = frozenset[PodClass]
Slots = Mapping[PodClass, Counts]


@dataclass(frozen=True, slots=True)
class MemberKind:
    """Members of one class with the same labels and terms. `example` is one of `number`."""

    pod_class: PodClass
    namespace: str
    labels: Labels
    terms: PodTerms
    number: int
    example: str

    def incoming(self, state: ClusterState, terms: PodTerms) -> IncomingPod:
        """Return the member as a pod that is placed by itself."""
        of_namespace = state.neighbours.labels_of_namespace(self.namespace)
        return IncomingPod(self.pod_class, self.namespace, of_namespace, self.labels, terms)


@dataclass(frozen=True, slots=True)
class Together:
    """Members of these classes share one value of a label, because those in `holders` ask for it."""

    topology_key: str
    classes: Classes
    holders: Classes

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
    """Members of these classes satisfy a spread constraint; `incoming` is one of them."""

    rule: SpreadRule
    incoming: IncomingPod
    classes: Classes

    def __str__(self) -> str:
        return f"topologySpreadConstraints by {self.rule.topology_key}, maxSkew {self.rule.max_skew}"


@dataclass(frozen=True, slots=True)
class Companions:
    """The holder, and every member with equal terms, starts only beside a pod that all selectors match."""

    holder: MemberKind
    selectors: tuple[PodSelector, ...]

    def is_met(self, state: ClusterState, pods: Sequence[Pod]) -> bool:
        """True if none of these pods asks, or one is asked for."""
        if not any(state.classes.terms_of(pod) is self.holder.terms for pod in pods):
            return True
        return any(_selects(state, self.selectors, namespace_of(pod), labels_of(pod)) for pod in pods)

    def __str__(self) -> str:
        return f"pod {self.holder.example} asks by podAffinity for pods that are left out"


Rule = Together | Apart | Evenly | OneVolume


@dataclass(frozen=True)
class MemberRules:
    """Rules among members. Not `exact` if a rule was widened to whole classes; `problem` if one is not supported.

    One member per node is the common case and not a rule: classes in `one_per_node` have one slot per node.
    """

    rules: tuple[Rule, ...] = ()
    companions: tuple[Companions, ...] = ()
    one_per_node: Classes = frozenset()
    exact: bool = True
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

    @property
    def covered(self) -> bool:
        """True if the rules are infeasible whenever no layout satisfies them."""
        in_whole = all(not isinstance(rule, Apart) or rule.one == rule.other for rule in self.rules)
        return self.exact and in_whole and sum(isinstance(rule, Evenly) for rule in self.rules) <= 1

    @property
    def is_monotone(self) -> bool:
        """True if members that satisfy the rules still do without some of them."""
        return not self.companions and not any(isinstance(rule, Evenly) for rule in self.rules)

    def only_forbidding(self) -> MemberRules:
        """Return the rules without those that demand other members: spread constraints, and affinity to them."""
        return replace(self, rules=tuple(rule for rule in self.rules if not isinstance(rule, Evenly)), companions=())

    def among(self, classes: Sequence[PodClass]) -> MemberRules:
        """Return the rules for a part of the gang with these classes: without affinity of members that are left out."""
        left = [rule for rule in self.rules if not isinstance(rule, Together) or rule.holders.intersection(classes)]
        return self if len(left) == len(self.rules) else replace(self, rules=tuple(left))

    @property
    def keep_the_best(self) -> bool:
        """True if the best placement that satisfies the rules is in some layout."""
        return self.covered and all(isinstance(rule, Together | OneVolume) for rule in self.rules)


@dataclass(frozen=True)
class Layout:
    """Nodes, by position, that are open to each class, and caps on pods of some classes together per position."""

    is_open: Mapping[PodClass, Mask]
    caps: tuple[tuple[Classes, Counts], ...] = ()

    def limit(self, pod: PodClass, slots: Counts) -> Counts:
        """Return the slots of one class inside this layout."""
        if pod in self.is_open:
            slots = slots * self.is_open[pod]
        for classes, cap in self.caps:
            if pod in classes:
                slots = np.minimum(slots, cap)
        return slots


def member_rules(state: ClusterState, members: Sequence[MemberKind], by_terms: Sequence[MemberKind]) -> MemberRules:
    """Read the rules among members; `by_terms` has one member for each set of equal terms."""
    together, companions, exact = _affinity(state, members, by_terms)
    rules: list[Rule] = []
    alone: set[PodClass] = set()
    for holder in by_terms:
        for term in holder.terms.anti_affinity:
            matched = [member for member in members if _matches(state, holder, term.pods, member)]
            if matched:
                itself = holder.pod_class in _classes(matched)
                own, others = frozenset((holder.pod_class,)), _classes(matched) - {holder.pod_class}
                wholly = not others and _whole_classes(members, matched) and _same_terms(members, holder)
                exact &= wholly
                if itself and wholly and term.topology_key == HOSTNAME:
                    alone |= own
                elif itself:
                    rules.append(Apart(term.topology_key, own, own))
                if others:
                    rules.append(Apart(term.topology_key, own, others))
        for rule in holder.terms.spread:
            matched = [member for member in members if rule.required and _matches(state, holder, rule.pods, member)]
            if not matched:
                continue
            if not _whole_classes(members, [holder, *matched]) or holder.pod_class not in _classes(matched):
                asked = f"pod {holder.example} asks for spec.topologySpreadConstraints over some pods of its own gang"
                return MemberRules(problem=f"{asked}, which bayplan supports only if it counts all pods of equal shape")
            rules.append(Evenly(rule, holder.incoming(state, holder.terms), _classes(matched)))
    different = (rule for number, rule in enumerate(rules) if rule not in rules[:number])
    return MemberRules((*together, *different), companions, frozenset(alone), exact)


def _affinity(
    state: ClusterState, members: Sequence[MemberKind], by_terms: Sequence[MemberKind]
) -> tuple[tuple[Together, ...], tuple[Companions, ...], bool]:
    """Read required affinity that no pod outside satisfies; False if a rule was widened to whole classes."""
    holders: dict[tuple[str, Classes], set[PodClass]] = {}
    companions: list[Companions] = []
    exact = True
    for holder in by_terms:
        asking = [member for member in members if member.terms is holder.terms]
        for key, pods in _affinity_by_key(holder.terms):
            matched = [member for member in members if all(_matches(state, holder, each, member) for each in pods)]
            if not matched or state.neighbours.tally(pods):
                continue
            holders.setdefault((key, _classes([holder, *matched])), set()).add(holder.pod_class)
            # The first of several pods that match their own terms starts by itself.
            are_first = any(_selects(state, pods, each.namespace, each.labels) for each in asking)
            if not are_first and companions[-1:] != [Companions(holder, pods)]:
                companions.append(Companions(holder, pods))
            exact &= _whole_classes(members, [*asking, *matched]) and _same_terms(members, holder)
    together = (Together(key, classes, frozenset(found)) for (key, classes), found in holders.items())
    return tuple(together), tuple(companions), exact


def about_others(state: ClusterState, member: MemberKind, members: Sequence[MemberKind]) -> PodTerms:
    """Return the terms of a member without those that other members satisfy: these are rules of the gang."""
    terms = member.terms
    own = {
        key
        for key, selectors in _affinity_by_key(terms)
        if not state.neighbours.tally(selectors)
        and any(all(_matches(state, member, each, other) for each in selectors) for other in members)
    }
    spread = tuple(
        rule
        for rule in terms.spread
        if not (rule.required and any(_matches(state, member, rule.pods, other) for other in members))
    )
    affinity = tuple(term for term in terms.affinity if term.topology_key not in own)
    return replace(terms, affinity=affinity, spread=spread)


def _affinity_by_key(terms: PodTerms) -> list[tuple[str, tuple[PodSelector, ...]]]:
    """Return the required affinity of a pod by key: one pod must match all terms, in the place of each key."""
    everything = tuple(term.pods for term in terms.affinity)
    return [(key, everything) for key in dict.fromkeys(term.topology_key for term in terms.affinity)]


def _matches(state: ClusterState, holder: MemberKind, pods: PodSelector, other: MemberKind) -> bool:
    """True if a member's selector matches another pod of the gang."""
    is_another = holder.number > 1 or other.number > 1 or holder.example != other.example
    return is_another and _selects(state, (pods,), other.namespace, other.labels)


def _selects(state: ClusterState, selectors: Sequence[PodSelector], namespace: str, labels: Labels) -> bool:
    of_namespace = state.neighbours.labels_of_namespace(namespace)
    return all(pods.matches(namespace, of_namespace, labels) for pods in selectors)


def _classes(members: Sequence[MemberKind]) -> Classes:
    return frozenset(member.pod_class for member in members)


def _whole_classes(members: Sequence[MemberKind], some: Sequence[MemberKind]) -> bool:
    """True if `some` contains all members of its classes."""
    inside = {id(member) for member in some}
    classes = _classes(some)
    return all(id(member) in inside for member in members if member.pod_class in classes and member.number)


def _same_terms(members: Sequence[MemberKind], holder: MemberKind) -> bool:
    """True if all members of a class have the same terms."""
    return all(member.terms is holder.terms for member in members if member.pod_class is holder.pod_class)


# -- layouts ---------------------------------------------------------------------------------------------------------


def layouts(
    state: ClusterState, tree: Tree, rules: Sequence[Rule], wanted: Mapping[PodClass, int], slots: Slots, required: int
) -> Iterator[Layout]:
    """Yield layouts that satisfy the rules, the tightest first. `wanted` is the number of pods of each class."""
    maker = _LayoutMaker(state, tree, wanted, slots)
    together = [rule for rule in rules if isinstance(rule, Together | OneVolume)]
    others = [rule for rule in rules if isinstance(rule, Apart | Evenly)]
    regions = maker.regions(required if any(maker.depends_on_region(rule, required) for rule in others) else WHOLE_TREE)
    found = (
        layout
        for region in regions
        for spots in product(*(maker.spots(rule, region) for rule in together))
        if can_differ([spot.volumes for spot in spots if spot.volumes])
        and (layout := maker.layout(together, [spot.mask for spot in spots], others, region)) is not None
    )
    return islice(found, MOST_LAYOUTS)


def can_differ(volumes: Sequence[frozenset[int]]) -> bool:
    """True if each claim can take another of the volumes that it may have."""
    return len(distinct({number: sorted(each)[: len(volumes)] for number, each in enumerate(volumes)})) == len(volumes)


class _Spot(NamedTuple):
    """Positions that a rule leaves open, and the volumes that serve them if it is about a claim."""

    mask: Mask
    volumes: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _LayoutMaker:
    state: ClusterState
    tree: Tree
    wanted: Mapping[PodClass, int]
    slots: Slots

    def codes(self, topology_key: str) -> Counts:
        """Return, by position, the code of the label's value."""
        codes: Counts = self.state.labels.codes(topology_key)[self.tree.rows].astype(np.int64)
        return codes

    def depends_on_region(self, rule: Apart | Evenly, required: int) -> bool:
        """False if a rule closes the same nodes in whichever domain the gang is placed."""
        if required == WHOLE_TREE:
            return False
        if isinstance(rule, Evenly) or rule.one != rule.other:
            return True
        codes, domains = self.codes(rule.topology_key), self.tree.domain_at[required]
        return len(np.unique(np.stack((codes, domains)), axis=1)[0]) > len(np.unique(codes))

    def regions(self, required: int) -> Iterator[Mask]:
        """Yield the domains that may hold the whole gang, the tightest first; the whole tree if none is required."""
        if required == WHOLE_TREE:
            yield np.ones(self.tree.size, dtype=np.bool_)
            return
        enough = np.ones(len(self.tree.starts[required]), dtype=np.bool_)
        room = np.zeros(len(enough), dtype=np.int64)
        for pod, number in self.wanted.items():
            sums = self.tree.sums(self.slots[pod], required)
            enough &= sums >= number
            room += sums
        for domain in np.flatnonzero(enough)[np.argsort(room[enough], kind="stable")]:
            yield self.tree.domain_at[required] == domain

    def spots(self, rule: Together | OneVolume, region: Mask) -> list[_Spot]:
        """Return where all members of a rule have room, the tightest first."""
        if isinstance(rule, Together):
            return [_Spot(mask) for mask in self.places(rule, region)]
        found: list[tuple[int, _Spot]] = []
        for place in rule.places:
            of_rows = np.zeros(self.state.labels.size, dtype=np.bool_)
            of_rows[place.rows] = True
            mask = of_rows[self.tree.rows] & region
            room = {pod: int(self.slots[pod][mask].sum()) for pod in rule.classes & self.wanted.keys()}
            if all(number >= self.wanted[pod] for pod, number in room.items()):
                found.append((sum(room.values()), _Spot(mask, place.volumes)))
        return [spot for _, spot in sorted(found, key=lambda each: each[0])]

    def places(self, rule: Together, region: Mask) -> list[Mask]:
        """Return the values of a label whose nodes hold all members that must be together, the tightest first."""
        codes = self.codes(rule.topology_key)
        size = len(self.state.labels.values(rule.topology_key))
        enough = np.ones(size, dtype=np.bool_)
        room = np.zeros(size)
        for pod in rule.classes & self.wanted.keys():
            sums = np.bincount(codes, weights=self.slots[pod] * region, minlength=size)
            enough &= sums >= self.wanted[pod]
            room += sums
        enough[ABSENT] = False
        return [codes == value for value in np.flatnonzero(enough)[np.argsort(room[enough], kind="stable")]]

    def layout(
        self,
        together: Sequence[Together | OneVolume],
        places: Sequence[Mask],
        others: Sequence[Apart | Evenly],
        region: Mask,
    ) -> Layout | None:
        """Apply rule after rule; None if one leaves too little room."""
        is_open = {pod: region.copy() for pod in self.wanted}
        for rule, place in zip(together, places, strict=True):
            for pod in rule.classes & self.wanted.keys():
                is_open[pod] &= place
        layout = Layout(is_open)
        evenly = [rule for rule in others if isinstance(rule, Evenly)]
        for apart in others:
            if isinstance(apart, Apart):
                layout = self._one_per_place(apart, layout) if apart.one == apart.other else self._parted(apart, layout)
        for number, even in enumerate(evenly):
            spread = self._even(even, layout, over_nodes=number + 1 < len(evenly))
            if spread is None:
                return None
            layout = spread
        enough = all(layout.limit(pod, self.slots[pod]).sum() >= number for pod, number in self.wanted.items())
        return layout if enough else None

    def _room(self, classes: Classes, layout: Layout) -> Counts:
        """Return, by position, the room for pods of some classes: that of the class with the most pods."""
        pods = classes & self.wanted.keys()
        if not pods:
            return np.zeros(self.tree.size, dtype=np.int64)
        most = max(pods, key=lambda pod: (self.wanted[pod], repr(pod.request.total)))
        return layout.limit(most, self.slots[most])

    def _one_per_place(self, rule: Apart, layout: Layout) -> Layout:
        """Cap at one pod per value, on the node with the most room; nodes without the label do not count."""
        codes, room = self.codes(rule.topology_key), self._room(rule.one, layout)
        cap = (codes == ABSENT) * max(self.wanted.values(), default=0)
        order = np.lexsort((np.arange(len(codes)), -room, codes))
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = codes[order][1:] != codes[order][:-1]
        chosen = order[first & (codes[order] != ABSENT)]
        cap[chosen] = 1
        return replace(layout, caps=(*layout.caps, (rule.one, cap)))

    def _parted(self, rule: Apart, layout: Layout) -> Layout:
        """Give the side with fewer pods as few values as possible, where the other side has least room."""
        few, many = sorted((rule.one, rule.other), key=lambda side: sum(self.wanted.get(pod, 0) for pod in side))
        codes = self.codes(rule.topology_key)
        size = len(self.state.labels.values(rule.topology_key))
        room = np.bincount(codes, weights=self._room(few, layout), minlength=size)
        lost = np.bincount(codes, weights=self._room(many, layout), minlength=size)
        room[ABSENT] = 0
        number = sum(self.wanted.get(pod, 0) for pod in few)
        alone = np.flatnonzero(room >= number)
        if len(alone):
            chosen = alone[[int(np.argmin(lost[alone]))]]
        else:
            order = np.argsort(-room, kind="stable")
            chosen = order[: int(np.searchsorted(np.cumsum(room[order]), number)) + 1]
        taken = np.isin(codes, chosen)
        for_few, for_many = taken | (codes == ABSENT), ~taken
        is_open = {
            pod: before & (for_few if pod in few else for_many if pod in many else True)
            for pod, before in layout.is_open.items()
        }
        return replace(layout, is_open=is_open)

    def _even(self, rule: Evenly, layout: Layout, *, over_nodes: bool) -> Layout | None:
        """Cap each position so that the members fit exactly and evenly; None if that is impossible."""
        counted = spread_counts(self.state, rule.incoming, rule.rule)
        codes = self.codes(rule.rule.topology_key)
        room = self._room(rule.classes, layout)
        number = sum(self.wanted.get(pod, 0) for pod in rule.classes)
        holds = np.bincount(codes, weights=room, minlength=len(counted.before)).astype(np.int64)
        holds[ABSENT] = 0
        shares = even_shares(counted, holds, number, rule.rule)
        if shares is None:
            return None
        cap = np.zeros(self.tree.size, dtype=np.int64)
        for value in np.flatnonzero(shares):
            here = np.flatnonzero(codes == value)
            cap[here] = fill_nodes(room[here], int(shares[value]), spread=over_nodes)
        return replace(layout, caps=(*layout.caps, (rule.classes, cap)))


def even_shares(counted: SpreadCounts, holds: Counts, pods: int, rule: SpreadRule) -> Counts | None:
    """Divide `pods` so that no value exceeds the emptiest by more than `maxSkew`; None if that is impossible.

    Leaves the emptiest values as they are if possible, so that members share the fewest values.
    """
    before, exists = counted.before.astype(np.int64), counted.exists
    if not exists.any():
        return None
    too_few = int(exists.sum()) < rule.min_domains
    least = 0 if too_few else int(before[exists].min())
    while True:
        low = np.where(exists, 0 if too_few else np.maximum(least - before, 0), 0)
        high = np.minimum(holds, np.maximum(least + rule.max_skew - before, 0))
        if (low > holds).any() or low.sum() > pods:
            return None
        if high.sum() >= pods:
            break
        if too_few:
            return None
        least += 1
    missing = pods - int(low.sum())
    room = np.maximum(high - low, 0)
    order = np.lexsort((-room, low == 0))
    reached = np.cumsum(room[order])
    shares = low.copy()
    shares[order] += np.clip(missing - (reached - room[order]), 0, room[order])
    return shares
