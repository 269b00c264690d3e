"""The cluster as the scheduler knows it: columns, the pods on the nodes, and the promises not yet confirmed.

Events come in (`set_node`, `set_topology`, `set_pod`, ... or a whole `ObjectSet` through `load`), columns change, and the
change log says which rows did. A decision is first *assumed* (its amounts are taken at once, so that the next decision sees
them), then *confirmed* when the cluster shows the pod as bound, or *forgotten* if binding failed.

Amounts of pods that were assumed here stay subtracted from the zones until a report shows them: `cluster/ledger.py` has the
rules. News may come in any order: pods and reports that arrive before their node, or whose node is gone for a while, are
kept until it appears.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import deepcopy

from msgspec.structs import replace

from bayplan.cluster.change_log import ChangeLog
from bayplan.cluster.columns import TOPOLOGY_INVALID, Columns
from bayplan.cluster.ended_pods import EndedPods
from bayplan.cluster.freshness import Freshness
from bayplan.cluster.hardware import HardwareClass, hardware_of
from bayplan.cluster.inventory import PodHoldings
from bayplan.cluster.labels import LabelColumns
from bayplan.cluster.ledger import Charges, PlacedPod, ZoneCharge, settled, settled_by_list
from bayplan.cluster.left_aside import LeftAside
from bayplan.cluster.neighbours import Neighbours
from bayplan.cluster.pod_class import HostPort, PodClass, PodClasses, host_ports_of
from bayplan.cluster.pod_request import PODS, amounts_of
from bayplan.cluster.pod_terms import NO_TERMS
from bayplan.cluster.pod_zones import NUMA_ZONES, could_hold, holdings_of
from bayplan.cluster.topology_report import Problem, TopologyReport, differ_in_use_only, read_report
from bayplan.cluster.zone_charges import charges_of, give, held_of, take
from bayplan.cluster.zone_rows import clear_zones, write_available, write_zones
from bayplan.kube.core_v1 import Node, Pod, Taint
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.files import ObjectSet
from bayplan.kube.topology_v1alpha2 import NodeResourceTopology

__all__ = ["ClusterState", "PlacedPod", "ZoneCharge", "pod_key"]

# More than anybody reads; a service that runs for months must not collect them without end.
MOST_PROBLEMS = 1000
TERMINAL_PHASES = ("Succeeded", "Failed")


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
        self.neighbours = Neighbours()
        self.usage_log = ChangeLog()
        self.node_log = ChangeLog()
        self.freshness = Freshness()
        self.problems: list[Problem] = []
        self.port_users: dict[tuple[str, int], dict[int, list[HostPort]]] = {}
        self._hardware_index: dict[HardwareClass, int] = {self.hardware_classes[0]: 0}
        self._taint_index: dict[tuple[Taint, ...], int] = {(): 0}
        # Only rows with pods have an entry: a hundred thousand empty sets cost memory and garbage collection.
        self._pods_on: defaultdict[int, set[str]] = defaultdict(set)
        self._aside = LeftAside()
        # Pods that ended, and that the node's report or one that is on its way lists all the same.
        self._ended = EndedPods()
        self._noted: set[Problem] = set()
        self._free_rows: list[int] = []

    @classmethod
    def load(cls, objects: ObjectSet) -> ClusterState:
        """Build the state from a dump. Pods without a node become `waiting`."""
        state = cls()
        reported: set[str] = set()
        thing: Node | Pod | NodeResourceTopology
        try:
            for thing in objects.nodes:
                state._set_new_node(thing)
            for thing in objects.topologies:
                if thing.metadata.name in reported:
                    state.note(Problem(ObjectPath.of(thing), "appears twice: the last one counts"))
                reported.add(thing.metadata.name)
                state.set_topology(thing)
            for thing in objects.pods:
                state.set_pod(thing)
        except InvalidObject as error:
            raise objects.naming_the_file(error, thing) from None
        return state

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
        )
        return deepcopy(self, {id(each): each for each in shared})

    def note(self, problem: Problem) -> None:
        """Keep something that a user should know, once, and only the latest of very many."""
        if problem not in self._noted:
            self._noted.add(problem)
            self.problems.append(problem)
            if len(self.problems) > MOST_PROBLEMS:
                self._noted.discard(self.problems.pop(0))

    # -- nodes and their topology ---------------------------------------------------------------------------------

    def set_node(self, node: Node) -> int:
        """Add a node or take over its new labels, taints and amounts."""
        name = node.metadata.name
        allocatable = amounts_of(node.status.allocatable, ObjectPath.of(node).child("status").child("allocatable"))
        row = self.rows.get(name)
        columns = self.columns
        if row is None:
            row = self._new_row(name)
        columns.put_allocatable(row, allocatable)
        columns.unschedulable[row] = node.spec.unschedulable
        taints = tuple(node.spec.taints or ())
        columns.taint_set[row] = self._taint_index.setdefault(taints, len(self.taint_sets))
        if columns.taint_set[row] == len(self.taint_sets):
            self.taint_sets.append(taints)
        self.nodes[row] = node
        self.labels.update(row)
        self.node_log.append(row)
        report = self._aside.reports.pop(name, None)
        if report is not None:
            self._take_over(row, report)
        for pod in self._aside.pods_for(name):
            self.set_pod(pod)
        return row

    def _set_new_node(self, node: Node) -> None:
        if node.metadata.name in self.rows:
            raise InvalidObject(ObjectPath.of(node), "appears twice")
        self.set_node(node)

    def remove_node(self, name: str) -> None:
        """A node is gone; its row is used again later. Its report and the pods bound to it are kept in case it returns."""
        row = self.rows.get(name)
        if row is None:
            return
        for key in self.pods_on(row):
            pod = self.bound.get(key)
            self.remove_pod(key)
            if pod is not None:
                self._aside.add(key, pod, name)
        report = self.reports[row]
        if report is not None:
            self._aside.reports[name] = report
        del self.rows[name]
        self._pods_on.pop(row, None)
        self._ended.clear(row)
        self.freshness.clear(row)
        self.columns.clear_allocatable(row)
        self.columns.present[row] = False
        clear_zones(self.columns, row)
        self.nodes[row] = None
        self.reports[row] = None
        self.names[row] = ""
        self.labels.update(row)
        self._free_rows.append(row)
        self.node_log.append(row)

    def set_topology(self, topology: NodeResourceTopology) -> None:
        """Take over a node's report. A report without its node is noted and kept for it."""
        report = read_report(topology)
        for problem in report.problems:
            self.note(problem)
        row = self.rows.get(report.node)
        if row is None:
            text = f'"{report.node}" is not a known Node: the topology data is left aside until it is'
            self.note(Problem(ObjectPath.of(topology), text))
            self._aside.reports[report.node] = report
            return
        self._take_over(row, report)

    def remove_topology(self, node: str) -> None:
        """The node's report is gone: it is treated as a node that never had one."""
        self._aside.reports.pop(node, None)
        row = self.rows.get(node)
        if row is not None:
            clear_zones(self.columns, row)
            self.reports[row] = None
            self._ended.clear(row)
            self.freshness.clear(row)
            for key in self.pods_on(row):
                # Nothing is left to give back. A promise is taken again from the next report.
                placed = self.pods[key]
                promised = () if placed.confirmed else placed.promised
                self.pods[key] = replace(placed, charges=(), promised=promised, shown=False)
            self.usage_log.append(row)

    def set_fresh(self, node: str, *, fresh: bool) -> None:
        """Say whether a node's report can be trusted at the moment."""
        row = self.rows[node]
        (self.freshness.told_stale.discard if fresh else self.freshness.told_stale.add)(row)
        self._judge(row)

    # -- namespaces ------------------------------------------------------------------------------------------------

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace with its labels, by which terms may mean the pods in it."""
        self.neighbours.set_namespace(name, labels)

    def remove_namespace(self, name: str) -> None:
        """A namespace is gone."""
        self.neighbours.remove_namespace(name)

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
        request = self.classes.request_of(pod)
        self.waiting.pop(key, None)
        self._aside.drop(key)
        row = self.rows.get(node)
        if row is None:
            at = ObjectPath.of(pod).child("spec").child("nodeName")
            self.note(Problem(at, f'"{node}" is not a known Node: the pod is left aside until it is'))
            self.remove_pod(key)
            self._aside.add(key, pod, node)
            return
        placed = self.pods.get(key)
        if placed is not None and (placed.row != row or placed.request != request):
            # Bound elsewhere than was assumed, or resized in place.
            self.remove_pod(key)
            placed = None
        self.bound[key] = pod
        if placed is not None:
            self.confirm(key)
        else:
            self._place(key, PlacedPod(row, request, (), host_ports_of(pod.spec), confirmed=True))
        self.stands(key, pod)
        report = self.reports[row]
        if report is not None and not report.shows_use and not self.pods[key].promised:
            # Otherwise whatever it holds in zones is promised here or in the node's report already.
            self._promise(key, self._holdings(key, report))
            self._judge(row)
        elif placed is None and report is not None and report.pods is not None:
            self._look_up(key, report, report.pods)

    def remove_pod(self, key: str, at: float | None = None) -> None:
        """A pod ended or was deleted, at a moment (seconds since 1970) if that is known: its amounts are free again."""
        self.waiting.pop(key, None)
        self.bound.pop(key, None)
        self._aside.drop(key)
        placed = self.pods.get(key)
        if placed is not None:
            self._release(key)
            self._note_end(key, placed, at)
            self._judge(placed.row)

    def assume(
        self, key: str, row: int, pod: PodClass, charges: Sequence[ZoneCharge], *, by_amounts: bool = True
    ) -> None:
        """Take the amounts of a decision at once, before anybody has been told about it."""
        if key in self.pods:
            raise ValueError(f"pod {key} already occupies node {self.names[self.pods[key].row]}")
        taken = take(self.columns, row, charges)
        placed = PlacedPod(
            row, pod.request, taken, pod.host_ports, confirmed=False, promised=tuple(charges), by_amounts=by_amounts
        )
        self._place(key, placed)
        if not by_amounts:
            self.freshness.promised_in_the_dark(row, key, self.reports[row])
            self._judge(row)

    def stands(self, key: str, pod: Pod) -> None:
        """Show a placed pod to those that come after it: its labels, and what it says about pods beside it."""
        try:
            terms = self.classes.terms_of(pod)
        except InvalidObject as error:
            self.note(Problem(error.at, f"{error.problem}; the pod counts as one that says nothing about others"))
            terms = NO_TERMS
        self.neighbours.place(key, self.pods[key].row, pod, terms)

    def confirm(self, key: str) -> None:
        """The cluster shows the pod on its node: the promise became a fact."""
        placed = self.pods[key]
        if placed.shown:
            give(self.columns, placed.row, placed.charges)
            placed = replace(placed, charges=(), promised=(), shown=False)
            self.usage_log.append(placed.row)
        self.pods[key] = replace(placed, confirmed=True)

    def forget(self, key: str) -> None:
        """Binding failed: give everything back. A pod that is gone has nothing; one that the cluster shows bound keeps all."""
        placed = self.pods.get(key)
        if placed is not None and not placed.confirmed:
            self._release(key)
            self._judge(placed.row)

    def is_ahead_of_report(self, row: int) -> bool:
        """True if pods came or went since a node's report that it does not show yet."""
        return bool(self._ended_but_listed(row)) or any(self.pods[key].promised for key in self._pods_on.get(row, ()))

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
            users = self.port_users.setdefault((port.protocol, port.number), {})
            users.setdefault(placed.row, []).append(port)
        self.pods[key] = placed
        self._pods_on[placed.row].add(key)
        self.usage_log.append(placed.row)

    def _release(self, key: str) -> None:
        placed = self.pods.pop(key)
        row = placed.row
        for resource, amount in placed.request.total.items():
            self.columns.take(resource, row, -amount)
        self.columns.take(PODS, row, -1)
        give(self.columns, row, placed.charges)
        for port in placed.host_ports:
            users = self.port_users[port.protocol, port.number]
            users[row].remove(port)
            if not users[row]:
                del users[row]
        self._pods_on[row].discard(key)
        self.neighbours.remove(key)
        self.usage_log.append(row)
        self.freshness.gone(row, key)

    def _note_end(self, key: str, placed: PlacedPod, at: float | None) -> None:
        """A pod ended: the report may list it still, or one that is on its way may list it for the first time."""
        row = placed.row
        report = self.reports[row]
        if report is None or report.pods is None:
            return
        held = held_of(self.columns, report, report.pods.get(key, {}))
        if placed.listed and held:
            self._ended.add(row, key, at, report.pods)
            give(self.columns, row, held)
            self.freshness.ended(row, key, report.pods)
        elif placed.promised and not placed.listed:
            self._ended.add(row, key, at, report.pods)
            if placed.confirmed and not placed.by_amounts:
                self.freshness.ended_in_the_dark(row, key)

    def _look_up(self, key: str, report: TopologyReport, listed: PodHoldings) -> None:
        """A pod that somebody else bound: the report lists it, or it may stand in any zone."""
        placed = self.pods[key]
        ended = self._ended.on(placed.row)
        if key in listed and key not in ended:
            self.pods[key] = replace(placed, listed=True)
            return
        may_hold = charges_of(self.columns, could_hold(placed.request, report))
        if key in ended and may_hold:
            # The one that is listed had the same name. Which of the two the next report means, nobody can say: both count.
            self._ended.keep(placed.row, [other for other in ended if other != key])
            take(self.columns, placed.row, held_of(self.columns, report, listed.get(key, {})))
        if may_hold:
            self.pods[key] = replace(placed, by_amounts=False)
            self._promise(key, may_hold)
            self.freshness.promised_in_the_dark(placed.row, key, report)
            self._judge(placed.row)

    def _promise(self, key: str, charges: Charges) -> None:
        placed = self.pods[key]
        self.pods[key] = replace(placed, charges=take(self.columns, placed.row, charges), promised=charges)

    def _take_over(self, row: int, report: TopologyReport) -> None:
        before = self.reports[row]
        self._write_zones(row, report)
        self.freshness.in_unknown_zones.pop(row, None)
        pods = [(key, self.pods[key]) for key in self.pods_on(row)]
        ended = self._ended.look_at(row, report)
        names = self.columns.resource_names
        if report.pods is None:
            self._ended.clear(row)
            pods = settled(pods, before, report, names, lambda key: self._holdings(key, report))
        else:
            pods, ended = settled_by_list(
                pods,
                (before.pods if before is not None else None) or {},
                report.pods,
                ended,
                names,
                lambda entry: held_of(self.columns, report, entry),
                lambda placed: charges_of(self.columns, could_hold(placed.request, report)),
            )
            self._ended.keep(row, ended)
            for key in self._ended_but_listed(row):
                give(self.columns, row, held_of(self.columns, report, report.pods[key]))
        for key, placed in pods:
            self.pods[key] = replace(placed, charges=take(self.columns, row, placed.promised))
        self.freshness.reported(row, report, pods, self._ended.expected(row))
        self._judge(row)
        self.usage_log.append(row)

    def _ended_but_listed(self, row: int) -> list[str]:
        report = self.reports[row]
        listed = (report.pods if report is not None else None) or {}
        return [key for key in dict.fromkeys(self._ended.on(row)) if key in listed]

    def _holdings(self, key: str, report: TopologyReport) -> tuple[ZoneCharge, ...]:
        """What the annotation of a bound pod tells; a pod that holds more than that is noted as unknown."""
        placed = self.pods[key]
        held, complete = holdings_of(self.bound[key], placed.request, report)
        if not complete:
            self.freshness.in_unknown_zones[placed.row].add(key)
        return charges_of(self.columns, held)

    def _judge(self, row: int) -> None:
        """Write down whether the report can be used, after it or the pods that it does not show have changed."""
        standing = self.freshness.standing(row, self.reports[row])
        unknown = sorted(self.freshness.in_unknown_zones.get(row, ()))
        if unknown and standing == TOPOLOGY_INVALID:
            others = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
            text = (
                f"zones report no `available`, and where pod {unknown[0]}{others} stands is unknown: the node's topology"
                f" data cannot be used; the pod's annotation {NUMA_ZONES} could say it"
            )
            self.note(Problem(ObjectPath(f"NodeResourceTopology {self.names[row]}").child("zones"), text))
        if self.columns.topology[row] != standing:
            self.columns.put("topology", row, standing)
            self.usage_log.append(row)

    def _write_zones(self, row: int, report: TopologyReport) -> None:
        columns = self.columns
        before = self.reports[row]
        self.reports[row] = report
        if before is not None and before.usable and columns.zone_count[row] and differ_in_use_only(before, report):
            # What most reports say: the same machine, something else in use. Nothing that is kept about nodes changes.
            write_available(columns, row, report)
            return
        clear_zones(columns, row)
        if not report.usable:
            columns.put("topology", row, TOPOLOGY_INVALID)
            return
        write_zones(columns, row, report)
        hardware = hardware_of(report)
        number = self._hardware_index.setdefault(hardware, len(self.hardware_classes))
        if number == len(self.hardware_classes):
            self.hardware_classes.append(hardware)
        columns.put("hardware_class", row, number)
