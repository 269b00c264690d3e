"""What Kueue says about a workload that it keeps suspended: the conditions of its Workload object.

In come the workload and the objects of its cluster; out goes what it does: `is suspended by Kueue: ...`.
Quotas are Kueue's alone: they are told, not judged.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bayplan.dialects.kueue.pod_set import PREFIX
from bayplan.grouping.raw import RawObject, Reference, labels_of
from bayplan.kube.json_text import decode
from bayplan.kube.object_set import OtherObject
from bayplan.kube.resources import KUEUE_WORKLOAD
from bayplan.kube.wire.core_v1 import Metadata, PodCondition, WireStruct

QUEUE = PREFIX + "queue-name"


class _Check(WireStruct, frozen=True):
    name: str = ""
    state: str = ""
    message: str = ""


class _Spec(WireStruct, frozen=True):
    active: bool = True


class _Status(WireStruct, frozen=True):
    conditions: list[PodCondition] | None = None
    admission_checks: list[_Check] | None = None


class _Workload(WireStruct, frozen=True):
    """The part of Kueue's Workload that tells why it waits."""

    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()
    status: _Status | None = None


def is_kueue_workload(other: OtherObject) -> bool:
    """Whether an object is Kueue's Workload, in any version."""
    return (other.api_version.partition("/")[0], other.kind) == KUEUE_WORKLOAD


def why_suspended(thing: RawObject, field: str, objects: Iterable[OtherObject]) -> str:
    """`is suspended by Kueue: Workload ml/job-train-1a2b3: ...`; the `field` if Kueue does not hold it."""
    about = Reference.of(thing)
    for other in objects:
        if is_kueue_workload(other) and _belongs_to(other.metadata, about):
            try:
                told = _told(decode(other.document, _Workload))
            except msgspec.DecodeError:
                told = "is not readable"
            return f"is suspended by Kueue: Workload {about.namespace}/{other.metadata.name}: {told}"
    queue = labels_of(thing).get(QUEUE)
    told = "is paused" if field.endswith("paused") else "is suspended"
    told += f" until Kueue admits it from queue {queue}; its Workload is not known" if queue else ""
    return f"{told} ({field}: true)"


def _belongs_to(metadata: Metadata, about: Reference) -> bool:
    return (metadata.namespace or "default") == about.namespace and any(
        (owner.kind, owner.name) == (about.kind, about.name) and owner.uid in ("", about.uid or owner.uid)
        for owner in metadata.owner_references or ()
    )


def _told(workload: _Workload) -> str:
    """Why it waits: every condition that keeps it from being admitted, in Kueue's words."""
    if not workload.spec.active:
        return "is deactivated (spec.active: false)"
    status = workload.status or _Status()
    conditions = {each.type: each for each in status.conditions or ()}
    reserved, admitted = (conditions.get(each) for each in ("QuotaReserved", "Admitted"))
    if admitted is not None and admitted.status == "True":
        return "is admitted; Kueue has not resumed it yet"
    found = [each for each in (conditions.get("Evicted"),) if each is not None and each.status == "True"]
    found += [each for each in (reserved, admitted) if each is not None and each.status == "False"]
    told = list(dict.fromkeys(each.message or each.reason for each in found))
    told += [
        f"admission check {each.name} is {each.state}" + (f": {each.message}" if each.message else "")
        for each in status.admission_checks or ()
        if each.state != "Ready"
    ]
    return "; ".join(filter(None, told)) or "Kueue has not looked at it yet"
