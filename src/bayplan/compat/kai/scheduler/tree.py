"""A topology as a tree of domains: the root, below it the domains of the widest level, and so on down to the narrowest.

`build_tree` reads the labels of nodes. A domain is named by the label values on the way to it, joined with dots, because KAI does
so and its tie-breaks and messages follow these names. Values may contain dots themselves: zone `a.b`, rack `c` and zone `a`, rack
`b.c` become one rack, in KAI as here. `capacity.py` fills a tree with what is free; the tree itself never changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.compat.kai.scheduler.model import Node, Topology

# The level and the only domain above all others. No node label is called so.
ROOT = "/"

Orders = Mapping["Domain", Iterable["Domain"]]


@dataclass(eq=False, slots=True)
class Domain:
    """Nodes that have all labels down to `level` in common, and the domains that the next level divides them into."""

    id: str
    level: str
    children: dict[str, Domain] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopologyTree:
    """All domains of a topology, by level and id; the level `ROOT` has one."""

    topology: Topology
    domains: Mapping[str, Mapping[str, Domain]]

    @property
    def root(self) -> Domain:
        """The domain that holds every node of the topology."""
        return self.domains[ROOT][ROOT]


def in_topology(node: Node, levels: Iterable[str]) -> bool:
    """A node belongs to a topology if it carries the label of every level."""
    return all(level in node.labels and level != ROOT for level in levels)


def build_tree(topology: Topology, nodes: Iterable[Node]) -> TopologyTree:
    """The domains that the labels of these nodes make."""
    root = Domain(ROOT, ROOT)
    domains: dict[str, dict[str, Domain]] = {**{level: {} for level in topology.levels}, ROOT: {ROOT: root}}
    for node in nodes:
        if not in_topology(node, topology.levels):
            continue
        root.nodes[node.name] = node
        above, values = root, []
        for level in topology.levels:
            values.append(node.labels[level])
            domain = domains[level].setdefault(domain_id(values), Domain(domain_id(values), level))
            domain.nodes[node.name] = node
            above = above.children.setdefault(domain.id, domain)
    return TopologyTree(topology, domains)


def domain_id(values: Sequence[str]) -> str:
    """KAI's name of the domain with these label values, the widest level first."""
    return ".".join(values)


def lowest_common_domain(nodes: Collection[Node], levels: Sequence[str], lowest: str = "") -> tuple[str, str]:
    """Level and id of the narrowest domain that holds all these nodes; with `lowest`, none below that level.

    Nodes outside the topology are looked past. An empty value ends the way down, as it does in KAI.
    """
    inside = [node for node in nodes if in_topology(node, levels)]
    found = ROOT
    values: list[str] = []
    for level in levels:
        here = {node.labels[level] for node in inside}
        if len(here) != 1 or "" in here:
            break
        values += here
        found = level
        if level == lowest:
            break
    return (found, domain_id(values)) if values else (ROOT, ROOT)


def level_domains(domain: Domain, level: str, children: Orders) -> Iterator[Domain]:
    """Domains of one level at or below `domain`, left to right as `children` orders them."""
    if domain.level == level:
        yield domain
        return
    for child in children.get(domain, domain.children.values()):
        yield from level_domains(child, level, children)


def reverse_level_order(root: Domain, children: Orders) -> list[Domain]:
    """All domains, the deepest first; those equally deep left to right as `children` orders them."""
    by_depth = [[root]]
    while by_depth[-1]:
        by_depth.append([child for domain in by_depth[-1] for child in children.get(domain, domain.children.values())])
    return [domain for domains in reversed(by_depth) for domain in domains]
