"""A topology as text and pictures are made from it: domains inside domains, what is free in each, how many pods of a shape fit.

In come a tree and the cluster's columns, out goes a `TopologyMap` without any layout; `topology_text.py` and `topology_svg.py` draw it,
and `topology_document` writes it down for programs. Free is what nodes have beside the pods on them; how many pods *fit* is what
the kubelets would admit, filters included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.pod_request import CPU, MEMORY, PODS
from bayplan.cluster.state import ClusterState
from bayplan.cluster.tree import Path, Tree
from bayplan.engine.gangs.problem import Counts
from bayplan.explain.amounts import usual_order
from bayplan.explain.documents import API_VERSION, Document, amounts_document
from bayplan.explain.gang_document import rooms_document
from bayplan.explain.levels import counted, short_levels
from bayplan.explain.parties import Party
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.scheduling.gang import LevelRoom
from bayplan.scheduling.rooms import rooms_of


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain of any level, the node being the lowest: `path` from the top, amounts, and the domains inside.

    `slots` are how many pods of the asked shape fit now, and `slots_if_idle` how many would if nothing ran; None if no shape was asked for.
    """

    path: Path
    nodes: tuple[str, ...]
    free: Mapping[str, int]
    total: Mapping[str, int]
    slots: int | None
    slots_if_idle: int | None
    inside: tuple[Domain, ...]


@dataclass(frozen=True)
class TopologyMap:
    """Everything to be drawn about a topology. `outside` has what nodes lack to be in it, `lead` what is said before that.

    `parties` are a gang's pods, with the gang's own words in `title` and `facts`.
    """

    name: str
    levels: tuple[str, ...]
    domains: tuple[Domain, ...]
    nodes: int
    resources: tuple[str, ...]
    outside: Mapping[str, str]
    lead: str
    nobody: str
    asks_for: Mapping[str, int] = field(default_factory=dict)
    rooms: tuple[LevelRoom, ...] = ()
    parties: tuple[Party, ...] = ()
    title: str = ""
    facts: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        """`network: 2 blocks, 8 racks, 64 nodes; 3 nodes outside`."""
        words = [counted(len(self.at(depth)), level) for depth, level in enumerate(short_levels(self.levels)[:-1], 1)]
        sentence = f"{self.name}: {', '.join([*words, counted(self.nodes, 'node')])}"
        if not self.nodes:
            sentence = f"{self.name}: {self.nobody}"
        if self.outside:
            sentence += f"; {counted(len(self.outside), 'node')} outside"
        return sentence

    def at(self, depth: int) -> list[Domain]:
        """The domains so many levels down, 1 for the widest."""
        found = list(self.domains)
        for _ in range(depth - 1):
            found = [inner for domain in found for inner in domain.inside]
        return found

    @property
    def slots(self) -> int | None:
        """How many pods of the asked shape fit in all."""
        return sum(domain.slots or 0 for domain in self.domains) if self.asks_for else None


def topology_map(
    state: ClusterState, tree: Tree, resources: Sequence[str], pod: PodClass | None = None, slots: Counts | None = None
) -> TopologyMap:
    """The map of a tree with these resources; `slots` by position in the tree for pods of one class."""
    columns = state.columns
    free, total = {}, {}
    for name in resources:
        index = columns.index_of(name)
        free[name] = np.maximum(columns.free[index][tree.rows], 0).astype(np.int64)
        total[name] = columns.allocatable[index][tree.rows].astype(np.int64)
    if slots is not None and pod is not None:
        free[_SLOTS] = slots
        total[_SLOTS] = _slots_if_idle(state, tree, pod)
    return TopologyMap(
        name=tree.name,
        levels=tree.levels,
        domains=_domains(tree, state, free, total),
        nodes=tree.size,
        resources=tuple(resources),
        outside=tree.outside,
        lead=tree.lead,
        nobody="no node carries all of its labels" if tree.by_labels else tree.nobody,
        asks_for=pod.request.total if pod is not None else {},
        rooms=rooms_of(tree, slots, 1) if slots is not None else (),
    )


# Slots travel with the amounts while sums are made: they add up the same way.
_SLOTS = ""


def default_resources(state: ClusterState, tree: Tree) -> list[str]:
    """cpu, memory and the devices that any node of the tree has."""
    columns = state.columns
    devices = [
        name
        for name, index in columns.resource_index.items()
        if "/" in name and name != PODS and columns.allocatable[index][tree.rows].any()
    ]
    return usual_order([CPU, MEMORY, *devices])


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
        "domains": [_domain_document(domain, (*drawn.levels, HOSTNAME)) for domain in drawn.domains],
        "outside": [{"node": node, "lacks": label} for node, label in drawn.outside.items()],
    }


def _domain_document(domain: Domain, levels: Sequence[str]) -> Document:
    return {
        "level": levels[len(domain.path) - 1],
        "path": list(domain.path),
        "nodes": len(domain.nodes),
        "free": amounts_document(domain.free),
        "allocatable": amounts_document(domain.total),
        "slots": domain.slots,
        "domains": [_domain_document(inner, levels) for inner in domain.inside],
    }


def _domains(
    tree: Tree, state: ClusterState, free: Mapping[str, Counts], total: Mapping[str, Counts]
) -> tuple[Domain, ...]:
    """All domains, from the nodes upwards; those of a level lie in the order of the tree."""
    below: list[Domain] = []
    firsts_below = np.zeros(0, dtype=np.intp)
    for level in range(tree.node_level, -1, -1):
        sums_free = {name: tree.sums(counts, level).tolist() for name, counts in free.items()}
        sums_total = {name: tree.sums(counts, level).tolist() for name, counts in total.items()}
        starts = tree.starts[level]
        first_child = np.searchsorted(firsts_below, starts).tolist()
        made: list[Domain] = []
        for number, path in enumerate(tree.paths[level]):
            first, end = tree.bounds(level, number)
            child_end = first_child[number + 1] if number + 1 < len(starts) else len(below)
            made.append(
                Domain(
                    path,
                    tuple(state.names[row] for row in tree.rows[first:end]),
                    {name: sums[number] for name, sums in sums_free.items() if name != _SLOTS},
                    {name: sums[number] for name, sums in sums_total.items() if name != _SLOTS},
                    sums_free[_SLOTS][number] if _SLOTS in sums_free else None,
                    sums_total[_SLOTS][number] if _SLOTS in sums_total else None,
                    tuple(below[first_child[number] : child_end]) if below else (),
                )
            )
        below, firsts_below = made, starts
    return tuple(below)


def _slots_if_idle(state: ClusterState, tree: Tree, pod: PodClass) -> Counts:
    """How many pods each node would hold by its sums if it were empty."""
    columns = state.columns
    asked = {**pod.request.total, PODS: 1}
    times = [
        columns.allocatable[columns.index_of(name)][tree.rows] // amount for name, amount in asked.items() if amount
    ]
    fewest: Counts = np.minimum.reduce(times).astype(np.int64)
    return fewest
