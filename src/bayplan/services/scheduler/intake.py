"""Feed watch events into the dispatcher: lists, changes and malformed objects of every resource.

A `Listed` is complete: known objects that it lacks are gone, which covers deletions during a gap in the watch.
Objects with invalid content are kept under `problems` until a valid version arrives; others are unaffected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from bayplan.cluster.pods.pod_class import is_large
from bayplan.cluster.reports.intake import ReportIntake
from bayplan.cluster.state import ClusterState
from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.registry import AnyPodGroup, dialect_written_as
from bayplan.dialects.volcano.queue import VolcanoQueue
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.extensions import BrokenExtension
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
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    SELECTING,
    STORAGE,
    VOLCANO_JOBS,
    VOLCANO_POD_GROUPS,
    Resource,
    pod_groups,
)
from bayplan.kube.topology_levels import KAI, KUEUE, Topology, aliases_of, levels_of
from bayplan.kube.wire import volcano_scheduling_v1beta1
from bayplan.kube.wire.core_v1 import Metadata, Namespace, Pod
from bayplan.kube.wire.meta_v1 import WireObject
from bayplan.services.scheduler.announcing.remarks import ObjectProblems

logger = logging.getLogger(__name__)

# Bytes of JSON; reports of large machines have 30 kB.
LARGE_OBJECT = 64 << 10
News = Listed[Any] | Changes[Any] | Absent

# As in kube-scheduler: a pod that ended arrives as a deletion.
ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """How objects of one resource are applied and dropped, each with the time as the last argument.

    `unreadable(key, problem, now)` replaces `drop` where an unreadable object still matters. `required` resources are
    listed before the next one. `foreign` kinds of other systems count as not installed where RBAC forbids them.
    `served` hears whether the API server has the kind. `settles_invalid`: `put` has dealt with an invalid object before
    it raises, so nothing is dropped.
    """

    resource: Resource[Any]
    put: Callable[[Any, float], object]
    drop: Callable[[str, float], object]
    unreadable: Callable[[str, str, float], object] | None = None
    required: bool = False
    foreign: bool = False
    field_selector: str = ""
    served: Callable[[bool], object] = lambda _: None
    settles_invalid: bool = False


class WatchIntake:
    """Applies watch events, and remembers invalid objects."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.problems = ObjectProblems()
        # Resources that the API server serves only in versions that bayplan cannot read.
        self.unreadable: dict[Resource[Any], tuple[str, ...]] = {}
        self.entries = entries
        self._by_resource = {entry.resource: entry for entry in self.entries}
        # Resources that were listed or are absent.
        self._listed: set[Resource[Any]] = set()
        # The uid and version of every object.
        self._known: dict[Resource[Any], dict[str, tuple[str, int]]] = {}

    @property
    def ready(self) -> bool:
        """True once every resource is listed or absent."""
        return all(entry.resource in self._listed for entry in self.entries)

    def entry(self, resource: Resource[Any]) -> Entry:
        """How one resource is applied."""
        return self._by_resource[resource]

    def is_listed(self, resource: Resource[Any]) -> bool:
        """True once a resource is listed or absent."""
        return resource in self._listed

    def not_listed_yet(self) -> Iterator[str]:
        """Resources without a list so far."""
        return (str(entry.resource) for entry in self.entries if entry.resource not in self._listed)

    def take(self, resource: Resource[Any], news: News, now: float) -> None:
        """Apply news about one resource."""
        for _ in self.take_in_steps(resource, news, lambda: now):
            pass

    def take_in_steps(
        self, resource: Resource[Any], news: News, clock: Callable[[], float]
    ) -> Iterator[WireObject | None]:
        """Apply news object by object. Each is yielded before it is applied, so that the caller can run other work or
        move to a thread.
        """
        entry = self._by_resource[resource]
        if isinstance(news, Changes):
            for change in news.changes:
                yield change.object
                if change.kind == "DELETED":
                    self._drop(entry, _key(change.object.metadata), clock())
                else:
                    self._put(entry, change.object, clock())
            yield from self._note_broken(entry, news.broken, clock)
            return
        self.unreadable.pop(resource, None)
        if isinstance(news, Absent) and news.unreadable:
            self.unreadable[resource] = news.unreadable
        entry.served(isinstance(news, Listed))
        items = news.items if isinstance(news, Listed) else []
        broken = news.broken if isinstance(news, Listed) else []
        here = {_key(item.metadata) for item in items} | {_key(each) for each in broken}
        yield None
        for key in [key for key in self._known.get(resource, ()) if key not in here]:
            yield None
            self._drop(entry, key, clock())
        yield None
        # A list is the current state even with lower versions: the cluster may have been restored from a backup.
        before = self._known.get(resource, {})
        known = self._known[resource] = {key: (uid, 0) for key, (uid, _) in before.items()}
        delivered = news.delivered if isinstance(news, Listed) else 0
        for number, item in enumerate(items):
            key, revision = _key(item.metadata), _revision(item.metadata)
            if number < delivered and before.get(key) == revision:
                known[key] = revision  # applied with its page
                yield None
            else:
                yield item
                self._put(entry, item, clock())
        yield from self._note_broken(entry, broken, clock)
        self._listed.add(resource)

    def _put(self, entry: Entry, thing: WireObject, now: float) -> None:
        metadata = thing.metadata
        key, revision = _key(metadata), _revision(metadata)
        known = self._known.setdefault(entry.resource, {})
        uid, newest = known.get(key, ("", 0))
        if uid == metadata.uid and newest > revision[1]:
            return  # a list was faster than the watch
        known[key] = revision
        try:
            entry.put(thing, now)
        except (InvalidObject, BrokenExtension) as error:
            if entry.settles_invalid:
                self.problems.set(f"{entry.resource} {key}", str(error))
            else:
                self._cannot_read(entry, key, str(error), now)
        except Exception as error:
            # A bug triggered by one object must not stop the scheduler for others.
            logger.exception("failed to apply object", extra={"object": f"{entry.resource} {key}"})
            self.problems.set(f"{entry.resource} {key}", f"internal error: {error}")
        else:
            if self.problems:  # formatting the name takes a tenth as long as applying a pod
                self.problems.withdraw(f"{entry.resource} {key}")

    def _drop(self, entry: Entry, key: str, now: float) -> None:
        self.problems.withdraw(f"{entry.resource} {key}")
        if _succeeds(lambda: entry.drop(key, now), f"{entry.resource} {key}"):
            self._known.get(entry.resource, {}).pop(key, None)

    def _cannot_read(self, entry: Entry, key: str, problem: str, now: float) -> None:
        """Discard the last readable version of an object."""
        self.problems.set(f"{entry.resource} {key}", problem)
        unreadable, text = entry.unreadable, problem.removeprefix(f"{entry.resource.kind} {key}: ")
        discard = partial(entry.drop, key, now) if unreadable is None else partial(unreadable, key, text, now)
        _succeeds(discard, f"{entry.resource} {key}")

    def _note_broken(self, entry: Entry, broken: list[Broken], clock: Callable[[], float]) -> Iterator[None]:
        for each in broken:
            yield None
            key = _key(each)
            if each.deleted:
                self._drop(entry, key, clock())
            else:
                self._cannot_read(entry, key, f"{entry.resource.kind} {key}: {each.problem}", clock())
                self._known.setdefault(entry.resource, {})[key] = ("", 0)


