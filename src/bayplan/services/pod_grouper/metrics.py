"""What the pod grouper counts, for Prometheus: in a registry of its own, or in the scheduler's where it is embedded."""

from __future__ import annotations

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge

LookResult = Literal["grouped", "alone", "held", "trouble"]


class GrouperMetrics:
    """Plain methods; label sets are bounded."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._looks = Counter(
            "bayplan_pod_grouper_looks_total",
            "Looks at a pod and its owners, by what came of it: grouped, alone, held (its owner must be mended) or trouble (it is tried again).",
            ["result"],
            registry=registry,
        )
        self._waiting = Gauge("bayplan_pod_grouper_waiting_looks", "Pods that wait for a look.", registry=registry)
        self._groups = Gauge("bayplan_pod_grouper_groups", "PodGroups of the grouper's making.", registry=registry)

    def looked(self, result: LookResult) -> None:
        """A look came to an end."""
        self._looks.labels(result).inc()

    def waiting(self, number: int) -> None:
        """So many pods wait for a look."""
        self._waiting.set(number)

    def groups(self, number: int) -> None:
        """So many PodGroups are of the grouper's making."""
        self._groups.set(number)
