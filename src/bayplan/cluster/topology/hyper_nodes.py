"""Volcano's HyperNodes as one tree: which of them contains which, what its levels are called, and where nodes stand in
it.

In come the objects, in any order; out goes a `Hierarchy`, or an `InvalidObject` with the first thing that prevents them
from being a tree: a selector that cannot be read, two parents, a cycle, a member whose tier is not smaller. That
depends on the HyperNodes alone. A node that stands nowhere, in no HyperNode or in two that do not contain each other,
is left out by itself; for gangs that take any node if they must, there is a second tree with it.
`cluster/topology/tree.py` makes a `Tree` of hierarchy and nodes.

Each tier is a level. There may be gaps: nodes directly in a HyperNode of tier 2, a HyperNode of tier 1 that nothing
contains. A node's domain at a tier is the largest HyperNode up to that tier that contains it, as in Volcano, where a
tier allows all smaller ones; if there is none, the node is a domain by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bayplan.cluster.pods.checks import check_selector
from bayplan.cluster.pods.label_selectors import selector_of
from bayplan.cluster.topology.node_members import NodeMembers
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Node
from bayplan.kube.wire.volcano_topology_v1alpha1 import KIND, MEMBER_TYPES, NODE, HyperNode, Member

# The tree's name. No Topology can have it: names of objects are in lower case.
HYPER_NODES = "HyperNodes"
# The same tree with the nodes that stand nowhere, each a domain by itself.
WITH_OTHER_NODES = "HyperNodes and other nodes"
# Names that would be taken for the level of the nodes themselves.
TAKEN = (HOSTNAME, "node")


@dataclass(frozen=True, slots=True)
class Tier:
    """A level of the tree: its number, and what it is called."""

    number: int
    level: str


@dataclass(frozen=True, slots=True)
class NodePosition:
    """Where a node stands: its domain at each tier, the widest first, and what it lacks if it
    stands alone everywhere.
    """

    path: tuple[str, ...]
    lacks: str = ""


class Hierarchy:
    """HyperNodes that are a tree. `tiers` are its levels, the widest first; `tier_named` has every name of a tier."""

    def __init__(
        self,
        tiers: Mapping[str, int],
        parents: Mapping[str, str],
        tier_named: Mapping[str, int],
        members: NodeMembers,
    ) -> None:
        self._tier_of = tiers
        self._members = members
        self.tier_named = tier_named
        self.tiers = tuple(
            Tier(number, _level_name(number, tier_named)) for number in sorted(set(tiers.values()), reverse=True)
        )
        # Of each HyperNode itself and those around it, the closest first.
        self._around = {name: tuple(_upwards(name, parents)) for name in tiers}
        self._known: dict[tuple[str | None, ...], NodePosition] = {}

    def place_key(self, node: Node) -> tuple[str | None, ...]:
        """What decides where a node stands: its name, and the labels that selectors ask for."""
        labels = node.metadata.labels or {}
        return (node.metadata.name, *(labels.get(key) for key in self._members.label_keys))

    def selecting(self, node: Node) -> set[str]:
        """The HyperNodes that select a node themselves, without those around them."""
        return self._members.containing(node.metadata.name, node.metadata.labels or {})

    def positions(self, nodes: Iterable[Node]) -> list[NodePosition]:
        """Where each of all nodes stands. Nodes that have not changed since the last call are not looked up again."""
        keyed = [(self.place_key(node), node) for node in nodes]
        self._known = {key: self._known.get(key) or self._position_of(node) for key, node in keyed}
        return [self._known[key] for key, _ in keyed]

    def _position_of(self, node: Node) -> NodePosition:
        name = node.metadata.name
        direct = self.selecting(node)
        outer = {each for inner in direct for each in self._around[inner][1:]}
        closest = sorted(direct - outer)
        outwards = self._around[closest[0]] if len(closest) == 1 else ()
        lacks = f"single {KIND} (in {' and in '.join(closest)})" if closest else KIND
        path = tuple(self._domain(name, tier.number, outwards) for tier in self.tiers)
        return NodePosition(path, "" if outwards else lacks)

    def _domain(self, node: str, tier: int, outwards: Sequence[str]) -> str:
        allowed = [each for each in outwards if self._tier_of[each] <= tier]
        # With a blank in it, so that no HyperNode can be called so.
        return allowed[-1] if allowed else f"{node} alone"


def _upwards(name: str, parents: Mapping[str, str]) -> Iterator[str]:
    here: str | None = name
    while here is not None:
        yield here
        here = parents.get(here)


def _level_name(tier: int, tier_named: Mapping[str, int]) -> str:
    """The name that users gave to a tier, if it is only one; else its number."""
    taken = (*TAKEN, _by_number(tier))
    own = [name for name, number in tier_named.items() if number == tier and name not in taken]
    return own[0] if len(own) == 1 else _by_number(tier)


def hierarchy_of(objects: Collection[HyperNode]) -> Hierarchy:
    """The tree of some HyperNodes; raises `InvalidObject` if they are none."""
    ordered = sorted(objects, key=lambda each: each.metadata.name)
    tiers = {each.metadata.name: _tier(each) for each in ordered}
    members = NodeMembers()
    inside: list[tuple[HyperNode, ObjectPath, str]] = []
    for each in ordered:
        for index, member in enumerate(each.spec.members or ()):
            at = ObjectPath.of(each).child("spec.members").item(index)
            _check_member(member, at)
            if member.type == NODE:
                _add_nodes(members, each.metadata.name, member, at.child("selector"))
            elif member.selector.exact_match is not None:
                inside.append((each, at.child("selector.exactMatch.name"), member.selector.exact_match.name))
    return Hierarchy(tiers, _parents(inside, tiers), _names(ordered, tiers), members)


def _tier(written: HyperNode) -> int:
    tier, at = written.spec.tier, ObjectPath.of(written).child("spec.tier")
    if tier is None:
        raise InvalidObject(at, "is missing: must be a number, the smaller the closer")
    if tier < 0:
        raise InvalidObject(at, f"{tier} is negative: must be 0 or more")
    return tier


def _check_member(member: Member, at: ObjectPath) -> None:
    """Volcano's rules: a known type, and one selector, which for a HyperNode is its name."""
    if member.type not in MEMBER_TYPES:
        raise InvalidObject(at.child("type"), f'"{member.type}" must be one of {", ".join(MEMBER_TYPES)}')
    selector = member.selector
    kinds = {
        "exactMatch": selector.exact_match,
        "regexMatch": selector.regex_match,
        "labelMatch": selector.label_match,
    }
    given = [name for name, each in kinds.items() if each is not None]
    if len(given) != 1:
        what = f"has {' and '.join(given)}" if given else "is empty"
        raise InvalidObject(at.child("selector"), f"{what}: must be exactly one of {', '.join(kinds)}")
    if member.type == KIND and given != ["exactMatch"]:
        raise InvalidObject(at.child("selector").child(given[0]), f"is for nodes: a {KIND} is named by exactMatch")
    if selector.exact_match is not None and not selector.exact_match.name:
        raise InvalidObject(at.child("selector.exactMatch.name"), f"is missing: must be the name of a {member.type}")


