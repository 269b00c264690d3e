"""Claims of `-f` in a dry run: those that the files hold, and those that controllers would create for the pods.

The controller of a StatefulSet creates a claim of each of its templates for each pod, and the one for ephemeral volumes
a claim for each of them. Claims that the cluster has already stay as they are; those that would be created without a
class get the default one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import structs

from bayplan.cluster.state import ClusterState
from bayplan.cluster.volumes.claims import has_class
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.object_set import ObjectSet, OtherObject
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.core_v1_volumes import PersistentVolumeClaim
from bayplan.workloads.plan import WorkloadPlan

Json = dict[str, Any]
STATEFUL_SET = "StatefulSet"


def claim_templates(others: Iterable[OtherObject]) -> dict[str, list[Json]]:
    """The claim templates of each StatefulSet, by its name."""
    found: dict[str, list[Json]] = {}
    for each in others:
        if each.kind == STATEFUL_SET:
            spec = each.decoded().get("spec") or {}
            found[each.metadata.name] = [one for one in spec.get("volumeClaimTemplates") or () if isinstance(one, dict)]
    return found


def take_claims(
    state: ClusterState,
    objects: ObjectSet,
    plans: Iterable[WorkloadPlan],
    templates: dict[str, list[Json]],
    namespace: str,
) -> None:
    """Add the storage objects of `-f`, and the claims that would be created for its pods."""
    for thing in objects.storage:
        if not isinstance(thing, PersistentVolumeClaim):
            state.volumes.set(thing)
    default = state.volumes.default_class()
    for claim in objects.storage:
        if isinstance(claim, PersistentVolumeClaim):
            metadata = structs.replace(claim.metadata, namespace=claim.metadata.namespace or namespace)
            state.volumes.set(_with_class(structs.replace(claim, metadata=metadata), default))
    created = [claim for pod in objects.pods for claim in _ephemeral(pod)]
    for plan in plans:
        of_set = templates.get(plan.about.name, []) if plan.about.kind == STATEFUL_SET else []
        for member in plan.members:
            created += [*_of_templates(member.pod, of_set), *_ephemeral(member.pod)]
    for claim in created:
        if state.volumes.claim(f"{claim.metadata.namespace}/{claim.metadata.name}") is None:
            state.volumes.set(_with_class(claim, default))


def _with_class(claim: PersistentVolumeClaim, default: str | None) -> PersistentVolumeClaim:
    """A claim as the API server admits it: without a class it gets the default one."""
    if default is None or has_class(claim):
        return claim
    return structs.replace(claim, spec=structs.replace(claim.spec, storage_class_name=default))


def _of_templates(pod: Pod, templates: list[Json]) -> Iterator[PersistentVolumeClaim]:
    for template in templates:
        name = (template.get("metadata") or {}).get("name", "")
        yield _claim(pod, f"{name}-{pod.metadata.name}", template)


def _ephemeral(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid, "controller": True}
    for volume in pod.spec.volumes or ():
        template = (volume.ephemeral or {}).get("volumeClaimTemplate")
        if isinstance(template, dict):
            yield _claim(pod, f"{pod.metadata.name}-{volume.name}", template, owner)


def _claim(pod: Pod, name: str, template: Json, owner: Json | None = None) -> PersistentVolumeClaim:
    spec, annotations = template.get("spec"), (template.get("metadata") or {}).get("annotations")
    metadata: Json = {"name": name, "namespace": pod.metadata.namespace or "default", "annotations": annotations}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    try:
        return msgspec.convert({"metadata": metadata, "spec": spec or {}}, PersistentVolumeClaim)
    except msgspec.ValidationError as error:
        where = ObjectPath(f"PersistentVolumeClaim {metadata['namespace']}/{name}")
        raise InvalidObject(where, f"would be created, but is invalid: {error}") from None