class Intake(WatchIntake):
    """The intake of a scheduler: everything that its dispatcher needs to know."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.volcano_queue = VolcanoQueue(dispatcher.profiles)
        self.workloads = KubernetesWorkloads()
        super().__init__(entries_of(dispatcher, self.workloads, self.volcano_queue))


def _succeeds(drop: Callable[[], object], about: str) -> bool:
    """Drop an object; False after a bug. It then stays known, so that the next list tries again."""
    try:
        drop()
    except Exception:
        logger.exception("failed to drop object", extra={"object": about})
        return False
    return True


def takes_long(coming: object) -> bool:
    """True if an object is so large that applying it would hold up the event loop: a report of thousands of devices."""
    if isinstance(coming, Pod):
        return is_large(coming)
    return isinstance(coming, msgspec.Struct) and len(msgspec.json.encode(coming)) > LARGE_OBJECT


def _key(named: Metadata | Broken) -> str:
    return f"{named.namespace}/{named.name}" if named.namespace else named.name


def _revision(metadata: Metadata) -> tuple[str, int]:
    """The uid and the resource version as a number; 0 if it is not one, so that every object counts as newer."""
    version = metadata.resource_version
    return metadata.uid, int(version) if version.isdecimal() else 0


# -- resources -------------------------------------------------------------------------------------------------------


def entries_of(
    dispatcher: Dispatcher, workloads: KubernetesWorkloads, volcano_queue: VolcanoQueue
) -> tuple[Entry, ...]:
    """All entries in list order: a pod or report that arrives before its node would be a stray for a while."""

    def put_namespace(namespace: Namespace, _: float) -> None:
        dispatcher.set_namespace(namespace.metadata.name, namespace.metadata.labels or {})

    return (
        node_entry(dispatcher.state),
        Entry(NAMESPACES, put_namespace, _timeless(dispatcher.remove_namespace), required=True),
        Entry(PODS, dispatcher.set_pod, dispatcher.remove_pod, required=True, field_selector=ALIVE),
        *report_entries(dispatcher.reports),
        *(_storage_entry(resource, dispatcher) for resource in STORAGE),
        *(_group_entry(resource, dispatcher, volcano_queue) for resource in pod_groups().values()),
        Entry(KUBERNETES_WORKLOADS, _timeless(workloads.put), _timeless(workloads.remove), foreign=True),
        Entry(VOLCANO_JOBS, _timeless(volcano_queue.set_job), _timeless(volcano_queue.remove_job), foreign=True),
        *_level_entries(dispatcher),
        _budget_entry(dispatcher),
        *_selecting_entries(dispatcher),
        Entry(HYPER_NODES, _timeless(dispatcher.set_hyper_node), _timeless(dispatcher.remove_hyper_node), foreign=True),
    )


def node_entry(state: ClusterState) -> Entry:
    """Nodes."""
    return Entry(NODES, lambda node, now: state.set_node(node, at=now), _timeless(state.remove_node), required=True)


def report_entries(reports: ReportIntake) -> tuple[Entry, Entry]:
    """The nodes' reports in both forms."""
    return (
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
    )


