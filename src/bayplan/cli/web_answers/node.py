"""One node for the page: its NUMA map as in `bayplan numa`, its line of `bayplan nodes`, its place in each tree."""

from __future__ import annotations

import click
import numpy as np

from bayplan.cli.numa import drawn_node
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.web_answers.listing import refused_pods
from bayplan.cli.web_answers.map import topologies_in
from bayplan.explain.documents import API_VERSION, Document, amounts_document
from bayplan.explain.numa.map import numa_document
from bayplan.explain.topology.levels import short_levels

# What the map of a node lacks that reports no zones.
NO_ZONES: Document = {
    "apiVersion": API_VERSION,
    "kind": "NumaMap",
    **dict.fromkeys(("policy", "scope", "cpuManager", "memoryManager")),
    **{key: [] for key in ("remarks", "zones", "podsWithoutReportedZone", "podsNotPinned")},
}


def node_document(session: ClusterSession, row: int, summary: Document) -> Document:
    """The map of a node with its `summary`; of a node without zones only that, and why."""
    state, name = session.state, summary["node"]
    pods = state.pods_on(row)
    try:
        document = numa_document(drawn_node(session, name))
    except click.ClickException as error:
        document = {**NO_ZONES, "podsNotPinned": pods, "node": name, "problem": error.format_message()}
    return {
        **document,
        "summary": summary,
        "domains": _domains(session, row),
        "labels": {} if (node := state.nodes[row]) is None else dict(sorted((node.metadata.labels or {}).items())),
        "podAmounts": {key: amounts_document(state.pods[key].request.total) for key in pods},
        "refusedPods": refused_pods(session, name),
    }


def _domains(session: ClusterSession, row: int) -> list[Document]:
    """The node's path in each tree, widest level first; trees without it are left out."""
    found: list[Document] = []
    for name in topologies_in(session):
        tree = session.trees.get(name)
        if tree is None or not tree.levels:
            continue
        position = np.flatnonzero(tree.rows == row)
        if not len(position):
            continue
        lowest = len(tree.levels) - 1
        path = tree.paths[lowest][int(tree.domain_at[lowest][position[0]])]
        found.append({"topology": name, "levels": short_levels(tree.levels)[: len(path)], "path": list(path)})
    return found
