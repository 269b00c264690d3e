"""The cluster as columns for the page: every node in the order of a tree, with what its box can be coloured by.

A nested document of 20,000 nodes would be ten times as large, and the page would flatten it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.shapes import shape_of, slots_for, tree_named
from bayplan.cli.web_answers.map_columns import changed_since
from bayplan.cli.web_answers.scene import Scene
from bayplan.cluster.node_status import Closings, closings
from bayplan.cluster.pods.request import CPU
from bayplan.cluster.topology.hyper_nodes import HYPER_NODES
from bayplan.cluster.topology.tree import Tree
from bayplan.explain.amounts import counted_in_bytes
from bayplan.explain.documents import API_VERSION, Document
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.explain.overview.nodes import REPORTS
from bayplan.explain.topology.levels import short_levels
from bayplan.explain.topology.map import default_resources, leading_resource
from bayplan.gangs.trees import single_label
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.web.answers import Unanswerable

# The numbers of what is known about a node's zones, in order: `report` is a position here.
CODES = sorted(REPORTS)
# What the page calls the nodes that are in no domain.
OUTSIDE = "outside the topology"


def cluster_document(scene: Scene, taken_at: float, visible: frozenset[str] | None) -> Document:
    """What is shown, in numbers; gangs are those of the list that a viewer of the namespaces `visible` gets."""
    session, state = scene.session, scene.session.state
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterSummary",
        "source": session.source,
        "takenAt": round(taken_at, 1),
        "nodes": len(state.rows),
        "pods": len(state.pods),
        "waiting": len(state.waiting),
        "gangs": sum(visible is None or name.partition("/")[0] in visible for name in scene.catalogue.gangs),
        "topologies": topologies_in(session),
        "warnings": scene.problems()[:50],
    }


def topologies_in(session: ClusterSession) -> list[str]:
    """The names of the trees that can be shown."""
    names = [*session.trees.topologies.levels, *([HYPER_NODES] if session.objects.hyper_nodes else [])]
    return [name for name in names if session.trees.get(name) is not None]


def tree_shown(session: ClusterSession, name: str) -> Tree:
    """The tree of that name, the first without one; where there is none, all nodes side by side."""
    known = topologies_in(session)
    if name:
        return tree_asked_for(session, name)
    if known:
        return tree_named(session, known[0])
    tree = session.trees.get(single_label(HOSTNAME))
    assert tree is not None  # it needs no object
    return tree


def tree_asked_for(session: ClusterSession, name: str) -> Tree:
    """The tree of that name, the only one without one; raises `Unanswerable` where there is none at all."""
    if not session.trees.topologies.levels and not session.objects.hyper_nodes:
        text = f"topology: the {session.source} holds no Topology (kueue.x-k8s.io or kai.scheduler) and no HyperNode"
        raise Unanswerable(HTTPStatus.NOT_FOUND, text)
    return tree_named(session, name or None)


def rows_inside(session: ClusterSession, topology: str, inside: str) -> NDArray[np.intp]:
    """The rows of a domain, given by its path (`b1/r2`) in a tree, or of all nodes that are outside of the tree.

    Without one, all rows.
    """
    rows = session.state.rows
    if not inside:
        return np.array(sorted(rows.values()), dtype=np.intp)
    tree = tree_shown(session, topology)
    path = tuple(inside.split("/"))
    if inside == OUTSIDE:
        return np.array([rows[name] for name in tree.outside], dtype=np.intp)
    if len(path) > len(tree.levels) or path not in tree.paths[len(path) - 1]:
        raise Unanswerable(HTTPStatus.NOT_FOUND, f"in: there is no {inside!r} in topology {tree.name!r}")
    level = len(path) - 1
    first, end = tree.bounds(level, tree.paths[level].index(path))
    return tree.rows[first:end]


def cluster_map(scene: Scene, tree: Tree, requests: str, tolerate: str, since: str) -> Document:
    """Columns over the nodes of the tree, then those outside of it; only what changed if `since` is a known version.

    Nodes are closed to the pod that is asked about; without one, to pods that ask for what the nodes have.
    """
    session = scene.session
    state = session.state
    rows = _rows_shown(session, tree)
    resources = default_resources(state, rows)
    taints = [each.strip() for each in tolerate.split(",") if each.strip()]
    pod = shape_of(session, requests, (), taints) if requests else None
    closed = closings(state, rows, (pod and pod.spec.tolerations) or (), exactly=pod is not None)
    columns = {**_columns(scene, rows, resources), "closed": closed.numbers.astype(np.int64)}
    if pod is not None:
        columns["slots"] = _slots_everywhere(session, tree, rows, pod).astype(np.int64)
    kinds: Document = {"closings": _causes(closed)}
    versions, asked = scene.columns.versions, (tree.name, requests, tolerate)
    before = versions.named(asked, since) if since else None
    version = versions.current(asked, tree, columns)
    changed = None if before is None else changed_since(before, tree, columns)
    if changed is not None and len(changed) <= len(rows) // 2:
        at = {name: column[changed] for name, column in columns.items()}
        head: Document = {"kind": "ClusterMapChanges", "since": since, "at": changed.tolist()}
        return {"apiVersion": API_VERSION, **head, "version": version.name, **kinds, **_as_lists(at)}
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterMap",
        "version": version.name,
        "topology": tree.name if tree.levels else None,
        "levels": [
            _level(tree, depth, name) for depth, name in enumerate(short_levels(tree.levels)[: len(tree.levels)])
        ],
        "resources": [{"name": name, "unit": _unit(name)} for name in resources],
        "leading": leading_resource(resources),
        "inTree": tree.size,
        "outside": dict(tree.outside),
        "reports": [REPORTS[code] for code in CODES],
        **kinds,
        "nodes": [state.names[row] for row in rows.tolist()],
        **_as_lists(columns),
    }


def room_of_gang(session: ClusterSession, outcome: GangOutcome) -> Document | None:
    """The slots for the most frequent shape of a gang, as columns of the map of its tree; None if no pod waits."""
    tree = session.trees.get(outcome.topology)
    if tree is None or not outcome.shapes:
        return None
    shape = max(outcome.shapes, key=lambda each: each.pods)
    outside = np.zeros(len(tree.outside), dtype=np.int64)
    return _room(session, tree, shape.example, np.concatenate([shape.slots, outside]))


def room_of_pods(session: ClusterSession, pods: Sequence[Pod]) -> Document | None:
    """The slots for pods outside of gangs, as columns of the map that is shown first; None if they are not alike."""
    if len({session.state.classes.of(pod) for pod in pods}) != 1:
        return None
    tree = tree_shown(session, "")
    return _room(session, tree, pods[0], _slots_everywhere(session, tree, _rows_shown(session, tree), pods[0]))


def _room(session: ClusterSession, tree: Tree, pod: Pod, slots: NDArray[np.int64]) -> Document:
    closed = closings(session.state, _rows_shown(session, tree), pod.spec.tolerations or (), exactly=True)
    return {"slots": slots.tolist(), "closed": closed.numbers.tolist(), "closings": _causes(closed)}


def _rows_shown(session: ClusterSession, tree: Tree) -> NDArray[np.intp]:
    """The rows of the tree, then those outside of it."""
    outside = [session.state.rows[name] for name in tree.outside]
    return np.concatenate([tree.rows, outside]).astype(np.intp)


def _slots_everywhere(session: ClusterSession, tree: Tree, rows: NDArray[np.intp], pod: Pod) -> NDArray[np.int64]:
    """Nodes outside of the tree take pods too."""
    return slots_for(session, replace(tree, rows=rows), pod)[3]


def _causes(found: Closings) -> list[list[str]]:
    """What closes nodes, by the numbers of `closed`."""
    return [list(each.causes) for each in found.kinds]


def _columns(scene: Scene, rows: NDArray[np.intp], resources: list[str]) -> dict[str, NDArray[np.int64]]:
    """By the path of a field, what it says of each node."""
    columns = scene.session.state.columns
    scene.columns.refresh(resources)
    found: dict[str, NDArray[Any]] = {}
    for name in resources:
        index = columns.index_of(name)
        found[f"free {name}"] = np.maximum(columns.free[index][rows], 0)
        found[f"total {name}"] = columns.allocatable[index][rows]
        found[f"fragmentation {name}"] = scene.columns.fragmentation(name)[rows]
    found["report"] = np.searchsorted(CODES, columns.topology[rows])
    found["reportedAt"] = scene.columns.reported_at[rows]
    return {name: column.astype(np.int64) for name, column in found.items()}


def _as_lists(columns: dict[str, NDArray[np.int64]]) -> Document:
    """`free cpu` becomes `{"free": {"cpu": [...]}}`."""
    found: Document = {"slots": None}
    for path, column in columns.items():
        field, _, resource = path.partition(" ")
        if resource:
            found.setdefault(field, {})[resource] = column.tolist()
        else:
            found[field] = column.tolist()
    return found


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
