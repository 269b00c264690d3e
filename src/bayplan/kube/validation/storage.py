"""Claims, volumes and classes: what an API server would refuse in one that a user submits, and what makes one of a
cluster unusable.

An object of a cluster has passed an API server, unless a dump was written by hand. So only values that mean nothing
count there (`unusable`); what is missing does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation import names, scheduling, volumes
from bayplan.kube.validation.fields import UnknownField, field_faults
from bayplan.kube.validation.rules import (
    Faults,
    Json,
    amount,
    chosen,
    entries,
    missing,
    named,
    optional,
    part,
    required,
    text,
    texts,
    twice,
)

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
POLICIES_OF_VOLUMES = ("Delete", "Recycle", "Retain")
POLICIES_OF_CLASSES = ("Delete", "Retain")
STORAGE = "storage"


def storage_faults(document: Json, kind: str, at: ObjectPath) -> Faults:
    """The rules of an API server for an object whose shape is right."""
    yield from _values(document, kind, at)
    spec, place = part(document, "spec") or {}, at.child("spec")
    if kind == CLAIM:
        yield from volumes.further_claim_faults(spec, place)
    elif kind == VOLUME:
        yield from _volume_faults(spec, place)
    else:
        provisioner = text(document, "provisioner")
        yield from required(document, "provisioner", at)
        if provisioner:
            yield from named(provisioner.lower(), names.qualified_name, at.child("provisioner"))
        yield from chosen(document, "reclaimPolicy", ("", *POLICIES_OF_CLASSES), at)


def unusable(document: Any, kind: str, at: ObjectPath) -> Iterator[InvalidObject]:
    """What makes an object of a cluster unusable, a wrong shape included."""
    if kind not in (CLAIM, VOLUME, CLASS):
        return
    wrong = [fault for fault in field_faults(document, kind, at) if not isinstance(fault, UnknownField)]
    yield from wrong or _values(document, kind, at)


def _values(document: Json, kind: str, at: ObjectPath) -> Faults:
    """Values that mean nothing."""
    spec, place = part(document, "spec") or {}, at.child("spec")
    if kind == CLAIM:
        yield from volumes.claim_value_faults(spec, place)
    elif kind == VOLUME:
        yield from volumes.mode_faults(spec, place)
        size = (part(spec, "capacity") or {}).get(STORAGE)
        if size is not None and amount(size).nano <= 0:
            yield InvalidObject(place.child("capacity.storage"), f'"{size}" is not allowed: must be more than 0')
        affinity = part(spec, "nodeAffinity")
        if affinity is not None:
            where = place.child("nodeAffinity.required")
            terms = part(affinity, "required")
            yield from [missing(where)] if terms is None else scheduling.node_selector_faults(terms, where)
    else:
        yield from chosen(document, "volumeBindingMode", BINDING_MODES, at)
        yield from _topology_faults(document, at)


def _topology_faults(document: Json, at: ObjectPath) -> Faults:
    before: list[dict[str, frozenset[str]]] = []
    for term, place in entries(document, "allowedTopologies", at):
        wanted: dict[str, frozenset[str]] = {}
        for each, where in entries(term, "matchLabelExpressions", place):
            key, values = text(each, "key"), [value for value, _ in texts(each, "values", where)]
            if not values:
                yield missing(where.child("values"))
            for number, (value, of_value) in enumerate(texts(each, "values", where)):
                if value in values[:number]:
                    yield twice(value, of_value)
            yield from named(key, names.qualified_name, where.child("key"))
            if key in wanted:
                yield twice(key, where.child("key"))
            wanted[key] = frozenset(values)
        if wanted in before:
            yield InvalidObject(place.child("matchLabelExpressions"), "appear twice")
        before.append(wanted)


def _volume_faults(spec: Json, at: ObjectPath) -> Faults:
    if not spec.get("accessModes"):
        yield missing(at.child("accessModes"))
    capacity = part(spec, "capacity") or {}
    if STORAGE not in capacity:
        yield missing(at.child("capacity.storage"))
    for resource in capacity:
        if resource != STORAGE:
            yield InvalidObject(at.child("capacity").key(resource), "is not allowed: a volume has storage alone")
    yield from chosen(spec, "persistentVolumeReclaimPolicy", ("", *POLICIES_OF_VOLUMES), at)
    yield from optional(spec, "storageClassName", at, names.dns_subdomain)
    if spec.get("volumeAttributesClassName") is not None:
        yield from required(spec, "volumeAttributesClassName", at, names.dns_subdomain)
        if part(spec, "csi") is None:
            yield missing(at.child("csi"), "a volumeAttributesClassName is of a CSI driver")
    yield from volumes.persistent_source_faults(spec, at)
    if part(spec, "local") is not None and part(spec, "nodeAffinity") is None:
        yield missing(at.child("nodeAffinity"), "a local volume is on some nodes only")
