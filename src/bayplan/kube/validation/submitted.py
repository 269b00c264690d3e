"""Which rules apply to an object that a user submits: a pod's, those of a built-in workload, or those of the pod
templates inside any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation.custom_workloads import custom_field_faults, custom_field_warnings
from bayplan.kube.validation.fields import UnknownField, field_faults
from bayplan.kube.validation.metadata import built_in_metadata_faults, metadata_faults
from bayplan.kube.validation.pod import pod_faults, template_faults
from bayplan.kube.validation.resources import byte_fractions
from bayplan.kube.validation.rules import part
from bayplan.kube.validation.storage import CLAIM, CLASS, VOLUME, storage_faults
from bayplan.kube.validation.workloads import built_in_faults, selector_warnings

_PLANNING = "bayplan.io/"  # its pods are shapes to plan with: they need neither names nor images
APPS = "apps/v1"
_BUILT_IN = {
    APPS: ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    "batch/v1": ("Job", "CronJob"),
    "v1": (CLAIM, VOLUME),
    "storage.k8s.io/v1": (CLASS,),
}


def submitted_faults(document: Any, kind: str, api_version: str, at: ObjectPath) -> list[InvalidObject]:
    """Everything that an API server would refuse in a document of a kind, as far as bayplan knows the kind.

    `at` names the object.
    """
    if kind == "Pod" and not api_version.rpartition("/")[0]:
        return pod_faults(document, at)
    if not api_version:
        return [InvalidObject(at.child("apiVersion"), "is missing")]
    group = api_version.partition("/")[0]
    built_in = next((each for each in _BUILT_IN if each.partition("/")[0] == group), "")
    if kind in _BUILT_IN.get(built_in, ()):
        if api_version != built_in:
            return [InvalidObject(at.child("apiVersion"), f'"{api_version}" is not served; expected {built_in}')]
        return _built_in_object_faults(document, kind, at)
    if api_version.startswith(_PLANNING):
        return _planning_faults(document, group, at)
    return _custom_faults(document, kind, api_version, at)


def _built_in_object_faults(document: Any, kind: str, at: ObjectPath) -> list[InvalidObject]:
    """Of a workload, or an object of storage, that is a kind of Kubernetes itself."""
    found = list(field_faults(document, kind, at))
    if _is_well_formed(found):
        found += built_in_metadata_faults(part(document, "metadata") or {}, at.child("metadata"))
        found += (storage_faults if kind in (CLAIM, VOLUME, CLASS) else built_in_faults)(document, kind, at)
    return _with_templates(found, document, at, claims=kind == "StatefulSet")


def _planning_faults(document: Any, group: str, at: ObjectPath) -> list[InvalidObject]:
    """Of a kind of ours, whose pods need neither names nor images."""
    found = list(_custom_metadata_faults(document, group, at))
    for shape, place in pod_templates(document, at):
        found += field_faults(shape["spec"], "PodSpec", place.child("spec"))
    return found


def _custom_faults(document: Any, kind: str, api_version: str, at: ObjectPath) -> list[InvalidObject]:
    """Of any other kind, which may have pod templates inside."""
    found = list(_custom_metadata_faults(document, api_version.partition("/")[0], at))
    found += custom_field_faults(document, kind, api_version, at)
    return _with_templates(found, document, at)


def _with_templates(
    found: list[InvalidObject], document: Any, at: ObjectPath, *, claims: bool = False
) -> list[InvalidObject]:
    """The faults of a document with those of its pod templates, unless values have wrong types.

    With `claims`, the pods have volumes for claim templates.
    """
    if not _is_well_formed(found):
        return found
    for template, place in pod_templates(document, at):
        whole = _with_claims(template, document) if claims else template
        found += [fault for fault in template_faults(whole, place) if str(fault) not in map(str, found)]
    return found


def _is_well_formed(faults: Iterable[InvalidObject]) -> bool:
    """True if every value has the type that its field has."""
    return all(isinstance(fault, UnknownField) for fault in faults)


def _custom_metadata_faults(document: Any, group: str, at: ObjectPath) -> Iterator[InvalidObject]:
    """The metadata of a custom resource. Some kinds of Kubernetes have other rules for names."""
    if "." not in group or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io")):
        return
    at = at.child("metadata")
    found = list(field_faults(document.get("metadata"), "ObjectMeta", at))
    yield from found
    if _is_well_formed(found):
        yield from metadata_faults(part(document, "metadata") or {}, at)


def _with_claims(template: Any, document: Any) -> Any:
    """The template of a StatefulSet with a volume for each of its claim templates, as its pods have them."""
    spec, claims = template["spec"], (part(document, "spec") or {}).get("volumeClaimTemplates") or ()
    names = [(part(claim, "metadata") or {}).get("name") for claim in claims if isinstance(claim, dict)]
    known = spec.get("volumes") or []
    taken = {each.get("name") for each in known if isinstance(each, dict)}
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names if name not in taken]
    return {**template, "spec": {**spec, "volumes": [*known, *added]}} if added else template


def submitted_warnings(document: Any, kind: str, api_version: str, at: ObjectPath) -> Iterator[InvalidObject]:
    """What a user should know about a document without faults that is planned nevertheless."""
    if api_version == APPS:
        yield from selector_warnings(document, at)
    yield from custom_field_warnings(document, kind, api_version, at)
    if kind == "Pod":
        yield from byte_fractions(part(document, "spec") or {}, at.child("spec"))
    else:
        for template, place in pod_templates(document, at):
            yield from byte_fractions(template["spec"], place.child("spec"))


def pod_templates(value: Any, at: ObjectPath) -> Iterator[tuple[Any, ObjectPath]]:
    """The pod templates inside an object of any kind: whatever has a spec with containers."""
    if isinstance(value, dict):
        spec = value.get("spec")
        if at.field and isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield value, at
            return
        for key, each in value.items():
            yield from pod_templates(each, at.child(str(key)))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from pod_templates(each, at.item(index))
