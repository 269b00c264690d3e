"""Dialects of other packages: checked when they are loaded, then asked through functions that check every answer.

A fault of theirs is a `BrokenExtension` that names dialect, package, function and problem. Built-in dialects are asked
directly. `registry.py` is next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any

from bayplan.dialects.dialect import TOPOLOGY, Dialect, FieldNames, asked_by_label, topology_for
from bayplan.dialects.members import Incomplete
from bayplan.extensions import DIALECTS, BrokenExtension, PackageEntry, entry_named, load
from bayplan.gangs.model import Gang, Group, Segments
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.resources import pod_groups
from bayplan.kube.wire.core_v1 import GroupObject, Pod

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")

Answer = Callable[..., Any]


def added_dialect(name: str, others: Iterable[Dialect[Any]]) -> Dialect[Any]:
    """The dialect that a package registers under a name. Raises `BrokenExtension` if it cannot be used."""
    entry = entry_named(DIALECTS, name)
    found: Any = load(DIALECTS, name)
    if not isinstance(found, Dialect):
        kind = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
        raise entry.wrong(f"is {kind}, not a Dialect")
    if not _NAME.fullmatch(str(found.name)):
        raise entry.wrong(f"has the name {found.name!r}; must be lower case letters, digits, dots and dashes")
    for known in others:
        if found.name == known.name:
            raise entry.wrong(f"has the name of another dialect, {known.name}")
        if found.written_as is not None and found.written_as is known.written_as:
            raise entry.wrong(f"uses the same struct as {known.name}, {found.written_as.__name__}")
    pod_groups()  # judges the resource itself
    if (found.resource.type if found.resource is not None else None) is not found.written_as:
        raise entry.wrong("has a resource of another struct than written_as; must be the same, or both None")
    not_functions = [each for each in _FUNCTIONS if not callable(getattr(found, each))]
    if not_functions:
        raise entry.wrong(f"has no function for {', '.join(not_functions)}")
    names = found.field_names
    if not isinstance(names, FieldNames):
        raise entry.wrong(f"has field_names of type {type(names).__name__}; must be FieldNames")
    asked: dict[str, Any] = {
        each: _asked(entry, each, getattr(found, each), *rule) for each, rule in _FUNCTIONS.items()
    }
    of_groups = found.gang_of_groups
    if of_groups is not None:
        of_groups = _in_topology(_asked(entry, "gang_of_groups", of_groups, *_FUNCTIONS["gang_of"]), names)
    gang_of = _in_topology(asked.pop("gang_of"), names)
    dialect: Dialect[Any] = replace(found, **asked, gang_of=gang_of, gang_of_groups=of_groups)
    return dialect


def _asked(entry: PackageEntry, function: str, answer: Answer, is_right: Callable[[Any], bool], must: str) -> Answer:
    """A function of a dialect whose faults are named."""

    def ask(*arguments: object) -> Any:
        try:
            found = answer(*arguments)
            if function == "group_named" and found is None:
                return ""  # the pod names none
            if is_right(found):
                return found
        except (InvalidObject, BrokenExtension):
            raise
        except Exception as error:
            raise entry.failed(function, error) from error
        raise entry.failed(function, f"returned {_shown(found)}; must be {must}")

    return ask


def _in_topology(gang_of: Answer, names: FieldNames) -> Answer:
    """The same gangs; those that ask for levels and name no Topology are in the one that has them (docs/gangs.md)."""

    def in_topology(written: GroupObject | None, inside: object, topologies: Topologies) -> Gang | Incomplete:
        gang: Gang | Incomplete = gang_of(written, inside, topologies)
        if isinstance(gang, Incomplete):
            return gang
        gang = replace(gang, field_names=names.written) if names.written else gang
        holder: Any = next(iter(inside if isinstance(inside, Sequence) else ()), None) if written is None else written
        if gang.topology or holder is None or not gang.levels:
            return gang
        if topologies.only() and TOPOLOGY not in (holder.metadata.annotations or {}):
            return gang  # the only one counts, and its levels are named if it lacks one
        at = ObjectPath(ObjectPath.of(holder).subject, names.required or names.preferred or names.segments)
        topology = topology_for(holder.metadata, gang.levels, topologies, at)
        return replace(gang, topology=topology, asked_in=asked_by_label(topology, at, topologies))

    return in_topology


def _is_gang(found: Any) -> bool:
    if isinstance(found, Incomplete):
        return _all_are(str, found.gang, found.reason)
    if not isinstance(found, Gang) or not _all_are(str, found.name, found.topology) or not _all_are(Group, found.root):
        return False
    return all(map(_is_group, found.root.every_group()))


def _is_group(group: Group) -> bool:
    return (
        _all_are(Group, group)
        and _all_are(Pod, *group.pods, *group.running)
        and _all_are((str, NoneType), group.required, group.preferred)
        and _all_are((int, NoneType), group.minimum)
        and _all_are(Segments, *group.segments)
        and _all_are(int, *(each.size for each in group.segments))
    )


def _all_are(kind: type[Any] | tuple[type[Any], ...], *found: object) -> bool:
    return all(isinstance(each, kind) for each in found)


def _is(*kinds: type[Any]) -> Callable[[Any], bool]:
    return lambda found: isinstance(found, kinds)


# By function: whether an answer is right, and what it must be.
_FUNCTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "group_named": (_is(str), "a text"),
    "gang_of": (_is_gang, "an Incomplete, or a Gang of Groups of pods"),
    "remarks": (lambda found: isinstance(found, tuple | list) and all(map(_is(str), found)), "a tuple of texts"),
    "was_complete": (_is(bool), "True or False"),
    "least_running": (_is(int, NoneType), "a number or None"),
    "may_be_evicted": (_is(bool), "True or False"),
    "status_of": (_is(dict), "a dict"),
    "parent": (_is(str), "a text"),
}


def _shown(value: object) -> str:
    return repr(value) if value is None or isinstance(value, int | float) else f"a {type(value).__name__}"
