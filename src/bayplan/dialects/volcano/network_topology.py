"""Volcano's `networkTopology` as levels of a tree of HyperNodes or of a Topology.

HyperNodes define their tiers (`cluster/topology/hyper_nodes.py`). Without HyperNodes, or if a PodGroup names a
Topology, tiers are its levels counted from below. A tier's name is the label of its level, or the part after the slash.

    levels example.com/zone > example.com/block > example.com/rack > kubernetes.io/hostname
    tiers               3                   2                  1

`hard` requires one domain of the tier and prefers the closest. `soft` prefers the closest and takes any nodes, also
those in no HyperNode.
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
class AllowedTiers:
    """The levels of a `networkTopology`; None if it has no request."""

    required: str | None = None
    preferred: str | None = None


NOTHING = AllowedTiers()


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tiers that a PodGroup can refer to, closest first, with their levels in a tree.

    `problem` says why tiers have no meaning; `waits` says why gangs with a `networkTopology` cannot be placed for now.
    """

    topology: str
    # The tree for gangs that only prefer closeness.
    if_soft: str = ""
    tiers: tuple[Tier, ...] = ()
    named: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    waits: str = ""

    @classmethod
    def of(cls, metadata: Metadata, topologies: Topologies) -> Tiers:
        """The tiers of the Topology that an annotation names, else of the HyperNodes, else of the only Topology."""
        named = (metadata.annotations or {}).get(TOPOLOGY, "")
        known = topologies.levels
        topology = topologies.named(named) if named else topologies.only()
        if named and topology not in known:
            return cls(named, problem=f'the annotation {TOPOLOGY} names "{named}", which does not exist')
        if not named and topologies.hyper_nodes_problem:
            return cls("", waits=f"waits until the HyperNodes are a tree; {topologies.hyper_nodes_problem}")
        if not named and topologies.hierarchy is not None:
            return cls._of_hyper_nodes(topologies.hierarchy)
        if not topology:
            choice = f"choose one of {', '.join(known)} with the annotation {TOPOLOGY}"
            return cls("", problem=choice if known else "the cluster has no Topology whose levels they could be")
        return cls._of_levels(topology, [level for level in reversed(known[topology]) if level != HOSTNAME])

    @classmethod
    def _of_hyper_nodes(cls, hierarchy: Hierarchy) -> Tiers:
        return cls(HYPER_NODES, WITH_OTHER_NODES, tuple(reversed(hierarchy.tiers)), hierarchy.tier_named)

    @classmethod
    def _of_levels(cls, topology: str, upwards: list[str]) -> Tiers:
        tiers = tuple(Tier(number, level) for number, level in enumerate(upwards, start=1))
        return cls(topology, topology, tiers, {tier.level: tier.number for tier in tiers})

    def tree_for(self, root: Group) -> str:
        """The tree that a gang is placed in; empty if it requests no closeness."""
        groups = list(root.every_group())
        if any(group.required for group in groups):
            return self.topology
        return self.if_soft if any(group.preferred for group in groups) else ""

    def closeness(self, asked: NetworkTopology | None, at: ObjectPath) -> AllowedTiers:
        """The levels of a `networkTopology`. Raises `InvalidObject` if it is ambiguous."""
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
            return AllowedTiers(preferred=closest)
        required = self._level(asked, at)
        return AllowedTiers(required, closest if required not in (None, closest) else None)

    def _level(self, asked: NetworkTopology, at: ObjectPath) -> str | None:
        """The level of the highest tier; None if it is missing or spans the whole cluster, as in Volcano."""
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
                known = f"known: {', '.join(each.level for each in self.tiers)}"
                raise InvalidObject(where, not_a_level(name, levels, known))
        lowest = self.tiers[0].number if self.tiers else 1
        if tier < lowest:
            raise InvalidObject(where, f"{tier} must be {lowest} or more")
        if not self.tiers or tier > self.tiers[-1].number:
            return None
        # A tier number without HyperNodes allows the lower tiers.
        return [each.level for each in self.tiers if each.number <= tier][-1]
