"""Decide when nodes report: some time after a change, and only with new content.

In come changes on nodes (`changed`) and reports on the API server (`listed`, `gone`, `absent`); out go
`PublishTopology` writes that are due. Changes in quick succession share a report. Nothing is made until the API server
knows the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.services.kubelets.model import PublishTopology
from bayplan.services.kubelets.objects import substance, topology_body
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.model import Seconds


class FleetReports:
    """The reports of all nodes. The cost of each method depends on what changed, not on the number of nodes."""

    def __init__(self, agents: Mapping[str, NodeAgent], *, delay: Seconds, complete: bool) -> None:
        self._agents = agents
        self._delay = delay
        self._complete = complete
        # In order of time: the delay is the same for all.
        self._pending: dict[str, Seconds] = {}
        self._published: dict[str, bytes] = {}
        self._on_server: set[str] = set()
        # Nodes that were deleted: a report would be garbage-collected at once.
        self._deleted: set[str] = set()
        self.known_kind = False

    @property
    def next_moment(self) -> Seconds | None:
        """When the next report is due, or None."""
        return next(iter(self._pending.values()), None) if self.known_kind else None

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
                writes.append(PublishTopology(node, body, exists=node in self._on_server))
        return writes
