"""docs/metrics.md: every metric that a program registers, with its type, labels and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from bayplan.services.agent.metrics import AgentMetrics, CollectorMetrics
from bayplan.services.agent.troubles import Troubles
from bayplan.services.edges.metrics import SchedulerMetrics, leader_gauge, new_registry
from bayplan.services.extender.metrics import ExtenderMetrics
from bayplan.services.pod_grouper.reporting import GrouperMetrics

OUTBOXES = ("events", "conditions", "gang_statuses", "nominations")
"""As services/scheduler/run.py exposes them."""

HEAD = """# Metrics

Written from the code by `make reference`; do not edit.

Each program serves `/metrics` on its `--health-address`. Metrics with kube-scheduler's meaning have its names,
labels and buckets (`scheduler_*`), so its dashboards work. Labels are bounded: none has one value per pod or per node.
[runbook.md](runbook.md) has the alerts.

Every program also has the process metrics of the Prometheus client (`process_cpu_seconds_total`,
`process_resident_memory_bytes`, `process_open_fds` and the like), the scheduler also those of Python's garbage
collector (`python_gc_*`).
"""
PROGRAMS = {
    "bayplan scheduler": "With the built-in pod grouper, the metrics of `bayplan pod-grouper` are here, too.",
    "bayplan extender": "",
    "bayplan pod-grouper": "",
    "bayplan agent": "",
    "bayplan agent-gc": "",
}


def registries() -> dict[str, CollectorRegistry]:
    """By program: a registry with everything that it registers."""
    scheduler = SchedulerMetrics()
    scheduler.expose_requests({})
    scheduler.expose_costs({})
    scheduler.expose_in_vain(lambda: 0)
    scheduler.expose_ends_of_room(dict)
    outbox: Any = SimpleNamespace(sent=0, dropped=0, failed=0)
    for name in OUTBOXES:
        scheduler.expose_outbox(name, outbox)
    grouper = new_registry("bayplan_build_info")
    leader_gauge(grouper)
    GrouperMetrics(grouper)
    agent = AgentMetrics(Troubles())
    agent._live.written_at = 0.0
    found = (
        scheduler.registry,
        ExtenderMetrics().registry,
        grouper,
        agent.registry,
        CollectorMetrics(Troubles()).registry,
    )
    return dict(zip(PROGRAMS, found, strict=True))


def metrics_page() -> str:
    """The page."""
    parts = [HEAD]
    for program, registry in registries().items():
        parts.append(f"## {program}\n")
        if PROGRAMS[program]:
            parts.append(f"{PROGRAMS[program]}\n")
        rows = [
            f"| `{name}` | {kind} | {labels} | {meaning} |" for name, kind, labels, meaning in sorted(rows_of(registry))
        ]
        parts.append("\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def rows_of(registry: CollectorRegistry) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, labels and meaning of bayplan's own metrics in a registry."""
    for collector in registry._collector_to_names:
        known = collector._labelnames if isinstance(collector, MetricWrapperBase) else None
        for family in collector.collect():
            if family.name.startswith(("process_", "python_")):
                continue
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = known if known is not None else getattr(family, "_labelnames", ())
            yield name, family.type, ", ".join(f"`{each}`" for each in labels), family.documentation
