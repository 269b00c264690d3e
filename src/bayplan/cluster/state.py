"""The cluster as the scheduler knows it: columns, the pods on the nodes, and the promises not yet confirmed.

Events come in (`set_node`, `set_topology`, `set_pod`, ... or a whole `ObjectSet` through `load`), columns change, and the
change log says which rows did. A decision is first *assumed* (its amounts are taken at once, so that the next decision sees
them), then *confirmed* when the cluster shows the pod as bound, or *forgotten* if binding failed.

The ledger: a node's topology report lags behind. Amounts of pods that were assumed here stay subtracted from the zones
until a report arrives after their confirmation; until then the promise counts, afterwards the report does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bayplan.cluster.change_log import ChangeLog
from bayplan.cluster.columns import (
    NO_TOPOLOGY,
    TOPOLOGY_INVALID,
    TOPOLOGY_STALE,
    TOPOLOGY_USABLE,
    UNKNOWN,
    Columns,
)
from bayplan.cluster.hardware import HardwareClass, hardware_of
from bayplan.cluster.labels import LabelColumns
from bayplan.cluster.pod_class import HostPort, PodClass, PodClasses, host_ports_of
from bayplan.cluster.pod_request import CPU, PODS, PodRequest, amounts_of, is_memory
from bayplan.cluster.topology_report import Problem, TopologyReport, differ_in_use_only, read_report
from bayplan.kube.core_v1 import Node, Pod, Taint
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.files import ObjectSet
from bayplan.kube.topology_v1alpha2 import NodeResourceTopology

TERMINAL_PHASES = ("Succeeded", "Failed")


class ZoneCharge(Struct, frozen=True, gc=False):
    """An amount of one resource taken from one zone of a node."""

    resource: int
    zone: int
    amount: float


class PlacedPod(Struct, frozen=True, gc=False):
    """A pod that occupies a node: what it took, and whether the cluster has confirmed it.

    `promised` is what the decision asked for; `charges` is what could be taken from the zones of the latest report.
    """

    row: int
    request: PodRequest
    charges: tuple[ZoneCharge, ...]
    host_ports: tuple[HostPort, ...]
    confirmed: bool
    promised: tuple[ZoneCharge, ...] = ()


def pod_key(pod: Pod) -> str:
    """`namespace/name`, the name under which a pod is known everywhere."""
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"


class ClusterState:
    """Nodes, zones and pods in columns. All methods are plain arithmetic: no I/O, no clock."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.rows: dict[str, int] = {}
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.reports: list[TopologyReport | None] = []
        self.hardware_classes: list[HardwareClass] = [HardwareClass((), ())]
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.labels = LabelColumns(self.nodes)
        self.pods: dict[str, PlacedPod] = {}
        self.waiting: dict[str, Pod] = {}
        self.bound: dict[str, Pod] = {}
        self.classes = PodClasses()
        self.usage_log = ChangeLog()
        self.node_log = ChangeLog()
        self.problems: list[Problem] = []
        self.port_users: dict[tuple[str, int], list[tuple[int, HostPort]]] = {}
        self._hardware_index: dict[HardwareClass, int] = {self.hardware_classes[0]: 0}
        self._taint_index: dict[tuple[Taint, ...], int] = {(): 0}
        # Only rows with pods have an entry: a hundred thousand empty sets cost memory and garbage collection.
        self._pods_on: defaultdict[int, set[str]] = defaultdict(set)
        self._before_their_node: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._free_rows: list[int] = []

    @classmethod
    def load(cls, objects: ObjectSet) -> ClusterState:
        """Build the state from a dump. Pods without a node become `waiting`."""
        state = cls()
        for node in objects.nodes:
            if node.metadata.name in state.rows:
                raise InvalidObject(ObjectPath.of(node), "appears twice")
            state.set_node(node)
        for topology in objects.topologies:
            state.set_topology(topology)
        for pod in objects.pods:
            state.set_pod(pod)
        return state

    # -- nodes and their topology ---------------------------------------------------------------------------------

    def set_node(self, node: Node) -> int:
        """Add a node or take over its new labels, taints and amounts."""
        name = node.metadata.name
        allocatable = amounts_of(node.status.allocatable, ObjectPath.of(node).child("status").child("allocatable"))
        row = self.rows.get(name)
        columns = self.columns
        if row is None:
            row = self._new_row(name)
        for resource in allocatable:
            columns.resource(resource)
        used = columns.allocatable[:, row] - columns.free[:, row]
        columns.allocatable[:, row] = 0
        columns.offered[:, row] = False
        for resource, amount in allocatable.items():
            index = columns.resource(resource)
            columns.allocatable[index, row] = amount
            columns.offered[index, row] = True
        columns.free[:, row] = columns.allocatable[:, row] - used
        columns.unschedulable[row] = node.spec.unschedulable
        taints = tuple(node.spec.taints or ())
        columns.taint_set[row] = self._taint_index.setdefault(taints, len(self.taint_sets))
        if columns.taint_set[row] == len(self.taint_sets):
            self.taint_sets.append(taints)
        self.nodes[row] = node
        self.labels.update(row)
        self.node_log.append(row)
        for pod in self._before_their_node.pop(name, {}).values():
            self.set_pod(pod)
        return row

    def remove_node(self, name: str) -> None:
        """Forget a node and everything on it; its row is used again later."""
        row = self.rows.pop(name, None)
        if row is None:
            return
        for key in list(self._pods_on.pop(row, ())):
            self.remove_pod(key)
        columns = self.columns
        columns.allocatable[:, row] = 0
        columns.free[:, row] = 0
        columns.offered[:, row] = False
        columns.present[row] = False
        self._clear_zones(row)
        self.nodes[row] = None
        self.reports[row] = None
        self.names[row] = ""
        self.labels.update(row)
        self._free_rows.append(row)
        self.node_log.append(row)

    def set_topology(self, topology: NodeResourceTopology) -> None:
        """Take over a node's report. A report without its node is noted and left aside."""
        report = read_report(topology)
        self.problems.extend(report.problems)
        row = self.rows.get(report.node)
        if row is None:
            at = ObjectPath.of(topology)
            self.problems.append(Problem(at, f'there is no Node "{report.node}": the topology data is left aside'))
            return
        self._write_zones(row, report)
        # A confirmed pod was on the node before this report was made, so the report already shows what it took.
        for key in self.pods_on(row):
            placed = self.pods[key]
            if placed.confirmed:
                self.pods[key] = replace(placed, charges=(), promised=())
            else:
                taken = [self._take(row, charge) for charge in placed.promised]
                self.pods[key] = replace(placed, charges=tuple(taken))
        self.node_log.append(row)

    def remove_topology(self, node: str) -> None:
        """The node's report is gone: it is treated as a node that never had one."""
        row = self.rows.get(node)
        if row is not None:
            self._clear_zones(row)
            self.reports[row] = None
            self.node_log.append(row)

    def set_fresh(self, node: str, *, fresh: bool) -> None:
        """Say whether a node's report can be trusted at the moment."""
        row = self.rows[node]
        report = self.reports[row]
        reported = NO_TOPOLOGY if report is None else TOPOLOGY_USABLE if report.usable else TOPOLOGY_INVALID
        self.columns.put("topology", row, reported if fresh else TOPOLOGY_STALE)
        self.node_log.append(row)

    # -- pods -----------------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod) -> None:
        """A pod as the cluster shows it: waiting, bound (which confirms an assumption) or finished."""
        key = pod_key(pod)
        node = pod.spec.node_name
        if pod.status and pod.status.phase in TERMINAL_PHASES:
            self.remove_pod(key)
            return
        if not node:
            self.waiting[key] = pod
            return
        self.waiting.pop(key, None)
        row = self.rows.get(node)
        if row is None:
            at = ObjectPath.of(pod).child("spec").child("nodeName")
            self.problems.append(Problem(at, f'"{node}" is not a known Node: the pod is left aside until it is'))
            self._before_their_node[node][key] = pod
            return
        request = self.classes.of(pod).request
        placed = self.pods.get(key)
        if placed is not None and (placed.row != row or placed.request != request):
            # Bound elsewhere than was assumed, or resized in place.
            self.remove_pod(key)
            placed = None
        self.bound[key] = pod
        if placed is not None:
            self.confirm(key)
            return
        # Whatever it holds in zones is in the node's report already, so only the node's sums are charged.
        self._place(key, PlacedPod(row, request, (), host_ports_of(pod.spec), confirmed=True))

    def remove_pod(self, key: str) -> None:
        """A pod ended or was deleted: its amounts are free again."""
        self.waiting.pop(key, None)
        self.bound.pop(key, None)
        for pods in self._before_their_node.values():
            pods.pop(key, None)
        if key in self.pods:
            self._release(key)

    def assume(self, key: str, row: int, pod: PodClass, charges: Sequence[ZoneCharge]) -> None:
        """Take the amounts of a decision at once, before anybody has been told about it."""
        if key in self.pods:
            raise ValueError(f"pod {key} already occupies node {self.names[self.pods[key].row]}")
        taken = tuple(self._take(row, charge) for charge in charges)
        placed = PlacedPod(row, pod.request, taken, pod.host_ports, confirmed=False, promised=tuple(charges))
        self._place(key, placed)

    def confirm(self, key: str) -> None:
        """The cluster shows the pod on its node: the promise became a fact."""
        self.pods[key] = replace(self.pods[key], confirmed=True)

    def forget(self, key: str) -> None:
        """Binding failed: give everything back."""
        self._release(key)

    def pods_on(self, row: int) -> list[str]:
        """The pods on a node, by name."""
        return sorted(self._pods_on.get(row, ()))

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
        columns = self.columns
        for resource, amount in placed.request.total.items():
            columns.take(resource, placed.row, amount)
        columns.take(PODS, placed.row, 1)
        for port in placed.host_ports:
            self.port_users.setdefault((port.protocol, port.number), []).append((placed.row, port))
        self.pods[key] = placed
        self._pods_on[placed.row].add(key)
        self.usage_log.append(placed.row)

    def _release(self, key: str) -> None:
        placed = self.pods.pop(key)
        columns = self.columns
        for resource, amount in placed.request.total.items():
            columns.take(resource, placed.row, -amount)
        columns.take(PODS, placed.row, -1)
        for charge in placed.charges:
            columns.zone_available[charge.resource, charge.zone, placed.row] += charge.amount
            columns.zone_available_sum[charge.resource, placed.row] += charge.amount
        for port in placed.host_ports:
            self.port_users[port.protocol, port.number].remove((placed.row, port))
        self._pods_on[placed.row].discard(key)
        self.usage_log.append(placed.row)

    def _take(self, row: int, charge: ZoneCharge) -> ZoneCharge:
        """Subtract from a zone, never below zero: a late report may already show less than was promised."""
        columns = self.columns
        left = columns.zone_available[charge.resource, charge.zone, row]
        amount = min(float(left), charge.amount)
        columns.zone_available[charge.resource, charge.zone, row] = left - amount
        columns.zone_available_sum[charge.resource, row] -= amount
        return charge if amount == charge.amount else replace(charge, amount=amount)

    def _write_zones(self, row: int, report: TopologyReport) -> None:
        columns = self.columns
        before = self.reports[row]
        self.reports[row] = report
        if before is not None and columns.topology[row] == TOPOLOGY_USABLE and differ_in_use_only(before, report):
            # What most reports say: the same machine, something else in use. Nothing that is kept about nodes changes.
            self._write_available(row, report)
            return
        self._clear_zones(row)
        if not report.usable:
            columns.put("topology", row, TOPOLOGY_INVALID)
            return
        columns.require_zones(len(report.zones))
        columns.put("topology", row, TOPOLOGY_USABLE)
        columns.put("zone_count", row, len(report.zones))
        for position, zone in enumerate(report.zones):
            for name, amounts in zone.resources.items():
                index = columns.resource(name)
                columns.zone_total[index, position, row] = amounts.total_of(name)
                columns.zone_reported[index, row] |= np.uint64(1 << position)
        self._write_available(row, report)
        columns.zone_total_largest[:, row] = columns.zone_total[:, :, row].max(axis=1)
        for name in {name for zone in report.zones for name in zone.resources}:
            index = columns.resource(name)
            # Zones may report a device of which they have none: then no device of the node has a place to align to.
            known = name == CPU or is_memory(name) or columns.zone_total_largest[index, row] > 0
            columns.put_aligned(index, row, aligned=bool(known))
        settings = report.settings
        columns.max_numa_nodes[row] = settings.max_numa_nodes
        columns.put("policy", row, settings.policy)
        columns.put("scope", row, settings.scope)
        columns.put("cpu_group", row, settings.cpu_group)
        columns.put("cpu_static", row, UNKNOWN if settings.cpu_static is None else settings.cpu_static)
        columns.put("memory_static", row, UNKNOWN if settings.memory_static is None else settings.memory_static)
        hardware = hardware_of(report)
        number = self._hardware_index.setdefault(hardware, len(self.hardware_classes))
        if number == len(self.hardware_classes):
            self.hardware_classes.append(hardware)
        columns.put("hardware_class", row, number)

    def _write_available(self, row: int, report: TopologyReport) -> None:
        columns = self.columns
        for position, zone in enumerate(report.zones):
            for name, amounts in zone.resources.items():
                index = columns.resource(name)
                columns.zone_available[index, position, row] = amounts.available
        columns.zone_available_sum[:, row] = columns.zone_available[:, :, row].sum(axis=1)

    def _clear_zones(self, row: int) -> None:
        columns = self.columns
        columns.totals_changed()
        columns.zone_available[:, :, row] = 0
        columns.zone_total[:, :, row] = 0
        columns.zone_available_sum[:, row] = 0
        columns.zone_total_largest[:, row] = 0
        columns.zone_reported[:, row] = 0
        for resource in range(len(columns.resource_names)):
            columns.put_aligned(resource, row, aligned=False)
        columns.put("zone_count", row, 0)
        columns.max_numa_nodes[row] = 8
        columns.put("topology", row, NO_TOPOLOGY)
        columns.put("policy", row, 0)
        columns.put("scope", row, 0)
        columns.put("cpu_group", row, 1)
        columns.put("cpu_static", row, UNKNOWN)
        columns.put("memory_static", row, UNKNOWN)
        columns.put("hardware_class", row, 0)
