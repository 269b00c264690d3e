"""Where a user finds what is wrong with a gang: the field of a PodGroup, or of the workload that it was made of.

In comes an error about a PodGroup, its pods or a gang; out goes the same error in terms of what the user has written.
`gang_objects.py` adds the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bayplan.dialects.dialect import TOPOLOGY
from bayplan.gangs.checks import CHOOSE
from bayplan.gangs.model import Gang
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.object_set import MadeFrom
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec, PodGroup, PodGroupSpec, PodShape
from bayplan.kube.wire.core_v1 import WireStruct

_OF_GROUP = re.compile(r'(?:group "([^"]*)": )?([a-zA-Z]+): (.*)', re.DOTALL)
_FIELDS = frozenset(
    ("topology", "required", "preferred", "segments", "minimum", "minimumGroups", "size", "groups", "patience")
)
_QUOTED = re.compile(r'"([^"]*)"')
_LABEL = re.compile(r"the label ([^\s;]+)")
_ASKED_BY_GROUP = re.compile(r" PodGroup [^\s:]+: [^\s;]+ asks for it;")
_NUMBER = re.compile(r"size (\d+)")
_OF_RESOURCES = re.compile(r"spec\.containers\[0\]\.resources\.(?:limits|requests)")
SEGMENTS = "segments"


class _Place(NamedTuple):
    """A group of a PodGroup: its path below the spec, with a dot at the end, and its shape with the path of that."""

    group: PodGroupSpec | GroupSpec
    path: str
    shape: PodShape | None
    shape_path: str


def wrong_gang(gang: Gang, written: WireStruct | None, kind: str, problem: str) -> InvalidObject:
    """The error about a gang that is wrong in itself; of our own PodGroup with the path of the field."""
    if written is None:
        return InvalidObject(ObjectPath(f"Pods of group {gang.name}"), problem)
    at = ObjectPath(f"{kind} {gang.name}")
    found = _OF_GROUP.fullmatch(problem)
    if not isinstance(written, PodGroup) or found is None or found[2] not in _FIELDS:
        return InvalidObject(at, problem)
    places = {place.group.name if isinstance(place.group, GroupSpec) else "": place for place in _groups(written)}
    place = places.get(found[1] or "")
    return (
        InvalidObject(at, problem)
        if place is None
        else InvalidObject(at.child(f"spec.{place.path}{found[2]}"), found[3])
    )


def path_of(written: PodGroup, field: str, level: str) -> str:
    """The path of the outermost field that names a level, such as `spec.groups[0].required`."""
    for place in _groups(written):
        named = [each.level for each in place.group.segments or ()]
        if level in (named if field == SEGMENTS else (getattr(place.group, field),)):
            return f"spec.{place.path}{field}"
    return f"spec.{field}"


def of_shape(error: InvalidObject, written: object) -> InvalidObject:
    """An error about a pod that was made of a shape, as one about the shape in its PodGroup."""
    kind, _, name = error.at.subject.partition(" ")
    if kind != "Pod" or not isinstance(written, PodGroup):
        return error
    group = name.rpartition("/")[2].rpartition("-")[0].removeprefix(written.metadata.name).removeprefix("-")
    for place in _groups(written):
        named = place.group.name if isinstance(place.group, GroupSpec) else ""
        if named == group and place.shape is not None:
            in_shape = error.at.field if place.shape.spec else _OF_RESOURCES.sub("resources", error.at.field)
            return InvalidObject(ObjectPath.of(written).child(f"spec.{place.shape_path}{in_shape}"), error.problem)
    return error


def of_origin(error: InvalidObject, origin: MadeFrom) -> InvalidObject:
    """An error about a PodGroup that was made of a workload, as one about the workload's annotation."""
    if not error.at.subject.startswith("PodGroup "):
        return error
    field = error.at.field.rpartition(".")[2]
    asked = _annotation(origin.fields, field, error.problem)
    if not asked and field == "topology" and error.problem.startswith(CHOOSE):
        choice = error.problem.removeprefix(CHOOSE)
        return InvalidObject(ObjectPath(origin.about), f"add the annotation {TOPOLOGY}: {choice}")
    if not asked:
        return InvalidObject(ObjectPath(origin.about), f"{field}: {error.problem}" if field else error.problem)
    about, _, path = asked.rpartition(": ")
    return InvalidObject(ObjectPath(about or origin.about, path), _ASKED_BY_GROUP.sub("", error.problem))


def _annotation(fields: Mapping[tuple[str, str], str], field: str, problem: str) -> str:
    """The annotation that a field of a PodGroup comes from, as a path; empty if there is none.

    Unequal segments are groups, which require the level of the segments.
    """
    named = [found[1] for each in (_QUOTED, _LABEL, _NUMBER) if (found := each.search(problem))]
    words = (field, "required", "preferred", SEGMENTS, f"{SEGMENTS}.size")
    keys = [(each, value) for value in named for each in words]
    exact = next((fields[key] for key in keys if key in fields), "")
    return exact or next((path for (each, _), path in fields.items() if each == field), "")


def _groups(written: PodGroup) -> Iterator[_Place]:
    """The whole PodGroup and each of its groups."""
    waiting = [_Place(written.spec, "", written.spec.pod, "pod.")]
    while waiting:
        place = waiting.pop()
        yield place
        for index, inner in enumerate(place.group.groups or ()):
            path = f"{place.path}groups[{index}]."
            own = (inner.pod, f"{path}pod.") if inner.pod is not None else (place.shape, place.shape_path)
            waiting.append(_Place(inner, path, *own))
