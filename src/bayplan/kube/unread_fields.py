"""Fields of group objects that bayplan does not read: misspelt ones, and those of a system whose effect bayplan does
not have.

Decoding skips fields that a wire struct does not declare. For objects that decide where pods go, a skipped field may be
a constraint that is lost. So `remarked` compares the keys of an object with its struct and with the tables below, which
list what the owning system knows beyond the struct. A field in neither is unknown and gets a suggestion; a field that
would change placement is said to have no effect; others are silent.

`kube/files.py` and `kube/client/decoding.py` call `remarked`; the sentences are in `GroupObject.unread`, and
`dialects/registry.py` passes them on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from bayplan.kube.errors import did_you_mean, struct_fields
from bayplan.kube.priority_classes import PriorityClass
from bayplan.kube.wire import (
    bayplan_v1alpha1,
    coscheduling_v1alpha1,
    k8s_scheduling_v1beta1,
    kai_scheduling_v2alpha2,
    policy_v1,
    volcano_batch_v1alpha1,
    volcano_scheduling_v1beta1,
)
from bayplan.kube.wire.core_v1 import GroupObject, Metadata, OwnerReference, PodSpec
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology

UNKNOWN = "unknown field"
WITHOUT_EFFECT = ", which has no effect"
SILENT = ""
TOGETHER = "has no effect: bayplan starts all tasks together"

Known = Mapping[str, str]

# What the systems know beyond the structs, and what to say about it.
# Group objects without an entry, those of other packages included, have what any object has.
_OF_ANY: Known = {"apiVersion": SILENT, "kind": SILENT, "status": SILENT}
_OF_METADATA: Known = dict.fromkeys(("generateName", "managedFields", "selfLink"), SILENT)
_BEYOND: dict[type[Struct], Known] = {
    Metadata: {**_OF_METADATA, "generation": SILENT},
    OwnerReference: {"blockOwnerDeletion": SILENT},
    NodeResourceTopology: _OF_ANY,
    kai_scheduling_v2alpha2.PodGroupSpec: dict.fromkeys(
        ("parallelism", "completions", "backoffLimit", "markUnschedulable", "schedulingBackoff"), SILENT
    ),
    volcano_scheduling_v1beta1.PodGroupSpec: dict.fromkeys(("priorityClassName", "minResources"), SILENT),
    coscheduling_v1alpha1.PodGroupSpec: dict.fromkeys(("minResources", "scheduleTimeoutSeconds"), SILENT),
    k8s_scheduling_v1beta1.WorkloadSpec: {
        "compositePodGroupTemplates": "has no effect: only PodGroups made of them count"
    },
    k8s_scheduling_v1beta1.ResourceClaim: dict.fromkeys(("resourceClaimName", "resourceClaimTemplateName"), SILENT),
    PriorityClass: _OF_ANY,
    policy_v1.PodDisruptionBudget: _OF_ANY,
    policy_v1.VersionedMetadata: _OF_METADATA,
    policy_v1.PodDisruptionBudgetSpec: dict.fromkeys(
        ("minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy"), SILENT
    ),
    policy_v1.PodDisruptionBudgetStatus: dict.fromkeys(
        ("currentHealthy", "desiredHealthy", "expectedPods", "conditions"), SILENT
    ),
    volcano_batch_v1alpha1.JobSpec: dict.fromkeys(
        (
            "volumes",
            "policies",
            "plugins",
            "runningEstimate",
            "maxRetry",
            "ttlSecondsAfterFinished",
            "minSuccess",
        ),
        SILENT,
    ),
    volcano_batch_v1alpha1.Task: {"policies": SILENT, "maxRetry": SILENT, "dependsOn": TOGETHER},
}
# What other systems call fields of bayplan's own PodGroup.
_OURS = (bayplan_v1alpha1.PodGroupSpec, bayplan_v1alpha1.GroupSpec)
_OTHER_WORDS = {
    **dict.fromkeys(("minMember", "minCount", "minAvailable"), "minimum"),
    **dict.fromkeys(("replicas", "totalCount"), "size"),
    "subGroups": "groups",
    "minSubGroup": "minimumGroups",
    **dict.fromkeys(("requiredTopologyLevel", "requiredTopology"), "required"),
    **dict.fromkeys(("preferredTopologyLevel", "preferredTopology"), "preferred"),
    "template": "pod",
}
# Pod specs are checked by other rules.
_NOT_LOOKED_INTO = (PodSpec,)

# Sentences about one object.
MOST_TOLD = 32
CANNOT_LIST = "fields that have no effect cannot be listed, because the object has numbers or bytes that cannot be read"

G = TypeVar("G")


def remarked(decoded: G, document: bytes | Raw) -> G:
    """The same object, with a sentence for every field of its document that has no effect.

    Other kinds come back as they are.
    """
    if not isinstance(decoded, GroupObject):
        return decoded
    try:
        read = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # In a field that is not read, such as managedFields: a number out of range, or bytes that are not UTF-8.
        return msgspec.structs.replace(decoded, unread=(CANNOT_LIST,))
    found = tuple(islice(unread(read, type(decoded)), MOST_TOLD))
    return msgspec.structs.replace(decoded, unread=found) if found else decoded


def unread_in_report(document: bytes | Raw) -> Iterator[str]:
    """A sentence for each unknown field of a node's report.

    Nearly all reports have none, and a dump has thousands: a decoder that refuses unknown fields finds that out in 50
    us, a walk in 240 (8 zones).
    """
    try:
        msgspec.json.decode(document, type=_refusing(NodeResourceTopology))
    except msgspec.ValidationError:
        yield from unread(msgspec.json.decode(document), NodeResourceTopology)


def _beyond(struct: type[Struct]) -> Known:
    return _BEYOND.get(struct, _OF_ANY if issubclass(struct, GroupObject) else {})


@cache
def _refusing(struct: type[Struct]) -> type[Struct]:
    """A struct with the same fields, which refuses others and looks at no value that is none of its structs."""
    fields: list[tuple[str, Any, Any]] = [(name, Raw, Raw()) for name in _beyond(struct)]
    for name, field in struct_fields(struct).items():
        inner = None if field.struct is None else _refusing(field.struct)
        # Either a map of entries or one struct, never both: msgspec cannot tell them apart.
        kind: Any = Raw if inner is None else list[inner] | (dict[str, inner] if field.keyed else inner) | None  # type: ignore[valid-type]
        fields.append((name, kind, Raw() if inner is None else None))
    return msgspec.defstruct(f"Refusing{struct.__name__}", fields, forbid_unknown_fields=True)


def unknown_field(document: bytes | Raw, struct: type) -> str:
    """What to say about the first unknown field of an object whose struct forbids them; empty if there is none."""
    if not issubclass(struct, bayplan_v1alpha1.PodGroup):
        return ""
    found = next((each for each in unread(msgspec.json.decode(document), struct) if UNKNOWN in each), "")
    return found.removesuffix(WITHOUT_EFFECT)


def _meant(name: str, struct: type[Struct]) -> str:
    """The field that is meant, perhaps in the words of another system."""
    fields = struct_fields(struct)
    if issubclass(struct, _OURS):
        words = {word: field for word, field in _OTHER_WORDS.items() if field in fields}
        hint = did_you_mean(name, (*fields, *words))
        return next((f"; did you mean {field}?" for word, field in words.items() if hint.endswith(f" {word}?")), hint)
    return did_you_mean(name, (*fields, *_beyond(struct)))


def unread(document: object, struct: type[Struct], path: str = "") -> Iterator[str]:
    """A sentence for each field of a document that is lost when it is decoded into a struct."""
    if not isinstance(document, dict):
        return
    fields, beyond = struct_fields(struct), _beyond(struct)
    for name, value in document.items():
        where = f"{path}.{name}" if path else name
        if name in beyond:
            if beyond[name] and value:
                yield f"{where}: {beyond[name]}"
        elif name not in fields:
            yield f"{where}: {UNKNOWN}{_meant(name, struct) or WITHOUT_EFFECT}"
        elif (inner := fields[name].struct) is not None and inner not in _NOT_LOOKED_INTO:
            if isinstance(value, list):
                for index, each in enumerate(value):
                    yield from unread(each, inner, f"{where}[{index}]")
            elif fields[name].keyed and isinstance(value, dict):
                for key, each in value.items():
                    yield from unread(each, inner, f"{where}.{key}")
            else:
                yield from unread(value, inner, where)
