"""Comparing what the grouper says about a PodGroup with what the PodGroup says: pure.

What a gang means is the owner's to say: a field that the grouper leaves out must not be there either. Only how a gang is placed (`STAYS`) and labels are
for others to add; in KAI's PodGroups the queue, the node pool, and fields that mean nothing to bayplan.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.dialects.registry import AnyPodGroup
from bayplan.grouping.podgroup import manifest_of
from bayplan.grouping.raw import RawObject
from bayplan.kube.visible import visible
from bayplan.kube.wire.podgroup_v1alpha1 import PodGroup

# On every PodGroup that the grouper made; only those are ever changed or deleted by it.
MANAGED_BY = "app.kubernetes.io/managed-by"
POD_GROUPER = "bayplan-pod-grouper"
# Fields that users may add to a PodGroup that the grouper made.
STAYS = ("domainPlacement", "objective", "patience", "placement", "style")
STAYS_WITH_KAI = ("queue",)
NODE_POOL = "kai.scheduler/node-pool"
GROUPED = "Grouped"
NOT_SAID = ("", "")


def with_mark(manifest: RawObject) -> RawObject:
    """The manifest with the label that says who made it."""
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), MANAGED_BY: POD_GROUPER}}}


def is_managed(written: AnyPodGroup | None) -> bool:
    """Whether the grouper made a PodGroup and still manages it."""
    return written is not None and (written.metadata.labels or {}).get(MANAGED_BY) == POD_GROUPER


def strays(written: AnyPodGroup | None, manifest: RawObject) -> RawObject:
    """A merge patch that removes additions to a PodGroup that change the gang's meaning and that its owner did not ask for."""
    return {} if written is None else _taken_away(_meaning(written), _meant(written, manifest))


def means(written: AnyPodGroup, manifest: RawObject) -> bool:
    """Whether a PodGroup describes the gang that was applied."""
    return _meaning(written) == _meant(written, manifest)


def _meaning(written: AnyPodGroup) -> RawObject:
    """What the spec of a PodGroup says about the gang, without what is for others to say."""
    spec = manifest_of(written)["spec"] if isinstance(written, PodGroup) else _without_nothing(written.spec)
    return {field: value for field, value in spec.items() if field not in _stays(written)}


def _meant(written: AnyPodGroup, manifest: RawObject) -> RawObject:
    """What it is to say."""
    spec = manifest["spec"] if isinstance(written, PodGroup) else _without_nothing(manifest["spec"])
    return {field: value for field, value in spec.items() if field not in _stays(written)}


def _stays(written: AnyPodGroup) -> tuple[str, ...]:
    return STAYS if isinstance(written, PodGroup) else STAYS_WITH_KAI


def _without_nothing(written: Any) -> Any:
    """A map, and those inside it, without keys that say nothing."""
    if isinstance(written, msgspec.Struct):
        return _without_nothing(msgspec.to_builtins(written))
    if isinstance(written, dict):
        inner = {key: _without_nothing(value) for key, value in written.items()}
        return {key: value for key, value in inner.items() if value not in (None, "", {})}
    return [_without_nothing(each) for each in written] if isinstance(written, list) else written


def _taken_away(seen: RawObject, wanted: RawObject) -> RawObject:
    """A merge patch that takes away what is more than wanted: an apply leaves fields of others as they are."""
    patch: RawObject = {key: None for key in seen if key not in wanted}
    for key, value in wanted.items():
        there = seen.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            inner = _taken_away(there, value)
            if inner:
                patch[key] = inner
        elif isinstance(value, list) and there is not None and there != value:
            patch[key] = value
    return patch


def keeping(written: AnyPodGroup | None, manifest: RawObject) -> RawObject:
    """A manifest with what others have decided since: queue and node pool of one of KAI's PodGroups, as KAI's own grouper keeps them."""
    if written is None or isinstance(written, PodGroup):
        return manifest
    decided = {field: value for field, value in _without_nothing(written.spec).items() if field in STAYS_WITH_KAI}
    metadata, labels = manifest["metadata"], written.metadata.labels or {}
    if NODE_POOL in labels:
        metadata = {**metadata, "labels": {**(metadata.get("labels") or {}), NODE_POOL: labels[NODE_POOL]}}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], **decided}}


def says(written: AnyPodGroup, manifest: RawObject) -> bool:
    """Whether a PodGroup still says what was applied, labels and owner included."""
    seen, wanted = msgspec.to_builtins(written.metadata), keeping(written, manifest)["metadata"]
    return means(written, manifest) and all(
        contains(seen.get(field) or {}, wanted.get(field) or {})
        for field in ("labels", "annotations", "ownerReferences")
    )


def contains(seen: Any, wanted: Any) -> bool:
    """Whether everything in `wanted` is in `seen`: maps may have more keys, lists have the same length."""
    if isinstance(wanted, dict):
        return isinstance(seen, dict) and all(contains(seen.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(seen, list)
            and len(seen) == len(wanted)
            and all(contains(*each) for each in zip(seen, wanted, strict=True))
        )
    return bool(seen == wanted)


def condition_of(written: PodGroup) -> tuple[str, str]:
    """Status and message of the condition `Grouped`; empty if there is none."""
    conditions = (written.status and written.status.conditions) or ()
    return next(((each.status, each.message) for each in conditions if each.type == GROUPED), NOT_SAID)


def made_for(manifest: RawObject) -> str:
    """The owner that a PodGroup was made for, in words."""
    metadata = manifest["metadata"]
    owner = metadata["ownerReferences"][0]
    return f"made for {owner['kind']} {metadata.get('namespace') or 'default'}/{owner['name']}"


def condition(message: str, since: str, *, holds: bool) -> RawObject:
    """The condition `Grouped`: the PodGroup is what its owner means, or the owner says what cannot be."""
    return {
        "type": GROUPED,
        "status": "True" if holds else "False",
        "reason": "AsItsOwnerSays" if holds else "OwnerInvalid",
        "message": visible(message),
        "lastTransitionTime": since,
    }
