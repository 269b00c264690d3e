"""A topology as a tree of domains: the root, below it the domains of the widest level, and so on down to the narrowest.

`build_tree` reads the labels of nodes. A domain is named by the label values on the way to it, joined with dots,
because KAI does so and its tie-breaks and messages follow these names. Values may contain dots themselves: zone `a.b`,
rack `c` and zone `a`, rack `b.c` become one rack, in KAI as here. `Capacity` counts what is free in a tree; the tree
itself never changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.compat.kai.scheduler.model import CPU, GPU, PODS, Amounts, Node, Task, Topology, fits, total

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


MISSING_RESOURCE_RATIO = 1000.0
HOST_RESOURCES = (CPU, "memory", GPU, PODS)

FreeOf = Callable[[str], Amounts]


@dataclass(slots=True)
class Capacity:
    """Free amounts, and how many pods fit, of the domains that were counted.

    A domain that was not counted has nothing free and no number of pods, which makes KAI compare sums for it: a domain
    above the one that was counted never fits.
    """

    wanted: Amounts
    tasks: int
    free: dict[Domain, dict[str, float]] = field(default_factory=dict)
    pods: dict[Domain, int] = field(default_factory=dict)

    def holds_all(self, domain: Domain) -> bool:
        """Whether KAI would try this domain for the tasks."""
        if domain in self.pods:
            return self.pods[domain] >= self.tasks
        return self.ratio(domain) <= 1

    def ratio(self, domain: Domain) -> float:
        """How full the tasks would make this domain; above 1 they do not fit."""
        return fill_ratio(self.wanted, self.free.get(domain, {}))


def fill(domain: Domain, tasks: Sequence[Task], free_of: FreeOf) -> Capacity:
    """Count a domain and all below it. `free_of(node)` is what is idle or being released there."""
    capacity = Capacity(total([task.requests for task in tasks]), len(tasks))
    largest = _largest_request(tasks)
    _fill(domain, capacity, free_of, largest if are_alike(tasks) else None)
    return capacity


def _fill(domain: Domain, capacity: Capacity, free_of: FreeOf, largest: Amounts | None) -> None:
    for child in domain.children.values():
        _fill(child, capacity, free_of, largest)
    nodes = [free_of(name) for name in domain.nodes] if not domain.children else []
    capacity.free[domain] = total([*nodes, *(capacity.free[child] for child in domain.children.values())])
    if largest is not None:
        here = sum(pods_that_fit(largest, free, capacity.tasks) for free in nodes)
        capacity.pods[domain] = here + sum(capacity.pods[child] for child in domain.children.values())


def are_alike(tasks: Sequence[Task]) -> bool:
    """Whether counting pods makes sense: all or none use GPUs, and every device that one asks for, all ask for."""
    with_gpus = sum(1 for task in tasks if task.requests.get(GPU, 0) > 0)
    devices = {
        name for task in tasks for name, amount in task.requests.items() if amount and name not in HOST_RESOURCES
    }
    return with_gpus in (0, len(tasks)) and all(task.requests.get(name, 0) for task in tasks for name in devices)


def pods_that_fit(request: Amounts, free: Amounts, wanted: int) -> int:
    """How many pods of this size a node holds; pods that ask for nothing always fit, all that are wanted."""
    if not any(amount for resource, amount in request.items() if resource != PODS):
        return wanted
    if not fits(request, free):
        return 0
    return int(min(free.get(resource, 0) // amount for resource, amount in request.items() if amount > 0))


def fill_ratio(wanted: Amounts, free: Amounts) -> float:
    """The largest share over all resources of what is wanted in what is free.

    CPU is compared in whole cores, rounded up on both sides; the number of pods is not compared. Of GPUs that are not
    there any wish is infinitely much, of other resources a thousand times too much.
    """
    ratios = [0.0]
    for resource, amount in wanted.items():
        if amount <= 0 or resource == PODS:
            continue
        available = free.get(resource, 0)
        if not available:
            ratios.append(math.inf if resource == GPU else MISSING_RESOURCE_RATIO)
        elif resource == CPU:
            ratios.append(math.ceil(amount / 1000) / math.ceil(available / 1000))
        else:
            ratios.append(amount / available)
    return max(ratios)


def fullest_first(domain: Domain, capacity: Capacity, deepest_level: str) -> dict[Domain, list[Domain]]:
    """Children in KAI's order, for a domain and all below it down to the children of `deepest_level`; ties by id."""
    if not deepest_level:
        return {}
    ordered = sorted(domain.children.values(), key=lambda child: (-capacity.ratio(child), child.id))
    orders: dict[Domain, list[Domain]] = {domain: ordered}
    if domain.level != deepest_level:
        for child in ordered:
            orders |= fullest_first(child, capacity, deepest_level)
    return orders


def _largest_request(tasks: Sequence[Task]) -> Mapping[str, float]:
    largest: dict[str, float] = {}
    for task in tasks:
        for resource, amount in task.requests.items():
            largest[resource] = max(largest.get(resource, 0), amount)
    return largest
