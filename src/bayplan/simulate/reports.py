"""How nodes' reports reach a simulated scheduler, and what it makes of them: bayplan's ledger, or a cache of
scheduler-plugins.

A report arrives `delay` seconds after what it shows. It is handed to the same `ReportIntake` that a running scheduler
has. A cache looks at its doubtful copies at the whole multiples of its period; passes in which nothing can have changed
are left out, so that a simulation comes to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor

from bayplan.cluster.reports.intake import ReportSettings, intake_for
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.simulate.clock import Clock
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.model import Seconds
from bayplan.simulate.schedulers import Scheduler


class Reports:
    """The way from the nodes' agents to one scheduler.

    `news` is called when something arrived that may help pods that wait.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        state: ClusterState,
        agents: Mapping[str, NodeAgent],
        clock: Clock,
        delay: Seconds,
        news: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._state = state
        self._agents = agents
        self._clock = clock
        self._delay = delay
        self._news = news
        topology = scheduler.profile.topology
        self._intake = intake_for(state, ReportSettings() if topology is None else topology.arguments.reports)
        self._resync_planned = False
        # A scheduler without a ledger knows of its pods what its cache knows, or nothing.
        state.promises.keeps_ledger = scheduler.keeps_ledger

    def start(self) -> None:
        """All nodes report themselves. A cache that compares fingerprints has to know the agents' own pods."""
        for node, agent in self._agents.items():
            if self._intake.counts_refusals:
                self._state.set_pod(agent.pod)
            self.deliver(node)

    def deliver(self, node: str) -> None:
        """The node's report as it is now, at once."""
        if self._scheduler.reads_reports:
            complete = self._scheduler.keeps_ledger
            report = self._agents[node].topology(complete=complete, at=self._clock.now, fingerprint=True)
            self._intake.topology(report, self._clock.now)
            self._plan_resync()

    def changed(self, node: str) -> None:
        """Something changed on a node; its report says so, sooner or later."""
        if not self._scheduler.reads_reports:
            return
        if not self._delay:
            self.deliver(node)
            return
        complete = self._scheduler.keeps_ledger
        report = self._agents[node].topology(complete=complete, at=self._clock.now, fingerprint=True)

        def arrive() -> None:
            self._intake.topology(report, self._clock.now)
            self._plan_resync()
            self._news()

        self._clock.after(self._delay, arrive)

    def refused(self, answers: ClassAnswers, pod: Pod) -> None:
        """Tell a cache that reserves too much which nodes the NUMA filter refused to a pod."""
        if self._intake.counts_refusals:
            for row in answers.rows_refused_for_zones(self._state.classes.of(pod), self._scheduler.profile):
                self._intake.refused(self._state.names[row])
            self._plan_resync()

    def reserved(self, node: str, pod: Pod) -> None:
        """A pod was decided to go to a node."""
        self._intake.reserved(node, pod)

    def bound(self, node: str, pod: Pod) -> None:
        """It is there."""
        self._intake.bound(node, pod)

    def _plan_resync(self) -> None:
        """The next pass over doubtful copies, if there are any."""
        if self._intake.doubts and not self._resync_planned:
            self._resync_planned = True
            period = self._intake.resync_period
            self._clock.at((floor(self._clock.now / period) + 1) * period, self._resync)

    def _resync(self) -> None:
        self._resync_planned = False
        if self._intake.resync(self._clock.now):
            self._news()
