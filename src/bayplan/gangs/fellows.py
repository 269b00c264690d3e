"""Affinity, anti-affinity and spread among the members of one gang, as limits on where the search may put them.

kube-scheduler judges such terms pod by pod, so the first pod's node decides whether the others find a place. Here they hold for the gang as a whole:

* *together*: members that ask for affinity to each other share one value of the label. The first of them may start it anywhere.
* *apart*: at most one of them per value, or two sorts of members in different values.
* *evenly*: counts per value differ by at most `maxSkew` once all members stand, those outside of the gang included.

`fellow_rules` reads what members ask of each other; `layouts` turns it into a short list of layouts, each of which closes nodes and caps counts so that any
placement inside it satisfies every rule. A rule about a part of a class is applied to the whole class: that is safe, but then a "no" is not a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np

from bayplan.cluster.columns.labels import ABSENT
from bayplan.cluster.pods.label_selectors import Labels
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.terms import PodSelector, PodTerms, SpreadRule
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.equal.equal_pods import fill_nodes
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts
from bayplan.engine.numa.rows import Mask
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.plugins.base import Newcomer
from bayplan.plugins.pod_topology_spread import SpreadCounts, spread_counts

# Layouts that are searched for one gang; the first that has room is usually among the first three.
MOST_LAYOUTS = 16
Classes = frozenset[PodClass]
Slots = Mapping[PodClass, Counts]


@dataclass(frozen=True, slots=True)
class Member:
    """One sort of members: pods of a class with the same labels and terms. `example` is one of `number`."""

    pod_class: PodClass
    namespace: str
    labels: Labels
    terms: PodTerms
    number: int
    example: str

    def newcomer(self, state: ClusterState, terms: PodTerms) -> Newcomer:
        """The member as one that looks for a place by itself."""
        of_namespace = state.neighbours.labels_of_namespace(self.namespace)
        return Newcomer(self.pod_class, self.namespace, of_namespace, self.labels, terms)


@dataclass(frozen=True, slots=True)
class Together:
    """Members of these classes share one value of a label."""

    topology_key: str
    classes: Classes

    def __str__(self) -> str:
        return f"podAffinity by {self.topology_key}"


@dataclass(frozen=True, slots=True)
class Apart:
    """No member of one side shares a value of the label with one of the other; equal sides: one member per value."""

    topology_key: str
    one: Classes
    other: Classes

    def __str__(self) -> str:
        return f"podAntiAffinity by {self.topology_key}"


@dataclass(frozen=True, slots=True)
class Evenly:
    """Members of these classes keep a spread constraint; `newcomer` is one of them."""

    rule: SpreadRule
    newcomer: Newcomer
    classes: Classes

    def __str__(self) -> str:
        return f"topologySpreadConstraints by {self.rule.topology_key}, maxSkew {self.rule.max_skew}"


Rule = Together | Apart | Evenly


@dataclass(frozen=True)
class FellowRules:
    """What members ask of each other. Not `exact` if a rule was widened to whole classes; `problem` if it cannot be expressed.

    Members that ask for a node each are the common case, and no rule: such classes have one slot per node.
    """

    rules: tuple[Rule, ...] = ()
    one_per_node: Classes = frozenset()
    exact: bool = True
    problem: str = ""

    def __str__(self) -> str:
        return " and ".join(dict.fromkeys(map(str, self.rules)))

    @property
    def covered(self) -> bool:
        """True if there is no placement that satisfies the rules unless some layout has one."""
        in_whole = all(not isinstance(rule, Apart) or rule.one == rule.other for rule in self.rules)
        return self.exact and in_whole and sum(isinstance(rule, Evenly) for rule in self.rules) <= 1

    @property
    def leave_the_best(self) -> bool:
        """True if the best placement that satisfies the rules is in some layout."""
        return self.covered and all(isinstance(rule, Together) for rule in self.rules)


@dataclass(frozen=True)
class Layout:
    """Nodes, by position, that are open to each class, and caps on how many pods of some classes a position takes together."""

    is_open: Mapping[PodClass, Mask]
    caps: tuple[tuple[Classes, Counts], ...] = ()

    def limit(self, pod: PodClass, slots: Counts) -> Counts:
        """The slots of one class inside this layout."""
        if pod in self.is_open:
            slots = slots * self.is_open[pod]
        for classes, cap in self.caps:
            if pod in classes:
                slots = np.minimum(slots, cap)
        return slots


def fellow_rules(state: ClusterState, members: Sequence[Member], by_terms: Sequence[Member]) -> FellowRules:
    """Read the rules among members; `by_terms` has one member for all that say the same."""
    rules: list[Rule] = []
    alone: set[PodClass] = set()
    exact = True
    for holder in by_terms:
        for key, pods in _affinity_by_key(holder.terms):
            meant = [fellow for fellow in members if all(_means(state, holder, each, fellow) for each in pods)]
            if meant and not state.neighbours.tally(pods):
                rules.append(Together(key, _classes([holder, *meant])))
                exact &= _whole_classes(members, [holder, *meant]) and _alike(members, holder)
        for term in holder.terms.anti_affinity:
            meant = [fellow for fellow in members if _means(state, holder, term.pods, fellow)]
            if meant:
                itself = holder.pod_class in _classes(meant)
                own, others = frozenset((holder.pod_class,)), _classes(meant) - {holder.pod_class}
                wholly = not others and _whole_classes(members, meant) and _alike(members, holder)
                exact &= wholly
                if itself and wholly and term.topology_key == HOSTNAME:
                    alone |= own
                elif itself:
                    rules.append(Apart(term.topology_key, own, own))
                if others:
                    rules.append(Apart(term.topology_key, own, others))
        for rule in holder.terms.spread:
            meant = [fellow for fellow in members if rule.required and _means(state, holder, rule.pods, fellow)]
            if not meant:
                continue
            if not _whole_classes(members, [holder, *meant]) or holder.pod_class not in _classes(meant):
                asked = f"pod {holder.example} asks for spec.topologySpreadConstraints over some pods of its own gang"
                return FellowRules(
                    problem=f"{asked}, which bayplan can judge only if it counts all pods of equal shape"
                )
            rules.append(Evenly(rule, holder.newcomer(state, holder.terms), _classes(meant)))
    # Many members say the same; a handful of rules is left.
    different = tuple(rule for number, rule in enumerate(rules) if rule not in rules[:number])
    return FellowRules(different, frozenset(alone), exact)


def about_others(state: ClusterState, member: Member, members: Sequence[Member]) -> PodTerms:
    """The terms of a member without those that its fellows satisfy: these are rules of the gang."""
    terms = member.terms
    own = {
        key
        for key, selectors in _affinity_by_key(terms)
        if not state.neighbours.tally(selectors)
        and any(all(_means(state, member, each, fellow) for each in selectors) for fellow in members)
    }
    spread = tuple(
        rule
        for rule in terms.spread
        if not (rule.required and any(_means(state, member, rule.pods, fellow) for fellow in members))
    )
    affinity = tuple(term for term in terms.affinity if term.topology_key not in own)
    return replace(terms, affinity=affinity, spread=spread)


def _affinity_by_key(terms: PodTerms) -> list[tuple[str, tuple[PodSelector, ...]]]:
    """The required affinity of a pod: all terms must mean the same pod, in the place of each key."""
    everything = tuple(term.pods for term in terms.affinity)
    return [(key, everything) for key in dict.fromkeys(term.topology_key for term in terms.affinity)]


def _means(state: ClusterState, holder: Member, pods: PodSelector, fellow: Member) -> bool:
    """True if a member's selector means another pod of the gang."""
    is_another = holder.number > 1 or fellow.number > 1 or holder.example != fellow.example
    of_namespace = state.neighbours.labels_of_namespace(fellow.namespace)
    return is_another and pods.matches(fellow.namespace, of_namespace, fellow.labels)


