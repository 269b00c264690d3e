"""Fields of group objects that bayplan does not read: misspelt ones, and those of a system whose effect bayplan does not have.

Decoding skips fields that a wire struct does not declare. For objects that decide where pods go, a skipped field may be a constraint that is lost.
So `remarked` compares the keys of an object with its struct and with the tables below, which list what the owning system knows beyond the struct. A
field in neither is unknown and gets a suggestion; a field that would change placement is said to have no effect; others are silent.

`kube/files.py` and `kube/decoding.py` call `remarked`; the sentences are in `GroupObject.unread`, and `scheduling/dialects/table.py` passes them on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from bayplan.kube import (
    coscheduling_v1alpha1,
    podgroup_v1alpha1,
    podgroup_v2alpha2,
    scheduling_v1alpha2,
    volcano_batch_v1alpha1,
    volcano_scheduling_v1beta1,
)
from bayplan.kube.core_v1 import GroupObject, Metadata, OwnerReference, PodSpec
from bayplan.kube.errors import did_you_mean, struct_fields
from bayplan.kube.topology_v1alpha2 import NodeResourceTopology, resources_of, zones_of

UNKNOWN = "unknown field"
SILENT = ""
TOGETHER = "has no effect: bayplan starts all tasks together"
NO_PREEMPTION = "has no effect: bayplan preempts nobody"

Known = Mapping[str, str]

# What the systems know beyond the structs, and what to say about it.
_OF_ANY: Known = {"apiVersion": SILENT, "kind": SILENT, "status": SILENT}
_BEYOND: dict[type[Struct], Known] = {
    Metadata: dict.fromkeys(
        (
            "generateName",
            "generation",
            "deletionGracePeriodSeconds",
            "finalizers",
            "managedFields",
            "selfLink",
        ),
        SILENT,
    ),
    OwnerReference: {"blockOwnerDeletion": SILENT},
    NodeResourceTopology: _OF_ANY,
    podgroup_v1alpha1.PodGroup: _OF_ANY,
    podgroup_v2alpha2.PodGroup: _OF_ANY,
    podgroup_v2alpha2.PodGroupSpec: dict.fromkeys(
        ("parallelism", "completions", "backoffLimit", "markUnschedulable", "schedulingBackoff"), SILENT
    ),
    volcano_scheduling_v1beta1.PodGroup: _OF_ANY,
    volcano_scheduling_v1beta1.PodGroupSpec: dict.fromkeys(("priorityClassName", "minResources"), SILENT),
    coscheduling_v1alpha1.PodGroup: _OF_ANY,
    coscheduling_v1alpha1.PodGroupSpec: dict.fromkeys(("minResources", "scheduleTimeoutSeconds"), SILENT),
    scheduling_v1alpha2.PodGroup: _OF_ANY,
    scheduling_v1alpha2.Workload: _OF_ANY,
    scheduling_v1alpha2.ResourceClaim: dict.fromkeys(("resourceClaimName", "resourceClaimTemplateName"), SILENT),
    volcano_batch_v1alpha1.Job: _OF_ANY,
    volcano_batch_v1alpha1.JobSpec: dict.fromkeys(
        (
            "volumes",
            "policies",
            "plugins",
            "runningEstimate",
            "maxRetry",
            "ttlSecondsAfterFinished",
            "priorityClassName",
            "minSuccess",
        ),
        SILENT,
    ),
    volcano_batch_v1alpha1.Task: {"policies": SILENT, "maxRetry": SILENT, "dependsOn": TOGETHER},
}
# Pod specs are checked by other rules.
_NOT_LOOKED_INTO = (PodSpec,)

# Sentences about one object.
MOST_TOLD = 32

G = TypeVar("G")


def remarked(decoded: G, document: bytes | Raw) -> G:
    """The same object, with a sentence for every field of its document that has no effect; other kinds come back as they are."""
    if not isinstance(decoded, GroupObject):
        return decoded
    found = tuple(islice(unread(msgspec.json.decode(document), type(decoded)), MOST_TOLD))
    return msgspec.structs.replace(decoded, unread=found) if found else decoded


def unread_in_report(report: NodeResourceTopology, document: bytes | Raw) -> Iterator[str]:
    """A sentence for each unknown field of a node's report. A misspelt field leaves the right one empty, so complete reports are not looked through."""
    zones = zones_of(report)
    complete = (
        bool(report.topology_policies and zones)
        and all(zone.name and zone.type and zone.costs is not None and zone.resources is not None for zone in zones)
        and all(
            None not in (amounts.capacity, amounts.allocatable, amounts.available)
            for zone in zones
            for _, amounts in resources_of(zone)
        )
    )
    if not complete:
        yield from unread(msgspec.json.decode(document), NodeResourceTopology)


def unknown_field(document: bytes | Raw, struct: type) -> str:
    """What to say about the first unknown field of an object whose struct forbids them; empty if there is none."""
    if not issubclass(struct, podgroup_v1alpha1.PodGroup):
        return ""
    return next((each for each in unread(msgspec.json.decode(document), struct) if UNKNOWN in each), "")


def unread(document: object, struct: type[Struct], path: str = "") -> Iterator[str]:
    """A sentence for each field of a document that is lost when it is decoded into a struct."""
    if not isinstance(document, dict):
        return
    fields, beyond = struct_fields(struct), _BEYOND.get(struct, {})
    for name, value in document.items():
        where = f"{path}.{name}" if path else name
        if name in beyond:
            if beyond[name] and value:
                yield f"{where}: {beyond[name]}"
        elif name not in fields:
            yield f"{where}: {UNKNOWN}{did_you_mean(name, (*fields, *beyond)) or ', which has no effect'}"
        elif (inner := fields[name]) is not None and inner not in _NOT_LOOKED_INTO:
            several = value if isinstance(value, list) else [value]
            for index, each in enumerate(several):
                yield from unread(each, inner, f"{where}[{index}]" if isinstance(value, list) else where)
