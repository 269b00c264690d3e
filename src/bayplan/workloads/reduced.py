"""A workload reduced to what grouping and planning read, for snapshots that leave the cluster.

Only listed fields are kept: counts, policies, names, labels, resources, fields in rules, and the parts of pod templates
that are kept of pods. Environment, commands, images and all other texts are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from bayplan.grouping.raw import RawObject, annotations_of, labels_of, metadata_of
from bayplan.grouping.rules import Rules
from bayplan.kube.wire.core_v1 import PodSpec

# Values that `workloads/kinds.py` and the grouper read by name; fields in rules come from the rules.
_FIELDS = frozenset(
    (
        "completedIndexes",
        "completionMode",
        "completions",
        "enableInTreeAutoscaling",
        "failedIndexes",
        "groupName",
        "maxReplicas",
        "minReplicas",
        "name",
        "numOfHosts",
        "parallelism",
        "paused",
        "replicas",
        "restarts",
        "schedulerName",
        "size",
        "start",
        "status",
        "subGroupPolicyType",
        "subGroupSize",
        "submissionMode",
        "succeeded",
        "suspend",
        "type",
    )
)
# Maps that are kept whole: amounts and labels.
_WHOLE = ("requests", "limits", "labels")
_OWNER = ("apiVersion", "kind", "name", "uid", "controller")
# Part of a pod template beside `PodSpec`: DaemonSet pods on the host's network tolerate more.
_OF_TEMPLATE = ("hostNetwork",)
_WORD = re.compile(r'\["([^"]+)"\]|([A-Za-z_][A-Za-z0-9_-]*)')

KeepsAnnotation = Callable[[str], bool]


def fields_of_rules(rules: Rules) -> frozenset[str]:
    """The fields and annotations that rules name."""
    texts = (text for rule in rules.values() for text in _texts(msgspec.to_builtins(rule)))
    return frozenset(bracketed or plain for text in texts for bracketed, plain in _WORD.findall(text))


def reduced(thing: RawObject, of_rules: Collection[str], keeps: KeepsAnnotation) -> RawObject:
    """The workload with only what grouping and planning read; `keeps` selects annotations."""
    fields = _FIELDS | set(of_rules)
    metadata = metadata_of(thing)
    owners = [each for each in metadata.get("ownerReferences") or () if isinstance(each, dict)]
    kept: RawObject = {key: metadata[key] for key in ("name", "namespace", "uid") if metadata.get(key)}
    kept |= _marks(thing, keeps)
    if owners:
        kept["ownerReferences"] = [{key: each[key] for key in _OWNER if key in each} for each in owners]
    found: RawObject = {"apiVersion": thing.get("apiVersion"), "kind": thing.get("kind"), "metadata": kept}
    for part in ("spec", "status"):
        inner = _kept(thing.get(part), fields, keeps)
        if inner is not None:
            found[part] = inner
    return found


def _texts(written: Any) -> Iterator[str]:
    if isinstance(written, str):
        yield written
    elif isinstance(written, dict | list):
        for each in written.values() if isinstance(written, dict) else written:
            yield from _texts(each)


def _marks(thing: RawObject, keeps: KeepsAnnotation) -> RawObject:
    """Labels and annotations of an object or a template."""
    labels = dict(labels_of(thing))
    annotations = {key: value for key, value in annotations_of(thing).items() if keeps(key)}
    return {key: value for key, value in (("labels", labels), ("annotations", annotations)) if value}


def _kept(value: Any, fields: Collection[str], keeps: KeepsAnnotation) -> Any:
    """A part of a spec; None if nothing is kept. Entries of lists keep their index."""
    if isinstance(value, list):
        entries = [_kept(each, fields, keeps) for each in value if isinstance(each, dict)]
        return [each or {} for each in entries] or None
    if not isinstance(value, dict):
        return None
    spec = value.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        return _template(value, spec, keeps)
    found: RawObject = {}
    for key, inner in value.items():
        if key == "metadata":
            named = {"name": inner["name"]} if isinstance(inner, dict) and inner.get("name") else {}
            kept: Any = named | _marks(value, keeps) or None
        elif isinstance(inner, dict | list):
            kept = inner if key in _WHOLE else _kept(inner, fields, keeps)
        else:
            kept = inner if key in fields else None
        if kept is not None:
            found[key] = kept
    return found or None


def _template(template: RawObject, spec: RawObject, keeps: KeepsAnnotation) -> RawObject:
    """A pod template as snapshots keep pods."""
    marks = _marks(template, keeps)
    try:
        wire = msgspec.to_builtins(msgspec.convert(spec, PodSpec))
    except msgspec.ValidationError:
        return {"metadata": marks}
    beside = {key: spec[key] for key in _OF_TEMPLATE if key in spec}
    return {"metadata": marks, "spec": without_nulls(wire) | beside}


def without_nulls(value: Any) -> Any:
    """A document without null fields."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value
