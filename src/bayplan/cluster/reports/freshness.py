"""Is a node's report usable right now? Per row, the reasons against it.

A report may be permanently unusable: its zones contradict each other, it could not be read, or it does not say what its
kubelet refuses. Or it is unusable until something happens:

* the report was marked as stale;
* a pod is in unknown zones;
* the kubelet's accounts are about to change in a way that amounts do not predict: the node is *unsettled*.

An unsettled node has one of these pods:

* one whose zones had to be replayed or were chosen elsewhere, and that no report lists yet (even if it has since ended:
  what it gave back, and where, is still unreported, until a report shows it or none has come for a while);
* one whose init containers still hold memory;
* one that ended and whose memory spanned zones.

A scheduler that can wait for the next report (`waits_for_reports`) sends no aligned pod there until that report has
arrived. `cluster/state.py` reports events to this module and writes the usability into the columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from bayplan.cluster.columns.columns import (
    NO_TOPOLOGY,
    TOPOLOGY_EXPECTED,
    TOPOLOGY_INVALID,
    TOPOLOGY_STALE,
    TOPOLOGY_UNCLEAR,
    TOPOLOGY_USABLE,
)
from bayplan.cluster.pods.request import PodRequest, Role, is_memory
from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.inventory import PodHoldings
from bayplan.cluster.reports.kubelet_settings import REFUSING_POLICIES
from bayplan.cluster.reports.ledger import PlacedPod
from bayplan.cluster.reports.pod_zones import NUMA_ZONES
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.kube.errors import ObjectPath
from bayplan.kube.times import moment_of
from bayplan.kube.wire.core_v1 import Node


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
        self._unsettled: defaultdict[int, set[str]] = defaultdict(set)
        self._ended_in_the_dark: defaultdict[int, set[str]] = defaultdict(set)

    def usability(self, row: int, report: TopologyReport | None) -> int:
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
        waits = row in self.closed or (self.waits_for_reports and self._unsettled.get(row))
        return TOPOLOGY_STALE if waits else TOPOLOGY_USABLE

    def expect(self, row: int, node: Node, at: float, within: float) -> bool:
        """Wait this many seconds for a new node's first report; False if it is too old for that."""
        created = moment_of(node.metadata.creation_timestamp or "")
        if created is None or at >= created.timestamp() + within:
            return False
        self.expected[row] = created.timestamp() + within
        return True

    def overdue(self, now: float) -> list[int]:
        """Rows whose first report has not come in time; they are waited for no longer."""
        rows = [row for row, until in self.expected.items() if until <= now]
        for row in rows:
            del self.expected[row]
        return rows

    def promised_in_the_dark(self, row: int, key: str, report: TopologyReport | None) -> None:
        """A pod was assumed on the node, or bound there by another client, in zones that amounts alone do not tell."""
        if report is not None and report.pods is not None:
            self._unsettled[row].add(key)

    def ended(self, row: int, key: str, listed: PodHoldings) -> None:
        """A pod ended that the report lists."""
        if _spans_zones(listed[key]):
            self._unsettled[row].add(key)

    def ended_in_the_dark(self, row: int, key: str) -> None:
        """A pod whose zones had to be replayed ended before any report listed it."""
        self._unsettled[row].add(key)
        self._ended_in_the_dark[row].add(key)

    def rows_with_dark_ends(self) -> list[int]:
        """Rows that wait for a report because of a pod which ended before any report listed it."""
        return list(self._ended_in_the_dark)

    def forget_dark_ends(self, row: int, expected: Collection[str], present: Collection[str]) -> None:
        """Wait no longer for pods that no report is expected to list.

        One that is `present` has the name of an older one and waits for a report of its own.
        """
        over = self._ended_in_the_dark[row].difference(expected)
        self._ended_in_the_dark[row] -= over
        if not self._ended_in_the_dark[row]:
            del self._ended_in_the_dark[row]
        if row in self._unsettled:
            self._unsettled[row] -= over.difference(present)

    def reported(
        self, row: int, report: TopologyReport, pods: list[tuple[str, PlacedPod]], ended: Collection[str]
    ) -> None:
        """A new report came.

        `pods` are those on the node, settled with it, `ended` those that it or the next one may list.
        """
        self.told_stale.discard(row)
        self._unsettled.pop(row, None)
        if report.pods is None or not self.waits_for_reports:
            return
        unsettled = {key for key, placed in pods if _is_unsettled(key, placed, report.pods)}
        unsettled |= {key for key in ended if _spans_zones(report.pods.get(key, {}))}
        dark = self._ended_in_the_dark.pop(row, set()) & set(ended)
        if dark:
            self._ended_in_the_dark[row] = dark
        unsettled |= dark
        if unsettled:
            self._unsettled[row] = unsettled

    def gone(self, row: int, key: str) -> None:
        """A pod is gone."""
        for pods in (self.in_unknown_zones, self._unsettled):
            if key in pods.get(row, ()):
                pods[row].discard(key)

    def clear(self, row: int) -> None:
        """The node or its report is gone."""
        self.told_stale.discard(row)
        self.closed.discard(row)
        self.expected.pop(row, None)
        for pods in (self.in_unknown_zones, self._unsettled, self._ended_in_the_dark):
            pods.pop(row, None)


def unknown_zones(node: str, pods: Sequence[str]) -> ObjectRemark:
    """The remark about a report that cannot be used because of some pods."""
    others = f" (and {len(pods) - 1} more)" if len(pods) > 1 else ""
    text = (
        f"zones report neither `available` nor `allocatable`, and where pod {pods[0]}{others} stands is unknown: "
        f"the node's topology data cannot be used; the pod's annotation {NUMA_ZONES} could say it"
    )
    return ObjectRemark(ObjectPath(f"NodeResourceTopology {node}").child("zones"), text)


def _is_unsettled(key: str, placed: PlacedPod, listed: PodHoldings) -> bool:
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
