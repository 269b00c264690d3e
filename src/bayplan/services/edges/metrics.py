"""Prometheus metrics of the scheduler.

Metrics with kube-scheduler's meaning keep its names, labels and buckets (`scheduler_*`), so that its dashboards work;
all others are `bayplan_*`. Label sets are bounded. Callers set metrics directly where one call is all there is to do.
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

# A pod with more attempts shares one label.
MAX_ATTEMPTS_LABEL = 15


def new_registry(build_info: str = "") -> CollectorRegistry:
    """A registry with process metrics, and with the version as a label of the metric `build_info`."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # would double the series for no benefit
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    if build_info:
        info = Gauge(build_info, "Always 1; the version is a label.", ["version"], registry=registry)
        info.labels(bayplan.__version__).set(1)
    return registry


def leader_gauge(registry: CollectorRegistry) -> Gauge:
    """The metric by which Kubernetes components show their leader."""
    return Gauge("leader_election_master_status", "1 while this replica leads, else 0.", ["name"], registry=registry)


def _powers(start: float, count: int) -> tuple[float, ...]:
    """Upper bounds of buckets, each twice the one before."""
    return tuple(start * 2**step for step in range(count))


class AttemptMetrics:
    """Attempts to place pods and gangs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to place a pod, by result: scheduled, unschedulable (no place) or error (internal or API error).",
            ["result", "profile"],
            registry=registry,
        )
        self._seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of an attempt: decision and bind.",
            ["result", "profile"],
            buckets=_powers(0.001, 15),
            registry=registry,
        )
        self.decision_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of a decision.",
            buckets=_powers(0.001, 15),
            registry=registry,
        )
        self._sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's entry into the queue to its bind, by the number of attempts.",
            ["attempts"],
            buckets=_powers(0.01, 20),
            registry=registry,
        )
        self._attempts_needed = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was bound.",
            buckets=_powers(1, 5),
            registry=registry,
        )
        self._gang_attempts = Counter(
            "bayplan_gang_attempts_total", "Attempts to place a whole gang, by result.", ["result"], registry=registry
        )
        self._gang_seconds = Histogram(
            "bayplan_gang_attempt_duration_seconds",
            "Duration of the decision about a whole gang.",
            buckets=_powers(0.001, 17),
            registry=registry,
        )

    def pod(self, result: AttemptResult, profile: str, seconds: float) -> None:
        """An attempt for one pod, from the queue until it was bound or parked."""
        self._attempts.labels(result, profile).inc()
        self._seconds.labels(result, profile).observe(seconds)

    def gang(self, result: AttemptResult, seconds: float) -> None:
        """An attempt for a whole gang."""
        self._gang_attempts.labels(result).inc()
        self._gang_seconds.observe(seconds)

    def pod_bound(self, attempts: int, seconds_since_queued: float) -> None:
        """A pod was bound after this many attempts."""
        label = str(attempts) if attempts < MAX_ATTEMPTS_LABEL else f"{MAX_ATTEMPTS_LABEL}+"
        self._sli_seconds.labels(label).observe(seconds_since_queued)
        self._attempts_needed.observe(attempts)


class BindMetrics:
    """Binds, and deletions that take binds back."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._binds = Counter(
            "bayplan_binds_total",
            "Binds by result: bound, gone (the pod was deleted), conflict (another client bound it to another node), "
            "refused (permanently), unsent (its place was taken back, or its gang was refused), bug.",
            ["result"],
            registry=registry,
        )
        self._seconds = Histogram(
            "bayplan_bind_duration_seconds",
            "Duration of a bind, including its turn on the node and all retries.",
            buckets=_powers(0.001, 15),
            registry=registry,
        )
        self.released = Counter(
            "bayplan_gang_pods_released_total",
            "Bound pods that were deleted because the rest of their gang could not be bound.",
            registry=registry,
        )

    def bind(self, result: str, seconds: float) -> None:
        """The result of one bind."""
        self._binds.labels(result).inc()
        self._seconds.observe(seconds)


