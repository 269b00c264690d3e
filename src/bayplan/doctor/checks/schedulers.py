"""Nodes that bayplan shares with another scheduler, which sees its decisions too late."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.cluster.pods.node_pods import belongs_to_its_node
from bayplan.doctor.checks.tree import is_closed
from bayplan.doctor.findings import Finding, warning
from bayplan.doctor.installation import Installation


def check_shared_nodes(installation: Installation) -> Iterator[Finding]:
    """No node takes pods of two schedulers."""
    closed = {node.metadata.name for node in installation.objects.nodes if is_closed(node)}
    shared: dict[str, list[str]] = {}
    for node, pods in installation.running_by_node.items():
        names = {pod.spec.scheduler_name or "" for pod in pods if not belongs_to_its_node(pod)}
        ours = names & set(installation.profiles)
        others = sorted(names - set(installation.profiles))
        if ours and others and node not in closed:
            shared.setdefault(", ".join(others), []).append(f"node/{node}")
    for other, nodes in shared.items():
        yield warning(
            f"nodes run pods of bayplan and of {other}, and no taint keeps them apart",
            "Neither scheduler sees what the other is about to do, so kubelets may refuse pods. Taint the nodes "
            "(kubectl taint node NAME bayplan.io/dedicated=:NoSchedule) and let bayplan's pods tolerate it, or "
            "let bayplan schedule "
            "both (docs/scheduler.md).",
            *nodes,
        )
