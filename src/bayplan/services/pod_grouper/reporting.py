"""What the pod grouper reports: metrics, and events on owners with invalid values."""

from __future__ import annotations

import logging

from prometheus_client import CollectorRegistry, Counter, Gauge

from bayplan.grouping.raw import Reference
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.edges.events import EventRecorder, Subject

logger = logging.getLogger(__name__)

MAX_REMEMBERED = 10_000


class GrouperMetrics:
    """Metrics in the grouper's own registry, or in the scheduler's if the grouper is embedded."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.looks = Counter(
            "bayplan_pod_grouper_looks_total",
            "Examined pods by result: grouped, alone, held (the owner must be fixed) or trouble (retried).",
            ["result"],
            registry=registry,
        )
        self.waiting = Gauge("bayplan_pod_grouper_waiting_looks", "Pods to be examined.", registry=registry)
        self.groups = Gauge("bayplan_pod_grouper_groups", "PodGroups that the grouper manages.", registry=registry)


class OwnerEvents:
    """Records each problem once, on the object that it is about."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._recorded: BoundedDict[tuple[str, str], None] = BoundedDict(MAX_REMEMBERED)

    def record(self, about: Reference, reason: str, text: str) -> None:
        """Record a problem, unless it is known."""
        if (about.uid, text) in self._recorded:
            return
        self._recorded[about.uid, text] = None
        subject = Subject(about.api_version, about.kind, about.namespace, about.name, about.uid)
        self._events.record(subject, "Warning", reason, "Grouping", text)
        logger.warning("owner has invalid content", extra={"object": str(about), "problem": text})
