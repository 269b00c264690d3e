"""Compare the PodGroups that the grouper wants with those in the cluster. No I/O.

The owner defines the gang, so fields that the grouper omits must be absent. Others may only add labels and placement
fields (`KEPT_FIELDS`); in KAI's PodGroups also the queue, the node pool, and fields without meaning for bayplan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.dialects.registry import AnyPodGroup, key_of
from bayplan.grouping.annotations import SEGMENTS
from bayplan.grouping.podgroup import manifest_of
from bayplan.grouping.raw import RawObject
from bayplan.kube.resources import Resource
from bayplan.kube.visible import visible
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup

# The grouper changes and deletes only PodGroups with this label.
MANAGED_BY = "app.kubernetes.io/managed-by"
POD_GROUPER = "bayplan-pod-grouper"
# Fields that users may add to a managed PodGroup.
KEPT_FIELDS = ("domainPlacement", "objective", "patience", "placement", "style")
KEPT_KAI_FIELDS = ("queue",)
NODE_POOL = "kai.scheduler/node-pool"
GROUPED = "Grouped"
NO_CONDITION = ("", "")
NOT_EXAMINED = "waits for the pod grouper to look at its owner"
OUTDATED = "its PodGroup does not match its owner; the pod grouper is updating it"


class WantedGroups:
    """The PodGroups that owners ask for, as far as this replica knows them."""

    def __init__(self, resource: Resource[Any]) -> None:
        self._resource = resource
        self.manifests: dict[str, RawObject] = {}
        # Gangs with at least one examined pod, whatever the result.
        self._examined: set[str] = set()
        # By gang, the annotation behind each field and value of its PodGroup.
        self._asked_in: dict[str, Mapping[tuple[str, str], str]] = {}

    def forget(self, gang: str) -> None:
        """Forget a gang whose PodGroup was deleted."""
        self.manifests.pop(gang, None)
        self._asked_in.pop(gang, None)

    def asked_in(self, gang: str, annotations: Mapping[tuple[str, str], str]) -> None:
        """Remember which annotations ask for the values of a gang's PodGroup."""
        self._asked_in[gang] = annotations

    def examined(self, gang: str, *, exists: bool) -> bool:
        """A pod of the gang was examined; True if it was the first."""
        first = gang not in self._examined
        if exists:
            self._examined.add(gang)
        return first

    def not_examined(self, gang: str) -> None:
        """The gang's PodGroup is gone."""
        self._examined.discard(gang)

    def why_gang_waits(self, written: AnyPodGroup) -> str:
        """Why a gang must not be placed by its current PodGroup, or an empty string. Unmanaged groups never wait."""
        if not is_managed(written) or not isinstance(written, self._resource.type):
            return ""
        gang = key_of(written)
        manifest = self.manifests.get(gang)
        if manifest is None:
            return "" if gang in self._examined else NOT_EXAMINED
        return "" if matches(written, manifest) else OUTDATED

    def where_asked(self, written: AnyPodGroup, field: str, value: str) -> str:
        """The owner's annotation behind a field of a PodGroup, or an empty string."""
        asked_in = self._asked_in.get(key_of(written), {})
        # Unequal segments are groups, which require the level of the segments.
        return asked_in.get((field, value)) or asked_in.get((SEGMENTS, value), "")


def with_mark(manifest: RawObject) -> RawObject:
    """The manifest with the grouper's label."""
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), MANAGED_BY: POD_GROUPER}}}


def is_managed(written: AnyPodGroup | None) -> bool:
    """Whether the grouper manages a PodGroup."""
    return written is not None and (written.metadata.labels or {}).get(MANAGED_BY) == POD_GROUPER


def strays(written: AnyPodGroup | None, manifest: RawObject) -> RawObject:
    """A merge patch that removes fields of other writers that change the gang."""
    return {} if written is None else _removal(_gang_fields(written), _wanted_fields(written, manifest))


