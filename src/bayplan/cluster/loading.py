"""A whole set of objects at once, as a state: from a dump, or from a cluster that runs.

In comes an `ObjectSet`, out goes a `ClusterState`; pods without a node become `waiting`. One bad object must not hide
all others: it is left out, with a problem that names it. In a cluster that runs, a node's report may be behind the pods
on it, and the state says of such a node what a scheduler that starts at this moment would say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.kube.errors import InvalidObject, ObjectPath, did_you_mean
from bayplan.kube.object_set import ObjectSet, StorageObject
from bayplan.kube.times import moment_of
from bayplan.kube.validation.scheduling import TAINT_EFFECTS
from bayplan.kube.validation.storage import unusable
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology, resources_of, zones_of
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology

_Thing = TypeVar("_Thing", bound=Node | Pod | NodeResourceTopology | Numatopology | StorageObject)


def load_state(
    objects: ObjectSet,
    *,
    live_at: float | None = None,
    assumptions: Assumptions = Assumptions(),  # noqa: B008 - immutable
) -> ClusterState:
    """Build the state of the objects.

    `live_at` is the moment (seconds since 1970) at which a cluster that runs had them.
    """
    return _Loading(objects, live_at, assumptions).state()


class _Loading:
    """One set of objects on its way into a state."""

    def __init__(self, objects: ObjectSet, live_at: float | None, assumptions: Assumptions) -> None:
        self._objects = objects
        self._live_at = live_at
        self._state = ClusterState(assumptions)
        self._state.freshness.waits_for_reports = live_at is not None

    def state(self) -> ClusterState:
        objects, state = self._objects, self._state
        for namespace in objects.namespaces:
            state.neighbours.set_namespace(namespace.metadata.name, namespace.metadata.labels or {})
        for node in objects.nodes:
            self._take(self._set_node, node)
        self._take_reports()
        for thing in objects.storage:
            self._take(self._set_storage, thing)
        for pod in objects.pods:
            self._take(lambda each: state.set_pod(each, at=self._live_at), pod)
        for again in _repeated(objects.numatopologies):
            state.remarks.note(again)
        for numatopology in objects.numatopologies:  # after the pods, which it may list by uid alone
            if not self._take(lambda each: state.set_numatopology(each, at=self._live_at), numatopology):
                state.set_unreadable_numatopology(numatopology.metadata.name)
        return state

    def _take_reports(self) -> None:
        objects, state = self._objects, self._state
        for again in _repeated(objects.topologies):
            state.remarks.note(again)
        for topology in objects.topologies:
            if not self._take(lambda each: state.set_topology(each, at=self._live_at), topology):
                state.set_unreadable_topology(topology.metadata.name)
            elif (row := state.rows.get(topology.metadata.name)) is not None:
                note_misspelt_resources(state, topology, row)
        for name in objects.unreadable_topologies:
            state.set_unreadable_topology(name)

    def _set_node(self, node: Node) -> None:
        self._state.set_node(node, at=self._live_at)
        note_unknown_effects(self._state, node)

    def _set_storage(self, thing: StorageObject) -> None:
        for fault in unusable(msgspec.to_builtins(thing), type(thing).__name__, ObjectPath.of(thing)):
            raise fault
        self._state.volumes.set(thing)

    def _take(self, put: Callable[[_Thing], object], thing: _Thing) -> bool:
        """False if the object makes no sense and was left out."""
        try:
            put(thing)
        except InvalidObject as error:
            named = self._objects.naming_the_file(error, thing)
            self._state.remarks.note(ObjectRemark(named.at, f"{named.problem}; the {type(thing).__name__} is left out"))
            return False
        return True


def note_unknown_effects(state: ClusterState, node: Node) -> None:
    """Taints of a node whose effect is none."""
    for index, taint in enumerate(node.spec.taints or ()):
        if taint.effect not in TAINT_EFFECTS:
            at = ObjectPath.of(node).child("spec.taints").item(index).child("effect")
            text = f'"{taint.effect}" keeps no pod away; expected {", ".join(TAINT_EFFECTS)}'
            state.remarks.note(ObjectRemark(at, text + did_you_mean(taint.effect, TAINT_EFFECTS)))


def note_misspelt_resources(state: ClusterState, topology: NodeResourceTopology, row: int) -> None:
    """A resource that only zones have, under a name like one that only the node has: what the zones hold of it would
    not count.
    """
    columns = state.columns
    names = {name for zone in zones_of(topology) for name, _ in resources_of(zone)}
    of_node = {name for name, index in columns.resource_index.items() if columns.offered[index, row]}
    for name in sorted(names - of_node):
        if hint := did_you_mean(name, of_node - names):
            at = ObjectPath.of(topology).child("zones")
            state.remarks.note(ObjectRemark(at, f'the node has no resource "{name}"{hint}'))


def relabel(state: ClusterState, pods: Iterable[Pod]) -> None:
    """Take over pods that only carry other labels than those in the state: the gangs of their owners."""
    for pod in pods:
        key = pod_key(pod)
        for known in (state.waiting, state.bound):
            if key in known:
                known[key] = pod


def _repeated(reports: Iterable[NodeResourceTopology | Numatopology]) -> Iterator[ObjectRemark]:
    """A node has one report of a kind."""
    seen: set[str] = set()
    for report in reports:
        if report.metadata.name in seen:
            yield ObjectRemark(ObjectPath.of(report), "appears twice: the last one counts")
        seen.add(report.metadata.name)


def newest_moment(pods: Iterable[Pod], reports: Iterable[TopologyReport | None]) -> float | None:
    """When a dump was made, as far as it tells: the newest moment at which a pod changed or a report was made."""
    found = [report.made_at for report in reports if report is not None and report.made_at is not None]
    for pod in pods:
        conditions = (pod.status.conditions if pod.status is not None else None) or ()
        texts = (pod.metadata.creation_timestamp, *(each.last_transition_time for each in conditions))
        found += [moment.timestamp() for text in texts if (moment := moment_of(text or "")) is not None]
    return max(found, default=None)
