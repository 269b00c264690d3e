"""Environment variables of a container, and where their values come from."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation import names
from bayplan.kube.validation.rules import (
    Faults,
    Json,
    amount,
    choice,
    entries,
    missing,
    named,
    optional,
    part,
    required,
    text,
)

SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
FIELDS_OF_VARIABLES = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
FIELDS_OF_FILES = (
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "metadata.annotations",
    "metadata.uid",
)
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_SIZES = frozenset(("1", *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))))
_CPU_PARTS = frozenset(("1m", "1"))


def faults(container: Json, volumes: Mapping[str, Json], at: ObjectPath) -> Faults:
    """`env` and `envFrom` of a container; `at` is its place."""
    for variable, place in entries(container, "env", at):
        yield from required(variable, "name", place, names.variable_name)
        source = part(variable, "valueFrom")
        if source is not None:
            yield from _source_faults(variable, source, volumes, place.child("valueFrom"))
    for origin, place in entries(container, "envFrom", at):
        yield from optional(origin, "prefix", place, names.variable_name)
        present = [field for field in ("configMapRef", "secretRef") if part(origin, field) is not None]
        if len(present) != 1:
            yield InvalidObject(place, "must have one of configMapRef and secretRef")
        for field in present:
            yield from required(origin[field], "name", place.child(field), names.dns_subdomain)


def _source_faults(variable: Json, source: Json, volumes: Mapping[str, Json], at: ObjectPath) -> Faults:
    present = [field for field in SOURCES if part(source, field) is not None]
    if not present:
        yield InvalidObject(at, f"must have one of {', '.join(SOURCES)}")
    elif text(variable, "value"):
        yield InvalidObject(at, "is not allowed beside a value")
    elif len(present) > 1:
        yield InvalidObject(at, f"must have only one of {', '.join(present)}")
    for field in present:
        place, reference = at.child(field), source[field]
        match field:
            case "fieldRef":
                yield from field_ref_faults(reference, FIELDS_OF_VARIABLES, place)
            case "resourceFieldRef":
                yield from resource_ref_faults(reference, place, needs_container=False)
            case "fileKeyRef":
                yield from _file_key_faults(reference, volumes, place)
            case _:
                yield from named(text(reference, "name"), names.dns_subdomain, place.child("name"))
                yield from required(reference, "key", place, names.config_key)


def _file_key_faults(reference: Json, volumes: Mapping[str, Json], at: ObjectPath) -> Faults:
    yield from required(reference, "key", at, names.variable_name)
    yield from required(reference, "volumeName", at, names.dns_label)
    yield from required(reference, "path", at, names.no_backsteps)
    volume = volumes.get(text(reference, "volumeName"))
    if volume is None or volume.get("emptyDir") is None:
        yield InvalidObject(
            at.child("volumeName"), f'"{text(reference, "volumeName")}" is no emptyDir volume of this pod'
        )


def field_ref_faults(reference: Json, allowed: tuple[str, ...], at: ObjectPath) -> Faults:
    """A field of the pod as a variable or file."""
    version, written = text(reference, "apiVersion", "v1"), text(reference, "fieldPath")
    if not written:
        yield missing(at.child("fieldPath"))
        return
    if version != "v1":
        yield InvalidObject(at.child("fieldPath"), f'apiVersion "{version}" is not allowed: must be v1')
        return
    path, bracket, subscript = written.partition("['")
    if bracket and written.endswith("']"):
        key = subscript.removesuffix("']")
        if path == "metadata.annotations":
            yield from named(key.lower(), names.qualified_name, at)
        elif path == "metadata.labels":
            yield from named(key, names.qualified_name, at)
        else:
            yield InvalidObject(
                at.child("fieldPath"), f'"{written}" is not allowed: only labels and annotations have keys'
            )
    else:
        yield from choice("spec.nodeName" if written == "spec.host" else written, allowed, at.child("fieldPath"))


def resource_ref_faults(reference: Json, at: ObjectPath, *, needs_container: bool) -> Faults:
    """An amount of a container as a variable or file."""
    resource = text(reference, "resource")
    if needs_container and not text(reference, "containerName"):
        yield missing(at.child("containerName"))
    elif not resource:
        yield missing(at.child("resource"))
    elif not resource.startswith(_HUGE_PAGES):
        yield from choice(resource, _RESOURCES, at.child("resource"))
    divisor = amount(reference.get("divisor"))
    if divisor.is_zero or not resource.startswith(("limits.", "requests.")):
        return
    kind = resource.partition(".")[2]
    if resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        return
    allowed = _CPU_PARTS if kind == "cpu" else _SIZES
    if str(divisor) not in allowed:
        yield InvalidObject(
            at.child("divisor"), f'"{divisor}" is not allowed: must be one unit, such as {min(allowed)}'
        )
