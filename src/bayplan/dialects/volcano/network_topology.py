"""Volcano's `networkTopology` in levels of a tree: that of its HyperNodes, or that of a Topology.

HyperNodes say themselves which tier they are of, and may name it (`cluster/topology/hyper_nodes.py`). Where a cluster has none, or a PodGroup names a Topology, tiers are the
levels of the Topology, counted from below: tier 1 is its lowest level above the host, tier 2 the one above, and a tier's name is the label of a level or what
follows its slash.

    levels example.com/zone > example.com/block > example.com/rack > kubernetes.io/hostname
    tiers               3                   2                  1

`hard` requires one domain of the tier and likes the closest; `soft` likes the closest and takes what there is, nodes in no HyperNode too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayplan.cluster.topology.hyper_nodes import HYPER_NODES, WITH_OTHER_NODES, Hierarchy, Tier
from bayplan.dialects.dialect import TOPOLOGY
from bayplan.gangs.model import Group
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.topology_levels import HOSTNAME, level_meant, not_a_level
from bayplan.kube.wire.core_v1 import Metadata
from bayplan.kube.wire.volcano_scheduling_v1beta1 import MODES, SOFT, NetworkTopology


@dataclass(frozen=True, slots=True)
class Closeness:
    """The levels that a `networkTopology` means; None where it asks for nothing."""

    required: str | None = None
    preferred: str | None = None


NOTHING = Closeness()


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tiers that a PodGroup refers to, the closest first, with their levels in a tree; none if there is no such tree.

    `problem` says why numbers and names of tiers mean nothing; `waits` says why gangs that ask for closeness cannot be placed for now.
    """

    topology: str
    # The tree for gangs that only like to be close.
    if_soft: str = ""
    tiers: tuple[Tier, ...] = ()
    named: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    waits: str = ""

    @classmethod
    def of(cls, metadata: Metadata, topologies: Topologies) -> Tiers:
        """Of the Topology that an annotation names, else of the HyperNodes, else of the only Topology there is."""
        named = (metadata.annotations or {}).get(TOPOLOGY, "")
        known = topologies.levels
        if named and named not in known:
            return cls(named, problem=f'the annotation {TOPOLOGY} names "{named}", which does not exist')
        if not named and topologies.hyper_nodes_problem:
            return cls("", waits=f"waits until the HyperNodes are a tree; {topologies.hyper_nodes_problem}")
        if not named and topologies.hierarchy is not None:
            return cls._of_hyper_nodes(topologies.hierarchy)
        if not named and len(known) != 1:
            choice = f"choose one of {', '.join(known)} with the annotation {TOPOLOGY}"
            return cls("", problem=choice if known else "the cluster has no Topology whose levels they could be")
        topology = named or next(iter(known))
        return cls._of_levels(topology, [level for level in reversed(known[topology]) if level != HOSTNAME])

    @classmethod
    def _of_hyper_nodes(cls, hierarchy: Hierarchy) -> Tiers:
        return cls(HYPER_NODES, WITH_OTHER_NODES, tuple(reversed(hierarchy.tiers)), hierarchy.tier_named)

    @classmethod
    def _of_levels(cls, topology: str, upwards: list[str]) -> Tiers:
        tiers = tuple(Tier(number, level) for number, level in enumerate(upwards, start=1))
        return cls(topology, topology, tiers, {tier.level: tier.number for tier in tiers})

    def tree_for(self, whole: Group) -> str:
        """The tree that a gang is to be placed in; none if it asks for no closeness."""
        groups = list(whole.every_group())
        if any(group.required for group in groups):
            return self.topology
        return self.if_soft if any(group.preferred for group in groups) else ""

    def closeness(self, asked: NetworkTopology | None, at: ObjectPath) -> Closeness:
        """What a `networkTopology` means; raises `InvalidObject` if it cannot be told."""
        if asked is None:
            return NOTHING
        if asked.mode not in MODES:
            raise InvalidObject(at.child("mode"), f'"{asked.mode}" must be one of {", ".join(MODES)}')
        if asked.highest_tier_allowed is not None and asked.highest_tier_name:
            raise InvalidObject(at, "has both highestTierAllowed and highestTierName: only one may be given")
        if self.waits:
            raise InvalidObject(at, self.waits)
        closest = self.tiers[0].level if self.tiers else None
        if asked.mode == SOFT:
            return Closeness(preferred=closest)
        required = self._level(asked, at)
        return Closeness(required, closest if required not in (None, closest) else None)

    def _level(self, asked: NetworkTopology, at: ObjectPath) -> str | None:
        """The level of the highest tier; None if none is given, or one that spans the whole cluster, as Volcano reads it."""
        tier, name = asked.highest_tier_allowed, asked.highest_tier_name
        if tier is None and not name:
            return None
        field_name, value = ("highestTierName", f'"{name}"') if tier is None else ("highestTierAllowed", str(tier))
        where = at.child(field_name)
        if self.problem:
            raise InvalidObject(where, f"{value}: tiers are levels of a Topology; {self.problem}")
        if tier is None:
            levels = list(self.named)
            tier = self.named.get(level_meant(name, levels) or "")
            if tier is None:
                known = f"there are {', '.join(each.level for each in self.tiers)}"
                raise InvalidObject(where, not_a_level(name, levels, known))
        lowest = self.tiers[0].number if self.tiers else 1
        if tier < lowest:
            raise InvalidObject(where, f"{tier} must be {lowest} or more")
        if not self.tiers or tier > self.tiers[-1].number:
            return None
        # A number that no HyperNode has allows the smaller ones.
        return [each.level for each in self.tiers if each.number <= tier][-1]
