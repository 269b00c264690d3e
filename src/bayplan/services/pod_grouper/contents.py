"""Comparing what the grouper says about a PodGroup with what the PodGroup says: pure.

The grouper owns the fields that it writes, and no others: a user may add an `objective` or a label, and it stays. So a PodGroup is as it should be if it *contains*
what was applied.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.kube.podgroup_v1alpha1 import PodGroup
from bayplan.scheduling.dialects.table import AnyPodGroup
from bayplan.scheduling.grouping.raw import RawObject
from bayplan.services.pod_grouper.books import MANAGED_BY, POD_GROUPER

GROUPED = "Grouped"
NOT_SAID = ("", "")


def with_mark(manifest: RawObject) -> RawObject:
    """The manifest with the label that says who made it."""
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), MANAGED_BY: POD_GROUPER}}}


def says(written: AnyPodGroup, manifest: RawObject) -> bool:
    """Whether a PodGroup still says all that was applied."""
    seen = msgspec.to_builtins(written)
    return contains(seen["spec"], manifest["spec"]) and all(
        contains(seen["metadata"].get(field) or {}, manifest["metadata"].get(field) or {})
        for field in ("labels", "ownerReferences")
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
    """For whom a PodGroup was made, in words."""
    metadata = manifest["metadata"]
    owner = metadata["ownerReferences"][0]
    return f"made for {owner['kind']} {metadata.get('namespace') or 'default'}/{owner['name']}"


def condition(message: str, since: str, *, holds: bool) -> RawObject:
    """The condition `Grouped`: the PodGroup is what its owner means, or the owner says what cannot be."""
    return {
        "type": GROUPED,
        "status": "True" if holds else "False",
        "reason": "AsItsOwnerSays" if holds else "OwnerInvalid",
        "message": message,
        "lastTransitionTime": since,
    }
