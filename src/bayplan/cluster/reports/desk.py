"""Where reports arrive: from an object of either kind to the report that counts for its node.

In comes a NodeResourceTopology or a Numatopology, or the news that one is gone. What is wrong with it is noted;
`cluster/reports/two_reports.py` says which report counts where a node has both; a report without its node is kept until
the node is known. The state then takes it over (`ClusterState.take_over`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bayplan.cluster.limits import IN_ALL, left_out
from bayplan.cluster.pods.unnamed_pods import UnnamedPods
from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.numatopology import read_numatopology
from bayplan.cluster.reports.orphans import Orphans
from bayplan.cluster.reports.topology_report import TopologyReport, read_report, unreadable
from bayplan.cluster.reports.two_reports import NODE_RESOURCE_TOPOLOGY, NUMATOPOLOGY, TwoReports
from bayplan.kube.errors import ObjectPath
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology

if TYPE_CHECKING:
    from bayplan.cluster.state import ClusterState


class ReportDesk:
    """Takes reports of both kinds in, for all nodes of a state."""

    def __init__(self, state: ClusterState, orphans: Orphans) -> None:
        self._state = state
        self._orphans = orphans
        self._two_reports = TwoReports()
        self._unnamed_pods = UnnamedPods()

    def topology_came(self, topology: NodeResourceTopology, at: float | None) -> None:
        """A node's NodeResourceTopology, which came at a moment if that is known."""
        self._came(NODE_RESOURCE_TOPOLOGY, read_report(topology, self._state.assumptions), ObjectPath.of(topology), at)

    def topology_unreadable(self, node: str, at: float | None) -> None:
        """A node has a NodeResourceTopology that cannot be read: no verdict can be built on it."""
        self._hear(NODE_RESOURCE_TOPOLOGY, unreadable(node), at)

    def numatopology_unreadable(self, node: str, at: float | None) -> None:
        """The same for Volcano's object."""
        self._unnamed_pods.forget(node)
        self._hear(NUMATOPOLOGY, unreadable(node), at)

    def numatopology_came(self, topology: Numatopology, at: float | None) -> None:
        """The same for Volcano's object."""
        state = self._state
        row = state.rows.get(topology.metadata.name)
        bound = [] if row is None else [(key, state.bound[key]) for key in state.keys_on(row) if key in state.bound]
        names_by_uid = {pod.metadata.uid: key for key, pod in bound if pod.metadata.uid}
        self._unnamed_pods.note(topology, names_by_uid, at)
        report = read_numatopology(topology, names_by_uid, state.assumptions)
        self._came(NUMATOPOLOGY, report, ObjectPath.of(topology), at)

    def topology_gone(self, node: str) -> None:
        """The node's NodeResourceTopology is gone: what is left is its Numatopology, or a node
        that never had a report.
        """
        self._gone(NODE_RESOURCE_TOPOLOGY, node)

    def numatopology_gone(self, node: str) -> None:
        """The same for Volcano's object."""
        self._unnamed_pods.forget(node)
        self._gone(NUMATOPOLOGY, node)

    def pod_is_on(self, node: str, pod: Pod) -> None:
        """A pod is known to be on a node, which may say whose CPUs an object lists."""
        listed = self._unnamed_pods.worth_reading_again(node, pod.metadata.uid)
        if listed is not None:
            self.numatopology_came(*listed)

    def _came(self, kind: str, report: TopologyReport, where: ObjectPath, at: float | None) -> None:
        report = self._within_columns(report, where)
        for problem in report.remarks:
            self._state.remarks.note(problem)
        if report.node not in self._state.rows:
            text = f'"{report.node}" is not a known Node: the topology data is ignored'
            self._state.remarks.note(ObjectRemark(where, text))
        self._hear(kind, report, at)

    def _within_columns(self, report: TopologyReport, where: ObjectPath) -> TopologyReport:
        """The report without resources that there is no column left for; unusable if there is no room for its zones."""
        columns = self._state.columns
        if not columns.has_room_for_zones(len(report.zones)):
            text = (
                f"{len(report.zones)} zones cannot be used: {len(columns.resource_index)} resource names of all "
                "nodes leave no room for them"
            )
            return replace(unreadable(report.node), remarks=[*report.remarks, ObjectRemark(where.child("zones"), text)])
        named = dict.fromkeys(name for zone in report.zones for name in zone.resources)
        beyond = columns.without_room(named)
        if not beyond:
            return report
        zones = tuple(
            replace(zone, resources={name: each for name, each in zone.resources.items() if name not in beyond})
            for zone in report.zones
        )
        problem = ObjectRemark(where.child("zones"), left_out(beyond, IN_ALL))
        return replace(report, zones=zones, remarks=[*report.remarks, problem])

    def _hear(self, kind: str, report: TopologyReport, at: float | None) -> None:
        counts = self._two_reports.heard(kind, report, at)
        if counts is not None:
            self._hand_over(report.node, counts, at)

    def _gone(self, kind: str, node: str) -> None:
        self._orphans.reports.pop(node, None)
        left = self._two_reports.gone(kind, node)
        row = self._state.rows.get(node)
        if left is None:
            self._state.leave_without_report(node)
        elif row is None or not _is_in_force(left, self._state.reports[row]):
            self._hand_over(node, left, None)

    def _hand_over(self, node: str, report: TopologyReport, at: float | None) -> None:
        row = self._state.rows.get(node)
        if row is None:
            self._orphans.reports[node] = report
        else:
            self._state.take_over(row, report, at)


def _is_in_force(report: TopologyReport, in_force: TopologyReport | None) -> bool:
    """Whether a node is judged by this very report, which may have got its kubelet's version since it came."""
    return in_force is not None and in_force.remarks is report.remarks
