"""Is a node's report usable right now? Per row, the reasons against it.

A report may be permanently unusable: its zones contradict each other, it could not be read, or it does not say what its
kubelet refuses. Or it is unusable until something happens:

* the report was marked as stale;
* a pod is in unknown zones;
* the kubelet's books are about to change in a way that amounts do not predict: the node is *unsettled*.

A unsettled node has one of these pods:

* one whose zones had to be replayed or were chosen elsewhere, and that no report lists yet (even if it has since ended:
  what it gave back, and where, is still unreported);
* one whose init containers still hold memory;
* one that ended and whose memory spanned zones.

A scheduler that can wait for the next report (`waits_for_reports`) sends no aligned pod there until that report has
arrived. `cluster/state.py` reports events to this module and writes the standing into the columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from bayplan.cluster.columns.columns import (
    NO_TOPOLOGY,
    TOPOLOGY_EXPECTED,
    TOPOLOGY_INVALID,
    TOPOLOGY_STALE,
    TOPOLOGY_UNCLEAR,
    TOPOLOGY_USABLE,
)
from bayplan.cluster.pods.request import PodRequest, Role, is_memory
from bayplan.cluster.reports.inventory import PodHoldings
from bayplan.cluster.reports.kubelet_settings import REFUSING_POLICIES
from bayplan.cluster.reports.ledger import PlacedPod
from bayplan.cluster.reports.topology_report import TopologyReport


class Freshness:
    """What is known against the reports of some rows."""

    def __init__(self) -> None:
        self.waits_for_reports = False
        # True if pods end on their nodes before the scheduler hears of it, as over a watch.
        self.hears_late = False
        self.told_stale: set[int] = set()
        # Nodes that take no aligned pod while one unit is decided.
        self.closed: set[int] = set()
        # New nodes without a report, and until when their first one is expected. Where no node ever reports, none is.
        self.expected: dict[int, float] = {}
        self.knows_reports = False
        # Pods in unknown zones, on nodes whose report does not show what is in use.
        self.in_unknown_zones: defaultdict[int, set[str]] = defaultdict(set)
        self._restless: defaultdict[int, set[str]] = defaultdict(set)
        self._ended_in_the_dark: defaultdict[int, set[str]] = defaultdict(set)

    def standing(self, row: int, report: TopologyReport | None) -> int:
        """What the topology column says about a row."""
        if report is None:
            if row in self.told_stale:
                return TOPOLOGY_STALE
            return TOPOLOGY_EXPECTED if self.knows_reports and row in self.expected else NO_TOPOLOGY
        lost = self.in_unknown_zones.get(row) and report.settings.policy in REFUSING_POLICIES
        if not report.usable or lost:
            return TOPOLOGY_INVALID
        if row in self.told_stale:
            return TOPOLOGY_STALE
        if not report.tells_enough:
            return TOPOLOGY_UNCLEAR
        waits = row in self.closed or (self.waits_for_reports and self._restless.get(row))
        return TOPOLOGY_STALE if waits else TOPOLOGY_USABLE

    def promised_in_the_dark(self, row: int, key: str, report: TopologyReport | None) -> None:
        """A pod was assumed on the node, or bound there by another client, in zones that amounts alone do not tell."""
        if report is not None and report.pods is not None:
            self._restless[row].add(key)

    def ended(self, row: int, key: str, listed: PodHoldings) -> None:
        """A pod ended that the report lists."""
        if _spans_zones(listed[key]):
            self._restless[row].add(key)

    def ended_in_the_dark(self, row: int, key: str) -> None:
        """A pod whose zones had to be replayed ended before any report listed it."""
        self._restless[row].add(key)
        self._ended_in_the_dark[row].add(key)

    def reported(
        self, row: int, report: TopologyReport, pods: list[tuple[str, PlacedPod]], ended: Collection[str]
    ) -> None:
        """A new report came.

        `pods` are those on the node, settled with it, `ended` those that it or the next one may list.
        """
        self.told_stale.discard(row)
        self._restless.pop(row, None)
        if report.pods is None or not self.waits_for_reports:
            return
        unsettled = {key for key, placed in pods if _restless(key, placed, report.pods)}
        unsettled |= {key for key in ended if _spans_zones(report.pods.get(key, {}))}
        dark = self._ended_in_the_dark.pop(row, set()) & set(ended)
        if dark:
            self._ended_in_the_dark[row] = dark
        unsettled |= dark
        if unsettled:
            self._restless[row] = unsettled

    def gone(self, row: int, key: str) -> None:
        """A pod is gone."""
        for pods in (self.in_unknown_zones, self._restless):
            if key in pods.get(row, ()):
                pods[row].discard(key)

    def clear(self, row: int) -> None:
        """The node or its report is gone."""
        self.told_stale.discard(row)
        self.closed.discard(row)
        self.expected.pop(row, None)
        for pods in (self.in_unknown_zones, self._restless, self._ended_in_the_dark):
            pods.pop(row, None)


def _restless(key: str, placed: PlacedPod, listed: PodHoldings) -> bool:
    held = listed.get(key)
    if held is None:
        return bool(placed.promised) and not placed.by_amounts
    running = _memory_when_running(placed.request)
    return any(sum(in_zones.values()) > running.get(name, 0) for name, in_zones in held.items() if is_memory(name))


def _spans_zones(held: Mapping[str, Mapping[int, int]]) -> bool:
    """True if a pod holds memory in several zones together: in which shares, the kubelet does not know either."""
    return any(len(in_zones) > 1 for name, in_zones in held.items() if is_memory(name))


def _memory_when_running(request: PodRequest) -> dict[str, int]:
    """What a pod holds of memory once all of its init containers have ended.

    One with resources of its own keeps them all.
    """
    if request.pod_level is not None:
        return dict(request.pod_level)
    amounts: dict[str, int] = {}
    for container in request.containers:
        if container.role is not Role.INIT:
            for name, amount in container.requests.items():
                amounts[name] = amounts.get(name, 0) + amount
    return amounts
