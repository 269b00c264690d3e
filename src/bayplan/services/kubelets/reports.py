"""Which nodes owe a report, and when: a NodeResourceTopology some time after a change, and only if it says something new.

In come changes on nodes (`changed`) and what the API server has (`listed`, `gone`, `absent`); out go `PublishTopology` writes when
their time has come. A report shows the node as it is when it is made, so changes that come close together share one. As long as the
API server does not know the kind, nothing is made; once it does, every node that has no report there owes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.services.kubelets.objects import substance, topology_body
from bayplan.services.kubelets.writes import PublishTopology
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.model import Seconds


class Reports:
    """The reports of all nodes. Every method costs what has changed, not what exists."""

    def __init__(self, agents: Mapping[str, NodeAgent], *, delay: Seconds, complete: bool) -> None:
        self._agents = agents
        self._delay = delay
        self._complete = complete
        # In the order of their moments: the delay is the same for all.
        self._owed: dict[str, Seconds] = {}
        self._published: dict[str, bytes] = {}
        self._on_server: set[str] = set()
        self.known_kind = False

    @property
    def next_moment(self) -> Seconds | None:
        """When the next report is due; None if none is."""
        return next(iter(self._owed.values()), None) if self.known_kind else None

    def changed(self, node: str, now: Seconds) -> None:
        """Something on a node has changed; if a report is owed already, it will show this too."""
        self._owed.setdefault(node, now + self._delay)

    def listed(self, names: Iterable[str], now: Seconds) -> None:
        """The API server has these reports. Whose is not there is reported at once: what is missing has not been delayed."""
        self.known_kind = True
        self._on_server = {name for name in names if name in self._agents}
        missing = [name for name in self._agents if name not in self._on_server or name not in self._published]
        for name in missing:
            self._published.pop(name, None)
            self._owed.pop(name, None)
        self._owed = {**dict.fromkeys(missing, now), **self._owed}

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

    def absent(self) -> None:
        """The API server does not know the kind, or no longer."""
        self.known_kind = False
        self._on_server.clear()
        self._published.clear()

    def due(self, now: Seconds) -> list[PublishTopology]:
        """The reports whose time has come, of those nodes that have something new to say."""
        writes: list[PublishTopology] = []
        if not self.known_kind:
            return writes
        while self._owed:
            node, moment = next(iter(self._owed.items()))
            if moment > now:
                break
            del self._owed[node]
            agent = self._agents[node]
            report = agent.topology(complete=self._complete, at=now)
            body = topology_body(report, agent.kubelet)
            says = substance(body)
            if self._published.get(node) != says:
                self._published[node] = says
                writes.append(PublishTopology(node, body, exists=node in self._on_server))
        return writes
