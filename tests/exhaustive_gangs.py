"""Gangs placed by trying everything: slow, plain, and written without a look at the engine, to hold the engine's
answers against.

Pods go one by one, each to every node. Nothing is counted in domains or bounded in advance; only what is wrong already
is not continued: a node that no longer holds its pods, a group in two domains, more preferred domains than the best
answer so far. Good for half a dozen nodes and half a dozen pods.

What nodes hold is asked of virtual kubelets (`admitted_together`), or of plain sums (`fitting_together`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, product

from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.state import pod_key
from bayplan.gangs.model import Group, Segments
from bayplan.kube.wire.core_v1 import Pod
from bayplan.simulate.kubelet import VirtualKubelet

INDEX = "batch.kubernetes.io/job-completion-index"

Amounts = Mapping[str, int]
Mix = tuple[int, ...]
"""How many pods of each shape."""


@dataclass(frozen=True)
class Place:
    """A node: its labels, and every mix of pods that it holds. Labels that are missing keep it out of the tree."""

    name: str
    labels: Mapping[str, str]
    holds: frozenset[Mix]


@dataclass(frozen=True)
class Cluster:
    """Where a gang is placed: nodes, the levels of the topology (widest first), the shape of every pod by its key."""

    places: Sequence[Place]
    levels: tuple[str, ...]
    shape_of: Mapping[str, int]

    @property
    def in_tree(self) -> list[Place]:
        return [place for place in self.places if all(level in place.labels for level in self.levels)]

    def domain(self, place: Place, level: str) -> tuple[str, ...]:
        """The path of label values down to a level; a node is its own domain."""
        path = tuple(place.labels[label] for label in self.levels)
        return path[: self.levels.index(level) + 1] if level in self.levels else (*path, place.name)


# -- what a node holds
# -----------------------------------------------------------------------------------------------------


def fitting_together(free: Amounts, shapes: Sequence[Amounts], most: Mix) -> frozenset[Mix]:
    """The mixes whose amounts fit into what is free. A resource that none of them asks for does not matter."""
    return frozenset(
        mix
        for mix in product(*(range(number + 1) for number in most))
        if all(
            sum(count * shape.get(name, 0) for count, shape in zip(mix, shapes, strict=True)) <= free.get(name, 0)
            for count, shape in zip(mix, shapes, strict=True)
            if count
            for name in shape
            if shape[name]
        )
    )


def admitted_together(kubelet: VirtualKubelet, shapes: Sequence[PodRequest], most: Mix) -> frozenset[Mix]:
    """The mixes that a kubelet admits one pod after another in some order; a copy of it is asked.

    Kubelets do not look at resources that their node has never heard of; schedulers do.
    """
    kubelet = deepcopy(kubelet)
    known = [all(name in kubelet.allocatable for name in request.total) for request in shapes]
    found: set[Mix] = set()
    seen: set[tuple[Mix, str]] = set()

    def go_on(mix: Mix) -> None:
        state = (mix, repr(kubelet.free()))
        if state in seen:
            return
        seen.add(state)
        found.add(mix)
        for shape, request in enumerate(shapes):
            key = f"{shape}-{mix[shape]}"
            if known[shape] and mix[shape] < most[shape] and kubelet.admit(key, request).admitted:
                go_on((*mix[:shape], mix[shape] + 1, *mix[shape + 1 :]))
                kubelet.remove(key)

    go_on((0,) * len(shapes))
    return frozenset(found)


# -- a gang of which everything must be placed
# -----------------------------------------------------------------------------


@dataclass(eq=False)
class _Rule:
    """A group's, or a segment's, say about where pods stand; `apart` is shared by segments that avoid each other."""

    required: str | None = None
    preferred: str | None = None
    apart: list[_Rule] = field(default_factory=list)
    standing: list[Place] = field(default_factory=list)

    def allows(self, cluster: Cluster, place: Place) -> bool:
        if self.required is None:
            return True
        here = cluster.domain(place, self.required)
        if any(cluster.domain(other, self.required) != here for other in self.standing):
            return False
        others = [other for rule in self.apart if rule is not self for other in rule.standing]
        return all(cluster.domain(other, self.required) != here for other in others)

    def cost(self, cluster: Cluster) -> tuple[int, ...]:
        """Domains of the preferred level, then of every level wider than that, narrow ones first."""
        if self.preferred is None:
            return (0,) * (1 + len(cluster.levels))
        own = cluster.levels.index(self.preferred) if self.preferred in cluster.levels else len(cluster.levels)
        wider = [level if number < own else None for number, level in enumerate(cluster.levels)]
        return tuple(
            len({cluster.domain(place, level) for place in self.standing}) if level else 0
            for level in (self.preferred, *reversed(wider))
        )


@dataclass(frozen=True)
class _Member:
    """A pod: its shape and all rules that it is under."""

    shape: int
    rules: tuple[_Rule, ...]


def fewest_domains(cluster: Cluster, root: Group, given_up: Collection[tuple[Segments, int]] = ()) -> int | None:
    """How few preferred domains all pods of a group can use, summed over the groups that prefer; None if they have no
    place.

    Single segments may be given up, each by its layer and its number in it.
    """
    best = best_domains(cluster, root, given_up)
    return None if best is None else best[0]


def best_domains(
    cluster: Cluster, root: Group, given_up: Collection[tuple[Segments, int]] = ()
) -> tuple[int, ...] | None:
    """The same, with the domains of each wider level behind it, narrow ones first: as few preferred domains, then as
    few wider ones.
    """
    by_name = {place.name: place for place in cluster.in_tree}
    members: list[_Member] = []
    rules: list[_Rule] = []

    def read(group: Group, around: tuple[_Rule, ...]) -> None:
        rule = _Rule(group.required, group.preferred)
        rules.append(rule)
        inside = (*around, rule)
        places = [place_in_group(pod, rank) for rank, pod in enumerate(group.pods)]
        standing = [place_in_group(pod) for pod in group.running]
        segments = _segments(group.segments, 1 + max((*places, *standing), default=-1), given_up)
        rules.extend(chain.from_iterable(segments))

        def around_place(place: int) -> tuple[_Rule, ...]:
            return tuple(layer[place // size.size] for layer, size in zip(segments, group.segments, strict=True))

        for pod, place in zip(group.running, standing, strict=True):
            own = around_place(place) if place >= 0 else ()
            for each in (*inside, *own) if pod.spec.node_name in by_name else ():
                each.standing.append(by_name[pod.spec.node_name or ""])
        for pod, place in zip(group.pods, places, strict=True):
            members.append(_Member(cluster.shape_of[pod_key(pod)], (*inside, *around_place(place))))
        for inner in group.groups:
            read(inner, inside)

    read(root, ())
    if any(
        rule.required and len({cluster.domain(place, rule.required) for place in rule.standing}) > 1 for rule in rules
    ):
        return None
    return _Trial(cluster, members, rules).best()


def place_in_group(pod: Pod, rank: int = -1) -> int:
    """A pod's place among the members of its group: the index of its Job, else the one it has anyway."""
    return int((pod.metadata.labels or {}).get(INDEX, rank))


