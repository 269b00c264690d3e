"""What an API server would reject in the metadata of a submitted object: its name, namespace, labels, owners and
finalizers.
"""

from __future__ import annotations

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation import names
from bayplan.kube.validation.rules import (
    Faults,
    Json,
    choice,
    entries,
    labels,
    missing,
    named,
    optional,
    required,
    text,
    texts,
)

FINALIZERS = ("foregroundDeletion", "kubernetes", "orphan")


def metadata_faults(metadata: Json, at: ObjectPath) -> Faults:
    """The rules that hold for objects of any kind, custom resources included."""
    start = text(metadata, "generateName")
    if not start and not text(metadata, "name"):
        yield missing(at.child("name"), "every object needs a name or generateName")
    yield from optional(metadata, "generateName", at, names.label_prefix)
    if start and not text(metadata, "name"):
        yield from named(f"{start}x7k2p", names.dns_subdomain, at.child("name"))
    else:
        yield from optional(metadata, "name", at, names.dns_subdomain)
    yield from optional(metadata, "namespace", at, names.dns_label)
    yield from labels(metadata, "labels", at)
    controllers = set()
    for owner, place in entries(metadata, "ownerReferences", at):
        for field in ("apiVersion", "kind", "name", "uid"):
            yield from required(owner, field, place)
        if owner.get("controller"):
            controllers.add(text(owner, "uid"))  # the same owner twice counts once
    if len(controllers) > 1:
        yield InvalidObject(at.child("ownerReferences"), "has two controllers; an object has at most one")
    finalizers = set()
    for name, place in texts(metadata, "finalizers", at):
        yield from named(name, names.qualified_name, place)
        finalizers.add(name)
    if {"orphan", "foregroundDeletion"} <= finalizers:
        yield InvalidObject(at.child("finalizers"), "has orphan and foregroundDeletion, which exclude each other")
    for entry, place in entries(metadata, "managedFields", at):
        yield from choice(text(entry, "operation"), ("Apply", "Update"), place.child("operation"))
        yield from choice(text(entry, "fieldsType"), ("FieldsV1",), place.child("fieldsType"))


def built_in_metadata_faults(metadata: Json, at: ObjectPath) -> Faults:
    """The same for kinds of Kubernetes itself. Only of these must the finalizers of others have a domain; of custom
    resources an API server warns.
    """
    yield from metadata_faults(metadata, at)
    for name, place in texts(metadata, "finalizers", at):
        if "/" not in name:
            yield from choice(name, FINALIZERS, place)
