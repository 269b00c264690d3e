"""Metrics and checks about the watched cluster, computed on each scrape or probe."""

from __future__ import annotations

from collections import Counter

from bayplan.cluster.columns.columns import (
    NO_TOPOLOGY,
    TOPOLOGY_EXPECTED,
    TOPOLOGY_INVALID,
    TOPOLOGY_STALE,
    TOPOLOGY_UNCLEAR,
    TOPOLOGY_USABLE,
)
from bayplan.cluster.state import ClusterState
from bayplan.kube.client.versions import cannot_read
from bayplan.services.edges.metrics import ClusterMetrics
from bayplan.services.scheduler.watching import ClusterWatcher

REPORT_STATES = {
    NO_TOPOLOGY: "no report",
    TOPOLOGY_EXPECTED: "report expected",
    TOPOLOGY_USABLE: "usable",
    TOPOLOGY_INVALID: "invalid",
    TOPOLOGY_UNCLEAR: "invalid",
    TOPOLOGY_STALE: "stale",
}


def refresh_cluster_metrics(metrics: ClusterMetrics, state: ClusterState, watcher: ClusterWatcher, now: float) -> None:
    """Set the metrics of nodes, reports, watches and invalid objects."""
    rows = list(state.rows.values())
    metrics.nodes(Counter(REPORT_STATES[int(number)] for number in state.columns.topology[rows]))
    made = (report.made_at for report in state.reports if report is not None and report.made_at is not None)
    metrics.report_ages(max(now - moment, 0.0) for moment in made)
    for watch, seconds in watcher.health.failing(now).items():
        metrics.failing_watches.labels(watch).set(seconds)
    broken = Counter(where.partition(" ")[0] for where in watcher.intake.problems)
    for entry in watcher.intake.entries:
        metrics.broken_objects.labels(str(entry.resource)).set(broken[str(entry.resource)])
    metrics.unreadable_versions(
        (str(resource), version) for resource, versions in watcher.intake.unreadable.items() for version in versions
    )


def why_unreadable(watcher: ClusterWatcher) -> str | None:
    """The resources that the API server serves only in unreadable versions; None if there are none."""
    unreadable = watcher.intake.unreadable.items()
    return "; ".join(cannot_read(resource, versions) for resource, versions in unreadable) or None
