"""A cluster that runs, as the page shows it: kept current object by object, as the scheduler keeps its own state.

Watches bring news on the event loop; `show` applies them in a thread, so that a state costs what has changed since the
last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from time import time
from typing import Any

from bayplan.cli.web_answers.catalogue import GROUP, NAMESPACE, POD
from bayplan.cli.web_answers.scene import Opener, Scene
from bayplan.cluster.loading import note_misspelt_resources, note_unknown_effects
from bayplan.kube.client.live import News
from bayplan.kube.errors import ObjectPath
from bayplan.kube.object_set import ObjectSet
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
    STORAGE,
    Resource,
    pod_groups,
)
from bayplan.kube.wire.core_v1 import Namespace, Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.services.scheduler.intake import Entry, WatchIntake

# What the trees of the map are made of, besides nodes.
LEVELS = (KUEUE_TOPOLOGIES, KAI_TOPOLOGIES, HYPER_NODES)


class LiveScene(Scene):
    """A follower of `kube/client/live.py`; `on_show` is called after each new state."""

    def __init__(self, open_session: Opener, on_show: Callable[[], None]) -> None:
        super().__init__(ObjectSet(), open_session)
        self._on_show = on_show
        self._news: SimpleQueue[tuple[Resource[Any], News]] = SimpleQueue()
        self._things: dict[Resource[Any], dict[str, Any]] = {}
        self._intake = WatchIntake(self._entries())
        # Nodes before what is on them, so that nothing is a stray for a while.
        self._order = {entry.resource: number for number, entry in enumerate(self._intake.entries)}

    def take(self, resource: Resource[Any], news: News) -> None:
        """Keep news until the next state."""
        self._news.put((resource, news))

    def show(self) -> None:
        """Apply all news."""
        with self.lock:
            now, coming = time(), sorted(self._coming(), key=lambda each: self._order[each[0]])
            for resource, news in coming:
                self._intake.take(resource, news, now)
            self.session.state.time_passed(now)
            self._read = self.session.objects = self._objects()
            if any(resource in LEVELS for resource, _ in coming):
                self.session.__dict__.pop("trees", None)
        self._on_show()

    def _coming(self) -> Iterator[tuple[Resource[Any], News]]:
        while True:
            try:
                yield self._news.get_nowait()
            except Empty:
                return

    def problems(self) -> list[str]:
        """What users should know, objects that could not be read among it."""
        unreadable = [
            f"not used: {resource.kind} of {', '.join(each)}" for resource, each in self._intake.unreadable.items()
        ]
        return [*self._intake.problems.values(), *unreadable, *super().problems()]

    # -- resources -------------------------------------------------------------------------------------------------

    def _entries(self) -> tuple[Entry, ...]:
        state = self.session.state
        return (
            self._entry(NAMESPACES, self._put_namespace, lambda name, _: state.neighbours.remove_namespace(name)),
            self._entry(NODES, self._put_node, lambda name, _: state.remove_node(name)),
            self._entry(PODS, self._put_pod, lambda key, now: state.remove_pod(key, at=now)),
            self._entry(
                NODE_RESOURCE_TOPOLOGIES,
                self._put_topology,
                lambda node, _: state.remove_topology(node),
                lambda node, _, now: state.set_unreadable_topology(node, at=now),
            ),
            self._entry(
                NUMATOPOLOGIES,
                lambda thing, now: state.set_numatopology(thing, at=now),
                lambda node, _: state.remove_numatopology(node),
                lambda node, _, now: state.set_unreadable_numatopology(node, at=now),
            ),
            *(self._storage_entry(resource) for resource in STORAGE),
            *(self._entry(resource) for resource in pod_groups().values()),
            *(self._entry(resource) for resource in (*LEVELS, KUBERNETES_WORKLOADS)),
        )

    def _entry(
        self,
        resource: Resource[Any],
        put: Callable[[Any, float], object] = lambda _, __: None,
        drop: Callable[[str, float], object] = lambda _, __: None,
        unreadable: Callable[[str, str, float], object] | None = None,
    ) -> Entry:
        """Objects are kept, besides what `put` and `drop` do with them."""
        things = self._things.setdefault(resource, {})
        kinds: dict[Resource[Any], str] = {
            NAMESPACES: NAMESPACE,
            PODS: POD,
            **dict.fromkeys(pod_groups().values(), GROUP),
        }
        kind = kinds.get(resource)

        def take(thing: Any, now: float) -> None:
            self._withdraw_remarks(ObjectPath.of(thing).subject)
            put(thing, now)
            metadata = thing.metadata
            things[f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name] = thing
            if kind is not None:
                self.catalogue.put(kind, thing)

        def forget(key: str, now: float) -> None:
            self._withdraw_remarks(f"{resource.type.__name__} {key}")
            drop(key, now)
            things.pop(key, None)
            if kind is not None:
                self.catalogue.drop(kind, key)

        return Entry(resource, take, forget, unreadable)

    def _withdraw_remarks(self, subject: str) -> None:
        """Remarks on an object that has changed or is gone."""
        remarks = self.session.state.remarks
        for remark in [each for each in remarks if each.at.subject == subject] if len(remarks) else ():
            remarks.withdraw(remark)

    def _storage_entry(self, resource: Resource[Any]) -> Entry:
        volumes = self.session.state.volumes
        return self._entry(
            resource, lambda thing, _: volumes.set(thing), lambda key, _: volumes.remove(resource.type, key)
        )

    def _put_namespace(self, namespace: Namespace, _: float) -> None:
        self.session.state.neighbours.set_namespace(namespace.metadata.name, namespace.metadata.labels or {})

    def _put_node(self, node: Node, now: float) -> None:
        self.session.state.set_node(node, at=now)
        note_unknown_effects(self.session.state, node)

    def _put_pod(self, pod: Pod, now: float) -> None:
        state, key = self.session.state, f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        known = self._things[PODS].get(key)
        if known is not None and known.metadata.uid != pod.metadata.uid:
            state.remove_pod(key, at=now)
        state.set_pod(pod, at=now)

    def _put_topology(self, topology: NodeResourceTopology, now: float) -> None:
        state = self.session.state
        state.set_topology(topology, at=now)
        row = state.rows.get(topology.metadata.name)
        if row is not None:
            note_misspelt_resources(state, topology, row)

    def _objects(self) -> ObjectSet:
        def listed(*resources: Resource[Any]) -> list[Any]:
            return [thing for resource in resources for thing in self._things[resource].values()]

        others = [each for each in pod_groups().values() if each is not POD_GROUPS]
        return ObjectSet(
            nodes=[node for node in self.session.state.nodes if node is not None],
            pods=listed(PODS),
            namespaces=listed(NAMESPACES),
            topologies=listed(NODE_RESOURCE_TOPOLOGIES),
            numatopologies=listed(NUMATOPOLOGIES),
            levels=listed(KUEUE_TOPOLOGIES, KAI_TOPOLOGIES),
            hyper_nodes=listed(HYPER_NODES),
            gangs=listed(POD_GROUPS),
            other_gangs=listed(*others),
            kubernetes_workloads=listed(KUBERNETES_WORKLOADS),
            storage=listed(*STORAGE),
        )