def _classes(members: Sequence[Member]) -> Classes:
    return frozenset(member.pod_class for member in members)


def _whole_classes(members: Sequence[Member], some: Sequence[Member]) -> bool:
    """True if no member outside of `some` has a class of theirs."""
    inside = {id(member) for member in some}
    classes = _classes(some)
    return all(id(member) in inside for member in members if member.pod_class in classes and member.number)


def _alike(members: Sequence[Member], holder: Member) -> bool:
    """True if all members of a class say the same."""
    return all(member.terms is holder.terms for member in members if member.pod_class is holder.pod_class)


# -- layouts -------------------------------------------------------------------------------------------------------------------


def layouts(
    state: ClusterState, tree: Tree, rules: Sequence[Rule], wanted: Mapping[PodClass, int], slots: Slots, required: int
) -> Iterator[Layout]:
    """Layouts in which members can be placed as they ask, the tightest first. `wanted` is how many pods of each class there are."""
    maker = _Maker(state, tree, wanted, slots)
    together = [rule for rule in rules if isinstance(rule, Together)]
    others = [rule for rule in rules if not isinstance(rule, Together)]
    regions = maker.regions(required if any(maker.depends_on_region(rule, required) for rule in others) else WHOLE_TREE)
    found = (
        layout
        for region in regions
        for places in product(*(maker.places(rule, region) for rule in together))
        if (layout := maker.layout(together, places, others, region)) is not None
    )
    return islice(found, MOST_LAYOUTS)