def _timeless(apply: Callable[[Any], object]) -> Callable[[Any, float], object]:
    return lambda thing, _: apply(thing)


def _storage_entry(resource: Resource[Any], dispatcher: Dispatcher) -> Entry:
    drop = partial(dispatcher.remove_storage, resource.type)
    return Entry(resource, _timeless(dispatcher.set_storage), _timeless(drop))


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

    dialect = dialect_written_as(resource.type).name
    return Entry(
        resource,
        put,
        drop,
        unreadable,
        foreign=resource is not POD_GROUPS,
        served=lambda here: dispatcher.roster.set_served(dialect, served=here),
    )


def _budget_entry(dispatcher: Dispatcher) -> Entry:
    """PodDisruptionBudgets. Where RBAC forbids them nothing is lost: the API server enforces them at every eviction."""
    budgets = dispatcher.preempting.budgets
    return Entry(
        POD_DISRUPTION_BUDGETS,
        _timeless(dispatcher.set_budget),
        _timeless(dispatcher.remove_budget),
        lambda key, _, __: budgets.set_unreadable(key),
        foreign=True,
        settles_invalid=True,
    )


def _selecting_entries(dispatcher: Dispatcher) -> Iterator[Entry]:
    """Services and controllers, if a profile has default spread constraints. Where RBAC forbids them, none apply."""
    if all(profile.spread is None for profile in dispatcher.profiles.values()):
        return
    selectors = dispatcher.state.owner_selectors
    for resource in SELECTING:
        yield Entry(
            resource, _timeless(selectors.set), _timeless(partial(selectors.remove, resource.type)), foreign=True
        )


def _level_entries(dispatcher: Dispatcher) -> tuple[Entry, ...]:
    """Topologies of Kueue and KAI, which may each have one of the same name."""

    def put(system: str, topology: Topology, _: float) -> None:
        dispatcher.set_levels(topology.metadata.name, levels_of(topology), aliases_of(topology), system)

    def drop(system: str, name: str, _: float) -> None:
        dispatcher.set_levels(name, None, system=system)

    return tuple(
        Entry(resource, partial(put, system), partial(drop, system))
        for resource, system in ((KUEUE_TOPOLOGIES, KUEUE), (KAI_TOPOLOGIES, KAI))
    )
