"""A topology for text and pictures: nested domains, free amounts, and how many pods of a shape fit.

A tree and the cluster's columns come in; a `TopologyMap` without layout goes out. `text.py` and `svg.py` draw it, and
`topology_document` is for programs. Free is what nodes have beside their pods, unless they are closed to such pods;
pods *fit* if kubelets would admit them, filters included. Below a node are its reported NUMA zones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.node_status import Closing, closings
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import CPU, MEMORY, PODS
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Path, Tree, distance
from bayplan.engine.gangs.problem import Counts
from bayplan.engine.numa.fragmentation import Aligned, aligned_amounts, fragmentation
from bayplan.explain.amounts import count
from bayplan.explain.documents import API_VERSION, Document, amounts_document
from bayplan.explain.gangs.document import rooms_document
from bayplan.explain.gangs.outcome import Party
from bayplan.explain.topology.closed import ClosedNodeGroup, closed_document, closed_nodes
from bayplan.explain.topology.levels import short_levels
from bayplan.gangs.model import LevelRoom
from bayplan.gangs.trees import rooms_of
from bayplan.kube.topology_levels import HOSTNAME


@dataclass(frozen=True, slots=True)
class DomainView:
    """A domain of any level, down to NUMA zones: `path` from the top, amounts, and inner domains.

    `slots` is the number of pods of the requested shape that fit now, `slots_if_idle` the number if nothing ran. Both
    are None without a shape, and for a zone, because a pod can take several. `fragmentation` is by resource, as in
    `engine/numa/fragmentation.py`, over nodes that report zones. `closed` is what pods leave on closed nodes; it is not
    in `free`.
    """

    path: Path
    nodes: tuple[str, ...]
    free: Mapping[str, int]
    total: Mapping[str, int]
    slots: int | None
    slots_if_idle: int | None
    inside: tuple[DomainView, ...]
    fragmentation: Mapping[str, float] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TopologyMap:
    """Everything to draw about a topology; wide because text, pictures and documents share it.

    `outside` has the labels that nodes outside lack, `lead` the text before that. The counted shape is one unit of a
    resource unless another is `named`. `asks_for` is the request of the shape, `rooms` the largest gang of such pods
    per level. Distances are counted from the node at `origin`. `parties` are a gang's pods; `title` and `facts`
    describe the gang. `closed` are nodes closed to such pods; without a named shape, to pods that ask for what the
    nodes have.
    """

    name: str
    levels: tuple[str, ...]
    domains: tuple[DomainView, ...]
    nodes: int
    resources: tuple[str, ...]
    outside: Mapping[str, str]
    lead: str
    if_empty: str
    closed: tuple[ClosedNodeGroup, ...] = ()
    zones: int | None = None
    origin: Path = ()
    asks_for: Mapping[str, int] = field(default_factory=dict)
    named: bool = True
    rooms: tuple[LevelRoom, ...] = ()
    parties: tuple[Party, ...] = ()
    title: str = ""
    facts: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        """`network: 2 blocks, 8 racks, 64 nodes; 3 nodes outside`."""
        words = [count(len(self.at(depth)), level) for depth, level in enumerate(short_levels(self.levels)[:-1], 1)]
        words.append(count(self.nodes, "node"))
        words += [count(self.zones, "NUMA zone")] if self.zones is not None else []
        sentence = f"{self.name}: {', '.join(words)}"
        if not self.nodes:
            sentence = f"{self.name}: {self.if_empty}"
        if self.outside:
            sentence += f"; {count(len(self.outside), 'node')} outside"
        return sentence + (f"; {count(len(self.closed_by), 'node')} closed" if self.closed else "")

    @cached_property
    def closed_by(self) -> dict[str, Closing]:
        """By node, what closes it; nodes that are open are left out."""
        return {node: each.by for each in self.closed for node in each.nodes}

    def at(self, depth: int) -> list[DomainView]:
        """The domains this many levels down, 1 for the widest."""
        found = list(self.domains)
        for _ in range(depth - 1):
            found = [inner for domain in found for inner in domain.inside]
        return found

    @property
    def slots(self) -> int | None:
        """The number of pods of the requested shape that fit in total."""
        return sum(domain.slots or 0 for domain in self.domains) if self.asks_for else None


def topology_map(
    state: ClusterState,
    tree: Tree,
    resources: Sequence[str],
    pod: PodClass | None = None,
    slots: Counts | None = None,
    *,
    named: bool = True,
    with_zones: bool = False,
) -> TopologyMap:
    """The map of a tree; `slots` by position in the tree for pods of one class, which is `named` or one unit of a
    resource; `with_zones` includes NUMA zones.
    """
    columns = state.columns
    closing = closings(state, tree.rows, pod.tolerations if pod is not None else (), exactly=pod is not None and named)
    free, total, closed = {}, {}, {}
    for name in resources:
        index = columns.index_of(name)
        unused = np.maximum(columns.free[index][tree.rows], 0).astype(np.int64)
        free[name], closed[name] = np.where(closing.open, unused, 0), np.where(closing.open, 0, unused)
        total[name] = columns.allocatable[index][tree.rows].astype(np.int64)
    if slots is not None and pod is not None:
        free[_SLOTS] = slots
        total[_SLOTS] = _slots_if_idle(state, tree, pod)
    zones: list[tuple[DomainView, ...]] = [()] * tree.size
    if with_zones:
        places = zip(tree.rows, tree.paths[tree.node_level], closing.open, strict=True)
        zones = [_zones(state, int(row), path, resources, is_open=bool(is_open)) for row, path, is_open in places]
    return TopologyMap(
        name=tree.name,
        levels=tree.levels,
        domains=_domains(tree, state, free, total, closed, zones, _aligned(state, tree, resources)),
        nodes=tree.size,
        resources=tuple(resources),
        outside=tree.outside,
        lead=tree.lead,
        if_empty="no node carries all of its labels" if tree.by_labels else tree.when_empty,
        closed=closed_nodes(state, tree.rows, closing, resources),
        zones=sum(map(len, zones)) if with_zones else None,
        asks_for=pod.request.total if pod is not None else {},
        named=named,
        rooms=rooms_of(tree, slots, 1) if slots is not None else (),
    )


# The level below the nodes.
NUMA = "numa"
# Slots add up like amounts, so they share the sums.
_SLOTS = ""


def leading_resource(resources: Sequence[str]) -> str:
    """The resource to show if only one fits: the first device, else the first of all."""
    devices = [name for name in resources if "/" in name]
    return (devices or list(resources) or [CPU])[0]


def default_resources(state: ClusterState, rows: NDArray[np.intp]) -> list[str]:
    """cpu, memory and the devices that any of these nodes has: first those for which taints in their name keep nodes,
    then those that the zones of most nodes report, then those of most nodes, then those that a node has fewest of.

    That puts GPUs before network cards, and both before plugins such as kvm and fuse.
    """
    columns = state.columns
    kept = {taint.key for number in range(len(state.taint_sets)) for taint in state.taint_sets[number]}
    ranks = {}
    for name, index in columns.resource_index.items():
        amounts = columns.allocatable[index][rows]
        if "/" in name and amounts.any():
            in_zones, on_nodes = np.count_nonzero(columns.zone_reported[index][rows]), np.count_nonzero(amounts)
            ranks[name] = (name not in kept, -in_zones, -on_nodes, amounts.max(), name.rpartition("/")[2], name)
    return [CPU, MEMORY, *sorted(ranks, key=ranks.__getitem__)]


def topology_document(drawn: TopologyMap) -> Document:
    """What `bayplan topology -o json` prints."""
    return {
        "apiVersion": API_VERSION,
        "kind": "TopologyMap",
        "topology": drawn.name,
        "answer": drawn.answer,
        "levels": list(drawn.levels),
        "nodes": drawn.nodes,
        "asksFor": amounts_document(drawn.asks_for) or None,
        "slots": drawn.slots,
        "largestGang": rooms_document(drawn.rooms) or None,
        "zones": drawn.zones,
        "distanceFrom": drawn.origin[-1] if drawn.origin else None,
        "domains": [_domain_document(drawn, domain) for domain in drawn.domains],
        "outside": [{"node": node, "lacks": label} for node, label in drawn.outside.items()],
        "closed": closed_document(drawn.closed),
    }


def _domain_document(drawn: TopologyMap, domain: DomainView) -> Document:
    unusable = stranded(drawn, domain) if drawn.named else None
    return {
        "level": (*drawn.levels, HOSTNAME, NUMA)[len(domain.path) - 1],
        "path": list(domain.path),
        "nodes": len(domain.nodes),
        "free": amounts_document(domain.free),
        "closed": amounts_document(domain.closed),
        "allocatable": amounts_document(domain.total),
        "slots": domain.slots,
        "fragmentation": {name: round(share, 4) for name, share in domain.fragmentation.items()},
        "stranded": unusable and {"resource": unusable[0], "share": round(unusable[1], 4)},
        "distance": distance(drawn.origin, domain.path) if drawn.origin else None,
        "domains": [_domain_document(drawn, inner) for inner in domain.inside],
    }


def stranded(drawn: TopologyMap, domain: DomainView) -> tuple[str, float] | None:
    """The share of a free resource that pods of the shape cannot use; None if nothing is free, or without a shape.

    A domain counts the pods that fit; a NUMA zone counts those that fit by the shown amounts.
    """
    asked = {name: amount for name, amount in drawn.asks_for.items() if amount and name in drawn.resources}
    name = leading_resource([each for each in drawn.resources if each in asked])
    if name not in asked or not domain.free.get(name):
        return None
    pods = domain.slots
    if pods is None:
        pods = min(domain.free.get(each, 0) // amount for each, amount in asked.items() if each in domain.free)
    return name, 1 - pods * asked[name] / domain.free[name]


def _aligned(state: ClusterState, tree: Tree, resources: Sequence[str]) -> dict[str, Aligned]:
    return {name: aligned_amounts(state, name, tree.rows) for name in resources}


def _zones(
    state: ClusterState, row: int, path: Path, resources: Sequence[str], *, is_open: bool
) -> tuple[DomainView, ...]:
    """The reported NUMA zones of a node, if usable."""
    columns, report = state.columns, state.reports[row]
    if report is None or columns.topology[row] != TOPOLOGY_USABLE:
        return ()
    found = []
    for position, zone in enumerate(report.zones):
        index = {name: columns.index_of(name) for name in resources if name in zone.resources}
        unused = {name: int(columns.zone_available[each, position, row]) for name, each in index.items()}
        total = {name: int(columns.zone_total[each, position, row]) for name, each in index.items()}
        free, closed = (unused, {}) if is_open else (dict.fromkeys(unused, 0), unused)
        found.append(DomainView((*path, str(zone.id)), path[-1:], free, total, None, None, (), closed=closed))
    return tuple(found)


def _domains(
    tree: Tree,
    state: ClusterState,
    free: Mapping[str, Counts],
    total: Mapping[str, Counts],
    closed: Mapping[str, Counts],
    zones: Sequence[tuple[DomainView, ...]],
    aligned: Mapping[str, Aligned],
) -> tuple[DomainView, ...]:
    """All domains, from the nodes upwards, in the order of the tree."""
    below: list[DomainView] = []
    firsts_below = np.zeros(0, dtype=np.intp)
    for level in range(tree.node_level, -1, -1):
        sums_free = {name: tree.sums(counts, level).tolist() for name, counts in free.items()}
        sums_closed = {name: tree.sums(counts, level).tolist() for name, counts in closed.items()}
        sums_total = {name: tree.sums(counts, level).tolist() for name, counts in total.items()}
        shares = {
            name: fragmentation(tree.sums(each.largest, level), tree.sums(each.at_best, level)).tolist()
            for name, each in aligned.items()
        }
        starts = tree.starts[level]
        first_child = np.searchsorted(firsts_below, starts).tolist()
        made: list[DomainView] = []
        for number, path in enumerate(tree.paths[level]):
            first, end = tree.bounds(level, number)
            child_end = first_child[number + 1] if number + 1 < len(starts) else len(below)
            made.append(
                DomainView(
                    path,
                    tuple(state.names[row] for row in tree.rows[first:end]),
                    {name: sums[number] for name, sums in sums_free.items() if name != _SLOTS},
                    {name: sums[number] for name, sums in sums_total.items() if name != _SLOTS},
                    sums_free[_SLOTS][number] if _SLOTS in sums_free else None,
                    sums_total[_SLOTS][number] if _SLOTS in sums_total else None,
                    tuple(below[first_child[number] : child_end]) if below else zones[number],
                    {name: share[number] for name, share in shares.items() if not isnan(share[number])},
                    {name: sums[number] for name, sums in sums_closed.items() if sums[number]},
                )
            )
        below, firsts_below = made, starts
    return tuple(below)


def _slots_if_idle(state: ClusterState, tree: Tree, pod: PodClass) -> Counts:
    """The number of pods that each node would hold by its totals if it were empty."""
    columns = state.columns
    asked = {**pod.request.total, PODS: 1}
    times = [
        columns.allocatable[columns.index_of(name)][tree.rows] // amount for name, amount in asked.items() if amount
    ]
    fewest: Counts = np.minimum.reduce(times).astype(np.int64)
    return fewest
