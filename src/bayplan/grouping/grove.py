"""Grove's gangs: a PodGang names its pod groups, their pods, and which of them share a domain.

A PodGang owns no pods; pods name it in a label. It is looked up (`grouping.py`), read once for all modes
(`read_pod_gang`), and becomes bayplan's own PodGroup: pod groups become groups, and configurations become groups around
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from bayplan.dialects.kai.pod_group import TOPOLOGY
from bayplan.dialects.own.members import GROUP, POD_GROUP
from bayplan.grouping.annotations import AnnotatedRequest, AnnotationReader
from bayplan.grouping.grouping import Answers, Grouping, InvalidGrouping, InvalidValue, Lookup, one
from bayplan.grouping.podgroup import manifest_of, name_of
from bayplan.grouping.raw import (
    RawObject,
    Reference,
    WrongValue,
    annotations_of,
    labels_of,
    list_at,
    number_at,
    text_at,
)
from bayplan.grouping.workload import group_name
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec, PodGroup, PodGroupSpec
from bayplan.kube.wire.core_v1 import Metadata, OwnerReference

API_VERSION = "scheduler.grove.io/v1alpha1"
POD_GANG = "grove.io/podgang"
POD_CLIQUE = "grove.io/podclique"
GROVE_TOPOLOGY = "grove.io/topology-name"
_Value = TypeVar("_Value")
_PACK = ("topologyConstraint", "packConstraint")


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels that pods should share in Grove's terms; None if absent."""

    required: str | None = None
    preferred: str | None = None


@dataclass(frozen=True, slots=True)
class GrovePods:
    """A pod group of a PodGang, and its configuration."""

    name: str
    minimum: int
    pods: tuple[str, ...]
    levels: Levels
    parent: str = ""


@dataclass(frozen=True, slots=True)
class PodGang:
    """A decoded PodGang: its tree, what all pods share, configurations by name, and pod groups."""

    topology: str
    levels: Levels
    parents: dict[str, Levels]
    pod_groups: tuple[GrovePods, ...]


def gang_name(pod: RawObject) -> str:
    """The PodGang that a pod names; empty if it names none."""
    return labels_of(pod).get(POD_GANG, "")


def find_pod_gang(pod: RawObject, answers: Answers) -> RawObject | None:
    """The PodGang of a pod; None if it does not exist."""
    namespace = Reference.of(pod).namespace
    return one(answers, Lookup(API_VERSION, "PodGang", namespace, gang_name(pod)))


def read_pod_gang(gang: RawObject, namespace: str) -> PodGang:
    """The parts of a PodGang. Raises `WrongValue` with the field if it is invalid."""
    annotations = annotations_of(gang)
    topology = annotations.get(GROVE_TOPOLOGY, annotations.get(TOPOLOGY, ""))
    parents: dict[str, Levels] = {}
    parent_of: dict[str, str] = {}
    for number, entry in enumerate(list_at(gang, ("spec", "topologyConstraintGroupConfigs"))):
        field = f"spec.topologyConstraintGroupConfigs[{number}]"
        name = _needed(text_at(entry, ("name",)), f"{field}.name")
        inside = list_at(entry, ("podGroupNames",))
        if inside:
            parents[name] = _levels(entry, _PACK, topology, field)
            parent_of |= dict.fromkeys(inside, name)
    groups = tuple(
        _pod_group(entry, f"spec.podgroups[{number}]", topology, namespace, parent_of)
        for number, entry in enumerate(list_at(gang, ("spec", "podgroups")))
    )
    return PodGang(topology, _levels(gang, ("spec", *_PACK), topology, "spec"), parents, groups)


def _pod_group(entry: RawObject, field: str, topology: str, namespace: str, parent_of: dict[str, str]) -> GrovePods:
    name = _needed(text_at(entry, ("name",)), f"{field}.name")
    minimum = _needed(number_at(entry, ("minReplicas",)), f"{field}.minReplicas")
    if minimum < 1:
        raise WrongValue(f"{field}.minReplicas", minimum, "must be 1 or more")
    pods = []
    for number, reference in enumerate(_needed(entry.get("podReferences"), f"{field}.podReferences")):
        at = f"{field}.podReferences[{number}]"
        home = _needed(text_at(reference, ("namespace",)), f"{at}.namespace")
        if home != namespace:
            raise WrongValue(f"{at}.namespace", home, f"must be the gang's own namespace {namespace}")
        pods.append(_needed(text_at(reference, ("name",)), f"{at}.name"))
    return GrovePods(name, minimum, tuple(pods), _levels(entry, _PACK, topology, field), parent_of.get(name, ""))


