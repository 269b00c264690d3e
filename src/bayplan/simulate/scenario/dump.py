"""A recorded cluster as the start of a scenario: what `kubectl get nodes,pods,noderesourcetopologies -o json` prints.

In comes the path that `cluster` names, out go nodes with rebuilt machines (`recorded_machine.py`), the pods that run on
them, and a workload for each pod that waits. What had to be assumed or ignored is remarked, once for all nodes alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from bayplan.cluster.pods.pod_class import pod_class_of
from bayplan.cluster.pods.request import amounts_of
from bayplan.cluster.reports.kubelet_version import version_of
from bayplan.cluster.reports.numatopology import read_numatopology
from bayplan.cluster.reports.topology_report import TopologyReport, read_report
from bayplan.cluster.state import pod_key
from bayplan.dialects.registry import gang_named
from bayplan.explain.topology.hostlist import hostlist
from bayplan.kube.errors import InvalidObject, ObjectPath, left_out
from bayplan.kube.files import read_objects
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.repeated_objects import leave_out_repeated
from bayplan.kube.wire.core_v1 import Metadata, Node, Pod
from bayplan.simulate.scenario.model import Kind, ScenarioPod, SimulatedNode, Workload
from bayplan.simulate.scenario.recorded_machine import (
    UNALIGNED,
    RecordedMachine,
    machine_from_report,
    machine_without_report,
)

ENDED = ("Succeeded", "Failed")
NO_REPORT = f"zones are not reported: {UNALIGNED}"
_NUMBER_AT_THE_END = re.compile(r"[-._]?[0-9]+$")


@dataclass(frozen=True)
class RecordedCluster:
    """Nodes, pods that run in the order of their creation, pods that wait, and what should be known about it."""

    nodes: tuple[SimulatedNode, ...]
    running: tuple[Pod, ...]
    waiting: tuple[Workload, ...]
    remarks: tuple[str, ...]


def read_cluster(path: Path) -> RecordedCluster:
    """The cluster in a file or folder. An object that makes no sense is left out, with a remark that names it."""
    objects = read_objects(path)
    leave_out_repeated(objects)
    remarks = [left_out(error) for error in objects.left_out]
    reports = _reports(objects, remarks)
    recorded = _recorded(objects, reports, remarks)
    assumed: dict[str, list[str]] = {}
    for name, (_, machine) in recorded.items():
        for text in machine.assumed:
            assumed.setdefault(text, []).append(name)
    remarks += [f"{hostlist(names)}: {text}" for text, names in assumed.items()]
    orphans = sorted(set(reports) - set(recorded))
    if orphans:
        remarks.append(f"reports of {hostlist(orphans)} are ignored: there are no such nodes")
    running, waiting = _pods(objects, set(recorded), remarks)
    remarks += _left_aside(objects)
    return RecordedCluster(
        nodes=tuple(_node(node, machine) for node, machine in recorded.values()),
        running=tuple(running),
        waiting=tuple(waiting),
        remarks=tuple(remarks),
    )


def _reports(objects: ObjectSet, remarks: list[str]) -> dict[str, TopologyReport]:
    """Reports that can be used, by node name."""
    reports: dict[str, TopologyReport] = {}
    for topology in objects.topologies:
        try:
            report = read_report(topology)
        except InvalidObject as error:
            remarks.append(left_out(objects.naming_the_file(error, topology)))
            continue
        remarks += map(str, report.remarks)
        if report.usable and report.zones:
            reports[report.node] = report
    for numatopology in objects.numatopologies:
        report = read_numatopology(numatopology)
        remarks += map(str, report.remarks)
        if report.zones:
            reports.setdefault(report.node, report)
    return reports


def _recorded(
    objects: ObjectSet, reports: dict[str, TopologyReport], remarks: list[str]
) -> dict[str, tuple[Node, RecordedMachine]]:
    found: dict[str, tuple[Node, RecordedMachine]] = {}
    for node in objects.nodes:
        try:
            found[node.metadata.name] = (node, _machine(node, reports))
        except InvalidObject as error:
            remarks.append(left_out(objects.naming_the_file(error, node)))
    return found


def _machine(node: Node, reports: dict[str, TopologyReport]) -> RecordedMachine:
    allocatable = amounts_of(node.status.allocatable, ObjectPath.of(node).child("status.allocatable"))
    report = reports.get(node.metadata.name)
    if report is not None:
        written = node.status.node_info.kubelet_version if node.status.node_info else ""
        settings = replace(report.settings, version=version_of(written)[0])
        return machine_from_report(replace(report, settings=settings), allocatable)
    machine = machine_without_report(allocatable)
    return RecordedMachine(machine.machine, machine.kubelet, (NO_REPORT,))


def _node(node: Node, recorded: RecordedMachine) -> SimulatedNode:
    name = node.metadata.name
    return SimulatedNode(
        name=name,
        group=_NUMBER_AT_THE_END.sub("", name) or name,
        machine=recorded.machine,
        kubelet=recorded.kubelet,
        labels=node.metadata.labels or {},
        taints=tuple(node.spec.taints or ()),
        unschedulable=node.spec.unschedulable,
    )


def _pods(objects: ObjectSet, nodes: set[str], remarks: list[str]) -> tuple[list[Pod], list[Workload]]:
    running: list[Pod] = []
    waiting: list[Workload] = []
    lost: dict[str, list[str]] = {}
    gated: list[str] = []
    for pod in objects.pods:
        if pod.status is not None and pod.status.phase in ENDED:
            continue
        try:
            pod_class_of(pod)
        except InvalidObject as error:
            remarks.append(left_out(objects.naming_the_file(error, pod)))
            continue
        if pod.spec.node_name in nodes:
            running.append(pod)
        elif pod.spec.node_name:
            lost.setdefault(pod.spec.node_name, []).append(pod_key(pod))
        elif pod.spec.scheduling_gates:
            gated.append(pod_key(pod))
        else:
            waiting.append(_waiting(pod))
    for node, pods in lost.items():
        remarks.append(f"pods {hostlist(pods)} are ignored: they run on node {node}, which is not in the dump")
    if gated:
        remarks.append(f"pods {hostlist(gated)} are ignored: their scheduling gates are closed")
    # Times are RFC 3339 in UTC, so that text order is time order; pods without one keep the order of the dump.
    return sorted(running, key=lambda pod: pod.metadata.creation_timestamp or ""), waiting


def _left_aside(objects: ObjectSet) -> Iterator[str]:
    """Objects of the dump that a scenario says in its own words, or not at all."""
    counts = objects.ignored_kinds
    for kind, things in (
        ("Topology", objects.levels),
        ("HyperNode", objects.hyper_nodes),
        ("PodGroup", [*objects.gangs, *objects.other_gangs]),
        ("Job", objects.volcano_jobs),
        ("Workload", objects.kubernetes_workloads),
    ):
        counts[kind] += len(things)
    kinds = ", ".join(f"{kind} ({number})" for kind, number in sorted(counts.items()) if number)
    if kinds:
        yield f"ignored: {kinds}"
    in_gangs = [pod_key(pod) for pod in objects.pods if not pod.spec.node_name and gang_named(pod)]
    if in_gangs:
        yield f"pods {hostlist(in_gangs)} wait in gangs; they are simulated one by one"


def _waiting(pod: Pod) -> Workload:
    """A waiting pod exists from the beginning; it is unknown what would replace it."""
    metadata = Metadata(name=pod.metadata.name, namespace=pod.metadata.namespace, labels=pod.metadata.labels)
    template = msgspec.structs.replace(pod, metadata=metadata, status=None)
    return Workload(pod.metadata.name, Kind.POD, template, (ScenarioPod(0.0),))
