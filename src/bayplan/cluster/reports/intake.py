"""How a running scheduler takes in topology reports: one interface, with or without a topology cache.

    topology / topology_gone           a node's report appeared, changed or is gone
    numatopology / numatopology_gone   the same in Volcano's form
    topology_unreadable                an unreadable report arrived
    reserved / unreserved / bound      the outcome of a decision
    pod_changed                        a pod on a node appeared, changed or ended, no matter which client bound it
    refused                            the filter refused a node because of its report
    resync                             time has passed; called every `resync_period` seconds

A plain `ReportIntake` hands reports to the state, whose ledger knows what was promised in which zone
(`cluster/reports/ledger.py`); it ignores most of the calls. They are for a scheduler that must answer like
scheduler-plugins with one of its caches (`bayplan.compat`).

All moments are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from bayplan.cluster.state import ClusterState
from bayplan.extensions import TOPOLOGY_CACHE, compat
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology

LEDGER, OVER_RESERVE, DISCARD_RESERVED = "Ledger", "OverReserve", "DiscardReserved"
NO_FOREIGN_PODS = "None"
# How often the ledger looks whether time alone has settled a promise.
LEDGER_PERIOD = 5.0


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Who accounts for what was promised (the accounting mode), and the arguments of scheduler-plugins' caches."""

    accounting: str = LEDGER
    resync_period: float = LEDGER_PERIOD
    resync_method: str = "Autodetect"
    informer_mode: str = "Dedicated"
    preemption_mode: str = "Disabled"
    foreign_pods_detect: str = "All"
    follows_configuration: bool = True
    """Whether a node whose kubelet is configured otherwise than the copy says is taken in anew (`cache.resyncScope:
    All`).
    """


class ReportIntake:
    """Reports go straight into the state and its ledger."""

    def __init__(self, state: ClusterState, settings: ReportSettings) -> None:
        self.state = state
        self.resync_period = settings.resync_period

    def topology(self, topology: NodeResourceTopology, now: float) -> None:
        """A node's report came; raises `InvalidObject` if it cannot be read."""
        self.state.set_topology(topology, at=now)

    def topology_unreadable(self, node: str, now: float) -> None:
        """A node's report came, and cannot be read."""
        self.state.set_unreadable_topology(node, at=now)

    def topology_gone(self, node: str) -> None:
        """A node's report was deleted."""
        self.state.remove_topology(node)

    def numatopology(self, topology: Numatopology, now: float) -> None:
        """A node's report came in Volcano's form."""
        self.state.set_numatopology(topology, at=now)

    def numatopology_unreadable(self, node: str, now: float) -> None:
        """One in Volcano's form cannot be read."""
        self.state.set_unreadable_numatopology(node, at=now)

    def numatopology_gone(self, node: str) -> None:
        """Volcano's object was deleted."""
        self.state.remove_numatopology(node)

    def reserved(self, node: str, pod: Pod) -> None:
        """A decision was assumed. The ledger knows already."""

    def unreserved(self, node: str, pod: Pod) -> None:
        """It was forgotten. The ledger knows already."""

    def bound(self, node: str, pod: Pod) -> None:
        """The API server took the binding. The ledger waits until the cluster shows it."""

    def pod_changed(self, pod: Pod) -> None:
        """A pod on a node came, changed or ended. The ledger knows already."""

    def refused(self, node: str) -> None:
        """The filter refused a node. Nothing to learn from that: the ledger never over-reserves on purpose."""

    @property
    def counts_refusals(self) -> bool:
        """True if refusals are reported to this intake."""
        return False

    @property
    def doubts(self) -> bool:
        """Whether a pass of `resync` may find a copy of a report to replace. The ledger has none."""
        return False

    def resync(self, now: float) -> bool:
        """Settle what time alone settles; True if a node looks different now because its copy was replaced."""
        self.state.promises.settle_in_time(now)
        return False


def intake_for(state: ClusterState, settings: ReportSettings, profiles: Collection[str] = ()) -> ReportIntake:
    """The intake that the settings ask for; `profiles` are the scheduler names whose pods are not foreign."""
    if settings.accounting == LEDGER:
        return ReportIntake(state, settings)
    intake: ReportIntake = compat(TOPOLOGY_CACHE, settings.accounting)(state, settings, profiles)
    return intake
