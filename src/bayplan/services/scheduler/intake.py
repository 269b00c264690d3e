"""Feeds watch events from the API server into the dispatcher: one entry per resource, for lists, changes and malformed objects.

A `Listed` is complete: a known object that is not in it is gone, which is how deletions are noticed that happened during a gap in the
watch. An object with invalid content is remembered under `problems` with the sentence about it, until a valid version
arrives; all other objects are processed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.registry import AnyPodGroup, dialect_written_as
from bayplan.dialects.volcano.queue import VolcanoQueue
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.decoding import Broken, Changes, Listed
from bayplan.kube.client.watch import Absent
from bayplan.kube.errors import InvalidObject
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
from bayplan.kube.wire.core_v1 import Metadata, Namespace, Node, Pod
from bayplan.kube.wire.meta_v1 import WireObject
from bayplan.kube.wire.numatopology_v1alpha1 import Numatopology
from bayplan.kube.wire.topology_v1alpha2 import NodeResourceTopology

logger = logging.getLogger(__name__)

News = Listed[Any] | Changes[Any] | Absent

# kube-scheduler's own choice: a pod that has ended comes as a deletion.
ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """How objects of one resource are taken over and dropped; `required` resources must be listed before anything is decided.

    `unreadable` is for objects whose being there means something even if they cannot be read; others are then dropped.
    `foreign` ones are kinds of other systems: where bayplan has no right to read them, it is as if they were not installed.
    """

    resource: Resource[Any]
    put: Callable[[Any], object]
    drop: Callable[[str], None]
    unreadable: Callable[[str], None] | None = None
    required: bool = False
    foreign: bool = False
    field_selector: str = ""


class Intake:
    """Takes news over, and knows which objects are wrong."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._now = 0.0
        self.problems: dict[str, str] = {}
        # Resources that the API server has only in versions that bayplan cannot read, and these versions.
        self.unreadable: dict[Resource[Any], tuple[str, ...]] = {}
        # Resources of which a list has been taken over, or that are not there.
        self._listed: set[Resource[Any]] = set()
        # Of every object its uid and version.
        self._known: dict[Resource[Any], dict[str, tuple[str, int]]] = {}
        self.volcano_queue = VolcanoQueue(dispatcher.profiles)
        self.workloads = KubernetesWorkloads()
        self.entries = self._entries()
        self._by_resource = {entry.resource: entry for entry in self.entries}
        self._levels: dict[tuple[Resource[Any], str], tuple[str, ...]] = {}

    @property
    def ready(self) -> bool:
        """True once everything that must be known has been listed, and everything else is listed or absent."""
        return all(entry.resource in self._listed for entry in self.entries)

    def entry(self, resource: Resource[Any]) -> Entry:
        """How one resource is taken over."""
        return self._by_resource[resource]

    def not_listed_yet(self) -> Iterator[str]:
        """The resources that are still waited for."""
        return (str(entry.resource) for entry in self.entries if entry.resource not in self._listed)

    def take(self, resource: Resource[Any], news: News, now: float) -> None:
        """Take news about one resource over."""
        for _ in self.take_in_steps(resource, news, lambda: now):
            pass

    def take_in_steps(self, resource: Resource[Any], news: News, clock: Callable[[], float]) -> Iterator[Pod | None]:
        """Process events about one resource, object by object. Other work may run before each one; pods are yielded before they are processed."""
        entry = self._by_resource[resource]
        if isinstance(news, Changes):
            for change in news.changes:
                yield _pod_in(change.object)
                self._now = clock()
                if change.kind == "DELETED":
                    self._drop(entry, _key(change.object.metadata))
                else:
                    self._put(entry, change.object)
            yield None
            self._now = clock()
            self._note_broken(entry, news.broken)
            return
        self.unreadable.pop(resource, None)
        if isinstance(news, Absent) and news.unreadable:
            self.unreadable[resource] = news.unreadable
        items = news.items if isinstance(news, Listed) else []
        broken = news.broken if isinstance(news, Listed) else []
        here = {_key(item.metadata) for item in items} | {_key_of(each) for each in broken}
        for key in [key for key in self._known.get(resource, ()) if key not in here]:
            yield None
            self._now = clock()
            self._drop(entry, key)
        # A list is the current state, even with lower versions: the whole cluster may have been restored to an older state.
        self._known[resource] = {key: (uid, 0) for key, (uid, _) in self._known.get(resource, {}).items()}
        for item in items:
            yield _pod_in(item)
            self._now = clock()
            self._put(entry, item)
        yield None
        self._now = clock()
        self._note_broken(entry, broken)
        self._listed.add(resource)

    def _put(self, entry: Entry, thing: WireObject) -> None:
        metadata = thing.metadata
        key, version = _key(metadata), _version(metadata.resource_version)
        known = self._known.setdefault(entry.resource, {})
        uid, newest = known.get(key, ("", 0))
        if uid == metadata.uid and version < newest:
            return  # A list was faster than the watch.
        known[key] = (metadata.uid, version)
        try:
            entry.put(thing)
        except InvalidObject as error:
            self.problems[f"{entry.resource} {key}"] = str(error)
            self._cannot_read(entry, key)
        except Exception as error:
            # A bug of ours that one object brings to light must not stop the scheduler for all others.
            logger.exception("cannot take an object over", extra={"object": f"{entry.resource} {key}"})
            self.problems[f"{entry.resource} {key}"] = f"internal error: {error}"
        else:
            self.problems.pop(f"{entry.resource} {key}", None)

    def _drop(self, entry: Entry, key: str) -> None:
        self.problems.pop(f"{entry.resource} {key}", None)
        if self._safely(entry.drop, entry, key):
            self._known.get(entry.resource, {}).pop(key, None)

    @staticmethod
    def _safely(drop: Callable[[str], None], entry: Entry, key: str) -> bool:
        """Give back what an object stood for. False if a bug of ours prevents it: it stays known, so that the next list tries again."""
        try:
            drop(key)
        except Exception:
            logger.exception("cannot drop an object", extra={"object": f"{entry.resource} {key}"})
            return False
        return True

    def _cannot_read(self, entry: Entry, key: str) -> None:
        """Discard what an object said before; what it says now is unknown."""
        self._safely(entry.unreadable or entry.drop, entry, key)

    def _note_broken(self, entry: Entry, broken: list[Broken]) -> None:
        for each in broken:
            key = _key_of(each)
            if each.deleted:
                self._drop(entry, key)
            else:
                self.problems[f"{entry.resource} {key}"] = f"{entry.resource.kind} {key}: {each.problem}"
                self._cannot_read(entry, key)
                self._known.setdefault(entry.resource, {})[key] = ("", 0)

    # -- what each resource means ---------------------------------------------------------------------------------

    def _entries(self) -> tuple[Entry, ...]:
        """In the order in which they are listed: pods and reports that come before their node would be strays for a while."""
        state, reports = self._dispatcher.state, self._dispatcher.reports
        return (
            Entry(NODES, self._put_node, state.remove_node, required=True),
            Entry(NAMESPACES, self._put_namespace, self._dispatcher.remove_namespace, required=True),
            Entry(PODS, self._put_pod, self._drop_pod, required=True, field_selector=ALIVE),
            Entry(NODE_RESOURCE_TOPOLOGIES, self._put_report, reports.topology_gone, self._report_unreadable),
            Entry(
                NUMATOPOLOGIES,
                self._put_numatopology,
                reports.numatopology_gone,
                self._numatopology_unreadable,
                foreign=True,
            ),
            *(
                Entry(
                    resource,
                    self._put_group,
                    partial(self._drop_group, resource),
                    partial(self._group_unreadable, resource),
                    foreign=resource is not POD_GROUPS,
                )
                for resource in pod_groups().values()
            ),
            Entry(KUBERNETES_WORKLOADS, self.workloads.put, self.workloads.remove, foreign=True),
            Entry(VOLCANO_JOBS, self.volcano_queue.set_job, self.volcano_queue.remove_job, foreign=True),
            *(
                Entry(resource, partial(self._put_levels, resource), partial(self._drop_levels, resource))
                for resource in (KUEUE_TOPOLOGIES, KAI_TOPOLOGIES)
            ),
            Entry(HYPER_NODES, self._dispatcher.set_hyper_node, self._dispatcher.remove_hyper_node, foreign=True),
        )

    def _put_node(self, node: Node) -> None:
        self._dispatcher.state.set_node(node, at=self._now)

    def _put_namespace(self, namespace: Namespace) -> None:
        self._dispatcher.set_namespace(namespace.metadata.name, namespace.metadata.labels or {})

    def _put_pod(self, pod: Pod) -> None:
        self._dispatcher.set_pod(pod, self._now)

    def _drop_pod(self, key: str) -> None:
        self._dispatcher.remove_pod(key, self._now)

    def _put_report(self, report: NodeResourceTopology) -> None:
        self._dispatcher.reports.topology(report, self._now)

    def _report_unreadable(self, node: str) -> None:
        self._dispatcher.reports.topology_unreadable(node, self._now)

    def _numatopology_unreadable(self, node: str) -> None:
        self._dispatcher.reports.numatopology_unreadable(node, self._now)

    def _put_numatopology(self, report: Numatopology) -> None:
        self._dispatcher.reports.numatopology(report, self._now)

    def _put_group(self, written: AnyPodGroup) -> None:
        self._dispatcher.set_group(written, self._now)
        if isinstance(written, volcano_scheduling_v1beta1.PodGroup):
            self.volcano_queue.set_group(written)

    def _group_unreadable(self, resource: Resource[Any], name: str) -> None:
        """Tell pods that name it what is wrong with it, and not that it does not exist."""
        problem = self.problems[f"{resource} {name}"].removeprefix(f"{resource.kind} {name}: ")
        self._drop_group(resource, name, problem)

    def _drop_group(self, resource: Resource[Any], name: str, unreadable: str = "") -> None:
        self._dispatcher.remove_group(dialect_written_as(resource.type).key(name), self._now, unreadable)
        if resource is VOLCANO_POD_GROUPS:
            self.volcano_queue.remove_group(name)

    def _put_levels(self, resource: Resource[Any], topology: Topology) -> None:
        name = topology.metadata.name
        levels = levels_of(topology)
        self._levels[resource, name] = levels
        self._dispatcher.set_levels(name, levels)

    def _drop_levels(self, resource: Resource[Any], name: str) -> None:
        self._levels.pop((resource, name), None)
        # Kueue and KAI may each have a Topology of this name.
        left = next((levels for (_, other), levels in self._levels.items() if other == name), None)
        self._dispatcher.set_levels(name, left)


def _pod_in(thing: WireObject) -> Pod | None:
    return thing if isinstance(thing, Pod) else None


def _key(metadata: Metadata) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def _version(text: str) -> int:
    """Versions are numbers that grow; where a server has others, everything counts as news."""
    return int(text) if text.isdecimal() else 0


def _key_of(broken: Broken) -> str:
    return f"{broken.namespace}/{broken.name}" if broken.namespace else broken.name
