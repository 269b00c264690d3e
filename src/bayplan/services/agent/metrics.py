"""What the agent counts and measures, for Prometheus: `bayplan_agent_*`. No pod, container or device is ever a label."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

import bayplan
from bayplan.services.agent.gc import Round
from bayplan.services.agent.publisher import PublishedReport
from bayplan.services.agent.scanner import Scan
from bayplan.services.agent.troubles import Troubles

SCAN_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class AgentMetrics:
    """All metrics of one agent, in a registry of its own. `clock` is the one that the publisher notes its writes by."""

    def __init__(self, troubles: Troubles, clock: Callable[[], float] = time.monotonic) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # would double the series for no benefit
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._standing = _Standing("bayplan_agent", troubles, clock)
        registry.register(self._standing)
        Gauge("bayplan_agent_build_info", "Always 1; the version is a label.", ["version"], registry=registry).labels(
            bayplan.__version__
        ).set(1)
        self._wakes = Counter(
            "bayplan_agent_wakes_total", "Reasons to look at the node again.", ["reason"], registry=registry
        )
        self._scans = Counter(
            "bayplan_agent_scans_total", "Looks at the node, by result: seen or failed.", ["result"], registry=registry
        )
        self._scan_seconds = Histogram(
            "bayplan_agent_scan_duration_seconds",
            "Time of one look that worked, waiting for the kubelet included.",
            buckets=SCAN_SECONDS,
            registry=registry,
        )
        self._writes = Counter(
            "bayplan_agent_writes_total",
            "Reports that the API server took, by reason: first, changed, heartbeat, or again after a signal or a deletion.",
            ["reason"],
            registry=registry,
        )
        self._bytes = Counter("bayplan_agent_written_bytes_total", "Bytes of those reports.", registry=registry)
        self._pods = Gauge("bayplan_agent_pods", "Pods that the kubelet lists.", registry=registry)
        self._zones = Gauge("bayplan_agent_zones", "NUMA zones that are reported.", registry=registry)
        self._claims = Gauge(
            "bayplan_agent_resource_claims",
            "Resource claims (DRA) that containers use; what they hold is in no zone's books.",
            registry=registry,
        )

    def woken(self, reasons: Iterable[str]) -> None:
        """Why the node is looked at."""
        for reason in reasons:
            self._wakes.labels(reason).inc()

    def seen(self, scan: Scan, seconds: float) -> None:
        """A look that worked."""
        self._scans.labels("seen").inc()
        self._scan_seconds.observe(seconds)
        self._pods.set(scan.pods)
        self._claims.set(scan.claims)
        self._zones.set(len(scan.document.get("zones", ())))

    def failed(self) -> None:
        """A look that did not."""
        self._scans.labels("failed").inc()

    def written(self, written: PublishedReport) -> None:
        """The API server took a report."""
        self._writes.labels(written.reason).inc()
        self._bytes.inc(written.bytes)
        self._standing.written_at = written.at

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)


class CollectorMetrics:
    """What `bayplan agent-gc` counts."""

    def __init__(self, troubles: Troubles) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_Standing("bayplan_agent_gc", troubles))
        self._deleted = Counter(
            "bayplan_agent_gc_reports_deleted_total", "Reports of nodes that are gone.", registry=registry
        )
        self._stale = Gauge(
            "bayplan_agent_gc_stale_reports", "Reports of nodes whose agent fell silent.", registry=registry
        )
        self._failures = Counter(
            "bayplan_agent_gc_failures_total", "Deletes and marks that did not work.", registry=registry
        )

    def round(self, done: Round) -> None:
        """A round is over."""
        self._deleted.inc(len(done.deleted))
        self._failures.inc(len(done.failures))
        if done.stale is not None:
            self._stale.set(done.stale)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)


class _Standing:
    """Values computed on each scrape: troubles, and the age of the last report."""

    def __init__(self, prefix: str, troubles: Troubles, clock: Callable[[], float] = time.monotonic) -> None:
        self._prefix = prefix
        self._troubles = troubles
        self._clock = clock
        self.written_at: float | None = None

    def collect(self) -> Iterable[Metric]:
        now = GaugeMetricFamily(
            f"{self._prefix}_trouble", "How many things of a kind are wrong right now.", labels=["kind"]
        )
        for kind, number in self._troubles.numbers().items():
            now.add_metric([kind], number)
        yield now
        so_far = CounterMetricFamily(
            f"{self._prefix}_troubles", "How often something was wrong, by kind and cause.", labels=["kind", "cause"]
        )
        for (kind, cause), times in self._troubles.counts.items():
            so_far.add_metric([kind, cause], times)
        yield so_far
        if self.written_at is not None:
            yield GaugeMetricFamily(
                f"{self._prefix}_report_age_seconds",
                "Since the API server last took a report.",
                value=self._clock() - self.written_at,
            )