@dataclass(frozen=True)
class _Maker:
    state: ClusterState
    tree: Tree
    wanted: Mapping[PodClass, int]
    slots: Slots

    def codes(self, topology_key: str) -> Counts:
        """By position, the number of the label's value."""
        codes: Counts = self.state.labels.codes(topology_key)[self.tree.rows].astype(np.int64)
        return codes

    def depends_on_region(self, rule: Apart | Evenly, required: int) -> bool:
        """False if a rule closes the same nodes whichever domain the gang is placed in."""
        if required == WHOLE_TREE:
            return False
        if isinstance(rule, Evenly) or rule.one != rule.other:
            return True
        codes, domains = self.codes(rule.topology_key), self.tree.domain_at[required]
        return len(np.unique(np.stack((codes, domains)), axis=1)[0]) > len(np.unique(codes))

    def regions(self, required: int) -> Iterator[Mask]:
        """The domains that may hold the whole gang, the tightest first; the whole tree if none is required."""
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

    def places(self, rule: Together, region: Mask) -> list[Mask]:
        """The values of a label whose nodes hold all members that must be together, the tightest first."""
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
        self, together: Sequence[Together], places: Sequence[Mask], others: Sequence[Apart | Evenly], region: Mask
    ) -> Layout | None:
        """One layout, rule after rule; None if a rule leaves too little."""
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
        """By position, the room for pods of some classes: that of the class with the most pods."""
        pods = classes & self.wanted.keys()
        if not pods:
            return np.zeros(self.tree.size, dtype=np.int64)
        most = max(pods, key=lambda pod: (self.wanted[pod], repr(pod.request.total)))
        return layout.limit(most, self.slots[most])

    def _one_per_place(self, rule: Apart, layout: Layout) -> Layout:
        """One pod per node, and of the nodes with the same value only that with the most room; nodes without the label do not count."""
        codes, room = self.codes(rule.topology_key), self._room(rule.one, layout)
        cap = (codes == ABSENT) * max(self.wanted.values(), default=0)
        order = np.lexsort((np.arange(len(codes)), -room, codes))
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = codes[order][1:] != codes[order][:-1]
        chosen = order[first & (codes[order] != ABSENT)]
        cap[chosen] = 1
        return replace(layout, caps=(*layout.caps, (rule.one, cap)))

    def _parted(self, rule: Apart, layout: Layout) -> Layout:
        """As few values as possible for the side with fewer pods, those where the other side has least room; the rest for the other."""
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
        """Caps that add up to the members, so many per value that all stand evenly; None if there is no such way."""
        counted = spread_counts(self.state, rule.newcomer, rule.rule)
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
    """How many of `pods` each value gets so that no value has more than `maxSkew` above the emptiest; None if that cannot be.

    Of several ways the one that leaves the emptiest values as they are: members then share the fewest values.
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