def matches(written: AnyPodGroup, manifest: RawObject) -> bool:
    """Whether a PodGroup describes the gang of the manifest."""
    return _gang_fields(written) == _wanted_fields(written, manifest)


def _gang_fields(written: AnyPodGroup) -> RawObject:
    """The fields of a PodGroup's spec that define the gang."""
    spec = manifest_of(written)["spec"] if isinstance(written, PodGroup) else _without_empty(written.spec)
    return {field: value for field, value in spec.items() if field not in _kept_fields(written)}


def _wanted_fields(written: AnyPodGroup, manifest: RawObject) -> RawObject:
    spec = manifest["spec"] if isinstance(written, PodGroup) else _without_empty(manifest["spec"])
    return {field: value for field, value in spec.items() if field not in _kept_fields(written)}


def _kept_fields(written: AnyPodGroup) -> tuple[str, ...]:
    return KEPT_FIELDS if isinstance(written, PodGroup) else KEPT_KAI_FIELDS


def _without_empty(written: Any) -> Any:
    """A value without empty fields, at any depth."""
    if isinstance(written, msgspec.Struct):
        return _without_empty(msgspec.to_builtins(written))
    if isinstance(written, dict):
        inner = {key: _without_empty(value) for key, value in written.items()}
        return {key: value for key, value in inner.items() if value not in (None, "", {})}
    return [_without_empty(each) for each in written] if isinstance(written, list) else written


def _removal(seen: RawObject, wanted: RawObject) -> RawObject:
    """A merge patch that removes unwanted fields, because an apply keeps fields of other managers."""
    patch: RawObject = {key: None for key in seen if key not in wanted}
    for key, value in wanted.items():
        there = seen.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            inner = _removal(there, value)
            if inner:
                patch[key] = inner
        elif isinstance(value, list) and there is not None and there != value:
            patch[key] = value
    return patch


def keeping(written: AnyPodGroup | None, manifest: RawObject) -> RawObject:
    """The manifest with the queue and node pool of one of KAI's PodGroups, which KAI's own grouper keeps too."""
    if written is None or isinstance(written, PodGroup):
        return manifest
    decided = {field: value for field, value in _without_empty(written.spec).items() if field in KEPT_KAI_FIELDS}
    metadata, labels = manifest["metadata"], written.metadata.labels or {}
    if NODE_POOL in labels:
        metadata = {**metadata, "labels": {**(metadata.get("labels") or {}), NODE_POOL: labels[NODE_POOL]}}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], **decided}}


def is_current(written: AnyPodGroup, manifest: RawObject) -> bool:
    """Whether a PodGroup still has everything that was applied, labels and owner included."""
    seen, wanted = msgspec.to_builtins(written.metadata), keeping(written, manifest)["metadata"]
    return matches(written, manifest) and all(
        contains(seen.get(field) or {}, wanted.get(field) or {})
        for field in ("labels", "annotations", "ownerReferences")
    )


def contains(seen: Any, wanted: Any) -> bool:
    """Whether `seen` has everything in `wanted`: maps may have more keys, lists have the same length."""
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
    """Status and message of the condition `Grouped`."""
    conditions = (written.status and written.status.conditions) or ()
    return next(((each.status, each.message) for each in conditions if each.type == GROUPED), NO_CONDITION)


def made_for(manifest: RawObject) -> str:
    """The owner of a PodGroup, as a message."""
    metadata = manifest["metadata"]
    owner = metadata["ownerReferences"][0]
    return f"made for {owner['kind']} {metadata.get('namespace') or 'default'}/{owner['name']}"


def condition(message: str, since: str, *, holds: bool) -> RawObject:
    """The condition `Grouped`: false if the owner asks for something invalid."""
    return {
        "type": GROUPED,
        "status": "True" if holds else "False",
        "reason": "AsItsOwnerSays" if holds else "OwnerInvalid",
        "message": visible(message),
        "lastTransitionTime": since,
    }
