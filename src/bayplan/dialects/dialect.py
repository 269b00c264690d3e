"""What a dialect is: one way of writing gangs, as a handful of pure functions.

Each system has an object for a group and a way in which pods name it. A dialect says which group a pod names, makes a `Gang` of the group and the
pods that name it, or says what is still waited for (`Incomplete`), and tells in one sentence each what the object asks for that bayplan does not
do. `dialects/registry.py` lists them all; `dispatch/roster.py` asks them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bayplan.dialects.own.members import Incomplete
from bayplan.dialects.progress import Document, Progress
from bayplan.engine.gangs.objective import LOWEST_COMMON_DOMAIN, USUAL, Objective
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.trees import SINGLE_LABEL, Topologies, single_label
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.resources import Resource
from bayplan.kube.topology_levels import HOSTNAME, NUMA, levels_meant
from bayplan.kube.wire.core_v1 import Metadata, Pod

# On a group object that cannot name a Topology itself.
TOPOLOGY = "bayplan.io/topology"

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Dialect(Generic[W]):
    """One way of writing gangs. `written_as` is the wire struct of its group object, None if pods alone make a group."""

    name: str
    written_as: type[W] | None
    # The name of the group that a pod names, in the pod's namespace; empty if it names none.
    group_named: Callable[[Pod], str]
    gang_of: Callable[[W, Sequence[Pod], Topologies], Gang | Incomplete]
    # What the object asks for and does not get, one sentence each.
    remarks: Callable[[W], tuple[str, ...]] = lambda _: ()
    # True if the object itself says that the gang has been complete.
    was_complete: Callable[[W], bool] = lambda _: False
    # How many members must keep running; None if the gang can only be evicted as a whole.
    least_running: Callable[[W], int | None] = lambda _: None
    # The status of the object, without times; empty if there is nothing to write. And the types of the conditions in it.
    status_of: Callable[[Progress], Document] = lambda _: {}
    conditions: tuple[str, ...] = ()
    # Where the API server keeps these objects.
    resource: Resource[Any] | None = None

    def key(self, name: str) -> str:
        """A gang's key in the roster, from `namespace/name`: two dialects may have groups of one name."""
        return name if self.name == OWN else f"{self.name} {name}"


OWN = "bayplan"


def full_name(metadata: Metadata) -> str:
    """`namespace/name`."""
    return f"{metadata.namespace or 'default'}/{metadata.name}"


def as_others_prefer(whole: Group) -> Objective:
    """The order of goals of a gang in Kueue's or KAI's words: a preferred level means the lowest common domain first there."""
    return LOWEST_COMMON_DOMAIN if any(group.preferred for group in whole.every_group()) else USUAL


def topology_for(metadata: Metadata, levels: Sequence[str], topologies: Topologies, at: ObjectPath) -> str:
    """The Topology that these node labels refer to, for dialects that can name labels but no Topology.

    This is the one that an annotation names; else the only one that has all these levels; else, for a single label, a tree of that label
    alone. Labels that are in several Topologies, or together in none, are an error.
    """
    named = (metadata.annotations or {}).get(TOPOLOGY, "")
    if named or not levels:
        return named
    every_level = [level for known in topologies.levels.values() for level in known]
    wanted = [level for level in levels if levels_meant(level, every_level) not in ([HOSTNAME], [NUMA])]
    if not wanted:
        return single_label(HOSTNAME)
    having = [name for name, known in topologies.levels.items() if all(levels_meant(each, known) for each in wanted)]
    if len(having) == 1:
        return having[0]
    if having:
        choice = f"choose with the annotation {TOPOLOGY}"
        raise InvalidObject(at, f'"{wanted[0]}" is a level of several Topologies: {", ".join(having)}; {choice}')
    if len(set(wanted)) == 1:
        return single_label(wanted[0])
    raise InvalidObject(at, f"no Topology has all the levels {', '.join(wanted)}; {_known(topologies)}")


def asked_by_label(topology: str, at: ObjectPath, topologies: Topologies) -> str:
    """Where a node label is named that is a level of no Topology, and which levels there are; empty if the gang's tree is another."""
    if not topology.startswith(SINGLE_LABEL):
        return ""
    levels = dict.fromkeys(level for known in topologies.levels.values() for level in known)
    return f"{at} asks for it; " + (f"there are the levels {', '.join(levels)}" if levels else _known(topologies))


def _known(topologies: Topologies) -> str:
    return "there are " + ", ".join(topologies.levels) if topologies.levels else "the cluster has no Topology"
