"""The cluster as the scheduler knows it: columns, the pods on the nodes, and the promises not yet confirmed.

Events come in (`set_node`, `set_topology`, `set_pod`, ... or a whole `ObjectSet` through `cluster/loading.py`), columns
change, and the change log says which rows did. A decision is first *assumed* (its amounts are taken at once, so that
the next decision sees them), then *confirmed* when the cluster shows the pod as bound, or *forgotten* if binding
failed.

Amounts of pods that were assumed here stay subtracted from the zones until a report shows them:
`cluster/reports/ledger.py` has the rules. News may come in any order: pods and reports that arrive before their node,
or whose node is gone for a while, are kept until it appears.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING

from bayplan.cluster.columns.change_log import ChangeLog
from bayplan.cluster.columns.columns import TOPOLOGY_INVALID, Columns
from bayplan.cluster.columns.hardware import HardwareClasses, hardware_of
from bayplan.cluster.columns.images import Images
from bayplan.cluster.columns.labels import LabelColumns
from bayplan.cluster.columns.node_terms import NodeTerms
from bayplan.cluster.columns.taint_sets import TaintSets
from bayplan.cluster.columns.zone_rows import clear_zones, write_available, write_zones
from bayplan.cluster.node_reading import OddVersions, allocatable_of, for_kubelet_of, is_ready, slimmed
from bayplan.cluster.pods.bookings import Bookings
from bayplan.cluster.pods.declared_features import as_bits
from bayplan.cluster.pods.neighbours import Neighbours
from bayplan.cluster.pods.owner_selectors import OwnerSelectors
from bayplan.cluster.pods.pod_class import PodClass, PodClasses, host_ports_of
from bayplan.cluster.pods.terms import NO_TERMS
from bayplan.cluster.remarks import ObjectRemark, Remarks
from bayplan.cluster.reports.desk import ReportDesk
from bayplan.cluster.reports.freshness import Freshness, unknown_zones
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.reports.ledger import PlacedPod, ZoneCharge
from bayplan.cluster.reports.numa_policy import policy_remarks
from bayplan.cluster.reports.orphans import Orphans
from bayplan.cluster.reports.promises import Promises
from bayplan.cluster.reports.topology_report import TopologyReport, differ_in_use_only
from bayplan.cluster.volumes.catalogue import Volumes
from bayplan.cluster.volumes.needs import NO_PLAN, VolumePlan
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology

if TYPE_CHECKING:
    from bayplan.cluster.dry_run import Departure

__all__ = ["ClusterState", "PlacedPod", "ZoneCharge", "pod_key"]

TERMINAL_PHASES = ("Succeeded", "Failed")


def pod_key(pod: Pod) -> str:
    """`namespace/name`, the name under which a pod is known everywhere."""
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"


class ClusterState:
    """Nodes, zones and pods in columns. All methods are plain arithmetic: no I/O, no clock.

    It has one method per kind of watch event and per step of a promise, and one attribute per table, because every room
    above reads the tables; rules about them are in `cluster/reports/`, `cluster/pods/` and `cluster/columns/`.
    """

    def __init__(
        self,
        assumptions: Assumptions = Assumptions(),  # noqa: B008 - immutable
        columns: Columns | None = None,
    ) -> None:
        self.assumptions = assumptions
        """What to believe about kubelets whose report names no known policy or scope."""
        self.columns = columns or Columns()
        self.rows: dict[str, int] = {}
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.reports: list[TopologyReport | None] = []
        self.hardware_classes = HardwareClasses()
        self.taint_sets = TaintSets()
        self.images = Images()
        self.labels = LabelColumns(self.nodes)
        self.terms = NodeTerms(self.labels, self.rows)
        self.bookings = Bookings(self.columns)
        self.pods = self.bookings.pods
        # Pods of a file or a dump. It stays empty in the scheduler, whose dispatcher knows the waiting pods.
        self.waiting: dict[str, Pod] = {}
        self.bound: dict[str, Pod] = {}
        self.neighbours = Neighbours()
        self.owner_selectors = OwnerSelectors()
        self.usage_log = ChangeLog()
        self.node_log = ChangeLog()
        self.volumes = Volumes(self)
        self.classes = PodClasses(self.volumes.needs_of)
        self.freshness = Freshness()
        self.remarks = Remarks()
        self.hypothetical: dict[int, Departure] = {}
        """Rows that a dry run shows without some of their pods (`cluster/dry_run.py`)."""
        self._orphans = Orphans()
        self._desk = ReportDesk(self, self._orphans)
        self.promises = Promises(self)
        self._odd_versions = OddVersions()
        self._free_rows: list[int] = []

    def copy(self) -> ClusterState:
        """A state of its own to try things out on; objects that never change are shared."""
        shared = (
            *self.nodes,
            *self.reports,
            *self.pods.values(),
            *self.bound.values(),
            *self.waiting.values(),
            *self.hardware_classes,
            self.classes,
            self.volumes,
        )
        copy = deepcopy(self, {id(each): each for each in shared})
        copy.volumes = self.volumes.copied(copy)
        copy.classes = self.classes.with_volumes(copy.volumes.needs_of)
        return copy

    # -- nodes and their topology ---------------------------------------------------------------------------------

    def set_node(self, node: Node, at: float | None = None) -> int:
        """Add a node or take over its new labels, taints and amounts.

        If the moment is known, a new node's first report is waited for.
        """
        name = node.metadata.name
        allocatable = allocatable_of(node, self.columns, self.remarks)
        row = self.rows.get(name)
        columns = self.columns
        if row is None:
            row = self._new_row(name)
            if at is not None and self.freshness.expect(row, node, at, self.assumptions.first_report_within):
                self.judge(row)
            self.volumes.node_came(row, name)
        columns.put_allocatable(row, allocatable)
        columns.unschedulable[row] = node.spec.unschedulable
        columns.ready[row] = is_ready(node)
        columns.features[row] = as_bits(node.status.declared_features or ())
        columns.taint_set[row] = self.taint_sets.replace(int(columns.taint_set[row]), tuple(node.spec.taints or ()))
        self.nodes[row] = slimmed(node, row, self.images, self.remarks)
        self.labels.update(row)
        self.node_log.append(row)
        self._odd_versions.note(node, self.remarks)
        report = self._orphans.reports.pop(name, None)
        if report is not None:
            self.take_over(row, report)
        else:
            self._follow_kubelet(row)
        for pod in self._orphans.pods_for(name):
            self.set_pod(pod)
        return row

    def _follow_kubelet(self, row: int) -> None:
        """A node's kubelet may have been replaced by one of another version."""
        before = self.reports[row]
        report = None if before is None else for_kubelet_of(self.nodes[row], before)
        if report is not before and report is not None:
            self.reports[row] = report
            self.columns.put("kubelet", row, report.settings.version)
            self.usage_log.append(row)

    def remove_node(self, name: str) -> None:
        """A node is gone; its row is used again later.

        Its report and the pods bound to it are kept in case it returns.
        """
        row = self.rows.get(name)
        if row is None:
            return
        for key in self.pods_on(row):
            pod = self.bound.get(key)
            self.remove_pod(key)
            if pod is not None:
                self._orphans.add(key, pod, name)
        report = self.reports[row]
        if report is not None:
            self._orphans.reports[name] = report
        del self.rows[name]
        self.bookings.by_row.pop(row, None)
        self.promises.node_gone(row)
        self.freshness.clear(row)
        self.volumes.node_gone(row, name)
        self.columns.clear_allocatable(row)
        self.columns.present[row] = False
        self.columns.taint_set[row] = self.taint_sets.replace(int(self.columns.taint_set[row]), ())
        clear_zones(self.columns, row)
        self.nodes[row] = None
        self.images.set(row, ())
        self.reports[row] = None
        self.names[row] = ""
        self.labels.update(row)
        self._free_rows.append(row)
        self.node_log.append(row)

    def time_passed(self, now: float) -> None:
        """New nodes that have not reported in time are nodes without a report."""
        for row in self.freshness.overdue(now):
            self.judge(row)

    def set_topology(self, topology: NodeResourceTopology, at: float | None = None) -> None:
        """Take over a node's report, which came at a moment if that is known.

        A report without its node is kept until the node appears.
        """
        self._desk.topology_came(topology, at)

    def set_numatopology(self, topology: Numatopology, at: float | None = None) -> None:
        """The same for Volcano's object. Where a node has both, `cluster/reports/two_reports.py` says which counts."""
        self._desk.numatopology_came(topology, at)

    def set_unreadable_topology(self, node: str, at: float | None = None) -> None:
        """The node's NodeResourceTopology cannot be read: pods that its kubelet would align do not go there by it."""
        self._desk.topology_unreadable(node, at)

    def set_unreadable_numatopology(self, node: str, at: float | None = None) -> None:
        """The same for Volcano's object."""
        self._desk.numatopology_unreadable(node, at)

    def remove_topology(self, node: str) -> None:
        """The node's NodeResourceTopology is gone: what is left is its Numatopology, or a node
        that never had a report.
        """
        self._desk.topology_gone(node)

    def remove_numatopology(self, node: str) -> None:
        """The same for Volcano's object."""
        self._desk.numatopology_gone(node)

    def leave_without_report(self, node: str) -> None:
        """Nothing tells of a node's zones any more: it is treated as a node that never had a report."""
        row = self.rows.get(node)
        if row is not None:
            clear_zones(self.columns, row)
            self.reports[row] = None
            self.promises.report_gone(row)
            self.freshness.clear(row)
            self.usage_log.append(row)

    def set_fresh(self, node: str, *, fresh: bool) -> None:
        """Say whether a node's report can be trusted at the moment."""
        row = self.rows[node]
        (self.freshness.told_stale.discard if fresh else self.freshness.told_stale.add)(row)
        self.judge(row)

    def set_closed(self, row: int, *, closed: bool) -> None:
        """Close a node to aligned pods for the length of one decision, or open it again."""
        (self.freshness.closed.add if closed else self.freshness.closed.discard)(row)
        self.judge(row)

    # -- pods -----------------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod, at: float | None = None) -> None:
        """A pod as the cluster shows it at a moment: waiting, bound (which confirms an assumption) or finished."""
        key = pod_key(pod)
        node = pod.spec.node_name
        if pod.status and pod.status.phase in TERMINAL_PHASES:
            self.remove_pod(key)
            return
        if not node:
            self.waiting[key] = pod
            for problem in policy_remarks(pod, self.classes.request_of):
                self.remarks.note(problem)
            return
        request = self.classes.request_of(pod)
        self.waiting.pop(key, None)
        self._orphans.drop(key)
        row = self.rows.get(node)
        if row is None:
            where = ObjectPath.of(pod).child("spec").child("nodeName")
            self.remarks.note(ObjectRemark(where, f'"{node}" is not a known Node: the pod is ignored'))
            self.remove_pod(key)
            self._orphans.add(key, pod, node)
            return
        placed = self.pods.get(key)
        if placed is not None and (placed.row != row or placed.request != request):
            # Bound elsewhere than was assumed, or resized in place.
            self.remove_pod(key)
            placed = None
        self.bound[key] = pod
        if placed is not None:
            self.confirm(key, at)
        else:
            ports = host_ports_of(pod.spec)
            self._place(key, PlacedPod(row, request, (), ports, confirmed=True, confirmed_at=at))
        self.pod_placed(key, pod)
        self.promises.appeared(key, known=placed is not None, at=at)
        self._desk.pod_is_on(node, pod)

    def remove_pod(self, key: str, at: float | None = None) -> None:
        """A pod ended or was deleted, at a moment (seconds since 1970) if that is known: its amounts are free again."""
        self.waiting.pop(key, None)
        self.bound.pop(key, None)
        self._orphans.drop(key)
        placed = self.pods.get(key)
        if placed is not None:
            self._release(key)
            self.promises.note_end(key, placed, at)
            self.judge(placed.row)

    def assume(
        self,
        key: str,
        row: int,
        pod: PodClass,
        charges: Sequence[ZoneCharge],
        *,
        by_amounts: bool = True,
        volumes: VolumePlan = NO_PLAN,
    ) -> None:
        """Take the amounts of a decision at once, before the bind is sent."""
        if key in self.pods:
            raise ValueError(f"pod {key} already occupies node {self.names[self.pods[key].row]}")
        taken, promised = self.promises.taken(row, charges)
        ports = pod.host_ports
        self._place(
            key, PlacedPod(row, pod.request, taken, ports, confirmed=False, promised=promised, by_amounts=by_amounts)
        )
        self.volumes.assume(key, volumes, self.names[row])
        if not by_amounts:
            self.freshness.promised_in_the_dark(row, key, self.reports[row])
            self.judge(row)

    def pod_placed(self, key: str, pod: Pod) -> None:
        """Show a placed pod to those that come after it: its labels, and what it says about pods beside it."""
        try:
            terms = self.classes.terms_of(pod)
        except InvalidObject as error:
            self.remarks.note(ObjectRemark(error.at, f"{error.problem}; its terms about other pods are ignored"))
            terms = NO_TERMS
        self.neighbours.place(key, self.pods[key].row, pod, terms)
        self.volumes.pod_placed(key, self.pods[key].row, pod)

    def confirm(self, key: str, at: float | None = None) -> None:
        """The cluster shows the pod on its node, at a moment if that is known: the promise became a fact."""
        self.pods[key] = self.promises.confirmed(key, at)

    def forget(self, key: str) -> None:
        """Binding failed: give everything back.

        A pod that is gone has nothing; one that the cluster shows bound keeps all.
        """
        placed = self.pods.get(key)
        if placed is not None and not placed.confirmed:
            self._release(key)
            self.judge(placed.row)

    def is_ahead_of_report(self, row: int) -> bool:
        """True if pods came or went since a node's report that it does not show yet."""
        return row in self.hypothetical or self.promises.is_ahead(row)

    def waits_for_report(self, row: int) -> bool:
        """True if the node must report again before anything but amounts can decide there."""
        return self.freshness.waits_for_reports and row not in self.hypothetical and self.promises.is_ahead(row)

    def keys_on(self, row: int) -> Collection[str]:
        """The pods on a node in no order, for those who ask often."""
        return self.bookings.by_row.get(row, ())

    def pods_on(self, row: int) -> list[str]:
        """The pods on a node, by name."""
        return sorted(self.keys_on(row))

    # -- writing columns ------------------------------------------------------------------------------------------

    def _new_row(self, name: str) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
            self.names[row] = name
        else:
            row = self.columns.add_row()
            self.names.append(name)
            self.nodes.append(None)
            self.reports.append(None)
        self.rows[name] = row
        self.columns.present[row] = True
        return row

    def _place(self, key: str, placed: PlacedPod) -> None:
        self.bookings.book(key, placed)
        self.promises.came(key)
        self.usage_log.append(placed.row)

    def _release(self, key: str) -> None:
        placed = self.bookings.unbook(key)
        row = placed.row
        self.neighbours.remove(key)
        self.volumes.pod_left(key)
        self.usage_log.append(row)
        self.freshness.gone(row, key)
        self.promises.went(key, placed)

    def take_over(self, row: int, report: TopologyReport, at: float | None = None) -> None:
        """Write a report into the columns, unless it seems to be older than what they have."""
        report = for_kubelet_of(self.nodes[row], report)
        reading = self.promises.read(row, report, at)
        if reading is None:
            return
        before = self.reports[row]
        self._write_zones(row, report)
        self.freshness.expected.pop(row, None)
        if not self.freshness.knows_reports:
            self.freshness.knows_reports = True
            for other in self.freshness.expected:
                self.judge(other)
        self.freshness.in_unknown_zones.pop(row, None)
        self.promises.settle(row, before, report, at, reading)
        self.judge(row)
        self.usage_log.append(row)

    def judge(self, row: int) -> None:
        """Write down whether the report can be used, after it or the pods that it does not show have changed."""
        usability = self.freshness.usability(row, self.reports[row])
        unknown = sorted(self.freshness.in_unknown_zones.get(row, ()))
        if unknown and usability == TOPOLOGY_INVALID:
            self.remarks.note(unknown_zones(self.names[row], unknown))
        if self.columns.topology[row] != usability:
            self.columns.put("topology", row, usability)
            self.usage_log.append(row)

    def _write_zones(self, row: int, report: TopologyReport) -> None:
        columns = self.columns
        before = self.reports[row]
        self.reports[row] = report
        if before is not None and before.usable and columns.zone_count[row] and differ_in_use_only(before, report):
            # What most reports say: the same machine, something else in use. Nothing that is kept about nodes changes.
            write_available(columns, row, report)
            return
        if before is not None:
            clear_zones(columns, row)
        if not report.usable:
            columns.put("topology", row, TOPOLOGY_INVALID)
            return
        write_zones(columns, row, report)
        columns.put("hardware_class", row, self.hardware_classes.number_of(hardware_of(report)))
