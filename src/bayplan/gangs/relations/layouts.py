"""Layouts: rules among the members of a gang as closed nodes and caps, inside which every placement satisfies them.

    rules -> where members that must be together can be, region by region -> Layout (open nodes and caps by class)

A layout chooses: the place for members that go together, the node of each place for members apart, the shares of an
even spread. The tightest choices come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.labels import ABSENT
from bayplan.cluster.pods.terms import SpreadRule
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree
from bayplan.cluster.volumes.sharing import distinct
from bayplan.engine.budget import Budget, OutOfWork
from bayplan.engine.gangs.equal.equal_pods import fill_nodes
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts
from bayplan.engine.numa.rows import Mask
from bayplan.gangs.class_slots import NODES_PER_WORK
from bayplan.gangs.relations.member_rules import Apart, Classes, Evenly, Rule, Together
from bayplan.gangs.relations.members import MemberClass
from bayplan.gangs.relations.shared_claims import OneVolume
from bayplan.plugins.pod_topology_spread import SpreadCounts, spread_counts

# Limit on layouts for one gang; the first with room is usually among the first three.
MOST_LAYOUTS = 16
# All attempts for one gang: about 0.2 s.
WORK_OF_LAYOUTS = 200_000
# Of one attempt, beside that of a pass over masks and counts of all nodes.
WORK_OF_AN_ATTEMPT = 20
Slots = Mapping[MemberClass, Counts]
# By position, the part of a node.
Shares = NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """Nodes, by position, that are open to each class, and caps on pods of some classes together per position."""

    is_open: Mapping[MemberClass, Mask]
    caps: tuple[tuple[Classes, Counts], ...] = ()

    def limit(self, pod: MemberClass, slots: Counts) -> Counts:
        """Return the slots of one class inside this layout."""
        if pod in self.is_open:
            slots = slots * self.is_open[pod]
        for classes, cap in self.caps:
            if pod in classes:
                slots = np.minimum(slots, cap)
        return slots


def layouts(
    state: ClusterState,
    tree: Tree,
    rules: Sequence[Rule],
    wanted: Mapping[MemberClass, int],
    slots: Slots,
    required: int,
    budget: Budget,
) -> Iterator[Layout]:
    """Yield layouts that satisfy the rules, the tightest first. `wanted` is the number of pods of each class.

    Raises `OutOfWork` after `WORK_OF_LAYOUTS`, or if less is left in the budget.
    """
    maker = _LayoutMaker(state, tree, wanted, slots, budget.at_most(WORK_OF_LAYOUTS))
    together = [rule for rule in rules if isinstance(rule, Together | OneVolume)]
    others = [rule for rule in rules if isinstance(rule, Apart | Evenly)]
    regions = maker.regions(required if any(maker.depends_on_region(rule, required) for rule in others) else WHOLE_TREE)
    found = (
        layout
        for region in regions
        for is_open in maker.places_for(together, region)
        for roomiest in ((True, False) if any(map(_is_within, others)) else (True,))
        if (layout := maker.layout(is_open, others, roomiest=roomiest)) is not None
    )
    return islice(found, MOST_LAYOUTS)


def _is_within(rule: Apart | Evenly) -> bool:
    """True if members of one side keep apart from each other, each on some node of its place."""
    return isinstance(rule, Apart) and rule.one == rule.other


def can_differ(volumes: Sequence[frozenset[int]]) -> bool:
    """True if each claim can take another of the volumes that it may have."""
    return len(distinct({number: sorted(each)[: len(volumes)] for number, each in enumerate(volumes)})) == len(volumes)


class _Spot(NamedTuple):
    """Positions that a rule leaves open: a value of a label, or a mask with the volumes that serve it.

    `joined` are more positions for members that can join pods outside; without a value, the only ones.
    """

    topology_key: str = ""
    value: int = ABSENT
    mask: Mask | None = None
    volumes: frozenset[int] = frozenset()
    joined: Mask | None = None


@dataclass(frozen=True)
class _LayoutMaker:
    state: ClusterState
    tree: Tree
    wanted: Mapping[MemberClass, int]
    slots: Slots
    budget: Budget

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

    def places_for(self, rules: Sequence[Together | OneVolume], region: Mask) -> Iterator[dict[MemberClass, Mask]]:
        """Yield the positions that are open to each class, for one place after another of members that go together."""
        spots = {id(rule): self.spots(rule, region) for rule in rules}

        def inside(
            left: Sequence[Together | OneVolume], is_open: dict[MemberClass, Mask], volumes: tuple[frozenset[int], ...]
        ) -> Iterator[dict[MemberClass, Mask]]:
            if not left:
                yield is_open
                return
            rule, *others = left
            for spot in spots[id(rule)]:
                self._charge(1)
                taken = (*volumes, spot.volumes) if spot.volumes else volumes
                narrowed = {pod: is_open[pod] & self.open_to(spot, rule, pod) for pod in self.of(rule.classes)}
                if self._have_room(narrowed) and can_differ(taken):
                    yield from inside(others, is_open | narrowed, taken)

        yield from inside(rules, dict.fromkeys(self.wanted, region), ())

    def spots(self, rule: Together | OneVolume, region: Mask) -> list[_Spot]:
        """Return where all members of a rule have room, the tightest first."""
        if isinstance(rule, Together):
            if rule.joined is None:
                values = self.places(rule.topology_key, self.of(rule.classes), region)
                return [_Spot(rule.topology_key, value) for value in values]
            joined = rule.joined[self.tree.rows] & region
            others = self.of(rule.classes - rule.holders)
            values = self.places(rule.topology_key, others, region) if others else []
            return [_Spot(joined=joined), *(_Spot(rule.topology_key, value, joined=joined) for value in values)]
        found: list[tuple[int, _Spot]] = []
        for place in rule.places:
            of_rows = np.zeros(self.state.labels.size, dtype=np.bool_)
            of_rows[place.rows] = True
            mask = of_rows[self.tree.rows]
            room = [int(self.slots[pod][mask & region].sum()) - self.wanted[pod] for pod in self.of(rule.classes)]
            if min(room, default=0) >= 0:
                found.append((sum(room), _Spot(mask=mask, volumes=place.volumes)))
        return [spot for _, spot in sorted(found, key=lambda each: each[0])]

    def open_to(self, spot: _Spot, rule: Together | OneVolume, pod: MemberClass) -> Mask:
        """Positions that a spot of a rule leaves open to members of a class."""
        if spot.mask is not None:
            return spot.mask
        can_join = spot.joined is not None and isinstance(rule, Together) and pod in rule.holders
        if spot.value == ABSENT:
            return spot.joined if spot.joined is not None and can_join else self._anywhere
        there: Mask = self.codes(spot.topology_key) == spot.value
        return there | spot.joined if spot.joined is not None and can_join else there

    def _charge(self, passes: int) -> None:
        self.budget.spend(WORK_OF_AN_ATTEMPT + passes * self.tree.size / NODES_PER_WORK)
        if self.budget.is_spent:
            raise OutOfWork

    def of(self, classes: Classes) -> list[MemberClass]:
        """The classes that are wanted, in an order that does not depend on addresses in memory."""
        return [pod for pod in self.wanted if pod in classes]

    @cached_property
    def _anywhere(self) -> Mask:
        return np.ones(self.tree.size, dtype=np.bool_)

    def _have_room(self, is_open: Mapping[MemberClass, Mask]) -> bool:
        return all(int(self.slots[pod][mask].sum()) >= self.wanted[pod] for pod, mask in is_open.items())

    def places(self, topology_key: str, classes: Sequence[MemberClass], region: Mask) -> list[int]:
        """Return the values of a label whose nodes hold all members of some classes, the tightest first."""
        codes = self.codes(topology_key)
        size = len(self.state.labels.values(topology_key))
        enough = np.ones(size, dtype=np.bool_)
        room = np.zeros(size)
        for pod in classes:
            sums = np.bincount(codes, weights=self.slots[pod] * region, minlength=size)
            enough &= sums >= self.wanted[pod]
            room += sums
        enough[ABSENT] = False
        found: list[int] = np.flatnonzero(enough)[np.argsort(room[enough], kind="stable")].tolist()
        return found

    def layout(
        self, is_open: Mapping[MemberClass, Mask], others: Sequence[Apart | Evenly], *, roomiest: bool
    ) -> Layout | None:
        """Apply rule after rule; None if one leaves too little room.

        Members apart get the node with the most room of each place, or with the least.
        """
        self._charge(1 + len(others))
        layout, nothing = Layout(is_open), np.zeros(self.tree.size)
        evenly = [rule for rule in others if isinstance(rule, Evenly)]
        for apart in others:
            if isinstance(apart, Apart):
                within = _is_within(apart)
                layout = (
                    self._one_per_place(apart, layout, roomiest=roomiest) if within else self._parted(apart, layout)
                )
        shares: list[tuple[Classes, Shares]] = []
        for number, even in enumerate(evenly):
            others_take = sum((share for classes, share in shares if classes.isdisjoint(even.classes)), nothing)
            spread = self._even(even, layout, others_take, over_nodes=number + 1 < len(evenly))
            if spread is None:
                return None
            layout, share = spread
            shares.append((even.classes, share))
        enough = all(layout.limit(pod, self.slots[pod]).sum() >= number for pod, number in self.wanted.items())
        return layout if enough else None

    def _room(self, classes: Classes, layout: Layout) -> Counts:
        """Return, by position, the room for pods of some classes: that of the class with the most pods."""
        pods = self.of(classes)
        if not pods:
            return np.zeros(self.tree.size, dtype=np.int64)
        most = max(pods, key=lambda pod: (self.wanted[pod], repr(pod.pod_class.request.total)))
        return layout.limit(most, self.slots[most])

    def _one_per_place(self, rule: Apart, layout: Layout, *, roomiest: bool) -> Layout:
        """Cap at one pod per value, on the node with the most or least room; nodes without the label do not count."""
        codes, room = self.codes(rule.topology_key), self._room(rule.one, layout)
        if not roomiest:
            room = np.where(room > 0, -room, -np.iinfo(np.int64).max)
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

    def _even(
        self, rule: Evenly, layout: Layout, others_take: Shares, *, over_nodes: bool
    ) -> tuple[Layout, Shares] | None:
        """Cap each position so that the members fit exactly and evenly, and return what they take of each node.

        None if that is impossible beside what members of other rules take.
        """
        counted = spread_counts(self.state, rule.incoming, rule.rule)
        codes = self.codes(rule.rule.topology_key)
        slots = self._room(rule.classes, layout)
        room = np.floor(slots * np.maximum(1.0 - others_take, 0.0) + 1e-9).astype(np.int64)
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
        return replace(layout, caps=(*layout.caps, (rule.classes, cap))), cap / np.maximum(slots, 1)


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