def _segments(
    segments: Sequence[Segments], places: int, given_up: Collection[tuple[Segments, int]]
) -> list[list[_Rule]]:
    """Per layer one rule for each segment."""
    layers = []
    for each in segments:
        numbers = range(-(-places // each.size))
        layer = [_Rule(None if (each, number) in given_up else each.level) for number in numbers]
        for rule in layer if each.apart else ():
            rule.apart = [other for other in layer if other.required]
        layers.append(layer)
    return layers


class _Trial:
    """Every way to put members on nodes."""

    def __init__(self, cluster: Cluster, members: list[_Member], rules: list[_Rule]) -> None:
        self.cluster = cluster
        self.members = members
        self.rules = rules
        self.places = cluster.in_tree
        self.mixes: list[Mix] = [tuple(0 for _ in next(iter(place.holds))) for place in self.places]
        # Part of a mix that is held may be refused by itself, so a node is given up only if no larger mix is held
        # either.
        self.on_the_way = [
            frozenset(chain.from_iterable(product(*(range(count + 1) for count in mix)) for mix in place.holds))
            for place in self.places
        ]
        self.fewest: tuple[int, ...] | None = None

    def best(self) -> tuple[int, ...] | None:
        self._place(0, 0)
        return self.fewest

    def _place(self, number: int, first: int) -> None:
        """Member `number` goes to every node from `first` on: equal members need not be tried in two orders."""
        cost = tuple(map(sum, zip(*(rule.cost(self.cluster) for rule in self.rules), strict=True)))
        if self.fewest is not None and cost >= self.fewest:
            return
        if number == len(self.members):
            if all(mix in place.holds for mix, place in zip(self.mixes, self.places, strict=True)):
                self.fewest = cost
            return
        member = self.members[number]
        equal = number + 1 < len(self.members) and self.members[number + 1] == member
        for index in range(first, len(self.places)):
            place, before = self.places[index], self.mixes[index]
            mix = (*before[: member.shape], before[member.shape] + 1, *before[member.shape + 1 :])
            if mix not in self.on_the_way[index] or not all(rule.allows(self.cluster, place) for rule in member.rules):
                continue
            self.mixes[index] = mix
            for rule in member.rules:
                rule.standing.append(place)
            self._place(number + 1, index if equal else 0)
            for rule in member.rules:
                rule.standing.pop()
            self.mixes[index] = before


# -- a gang of which some may stay behind
# ----------------------------------------------------------------------------------


def choices_of_groups(root: Group) -> Iterator[Group]:
    """Every way to leave out groups beyond the minimum, at every depth. Their running members remain the gang's."""
    least = len(root.groups) if root.minimum_groups is None else root.minimum_groups
    for number in range(least, len(root.groups) + 1):
        for chosen in combinations(range(len(root.groups)), number):
            left_out = [group for index, group in enumerate(root.groups) if index not in chosen]
            running = tuple(pod for group in left_out for inner in group.every_group() for pod in inner.running)
            for groups in product(*(tuple(choices_of_groups(root.groups[index])) for index in chosen)):
                yield replace(root, groups=groups, running=(*root.running, *running))


def with_members(root: Group, extra: Mapping[str, int]) -> Group:
    """The group with its minimum and, by name of the group, so many members more; the lowest ranks come first."""
    return replace(
        root,
        pods=root.pods[: root.least + extra.get(root.name, 0)],
        minimum=root.least,
        groups=tuple(with_members(group, extra) for group in root.groups),
    )


def with_wishes(root: Group, kept: Collection[tuple[str, Segments]] = ()) -> Group:
    """The group with its required segments and, by the name of the group, some of those that are optional for."""
    return replace(
        root,
        segments=tuple(each for each in root.segments if each.required or (root.name, each) in kept),
        groups=tuple(with_wishes(group, kept) for group in root.groups),
    )
