"""Topology objects: the names of the levels of a cluster's tree, as Kueue and KAI write them.

Kueue (`kueue.x-k8s.io`, v1alpha1 to v1beta2) and KAI (`kai.scheduler/v1alpha1`) share one form:
`spec.levels[].nodeLabel`, the widest level first. Newer versions of KAI give a level an `alias`. Nothing but names:
which nodes belong together is in the nodes' labels. The rules here are those of their CRDs and of KAI's webhook.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.core_v1 import Metadata, WireStruct

KIND = "Topology"
API_VERSIONS = (
    "kueue.x-k8s.io/v1beta2",
    "kueue.x-k8s.io/v1beta1",
    "kueue.x-k8s.io/v1alpha1",
    "kai.scheduler/v1alpha1",
)
# Whose kind of Topology, by the first word of its API group.
KUEUE = "kueue"
KAI = "kai"
HOSTNAME = "kubernetes.io/hostname"
# What users call the lowest level, unless a level of their own has that name.
NODE_NAMES = ("node", "hostname", "host")
# The level below the node, which is no label: NUMA zones.
NUMA = "numa"
NUMA_NAMES = (NUMA, "numa-zone", "numa-node")
MOST_LEVELS = 16
LONGEST_LABEL = 316
# Of a text that is longer.
SHOWN = 40

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL = re.compile(rf"({_PREFIX}/)?{_NAME}")


class TopologyLevel(WireStruct, frozen=True):
    """One level: nodes with the same value of this label, and the same values above it, are one domain."""

    node_label: str = ""
    alias: str = ""


class TopologySpec(WireStruct, frozen=True):
    """Levels, the widest first."""

    levels: list[TopologyLevel] | None = None


class Topology(WireStruct, frozen=True):
    """A named tree. Typed lists leave `apiVersion` out, so decoding fills it in."""

    metadata: Metadata = Metadata()
    spec: TopologySpec = TopologySpec()
    api_version: str = ""

    @property
    def system(self) -> str:
        """Whose kind of Topology this is: `kueue` or `kai`."""
        return self.api_version.partition(".")[0]


def is_node_label(text: str) -> bool:
    """Whether a text could be the node label of a level."""
    return bool(_LABEL.fullmatch(text)) and len(text) <= LONGEST_LABEL


def levels_meant(name: str, levels: Sequence[str]) -> list[str]:
    """The levels that a name can mean: its whole label, else the part behind the slash, else the last word of that
    part.

    One entry: the name is unambiguous. Several: it is ambiguous. None: there is no such level. The node and its NUMA
    zones are always levels.

    >>> levels_meant("rack", ["cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"])
    ['cloud.provider.com/topology-rack']
    >>> levels_meant("rack", ["a.example/rack", "b.example/rack"])
    ['a.example/rack', 'b.example/rack']
    """
    if name in levels or name == HOSTNAME:
        return [name]
    wanted = name.lower()
    ends = [label.rpartition("/")[2].lower() for label in levels]
    for matches in (
        (end == wanted for end in ends),
        (end.endswith(("-" + wanted, "_" + wanted, "." + wanted)) for end in ends),
    ):
        found = [label for label, is_meant in zip(levels, matches, strict=True) if is_meant]
        if found:
            return found
    if wanted in NUMA_NAMES:
        return [NUMA]
    return [HOSTNAME] if wanted in NODE_NAMES else []


def level_meant(name: str, levels: Sequence[str]) -> str | None:
    """The label of the one level that a name means; None if it means none, or several."""
    # Not cached: a text of that length is no label.
    find = _level_meant if len(name) <= LONGEST_LABEL else _level_meant.__wrapped__
    return find(name, tuple(levels))


# Every group of a gang names its levels again: 0.1 us instead of 1 for each.
@lru_cache(maxsize=1024)
def _level_meant(name: str, levels: tuple[str, ...]) -> str | None:
    found = levels_meant(name, levels)
    return found[0] if len(found) == 1 else None


def same_level(one: str, other: str) -> bool:
    """Whether two names may mean the same level: equal, or one is a short name of the other."""
    return level_meant(one, [other]) == other or level_meant(other, [one]) == one


def not_a_level(name: str, levels: Sequence[str], known: str) -> str:
    """What is wrong with a name that means no level, or several of them; `known` tells which levels there are."""
    if len(name) > LONGEST_LABEL:
        return f'"{name[:SHOWN]}..." is no level: a label has at most {LONGEST_LABEL} characters'
    found = levels_meant(name, levels)
    if len(found) > 1:
        return f'"{name}" is ambiguous: it may be {" or ".join(found)}; write the whole label'
    by_name = {each: label for label in levels for each in (label.lower(), label.rpartition("/")[2].lower())}
    close = get_close_matches(name.lower(), by_name, n=1, cutoff=0.7)
    hint = f'; did you mean "{by_name[close[0]]}"?' if close else ""
    return f'"{name}" is not a level; {known}{hint}'


def levels_of(topology: Topology) -> tuple[str, ...]:
    """The labels of the levels; raises `InvalidObject` where the API server would refuse the object."""
    at = ObjectPath.of(topology).child("spec").child("levels")
    labels = [level.node_label for level in topology.spec.levels or []]
    if not 1 <= len(labels) <= MOST_LEVELS:
        raise InvalidObject(at, f"has {len(labels)} entries: must be 1 to {MOST_LEVELS}")
    for index, label in enumerate(labels):
        where = at.item(index).child("nodeLabel")
        if not is_node_label(label):
            raise InvalidObject(where, f'"{label}" is not a label name; expected such as example.com/rack')
        if label in labels[:index]:
            raise InvalidObject(where, f'"{label}" appears twice: levels must be unique')
        if label == HOSTNAME and index < len(labels) - 1:
            raise InvalidObject(where, f'"{HOSTNAME}" can only be the lowest level')
    return tuple(labels)


def aliases_of(topology: Topology) -> dict[str, str]:
    """The labels of levels by their alias; raises `InvalidObject` where KAI's webhook would refuse the object."""
    at = ObjectPath.of(topology).child("spec").child("levels")
    levels = topology.spec.levels or []
    labels = {level.node_label for level in levels}
    found: dict[str, str] = {}
    for index, level in enumerate(levels):
        where = at.item(index).child("alias")
        if level.alias in labels:
            raise InvalidObject(where, f'"{level.alias}" is the nodeLabel of a level: an alias must be another name')
        if level.alias in found:
            raise InvalidObject(where, f'"{level.alias}" appears twice: aliases must be unique')
        if level.alias:
            found[level.alias] = level.node_label
    return found
