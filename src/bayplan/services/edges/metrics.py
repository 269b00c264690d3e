"""What the scheduler counts and measures, for Prometheus.

Metrics that mean the same as kube-scheduler's have its names, labels and buckets (`scheduler_*`), so that dashboards made for it work; what only
bayplan has is called `bayplan_*`. Label sets are bounded: no pod, node or namespace is ever a label. The scheduler calls the plain methods below;
`/metrics` asks for `text()`. Values that are expensive to compute (ages of reports, queue lengths) are set in `before_scrape`, on each scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

import bayplan
from bayplan.services.edges.outbox import Outbox

AttemptResult = Literal["scheduled", "unschedulable", "error"]
BindResult = Literal["bound", "gone", "conflict", "refused", "unsent", "bug"]
Queue = Literal["active", "backoff", "unschedulable", "gated"]

MOST_ATTEMPTS_TOLD = 15


def powers(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Upper bounds of buckets, each `factor` times the one before."""
    return tuple(start * factor**step for step in range(count))


class SchedulerMetrics:
    """All metrics of one scheduler, in a registry of its own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # would double the series for no benefit
        self.registry = CollectorRegistry()
        self.before_scrape: list[Callable[[], None]] = []
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._make_upstream_metrics()
        self._make_own_metrics()

    def _make_upstream_metrics(self) -> None:
        registry = self.registry
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to place a pod, by result: scheduled, unschedulable (no place) or error (trouble on our side).",
            ["result", "profile"],
            registry=registry,
        )
        self._attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of one attempt: deciding and binding.",
            ["result", "profile"],
            buckets=powers(0.001, 2, 15),
            registry=registry,
        )
        self._deciding_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time of deciding alone.",
            buckets=powers(0.001, 2, 15),
            registry=registry,
        )
        self._sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's entry into the queue until it was bound, by the number of attempts.",
            ["attempts"],
            buckets=powers(0.01, 2, 20),
            registry=registry,
        )
        self._attempts_needed = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a pod needed until it was bound.",
            buckets=powers(1, 2, 5),
            registry=registry,
        )
        self._pending = Gauge(
            "scheduler_pending_pods", "Pods that wait, by the queue they are in.", ["queue"], registry=registry
        )
        self._leading = Gauge(
            "leader_election_master_status", "1 while this instance leads, else 0.", ["name"], registry=registry
        )

    def _make_own_metrics(self) -> None:
        registry = self.registry
        Gauge("bayplan_build_info", "Always 1; the version is a label.", ["version"], registry=registry).labels(
            bayplan.__version__
        ).set(1)
        self._binds = Counter(
            "bayplan_binds_total",
            "What came of binds: bound, gone (the pod was deleted), conflict (somebody else bound it to another node), "
            "refused (for good), unsent (its place was taken back, or its gang was refused).",
            ["result"],
            registry=registry,
        )
        self._bind_seconds = Histogram(
            "bayplan_bind_duration_seconds",
            "Time of one bind with its turn on the node and all its tries.",
            buckets=powers(0.001, 2, 15),
            registry=registry,
        )
        self._gang_attempts = Counter(
            "bayplan_gang_attempts_total", "Attempts to place a whole gang, by result.", ["result"], registry=registry
        )
        self._gang_seconds = Histogram(
            "bayplan_gang_attempt_duration_seconds",
            "Time of deciding about a whole gang.",
            buckets=powers(0.001, 2, 17),
            registry=registry,
        )
        self._released = Counter(
            "bayplan_gang_pods_released_total",
            "Bound pods that were deleted because the rest of their gang could not be bound.",
            registry=registry,
        )
        self._nodes = Gauge(
            "bayplan_nodes", "Nodes by what is known about their NUMA zones.", ["standing"], registry=registry
        )
        self._report_age = Gauge(
            "bayplan_topology_report_age_seconds",
            "Age of the nodes' NodeResourceTopology reports: the median, the 99th percentile and the oldest.",
            ["quantile"],
            registry=registry,
        )
        self._watch_restarts = Counter(
            "bayplan_watch_restarts_total",
            "Watches that had to be opened again, by resource.",
            ["resource"],
            registry=registry,
        )
        self._broken = Gauge(
            "bayplan_broken_objects", "Objects that could not be read, by resource.", ["resource"], registry=registry
        )
        self._unreadable_versions = Gauge(
            "bayplan_unreadable_api_versions",
            "Always 1: the API server serves the resource only in versions that bayplan cannot read, this one among them.",
            ["resource", "version"],
            registry=registry,
        )

        self._failing_watches = Gauge(
            "bayplan_watch_failing_seconds",
            "For how long listing or watching a resource has failed without any progress; 0 while it works.",
            ["resource"],
            registry=registry,
        )
        self._longest_turn = Gauge(
            "bayplan_loop_longest_turn_seconds",
            "The longest turn of the event loop in the last five minutes. It delays every watch, bind and probe.",
            registry=registry,
        )
        self._in_debt = Gauge(
            "bayplan_namespaces_in_debt",
            "Namespaces whose units have cost so much deciding that those of others go first.",
            registry=registry,
        )

    # What the scheduler tells -------------------------------------------------------------------------------------

    def attempt(self, result: AttemptResult, profile: str, seconds: float) -> None:
        """One attempt to place a pod, from taking it out of the queue until it was bound or parked."""
        self._attempts.labels(result, profile).inc()
        self._attempt_seconds.labels(result, profile).observe(seconds)

    def decided(self, seconds: float) -> None:
        """Time that a decision took, without any waiting."""
        self._deciding_seconds.observe(seconds)

    def pod_bound(self, attempts: int, seconds_since_queued: float) -> None:
        """A pod has its node."""
        told = str(attempts) if attempts < MOST_ATTEMPTS_TOLD else f"{MOST_ATTEMPTS_TOLD}+"
        self._sli_seconds.labels(told).observe(seconds_since_queued)
        self._attempts_needed.observe(attempts)

    def pending(self, counts: Mapping[Queue, int]) -> None:
        """How many pods wait in each queue."""
        for queue, count in counts.items():
            self._pending.labels(queue).set(count)

    def leading(self, name: str, *, leads: bool) -> None:
        """Whether this instance leads."""
        self._leading.labels(name).set(int(leads))

    def bind(self, result: BindResult, seconds: float) -> None:
        """What came of one bind."""
        self._binds.labels(result).inc()
        self._bind_seconds.observe(seconds)

    def gang_attempt(self, result: AttemptResult, seconds: float) -> None:
        """One attempt to place a whole gang."""
        self._gang_attempts.labels(result).inc()
        self._gang_seconds.observe(seconds)

    def gang_pod_released(self) -> None:
        """A bound member was deleted."""
        self._released.inc()

    def nodes(self, by_standing: Mapping[str, int]) -> None:
        """How many nodes are in which standing; a standing without nodes is left out."""
        self._nodes.clear()
        for standing, count in by_standing.items():
            self._nodes.labels(standing).set(count)

    def report_ages(self, ages: Iterable[float]) -> None:
        """Ages of all reports in seconds."""
        self._report_age.clear()
        ordered = sorted(ages)
        if ordered:
            for quantile in (0.5, 0.99, 1.0):
                self._report_age.labels(str(quantile)).set(ordered[int(quantile * (len(ordered) - 1))])

    def watch_restarted(self, resource: str) -> None:
        """A watch ended and was opened again."""
        self._watch_restarts.labels(resource).inc()

    def broken_objects(self, resource: str, count: int) -> None:
        """How many objects of a resource cannot be read now."""
        self._broken.labels(resource).set(count)

    def unreadable_versions(self, versions: Iterable[tuple[str, str]]) -> None:
        """Which versions of which resources are served and cannot be read."""
        self._unreadable_versions.clear()
        for resource, version in versions:
            self._unreadable_versions.labels(resource, version).set(1)

    def failing_watches(self, seconds: Mapping[str, float]) -> None:
        """For how long each resource fails."""
        for resource, each in seconds.items():
            self._failing_watches.labels(resource).set(each)

    def longest_turn(self, seconds: float) -> None:
        """The longest turn of the event loop lately."""
        self._longest_turn.set(seconds)

    def namespaces_in_debt(self, count: int) -> None:
        """How many namespaces let all others pass now."""
        self._in_debt.set(count)

    # What others count --------------------------------------------------------------------------------------------

    def follow_requests(self, counts: Mapping[tuple[str, int], int]) -> None:
        """Expose a client's own counts by verb and status, read on each scrape."""

        def read() -> Mapping[tuple[str, ...], int]:
            return {(verb, str(status)): count for (verb, status), count in counts.items()}

        help_text = "Requests to the API server, by verb and status."
        self.registry.register(_LiveCounts("bayplan_api_requests", help_text, ("verb", "status"), read))

    def follow_costs(self, spent: Mapping[str, float]) -> None:
        """Expose what namespaces have cost, read on each scrape. The counting side limits how many have a series of their own."""

        def read() -> Mapping[tuple[str, ...], float]:
            return {(namespace,): seconds for namespace, seconds in spent.items()}

        help_text = "Time of deciding and explaining, by namespace: at most 50 that have been in debt, and (others)."
        self.registry.register(_LiveCounts("bayplan_namespace_deciding_seconds", help_text, ("namespace",), read))

    def follow_outbox(self, name: str, outbox: Outbox[Any]) -> None:
        """Show what became of messages as `bayplan_NAME_total` by result."""

        def read() -> Mapping[tuple[str, ...], int]:
            return {("sent",): outbox.sent, ("dropped",): outbox.dropped, ("failed",): outbox.failed}

        help_text = f"What became of {name} that were to be sent: dropped are those that found too many waiting."
        self.registry.register(_LiveCounts(f"bayplan_{name}", help_text, ("result",), read))

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        for refresh in self.before_scrape:
            refresh()
        return generate_latest(self.registry)


class _LiveCounts:
    """A counter that another component maintains."""

    def __init__(
        self, name: str, help_text: str, labels: tuple[str, ...], read: Callable[[], Mapping[tuple[str, ...], float]]
    ) -> None:
        self._family = (name, help_text, labels)
        self._read = read

    def collect(self) -> Iterable[CounterMetricFamily]:
        name, help_text, labels = self._family
        family = CounterMetricFamily(name, help_text, labels=labels)
        for values, count in self._read().items():
            family.add_metric(values, count)
        yield family