class PreemptionMetrics:
    """Preemption plans and evictions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.attempts = Counter(
            "scheduler_preemption_attempts_total", "Attempts to find victims for a pod or a gang.", registry=registry
        )
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of each preemption that was carried out.",
            buckets=_powers(1, 7),
            registry=registry,
        )
        self.evictions = Counter(
            "bayplan_preemption_evictions_total",
            "Evictions by result: evicted, gone (deleted already), refused (by a budget or RBAC), "
            "spared (the plan no longer held).",
            ["result"],
            registry=registry,
        )


class ClusterMetrics:
    """The cluster as the scheduler sees it: nodes, reports, watches and invalid objects."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._nodes = Gauge(
            "bayplan_nodes",
            "Nodes by the state of their topology report: no report, report expected, usable, invalid or stale.",
            ["report"],
            registry=registry,
        )
        self._report_age = Gauge(
            "bayplan_topology_report_age_seconds",
            "Age of the nodes' NodeResourceTopology reports: the median, the 99th percentile and the oldest.",
            ["quantile"],
            registry=registry,
        )
        self.watch_restarts = Counter(
            "bayplan_watch_restarts_total", "Watches that were reopened, by resource.", ["resource"], registry=registry
        )
        self.failing_watches = Gauge(
            "bayplan_watch_failing_seconds",
            "How long listing or watching a resource has failed without progress; 0 while it works.",
            ["resource"],
            registry=registry,
        )
        self.broken_objects = Gauge(
            "bayplan_broken_objects", "Unreadable or invalid objects, by resource.", ["resource"], registry=registry
        )
        self._unreadable_versions = Gauge(
            "bayplan_unreadable_api_versions",
            "Always 1: the API server serves the resource only in versions that bayplan cannot read, such as this one.",
            ["resource", "version"],
            registry=registry,
        )

    def nodes(self, by_report: Mapping[str, int]) -> None:
        """How many nodes have a report in each state; empty states disappear."""
        self._nodes.clear()
        for report, count in by_report.items():
            self._nodes.labels(report).set(count)

    def report_ages(self, ages: Iterable[float]) -> None:
        """The ages of all reports in seconds."""
        self._report_age.clear()
        ordered = sorted(ages)
        if ordered:
            for quantile in (0.5, 0.99, 1.0):
                self._report_age.labels(str(quantile)).set(ordered[int(quantile * (len(ordered) - 1))])

    def unreadable_versions(self, versions: Iterable[tuple[str, str]]) -> None:
        """All pairs of resource and unreadable version."""
        self._unreadable_versions.clear()
        for resource, version in versions:
            self._unreadable_versions.labels(resource, version).set(1)


