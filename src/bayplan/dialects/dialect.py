"""A dialect: one system's way of writing gangs, as a few pure functions.

A dialect says which group a pod names, and makes a `Gang` of the group object and its pods, or an `Incomplete` that
says what is missing. It also lists what the object requests and bayplan does not support. `registry.py` lists all
dialects; `dispatch/roster.py` calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

from bayplan.dialects.members import Incomplete
from bayplan.dialects.progress import Document, Progress
from bayplan.engine.gangs.objective import LOWEST_COMMON_DOMAIN, USUAL, Objective
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.trees import SINGLE_LABEL, Topologies, single_label
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.resources import Resource
from bayplan.kube.topology_levels import HOSTNAME, NUMA, levels_meant
from bayplan.kube.wire.core_v1 import Metadata, Pod

# Annotation of a group object without a field for its Topology.
TOPOLOGY = "bayplan.io/topology"

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class GroupContents:
    """What is inside a group object: its groups, in the order of their names, and pods.

    Both by the key of the object that has them.
    """

    groups: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    pods: Mapping[str, Sequence[Pod]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Where a group object says what a `Gang` has, such as `spec.togetherIn`. Errors name these fields."""

    required: str = ""
    preferred: str = ""
    segments: str = ""
    topology: str = ""
    minimum: str = ""

    @property
    def written(self) -> Mapping[str, str]:
        """The fields of the object by those of a `Gang`."""
        return {each.name: name for each in fields(self) if (name := getattr(self, each.name))}


@dataclass(frozen=True, slots=True)
class Dialect(Generic[W]):
    """One way of writing gangs; `written_as` is the wire struct of its group object, None if it has none."""

    name: str
    written_as: type[W] | None
    # The group that a pod names, in the pod's namespace; empty if it names none.
    group_named: Callable[[Pod], str]
    gang_of: Callable[[W, Sequence[Pod], Topologies], Gang | Incomplete]
    # What the object requests without effect, one sentence each.
    remarks: Callable[[W], tuple[str, ...]] = lambda _: ()
    # True if the object's status shows that the gang has been complete.
    was_complete: Callable[[W], bool] = lambda _: False
    # How many members must keep running; None if the gang can only be evicted as a whole.
    least_running: Callable[[W], int | None] = lambda _: None
    # False if no member may be evicted for more important pods.
    may_be_evicted: Callable[[W], bool] = lambda _: True
    # The status of the object, without times; empty if there is nothing to write. And the types of the conditions in
    # it.
    status_of: Callable[[Progress], Document] = lambda _: {}
    conditions: tuple[str, ...] = ()
    # The API resource of the group object.
    resource: Resource[Any] | None = None
    # The key of the group object that this one is a part of; empty if there is none.
    parent: Callable[[W], str] = lambda _: ""
    # The gang of an object that other group objects are a part of.
    gang_of_groups: Callable[[W, GroupContents, Topologies], Gang | Incomplete] | None = None
    # What errors call the fields of a gang.
    field_names: FieldNames = FieldNames()

    def key(self, name: str) -> str:
        """A gang's key in the roster, from `namespace/name`, unique across dialects."""
        return name if self.name == OWN else f"{self.name} {name}"


OWN = "bayplan"


def full_name(metadata: Metadata) -> str:
    """`namespace/name`."""
    return f"{metadata.namespace or 'default'}/{metadata.name}"


def as_others_prefer(root: Group) -> Objective:
    """The objective of Kueue's and KAI's gangs: a preferred level asks for the lowest common domain."""
    return LOWEST_COMMON_DOMAIN if any(group.preferred for group in root.every_group()) else USUAL


def topology_for(
    metadata: Metadata, levels: Sequence[str], topologies: Topologies, at: ObjectPath, system: str = ""
) -> str:
    """The Topology that these node labels refer to, for dialects that can name labels but no Topology.

    This is the one that an annotation names; else the only one with all these levels, of a `system` its own; else, for
    a single label, a tree of that label alone. Labels of several Topologies, or together of none, are an error.
    """
    named = (metadata.annotations or {}).get(TOPOLOGY, "")
    if named or not levels:
        return named
    every_level = [level for known in topologies.levels.values() for level in known]
    wanted = [level for level in levels if levels_meant(level, every_level) not in ([HOSTNAME], [NUMA])]
    if not wanted:
        return single_label(HOSTNAME)
    having = topologies.having(wanted, system)
    if len(having) == 1:
        return having[0]
    if having:
        choice = f"choose with the annotation {TOPOLOGY}"
        raise InvalidObject(at, f'"{wanted[0]}" is a level of several Topologies: {", ".join(having)}; {choice}')
    if len(set(wanted)) == 1:
        return single_label(wanted[0])
    raise InvalidObject(at, f"no Topology has all the levels {', '.join(wanted)}; {_known(topologies)}")


def asked_by_label(topology: str, at: ObjectPath, topologies: Topologies) -> str:
    """Where a gang names a node label that no Topology has, and the known levels; empty for other trees."""
    if not topology.startswith(SINGLE_LABEL):
        return ""
    levels = dict.fromkeys(level for known in topologies.levels.values() for level in known)
    return f"{at} asks for it; " + (f"known levels: {', '.join(levels)}" if levels else _known(topologies))


def _known(topologies: Topologies) -> str:
    return "known: " + ", ".join(topologies.levels) if topologies.levels else "the cluster has no Topology"
