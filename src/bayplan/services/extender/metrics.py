"""Prometheus metrics of the extender, beside those that it shares with the scheduler: binds,
nodes, reports, watches.
"""

from __future__ import annotations

from prometheus_client import Counter, Histogram, generate_latest

from bayplan.services.edges.metrics import BindMetrics, ClusterMetrics, new_registry

# From 0.5 ms, about what an empty request takes, to the scheduler's usual timeout.
BUCKETS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 5.0)


class ExtenderMetrics:
    """All metrics of one extender."""

    def __init__(self) -> None:
        self.registry = new_registry("bayplan_build_info")
        self._series: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.binds = BindMetrics(self.registry)
        self.cluster = ClusterMetrics(self.registry)
        self._requests = Counter(
            "bayplan_extender_requests_total",
            "Requests of kube-scheduler, by verb and HTTP status.",
            ["verb", "code"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "bayplan_extender_request_duration_seconds",
            "Duration of a request from its first to its last byte, by verb.",
            ["verb"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        nodes = Counter(
            "bayplan_extender_filtered_nodes_total",
            "Nodes in filter requests, by result: passed, failed, unresolvable (no eviction helps) or unverified.",
            ["result"],
            registry=self.registry,
        )
        self._filtered = [nodes.labels(result) for result in ("passed", "failed", "unresolvable", "unverified")]

    def request(self, verb: str, status: int, seconds: float) -> None:
        """One request was answered."""
        if (verb, status) not in self._series:  # a few statuses; finding their series takes longer than counting
            self._series[verb, status] = self._requests.labels(verb, str(status)), self._seconds.labels(verb)
        count, duration = self._series[verb, status]
        count.inc()
        duration.observe(seconds)

    def filtered(self, *counts: int) -> None:
        """Nodes of one filter request: passed, failed, unresolvable, unverified."""
        for counter, count in zip(self._filtered, counts, strict=True):
            counter.inc(count)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)
