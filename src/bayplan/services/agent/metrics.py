"""Prometheus metrics of the agent (`bayplan_agent_*`) and of its garbage collector. Labels are bounded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from bayplan.services.agent.gc import Round
from bayplan.services.agent.publisher import PublishedReport
from bayplan.services.agent.scanner import Scan
from bayplan.services.agent.troubles import Troubles
from bayplan.services.edges.metrics import new_registry

SCAN_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class AgentMetrics:
    """All metrics of one agent; `clock` is the publisher's."""

    def __init__(self, troubles: Troubles, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = registry = new_registry("bayplan_agent_build_info")
        self._live = _LiveMetrics("bayplan_agent", troubles, clock)
        registry.register(self._live)
        self._wakes = Counter("bayplan_agent_wakes_total", "Reasons for scans.", ["reason"], registry=registry)
        self._scans = Counter(
            "bayplan_agent_scans_total", "Scans of the node by result: seen or failed.", ["result"], registry=registry
        )
        self._scan_seconds = Histogram(
            "bayplan_agent_scan_duration_seconds",
            "Duration of a successful scan, including the kubelet's answer.",
            buckets=SCAN_SECONDS,
            registry=registry,
        )
        self._writes = Counter(
            "bayplan_agent_writes_total",
            "Written reports by reason: first, changed, heartbeat, or again (after a signal or a deletion).",
            ["reason"],
            registry=registry,
        )
        self._bytes = Counter("bayplan_agent_written_bytes_total", "Bytes of written reports.", registry=registry)
        self._pods = Gauge("bayplan_agent_pods", "Pods that the kubelet lists.", registry=registry)
        self._zones = Gauge("bayplan_agent_zones", "Reported NUMA zones.", registry=registry)
        self._claims = Gauge(
            "bayplan_agent_resource_claims",
            "Resource claims (DRA) of containers; zones do not count their resources.",
            registry=registry,
        )

    def woken(self, reasons: Iterable[str]) -> None:
        """The agent was woken for these reasons."""
        for reason in reasons:
            self._wakes.labels(reason).inc()

    def seen(self, scan: Scan, seconds: float) -> None:
        """A scan succeeded."""
        self._scans.labels("seen").inc()
        self._scan_seconds.observe(seconds)
        self._pods.set(scan.pods)
        self._claims.set(scan.claims)
        self._zones.set(len(scan.document.get("zones", ())))

    def failed(self) -> None:
        """A scan failed."""
        self._scans.labels("failed").inc()

    def written(self, written: PublishedReport) -> None:
        """A report was written."""
        self._writes.labels(written.reason).inc()
        self._bytes.inc(written.bytes)
        self._live.written_at = written.at

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class CollectorMetrics:
    """All metrics of `bayplan agent-gc`."""

    def __init__(self, troubles: Troubles) -> None:
        self.registry = registry = new_registry()
        registry.register(_LiveMetrics("bayplan_agent_gc", troubles))
        self._deleted = Counter(
            "bayplan_agent_gc_reports_deleted_total", "Deleted reports of deleted nodes.", registry=registry
        )
        self._stale = Gauge(
            "bayplan_agent_gc_stale_reports", "Reports that their agent no longer renews.", registry=registry
        )
        self._failures = Counter("bayplan_agent_gc_failures_total", "Failed deletes and marks.", registry=registry)

    def round(self, done: Round) -> None:
        """A round ended."""
        self._deleted.inc(len(done.deleted))
        self._failures.inc(len(done.failures))
        if done.stale is not None:
            self._stale.set(done.stale)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _LiveMetrics:
    """Values computed on each scrape: troubles, and the age of the last report."""

    def __init__(self, prefix: str, troubles: Troubles, clock: Callable[[], float] = time.monotonic) -> None:
        self._prefix = prefix
        self._troubles = troubles
        self._clock = clock
        self.written_at: float | None = None

    def collect(self) -> Iterable[Metric]:
        now = GaugeMetricFamily(f"{self._prefix}_trouble", "Current problems by kind.", labels=["kind"])
        for kind, number in self._troubles.numbers().items():
            now.add_metric([kind], number)
        yield now
        total = CounterMetricFamily(
            f"{self._prefix}_troubles", "Problems so far, by kind and cause.", labels=["kind", "cause"]
        )
        for (kind, cause), count in self._troubles.counts.items():
            total.add_metric([kind, cause], count)
        yield total
        if self.written_at is not None:
            yield GaugeMetricFamily(
                f"{self._prefix}_report_age_seconds",
                "Time since the last written report.",
                value=self._clock() - self.written_at,
            )
