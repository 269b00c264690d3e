"""Decide when nodes report: some time after a change, and only with new content; without one, often enough that nothing
takes the report for stale.

In come changes on nodes (`changed`) and reports on the API server (`listed`, `gone`, `absent`); out go
`PublishTopology` writes that are due. Changes in quick succession share a report. Nothing is made until the API server
knows the kind.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from zlib import crc32

from bayplan.cluster.reports.two_reports import STALE_AFTER
from bayplan.services.kubelets.model import PublishTopology
from bayplan.services.kubelets.objects import substance, topology_body
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.model import Seconds

# An unchanged report is renewed after a third to two thirds of this time, not all of them at once.
RENEWED_WITHIN = STALE_AFTER


class FleetReports:
    """The reports of all nodes. The cost of each method depends on what changed, not on the number of nodes."""

    def __init__(self, agents: Mapping[str, NodeAgent], *, delay: Seconds, complete: bool) -> None:
        self._agents = agents
        self._delay = delay
        self._complete = complete
        # In order of time: the delay is the same for all.
        self._pending: dict[str, Seconds] = {}
        self._published: dict[str, bytes] = {}
        # When each report is renewed; the heap also has moments that a later report has put off.
        self._renewed_at: dict[str, Seconds] = {}
        self._renewals: list[tuple[Seconds, str]] = []
        self._on_server: set[str] = set()
        # Nodes that were deleted: a report would be garbage-collected at once.
        self._deleted: set[str] = set()
        self.known_kind = False

    @property
    def next_moment(self) -> Seconds | None:
        """When the next report is due, or None."""
        if not self.known_kind:
            return None
        first = next(iter(self._pending.values()), None)
        renewal = self._renewals[0][0] if self._renewals else None
        return min((moment for moment in (first, renewal) if moment is not None), default=None)

    def changed(self, node: str, now: Seconds) -> None:
        """A node changed; a pending report will show this too."""
        if node not in self._deleted:
            self._pending.setdefault(node, now + self._delay)

    def listed(self, names: Iterable[str], now: Seconds) -> None:
        """The API server has these reports; missing ones are due at once."""
        self.known_kind = True
        self._on_server = {name for name in names if name in self._agents}
        missing = [
            name
            for name in self._agents
            if name not in self._deleted and (name not in self._on_server or name not in self._published)
        ]
        for name in missing:
            self._published.pop(name, None)
            self._pending.pop(name, None)
        self._pending = {**dict.fromkeys(missing, now), **self._pending}

    def appeared(self, name: str) -> None:
        """The API server shows a report."""
        if name in self._agents:
            self._on_server.add(name)

    def gone(self, name: str, now: Seconds) -> None:
        """Rewrite a report that was removed."""
        if name in self._agents:
            self._on_server.discard(name)
            self._published.pop(name, None)
            self.changed(name, now)

    def node_deleted(self, name: str) -> None:
        """A node was deleted, and its report with it."""
        self._deleted.add(name)
        self._pending.pop(name, None)
        self._published.pop(name, None)

    def node_created(self, name: str, now: Seconds) -> None:
        """A node was created again: it needs a report that belongs to it."""
        self._deleted.discard(name)
        self._published.pop(name, None)
        self.changed(name, now)

    def absent(self) -> None:
        """The API server does not know the kind."""
        self.known_kind = False
        self._on_server.clear()
        self._published.clear()

    def due(self, now: Seconds) -> list[PublishTopology]:
        """The reports that are due and have new content."""
        writes: list[PublishTopology] = []
        if not self.known_kind:
            return writes
        self._renew(now)
        while self._pending:
            node, moment = next(iter(self._pending.items()))
            if moment > now:
                break
            del self._pending[node]
            agent = self._agents[node]
            report = agent.topology(complete=self._complete, at=now)
            body = topology_body(report, agent.kubelet)
            content = substance(body)
            if self._published.get(node) != content:
                self._published[node] = content
                self._renewed_at[node] = now + RENEWED_WITHIN * (1 + crc32(node.encode()) / 2**32) / 3
                heapq.heappush(self._renewals, (self._renewed_at[node], node))
                writes.append(PublishTopology(node, body, exists=node in self._on_server))
        return writes

    def _renew(self, now: Seconds) -> None:
        """Make reports due that have not changed for long: their content counts as unpublished."""
        due: dict[str, Seconds] = {}
        while self._renewals and self._renewals[0][0] <= now:
            moment, node = heapq.heappop(self._renewals)
            if self._renewed_at.get(node) == moment and self._published.pop(node, None) is not None:
                due[node] = now
        if due:
            later = {node: moment for node, moment in self._pending.items() if node not in due}
            self._pending = {**due, **later}
