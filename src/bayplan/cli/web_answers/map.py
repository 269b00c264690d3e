"""The cluster as columns for the page: every node in the order of a tree, with what its box can be coloured by.

A nested document of 20,000 nodes would be ten times as large, and the page would flatten it again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.shapes import shape_of, slots_for, tree_named
from bayplan.cluster.pods.request import CPU
from bayplan.cluster.topology.hyper_nodes import HYPER_NODES
from bayplan.cluster.topology.tree import Tree
from bayplan.dialects.registry import gang_named
from bayplan.engine.numa.fragmentation import aligned_amounts, fragmentation
from bayplan.explain.amounts import counted_in_bytes
from bayplan.explain.documents import API_VERSION, Document
from bayplan.explain.overview.nodes import REPORTS
from bayplan.explain.topology.levels import short_levels
from bayplan.explain.topology.map import default_resources, leading_resource
from bayplan.gangs.trees import single_label
from bayplan.kube.topology_levels import HOSTNAME

UNKNOWN = -1


def cluster_document(session: ClusterSession, taken_at: float, warnings: list[str]) -> Document:
    """What is shown, in numbers."""
    state, objects = session.state, session.objects
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterSummary",
        "source": session.source,
        "takenAt": round(taken_at, 1),
        "nodes": len(state.rows),
        "pods": len(state.pods),
        "waiting": len(state.waiting),
        "gangs": len({key for pod in objects.pods if (key := gang_named(pod))}),
        "topologies": topologies_in(session),
        "warnings": warnings[:50],
    }


def topologies_in(session: ClusterSession) -> list[str]:
    """The names of the trees that can be shown."""
    names = [*session.trees.topologies.levels, *([HYPER_NODES] if session.objects.hyper_nodes else [])]
    return [name for name in names if session.trees.get(name) is not None]


def tree_shown(session: ClusterSession, name: str) -> Tree:
    """The tree of that name, the first without one; where there is none, all nodes side by side."""
    known = topologies_in(session)
    if name or known:
        return tree_named(session, name or known[0])
    tree = session.trees.get(single_label(HOSTNAME))
    assert tree is not None  # it needs no object
    return tree


def cluster_map(session: ClusterSession, tree: Tree, requests: str, now: float) -> Document:
    """Columns over the nodes of the tree, then those outside of it."""
    state, columns = session.state, session.state.columns
    outside = np.array([state.rows[name] for name in tree.outside], dtype=np.intp)
    rows = np.concatenate([tree.rows, outside]).astype(np.intp)
    resources = default_resources(state, rows)
    pod = shape_of(session, requests, ()) if requests else None
    slots = None if pod is None else slots_for(session, tree, pod)[3]
    reports = [state.reports[row] for row in rows.tolist()]
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterMap",
        "topology": tree.name if tree.levels else None,
        "levels": [
            _level(tree, depth, name) for depth, name in enumerate(short_levels(tree.levels)[: len(tree.levels)])
        ],
        "resources": [{"name": name, "unit": _unit(name)} for name in resources],
        "leading": leading_resource(resources),
        "inTree": tree.size,
        "outside": dict(tree.outside),
        "nodes": [state.names[row] for row in rows.tolist()],
        "free": {name: _whole(np.maximum(columns.free[columns.index_of(name)][rows], 0)) for name in resources},
        "total": {name: _whole(columns.allocatable[columns.index_of(name)][rows]) for name in resources},
        "fragmentation": {name: _fragmentation(session, name, rows) for name in resources},
        "slots": None if slots is None else [*slots.astype(int).tolist(), *[0] * len(outside)],
        "report": [REPORTS[int(code)] for code in columns.topology[rows]],
        "ageSeconds": [
            UNKNOWN if each is None or each.made_at is None else max(0, round(now - each.made_at)) for each in reports
        ],
        "cordoned": [int(each) for each in np.flatnonzero(columns.unschedulable[rows])],
    }


def _level(tree: Tree, depth: int, short: str) -> dict[str, Any]:
    """A level: the name of each domain, and the position of its first node."""
    return {
        "label": tree.levels[depth],
        "name": short,
        "domains": [path[-1] for path in tree.paths[depth]],
        "starts": tree.starts[depth].tolist(),
    }


def _unit(resource: str) -> str:
    return "milli" if resource == CPU else "bytes" if counted_in_bytes(resource) else "count"


def _whole(column: NDArray[np.float64]) -> list[int]:
    return [int(each) for each in column]


def _fragmentation(session: ClusterSession, resource: str, rows: NDArray[np.intp]) -> list[int]:
    """Percent of what is free in zones that no aligned pod can use; -1 if zones are unknown."""
    amounts = aligned_amounts(session.state, resource, rows)
    shares = fragmentation(amounts.largest, amounts.at_best)
    percent: list[int] = np.where(np.isnan(shares), UNKNOWN, np.round(100 * np.nan_to_num(shares))).astype(int).tolist()
    return percent