class CapacityMetrics:
    """How much room aligned pods and gangs find."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._fragmentation = Gauge(
            "bayplan_numa_fragmentation_ratio",
            "The share of free amounts that no aligned pod can have because it lies in several NUMA zones of a node, "
            "by resource: 0 is best. Set by the leader once a minute.",
            ["resource"],
            registry=registry,
        )
        self._largest_free = Gauge(
            "bayplan_topology_largest_free",
            "The free amount of the roomiest domain of a level, by Topology, level and "
            "resource: CPUs, bytes or devices. "
            "What a gang inside one such domain can have at most. Set by the leader once a minute.",
            ["topology", "level", "resource"],
            registry=registry,
        )
        self._largest_gang = Gauge(
            "bayplan_topology_largest_gang",
            "The most pods of a shape that find room together in one domain of a level, by Topology, level and shape, "
            "NUMA zones included. Shapes are those of --slot-metrics. Set by the leader once a minute.",
            ["topology", "level", "pod"],
            registry=registry,
        )

    def set(
        self,
        fragmentation: Mapping[str, float],
        largest_free: Mapping[tuple[str, str, str], float],
        largest_gang: Mapping[tuple[str, str, str], int],
    ) -> None:
        """Fragmentation by resource; free amounts by topology, level and resource; gangs by topology, level and shape.

        Others disappear.
        """
        self._fragmentation.clear()
        for resource, share in fragmentation.items():
            self._fragmentation.labels(resource).set(share)
        self._largest_free.clear()
        for labels, amount in largest_free.items():
            self._largest_free.labels(*labels).set(amount)
        self._largest_gang.clear()
        for labels, pods in largest_gang.items():
            self._largest_gang.labels(*labels).set(pods)


class SchedulerMetrics:
    """All metrics of one scheduler; `before_scrape` callbacks compute expensive values on each scrape."""

    def __init__(self) -> None:
        self.registry = new_registry("bayplan_build_info")
        GCCollector(registry=self.registry)
        self.before_scrape: list[Callable[[], None]] = []
        self.attempts = AttemptMetrics(self.registry)
        self.binds = BindMetrics(self.registry)
        self.preemption = PreemptionMetrics(self.registry)
        self.refusals = Counter(
            "bayplan_kubelet_refusals_total",
            "Pods of this scheduler that a kubelet refused while this replica led, by the kubelet's reason; "
            "expected to stay 0.",
            ["reason"],
            registry=self.registry,
        )
        self.cluster = ClusterMetrics(self.registry)
        self.capacity = CapacityMetrics(self.registry)
        self.leading = leader_gauge(self.registry)
        self.pending = Gauge("scheduler_pending_pods", "Waiting pods by queue.", ["queue"], registry=self.registry)
        self.longest_turn = Gauge(
            "bayplan_loop_longest_turn_seconds",
            "The longest iteration of the event loop in the last five minutes. It delays every watch, bind and probe.",
            registry=self.registry,
        )
        self.longest_turn_cpu = Gauge(
            "bayplan_loop_longest_turn_cpu_seconds",
            "The most CPU time of one iteration of the event loop in the last five minutes. An iteration that took far"
            " longer than that waited for a CPU.",
            registry=self.registry,
        )
        self.namespaces_in_debt = Gauge(
            "bayplan_namespaces_in_debt",
            "Namespaces whose decisions cost so much that other namespaces go first.",
            registry=self.registry,
        )

        self.kept_room = Gauge(
            "bayplan_kept_room_pods",
            "Members of started gangs that have no node yet, and for which room is kept.",
            registry=self.registry,
        )

    def expose_requests(self, counts: Mapping[tuple[str, int], int]) -> None:
        """Expose a client's own counts by verb and status."""
        self._expose(
            "bayplan_api_requests",
            "Requests to the API server, by verb and status.",
            ("verb", "status"),
            lambda: {(verb, str(status)): count for (verb, status), count in counts.items()},
        )

    def expose_in_vain(self, count: Callable[[], int]) -> None:
        """Expose the number of evictions that helped no pod."""
        self._expose(
            "bayplan_preemption_in_vain",
            "Victims that were evicted although their preemptor found no place afterwards; expected to stay near 0.",
            (),
            lambda: {(): count()},
        )

    def expose_ends_of_room(self, ends: Callable[[], Mapping[str, int]]) -> None:
        """Expose what became of room that was kept for members of gangs."""
        self._expose(
            "bayplan_kept_room_ended",
            "Members of started gangs whose kept room has ended, by how: used, expired, taken (by a unit that comes"
            " first), given_up (they are no longer missing).",
            ("how",),
            lambda: {(how,): count for how, count in ends().items()},
        )

    def expose_costs(self, spent: Mapping[str, float]) -> None:
        """Expose the cost of namespaces. The caller limits how many have a series of their own."""
        self._expose(
            "bayplan_namespace_deciding_seconds",
            "Time spent on decisions and explanations, by namespace: at most 50 that have been in debt, and (others).",
            ("namespace",),
            lambda: {(namespace,): seconds for namespace, seconds in spent.items()},
        )

    def expose_outbox(self, name: str, outbox: Outbox[Any]) -> None:
        """Expose an outbox as `bayplan_NAME_total` by result."""
        self._expose(
            f"bayplan_{name}",
            f"Writes of {name} by result: sent, failed, or dropped because too many were waiting.",
            ("result",),
            lambda: {("sent",): outbox.sent, ("dropped",): outbox.dropped, ("failed",): outbox.failed},
        )

    def _expose(
        self, name: str, help_text: str, labels: tuple[str, ...], read: Callable[[], Mapping[tuple[str, ...], float]]
    ) -> None:
        self.registry.register(_LiveCounts(name, help_text, labels, read))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        for refresh in self.before_scrape:
            refresh()
        return generate_latest(self.registry)


class _LiveCounts:
    """A counter that another component maintains, read on each scrape."""

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