def _add_nodes(members: NodeMembers, name: str, member: Member, at: ObjectPath) -> None:
    selector = member.selector
    if selector.exact_match is not None:
        members.add_name(selector.exact_match.name, name)
    elif selector.regex_match is not None:
        pattern, where = selector.regex_match.pattern, at.child("regexMatch.pattern")
        if not pattern:
            raise InvalidObject(where, "is missing: must be a regular expression of Go")
        try:
            members.add_pattern(pattern, name)
        except ValueError as error:
            raise InvalidObject(where, f'"{pattern}" is not a regular expression of Go: {error}') from None
    else:
        check_selector(selector.label_match, at.child("labelMatch"))
        members.add_labels(selector_of(selector.label_match), name)


def _parents(inside: Iterable[tuple[HyperNode, ObjectPath, str]], tiers: Mapping[str, int]) -> dict[str, str]:
    """The parent of each HyperNode. A member that does not exist is ignored: it may still come."""
    parents: dict[str, str] = {}
    fields: dict[str, ObjectPath] = {}
    for outer, at, member in inside:
        name = outer.metadata.name
        if member not in tiers:
            continue
        if parents.setdefault(member, name) != name:
            raise InvalidObject(at, f'"{member}" is a member of {parents[member]} already: a {KIND} has one parent')
        fields[member] = at
    for member in parents:
        _check_cycle(member, parents, fields[member])
    for member, parent in parents.items():
        if tiers[member] >= tiers[parent]:
            wrong = f'"{member}" has tier {tiers[member]}: must be below {tiers[parent]}, the tier of {parent}'
            raise InvalidObject(fields[member], wrong)
    return parents


def _check_cycle(member: str, parents: Mapping[str, str], at: ObjectPath) -> None:
    way = [member]
    for each in _upwards(parents[member], parents):
        way.append(each)
        if each == member:
            raise InvalidObject(at, f'"{member}" contains itself: {" in ".join(way)}')
        if len(way) > len(parents) + 1:
            return  # It leads into a cycle of others, which are told about that.


def _names(ordered: Iterable[HyperNode], tiers: Mapping[str, int]) -> dict[str, int]:
    """The tier that each name means, in the whole cluster. A tier may have several; one is its number."""
    named = {_by_number(tier): tier for tier in tiers.values()}
    given_by: dict[str, str] = {}
    for each in ordered:
        name, own = each.metadata.name, each.spec.tier_name
        if own and named.setdefault(own, tiers[name]) != tiers[name]:
            elsewhere = f"tier {named[own]}" + (f" in {given_by[own]}" if own in given_by else "")
            wrong = f'"{own}" is the name of {elsewhere}: it cannot be that of tier {tiers[name]} as well'
            raise InvalidObject(ObjectPath.of(each).child("spec.tierName"), wrong)
        given_by.setdefault(own, name)
    return named


def _by_number(tier: int) -> str:
    return f"tier-{tier}"
