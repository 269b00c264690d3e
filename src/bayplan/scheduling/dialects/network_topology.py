"""Volcano's `networkTopology` in levels of a Topology.

Volcano counts tiers from below: tier 1 is the closest set of nodes, tier 2 a set of those. A Topology names its levels from above, down to the host. So
tier 1 is its lowest level above the host, tier 2 the one above, and a tier's name is the label of a level or what follows its slash.

    levels example.com/zone > example.com/block > example.com/rack > kubernetes.io/hostname
    tiers               3                   2                  1

`hard` requires one domain of the tier and likes the closest; `soft` likes the closest and takes what there is.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.kube.core_v1 import Metadata
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.volcano_scheduling_v1beta1 import MODES, SOFT, NetworkTopology
from bayplan.scheduling.dialects.dialect import TOPOLOGY, Topologies


@dataclass(frozen=True, slots=True)
class Closeness:
    """The levels that a `networkTopology` means; None where it asks for nothing."""

    required: str | None = None
    preferred: str | None = None


NOTHING = Closeness()


@dataclass(frozen=True, slots=True)
class Tiers:
    """The levels of the Topology that a PodGroup's tiers count, from below; none if there is no such Topology."""

    topology: str
    levels: tuple[str, ...]
    problem: str = ""

    @classmethod
    def of(cls, metadata: Metadata, topologies: Topologies) -> Tiers:
        """Of the Topology that an annotation names, or of the only one there is."""
        named = (metadata.annotations or {}).get(TOPOLOGY, "")
        if named and named not in topologies:
            return cls(named, (), f'the annotation {TOPOLOGY} names "{named}", which does not exist')
        if not named and len(topologies) != 1:
            choice = f"choose one of {', '.join(topologies)} with the annotation {TOPOLOGY}"
            return cls("", (), choice if topologies else "the cluster has no Topology whose levels they could be")
        topology = named or next(iter(topologies))
        return cls(topology, tuple(level for level in reversed(topologies[topology]) if level != HOSTNAME))

    def closeness(self, asked: NetworkTopology | None, at: ObjectPath) -> Closeness:
        """What a `networkTopology` means; raises `InvalidObject` if it cannot be told."""
        if asked is None:
            return NOTHING
        if asked.mode not in MODES:
            raise InvalidObject(at.child("mode"), f'"{asked.mode}" must be one of {", ".join(MODES)}')
        if asked.highest_tier_allowed is not None and asked.highest_tier_name:
            raise InvalidObject(at, "has both highestTierAllowed and highestTierName: only one may be given")
        closest = self.levels[0] if self.levels else None
        if asked.mode == SOFT:
            return Closeness(preferred=closest)
        required = self._level(asked, at)
        return Closeness(required, closest if required not in (None, closest) else None)

    def _level(self, asked: NetworkTopology, at: ObjectPath) -> str | None:
        """The level of the highest tier; None if none is given, or one that spans the whole cluster, as Volcano reads it."""
        tier, name = asked.highest_tier_allowed, asked.highest_tier_name
        if tier is None and not name:
            return None
        field, value = ("highestTierName", f'"{name}"') if tier is None else ("highestTierAllowed", str(tier))
        if self.problem:
            raise InvalidObject(at.child(field), f"{value}: tiers are levels of a Topology; {self.problem}")
        if tier is not None:
            if tier < 1:
                raise InvalidObject(at.child(field), f"{tier} must be 1 or more")
            return self.levels[tier - 1] if tier <= len(self.levels) else None
        meant = [level for level in self.levels if name in (level, level.rpartition("/")[2])]
        if len(meant) != 1:
            raise InvalidObject(at.child(field), f"{value} is not a level; there are {', '.join(self.levels)}")
        return meant[0]
