"""All dialects, in the order in which they are asked for a pod's gang.

bayplan's own label is first, because it is always deliberate. Kueue is last, because its pods can also name a PodGroup.
Dialects of other packages (`bayplan.dialects`) precede it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from bayplan.dialects.added import added_dialect
from bayplan.dialects.coscheduling import pod_group as coscheduling
from bayplan.dialects.dialect import TOPOLOGY, Dialect, full_name
from bayplan.dialects.kai import pod_group as kai
from bayplan.dialects.kubernetes import composite_pod_group as composite
from bayplan.dialects.kubernetes import pod_group as upstream
from bayplan.dialects.kueue import pod_set as kueue
from bayplan.dialects.members import Incomplete
from bayplan.dialects.misspelt import complaint_about, judged
from bayplan.dialects.own import pod_group as own
from bayplan.dialects.placement_annotations import FIELDS, as_annotated
from bayplan.dialects.pod_words import OWN_FAMILY
from bayplan.dialects.volcano import pod_group as volcano
from bayplan.extensions import DIALECTS, BrokenExtension, registered
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.object_set import OtherPodGroup
from bayplan.kube.resources import KNOWN_POD_GROUPS, Resource
from bayplan.kube.wire import bayplan_v1alpha1
from bayplan.kube.wire.core_v1 import Pod, VersionedGroupObject
from bayplan.kube.wire.volcano_batch_v1alpha1 import Job

_KNOWN: tuple[Dialect[Any], ...] = (
    own.DIALECT,
    upstream.DIALECT,
    composite.DIALECT,
    kai.DIALECT,
    volcano.DIALECT,
    coscheduling.DIALECT,
)


@cache
def dialects() -> tuple[Dialect[Any], ...]:
    """The built-in dialects and those of other packages."""
    found = [*_KNOWN, kueue.DIALECT]
    for name in sorted(registered(DIALECTS)):
        found.append(added_dialect(name, found))
    return (*_KNOWN, *found[len(_KNOWN) + 1 :], kueue.DIALECT)


# Keys of ours that group objects of other systems may have.
_OF_GROUPS = replace(OWN_FAMILY, told=(TOPOLOGY, *FIELDS))
# Begins the group of a pod whose dialect fails on it. No object has such a name.
UNTOLD = "?"
# Every built-in group object.
AnyPodGroup = bayplan_v1alpha1.PodGroup | OtherPodGroup


@cache
def _by_struct() -> dict[type[Any] | None, Dialect[Any]]:
    return {dialect.written_as: dialect for dialect in dialects()}


@cache
def _by_name() -> dict[str, Dialect[Any]]:
    return {dialect.name: dialect for dialect in dialects()}


def dialect_written_as(struct: type[Any]) -> Dialect[Any]:
    """The dialect whose group objects decode into this wire struct."""
    return _by_struct()[struct]


def dialect_of(written: AnyPodGroup) -> Dialect[Any]:
    """The dialect that a group object is written in."""
    return _by_struct()[type(written)]


def resource_of(written: AnyPodGroup) -> Resource[Any]:
    """Where a group object is kept, in the version that it was read in."""
    resource = dialect_of(written).resource
    assert resource is not None  # gangs of pods alone have no object
    version = written.api_version if isinstance(written, VersionedGroupObject) else ""
    return resource.at(version) if version not in ("", resource.api_version) else resource


def remarks_on(written: AnyPodGroup) -> tuple[str, ...]:
    """What a group object requests without effect, one sentence each."""
    return (*dialect_of(written).remarks(written), *lost_words(written))


def lost_words(written: AnyPodGroup | Job) -> tuple[str, ...]:
    """Fields and annotations of a group object without effect, one sentence each with its path."""
    meant = judged(written.metadata.annotations or (), _OF_GROUPS)
    keys = ((key, complaint_about(key, _OF_GROUPS)) for key in meant)
    complaints = {key: complaint for key, complaint in keys if complaint}
    if isinstance(written, bayplan_v1alpha1.PodGroup):
        set_here = FIELDS.keys() & (written.metadata.annotations or {}).keys()
        complaints |= {key: f"has no effect on this kind; set spec.{FIELDS[key]}" for key in sorted(set_here)}
    annotations = tuple(f'metadata.annotations["{key}"]: {complaint}' for key, complaint in complaints.items())
    return (*(written.unread or ()), *annotations)


def gang_of_members(
    key: str, written: AnyPodGroup | None, pods: Sequence[Pod], topologies: Topologies
) -> Gang | Incomplete:
    """The gang of a key in the roster, from its group object, if its dialect has one, and the pods that name it.

    Annotations about its placement count on group objects of other systems, and on the first pod of a gang without one.
    """
    dialect = dialect_of_gang(key)
    if is_untold(key):
        dialect.group_named(pods[0])  # says again what it fails on
    gang = dialect.gang_of(written, pods, topologies)
    if isinstance(gang, Incomplete):
        return gang
    gang = topologies.with_labels(gang)
    if dialect is own.DIALECT:
        return gang
    holder = pods[0] if written is None else written
    at = ObjectPath.of(holder).child("metadata").child("annotations")
    return as_annotated(gang, holder.metadata.annotations or {}, at)


def try_out(written: AnyPodGroup) -> None:
    """Ask the dialect of a package what evictions of others will ask it: its faults are said of its own object."""
    if type(written) not in KNOWN_POD_GROUPS:
        dialect = dialect_of(written)
        dialect.may_be_evicted(written)
        with suppress(InvalidObject):
            dialect.least_running(written)


def dialect_of_gang(key: str) -> Dialect[Any]:
    """The dialect of a gang, from its key in the roster."""
    name, _, rest = key.partition(" ")
    # Keys of bayplan's own have no dialect prefix, and a name from a dump can contain a space.
    return _by_name().get(name, own.DIALECT) if rest else own.DIALECT


def gang_named(pod: Pod) -> str:
    """The key of the gang that a pod names; empty if it names none."""
    for dialect in dialects():
        try:
            name = dialect.group_named(pod)
        except BrokenExtension:
            # Only this pod waits, in a gang of its own that says why. Alone it might be placed without its gang.
            name = UNTOLD + pod.metadata.name
        if name:
            return dialect.key(f"{pod.metadata.namespace or 'default'}/{name}")
    return ""


def is_untold(key: str) -> bool:
    """True of the gang of a pod whose dialect fails on it."""
    return key.partition("/")[2].startswith(UNTOLD)


def key_of(written: AnyPodGroup) -> str:
    """The key of the gang that a group object describes."""
    return dialect_of(written).key(full_name(written.metadata))


def parent_of(written: AnyPodGroup) -> str:
    """The key of the group object that this one is a part of; empty if there is none."""
    return dialect_of(written).parent(written)


def shown(key: str) -> str:
    """A gang's key for users: `ml/train`, or `ml/train (volcano)`."""
    dialect = dialect_of_gang(key)
    return key if dialect is own.DIALECT else f"{key.partition(' ')[2]} ({dialect.name})"
