"""The tree above the nodes: labels that nodes lack, holes between levels, and flavors by which Kueue chooses nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayplan.cluster.pods.tolerations import KEEPS_PODS_OFF
from bayplan.doctor.findings import Finding, error, warning
from bayplan.doctor.installation import Installation
from bayplan.kube.errors import InvalidObject
from bayplan.kube.topology_levels import HOSTNAME, Topology, aliases_of, levels_of
from bayplan.kube.wire.core_v1 import Node


def check_tree(installation: Installation) -> Iterator[Finding]:
    """Each node that takes pods has all labels of a Topology, or none of them on purpose."""
    for topology in installation.objects.levels:
        yield from _check_topology(topology, installation.objects.nodes)
        yield from _check_flavors(topology, installation.flavors)


def _check_topology(topology: Topology, nodes: list[Node]) -> Iterator[Finding]:
    shown = f"topology/{topology.metadata.name}"
    try:
        levels = [label for label in levels_of(topology) if label != HOSTNAME]
        aliases_of(topology)
    except InvalidObject as problem:
        yield error(f"the Topology cannot be used: {problem}", "Correct its spec.levels.", shown)
        return
    outside: list[str] = []
    holes: dict[str, list[str]] = {}
    for node in nodes:
        labels = node.metadata.labels or {}
        missing = [label for label in levels if not labels.get(label)]
        if missing and len(missing) < len(levels):
            holes.setdefault(missing[0], []).append(f"node/{node.metadata.name}")
        elif missing and not is_closed(node):
            outside.append(f"node/{node.metadata.name}")
    for label, found in holes.items():
        yield error(
            (
                f"the tree of Topology {topology.metadata.name} has a hole: nodes lack {label} "
                "but have others of its labels"
            ),
            (
                f"Label them: kubectl label node NAME {label}=VALUE. Gangs that need a level are "
                "not placed there until then."
            ),
            *found,
        )
    if levels and len(outside) == len(nodes) > 0:
        yield error(
            f"no node has the labels of Topology {topology.metadata.name} ({', '.join(levels)})",
            "Label the nodes, or correct the labels that the Topology names.",
            shown,
        )
    elif outside:
        yield warning(
            f"nodes have no label of Topology {topology.metadata.name} ({', '.join(levels)}) and are outside its tree",
            f"Label them (kubectl label node NAME {levels[0]}=VALUE ...), or taint nodes that are not for gangs.",
            *outside,
        )


def _check_flavors(topology: Topology, flavors: Mapping[str, str]) -> Iterator[Finding]:
    """Kueue does not know NUMA zones: what it assigns to a node can fit in sum and be refused by the kubelet."""
    name, levels = topology.metadata.name, topology.spec.levels or ()
    pinned_by = [flavor for flavor, named in flavors.items() if named == name]
    if pinned_by and levels and levels[-1].node_label == HOSTNAME:
        yield warning(
            f"Kueue pins pods to nodes by Topology {name}, which ends in {HOSTNAME}: it adds up free amounts and knows "
            "no NUMA zones, so a pod can wait for a node that cannot align it while another one could",
            "Give the ResourceFlavor a Topology that ends at a wider level, such as the block: docs/kueue.md",
            *(f"resourceflavor/{flavor}" for flavor in sorted(pinned_by)),
        )


def is_closed(node: Node) -> bool:
    """Whether a node is kept from ordinary pods, as control-plane nodes are."""
    return any(taint.effect in KEEPS_PODS_OFF for taint in node.spec.taints or ())
