"""Which resources the scheduler watches, and how objects of each reach the dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.registry import AnyPodGroup, dialect_written_as
from bayplan.dialects.volcano.queue import VolcanoQueue
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.resources import (
    HYPER_NODES,
    KAI_TOPOLOGIES,
    KUBERNETES_WORKLOADS,
    KUEUE_TOPOLOGIES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    NUMATOPOLOGIES,
    POD_GROUPS,
    PODS,
    VOLCANO_JOBS,
    VOLCANO_POD_GROUPS,
    Resource,
    pod_groups,
)
from bayplan.kube.topology_levels import Topology, levels_of
from bayplan.kube.wire import volcano_scheduling_v1beta1
from bayplan.kube.wire.core_v1 import Namespace

# As in kube-scheduler: a pod that ended arrives as a deletion.
ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """How objects of one resource are applied and dropped, each with the time as the last argument.

    `unreadable(key, problem, now)` replaces `drop` where an unreadable object still matters. `required` resources are
    listed before the next one. `foreign` kinds of other systems count as not installed where RBAC forbids them.
    """

    resource: Resource[Any]
    put: Callable[[Any, float], object]
    drop: Callable[[str, float], object]
    unreadable: Callable[[str, str, float], object] | None = None
    required: bool = False
    foreign: bool = False
    field_selector: str = ""


def entries_of(
    dispatcher: Dispatcher, workloads: KubernetesWorkloads, volcano_queue: VolcanoQueue
) -> tuple[Entry, ...]:
    """All entries in list order: a pod or report that arrives before its node would be a stray for a while."""
    state, reports = dispatcher.state, dispatcher.reports

    def put_namespace(namespace: Namespace, _: float) -> None:
        dispatcher.set_namespace(namespace.metadata.name, namespace.metadata.labels or {})

    return (
        Entry(NODES, lambda node, now: state.set_node(node, at=now), _timeless(state.remove_node), required=True),
        Entry(NAMESPACES, put_namespace, _timeless(dispatcher.remove_namespace), required=True),
        Entry(PODS, dispatcher.set_pod, dispatcher.remove_pod, required=True, field_selector=ALIVE),
        Entry(
            NODE_RESOURCE_TOPOLOGIES,
            reports.topology,
            _timeless(reports.topology_gone),
            lambda node, _, now: reports.topology_unreadable(node, now),
        ),
        Entry(
            NUMATOPOLOGIES,
            reports.numatopology,
            _timeless(reports.numatopology_gone),
            lambda node, _, now: reports.numatopology_unreadable(node, now),
            foreign=True,
        ),
        *(_group_entry(resource, dispatcher, volcano_queue) for resource in pod_groups().values()),
        Entry(KUBERNETES_WORKLOADS, _timeless(workloads.put), _timeless(workloads.remove), foreign=True),
        Entry(VOLCANO_JOBS, _timeless(volcano_queue.set_job), _timeless(volcano_queue.remove_job), foreign=True),
        *_level_entries(dispatcher),
        Entry(HYPER_NODES, _timeless(dispatcher.set_hyper_node), _timeless(dispatcher.remove_hyper_node), foreign=True),
    )


def _timeless(apply: Callable[[Any], object]) -> Callable[[Any, float], object]:
    return lambda thing, _: apply(thing)


def _group_entry(resource: Resource[Any], dispatcher: Dispatcher, volcano_queue: VolcanoQueue) -> Entry:
    def put(group: AnyPodGroup, now: float) -> None:
        dispatcher.set_group(group, now)
        if isinstance(group, volcano_scheduling_v1beta1.PodGroup):
            volcano_queue.set_group(group)

    def unreadable(name: str, problem: str, now: float) -> None:
        """Pods that name the group report the problem, not that the group is missing."""
        dispatcher.remove_group(dialect_written_as(resource.type).key(name), now, problem)
        if resource is VOLCANO_POD_GROUPS:
            volcano_queue.remove_group(name)

    def drop(name: str, now: float) -> None:
        unreadable(name, "", now)

    return Entry(resource, put, drop, unreadable, foreign=resource is not POD_GROUPS)


def _level_entries(dispatcher: Dispatcher) -> tuple[Entry, ...]:
    """Topologies of Kueue and KAI, which may each have one of the same name."""
    known: dict[tuple[Resource[Any], str], tuple[str, ...]] = {}

    def put(resource: Resource[Any], topology: Topology, _: float) -> None:
        name = topology.metadata.name
        known[resource, name] = levels_of(topology)
        dispatcher.set_levels(name, known[resource, name])

    def drop(resource: Resource[Any], name: str, _: float) -> None:
        known.pop((resource, name), None)
        dispatcher.set_levels(name, next((levels for (_, other), levels in known.items() if other == name), None))

    return tuple(
        Entry(resource, partial(put, resource), partial(drop, resource))
        for resource in (KUEUE_TOPOLOGIES, KAI_TOPOLOGIES)
    )
