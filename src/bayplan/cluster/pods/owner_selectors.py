"""Selectors of Services and controllers: which pods belong together, for default spread constraints.

Services, ReplicationControllers, ReplicaSets and StatefulSets come in as the cluster shows them. Out comes, for a pod,
the selector that kube-scheduler deduces: the labels of all Services that select it, and the selector of its controller.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.cluster.pods.label_selectors import EVERYTHING, AnchoredIndex, Requirement, Selector, selector_of
from bayplan.cluster.pods.terms import labels_of, namespace_of
from bayplan.kube.wire.apps_v1 import API_VERSION as APPS
from bayplan.kube.wire.apps_v1 import ReplicaSet, StatefulSet
from bayplan.kube.wire.core_v1 import Pod, ReplicationController, Service

Controller = ReplicationController | ReplicaSet | StatefulSet
OWNERS: Mapping[tuple[str, str], type[Controller]] = {
    ("v1", "ReplicationController"): ReplicationController,
    (APPS, "ReplicaSet"): ReplicaSet,
    (APPS, "StatefulSet"): StatefulSet,
}


class OwnerSelectors:
    """Selectors by the objects that have them."""

    def __init__(self) -> None:
        self._services: dict[str, Selector] = {}
        self._services_in: dict[str, AnchoredIndex[str]] = {}
        self._controllers: dict[tuple[type[Controller], str], Selector] = {}

    def set(self, owner: Service | Controller) -> None:
        """Take over an object."""
        key = f"{owner.metadata.namespace or 'default'}/{owner.metadata.name}"
        if isinstance(owner, Service):
            self._set_service(key, owner.spec.selector)
        elif isinstance(owner, ReplicationController):
            self._controllers[type(owner), key] = _selector(owner.spec.selector or {})
        else:
            self._controllers[type(owner), key] = selector_of(owner.spec.selector)

    def remove(self, kind: type[Service | Controller], key: str) -> None:
        """An object is gone."""
        if issubclass(kind, Service):
            self._set_service(key, None)
        else:
            self._controllers.pop((kind, key), None)

    def of(self, pod: Pod) -> Selector:
        """What selects a pod together with those like it; `EVERYTHING` if nothing does."""
        namespace, labels = namespace_of(pod), labels_of(pod)
        services = self._services_in.get(namespace)
        selector = EVERYTHING
        for key in services.for_labels(labels) if services else ():
            if self._services[key].matches(labels):
                selector = selector.narrowed(self._services[key].requirements or ())
        owner = next((each for each in pod.metadata.owner_references or () if each.controller), None)
        kind = OWNERS.get((owner.api_version, owner.kind)) if owner is not None else None
        if owner is not None and kind is not None:
            own = self._controllers.get((kind, f"{namespace}/{owner.name}"), EVERYTHING)
            selector = selector.narrowed(own.requirements or ())
        return selector

    def _set_service(self, key: str, labels: Mapping[str, str] | None) -> None:
        """A Service without a selector selects nothing."""
        namespace = key.partition("/")[0]
        index = self._services_in.setdefault(namespace, AnchoredIndex())
        before = self._services.pop(key, None)
        if before is not None:
            index.discard(key, before.anchors())
        if labels is not None:
            selector = self._services[key] = _selector(labels)
            index.add(key, selector.anchors())
        if not index:
            del self._services_in[namespace]


def _selector(labels: Mapping[str, str]) -> Selector:
    return EVERYTHING.narrowed(Requirement(key, "In", (value,)) for key, value in labels.items())