def _levels(thing: RawObject, path: tuple[str, ...], topology: str, field: str) -> Levels:
    levels = Levels(text_at(thing, (*path, "required")), text_at(thing, (*path, "preferred")))
    if levels != Levels() and not topology:
        raise WrongValue(f"{field}.topologyConstraint", None, f"needs the annotation {GROVE_TOPOLOGY} on the PodGang")
    return levels


def _needed(value: _Value | None, field: str) -> _Value:
    if value is None:
        raise WrongValue(field, None, "is missing")
    return value


# -- bayplan's own PodGroup -------------------------------------------------------------------------------------


def grouping_of(pod: RawObject, owners: Sequence[RawObject], answers: Answers) -> Grouping:
    """The gang of a pod that names a PodGang."""
    member = Reference.of(pod)
    gang = find_pod_gang(pod, answers)
    if gang is None:
        problem = InvalidValue(
            member, f'metadata.labels["{POD_GANG}"]', gang_name(pod), "does not exist in the pod's namespace"
        )
        raise InvalidGrouping(problem)
    about = Reference.of(gang)
    try:
        read = read_pod_gang(gang, member.namespace)
    except WrongValue as wrong:
        raise InvalidGrouping(InvalidValue(about, wrong.field, wrong.value, wrong.allowed)) from None
    reader = AnnotationReader()
    request = AnnotatedRequest()
    for thing in (*reversed(owners), gang):
        request = reader.read(Reference.of(thing), annotations_of(thing)).over(request)
    problems = tuple(reader.problems)
    if problems:
        return Grouping(owner=about, problems=problems)
    wanted = _pod_group_of(gang, read, request)
    place = _place(pod, read)
    labels = {POD_GROUP: wanted.metadata.name, GROUP: place}
    return Grouping(wanted.metadata.name, manifest_of(wanted), about, place, labels=labels)


def _place(pod: RawObject, gang: PodGang) -> str:
    """The pod group that lists a pod, or is named like its clique."""
    about = Reference.of(pod)
    clique = labels_of(pod).get(POD_CLIQUE, "")
    listed = [group.name for group in gang.pod_groups if about.name in group.pods]
    named = [group.name for group in gang.pod_groups if group.name == clique]
    found = next(iter(listed + named), None)
    if found is None:
        known = ", ".join(group.name for group in gang.pod_groups) or "none"
        raise InvalidGrouping(
            InvalidValue(
                about, "metadata.name", about.name, f"is listed by no pod group of its PodGang; known: {known}"
            )
        )
    return group_name(found)


def _pod_group_of(gang: RawObject, read: PodGang, request: AnnotatedRequest) -> PodGroup:
    about = Reference.of(gang)
    levels = read.levels if read.levels != Levels() else Levels(request.required, request.preferred)
    top = [_group(group) for group in read.pod_groups if not group.parent]
    around = [
        GroupSpec(
            name=group_name(name),
            required=own.required,
            preferred=own.preferred,
            groups=[_group(group) for group in read.pod_groups if group.parent == name],
        )
        for name, own in read.parents.items()
    ]
    spec = PodGroupSpec(
        topology=read.topology or request.topology,
        required=levels.required,
        preferred=levels.preferred,
        groups=[group for group in around if group.groups] + top,
    )
    owner = OwnerReference(api_version=about.api_version, kind=about.kind, name=about.name, uid=about.uid)
    metadata = Metadata(name=name_of(about), namespace=about.namespace or None, owner_references=[owner])
    return PodGroup(metadata=metadata, spec=spec)


def _group(pods: GrovePods) -> GroupSpec:
    size = max(len(pods.pods), pods.minimum)
    return GroupSpec(
        name=group_name(pods.name),
        size=size,
        minimum=pods.minimum if pods.minimum < size else None,
        required=pods.levels.required,
        preferred=pods.levels.preferred,
    )
