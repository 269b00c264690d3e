"""What a table over the tree (`tree_table.py`) is asked for, and what each goal costs in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.equal.joining import LARGEST_COST
from bayplan.engine.gangs.equal.segments import SegmentLayer
from bayplan.engine.gangs.objective import Goal, Objective
from bayplan.engine.gangs.problem import Counts


@dataclass(frozen=True)
class TableRequest:
    """Pods inside one domain of `required`, in few of `preferred`, by an order of goals; `running_at` are positions.

    Domains at the level of a layer hold whole segments only, or one if they are apart. `least` is the minimum of
    pods per domain, by level.
    """

    pods: int
    required: int
    preferred: int | None
    objective: Objective
    running_at: tuple[int, ...] = ()
    layers: tuple[SegmentLayer, ...] = ()
    least: tuple[Counts, ...] = ()

    def allows(self, level: int, pods: Counts) -> NDArray[np.bool_] | None:
        """Which numbers of pods a domain of a level may have; None for all."""
        allowed: NDArray[np.bool_] | None = None
        for layer in self.layers:
            if layer.level == level:
                here = pods % layer.size == 0
                here = here & (pods <= layer.size) if layer.apart else here
                allowed = here if allowed is None else allowed & here
        return allowed

    def may_be_in_one(self, level: int) -> bool:
        """False if one domain of a level has too many segments that are apart."""
        return not any(layer.apart and layer.level <= level and layer.size < self.pods for layer in self.layers)

    def unit(self, level: int) -> int:
        """Domains of a level hold multiples of this number of pods: whole segments, or single pods."""
        return min((layer.size for layer in self.layers if layer.level >= level), default=1)

    def most_domains(self, tree: Tree, level: int) -> int:
        """No placement uses more domains of a level."""
        return 1 if level <= self.required else min(self.pods // self.unit(level), len(tree.starts[level]))

    @property
    def target(self) -> int:
        """The level whose leftover room counts."""
        return self.required if self.preferred is None else max(self.required, self.preferred)

    @property
    def closeness_decides(self) -> bool:
        """True if only the number of domains counts more than the mean distance."""
        return all(goal is Goal.FEWEST_DOMAINS for goal in self.objective[: self.objective.index(Goal.MEAN_DISTANCE)])


@dataclass(frozen=True, slots=True)
class Weights:
    """What one unit of each goal costs; `domains` by level.

    Goals before closeness are counted in units of `before_closeness`.
    """

    domains: dict[int, int]
    squares: int
    nodes: int
    leftover: int
    before_closeness: int


def weights_of(tree: Tree, asked: TableRequest, largest: int) -> Weights | None:
    """Weights that make the first goal decide before the second, and so on; None if they are too large."""
    pods = asked.pods
    widths: list[tuple[object, int]] = []
    for goal in asked.objective:
        if goal is Goal.FEWEST_DOMAINS and asked.preferred is not None:
            levels = range(asked.preferred, -1, -1)
            widths += [(level, asked.most_domains(tree, level)) for level in levels]
        elif goal is Goal.MEAN_DISTANCE:
            widths.append((goal, (tree.node_level + 1) * (pods + len(asked.running_at)) ** 2))
        elif goal is Goal.FEWEST_NODES:
            widths.append((goal, min(pods, tree.size)))
        elif goal is Goal.LEAST_LEFTOVER:
            widths.append((goal, asked.most_domains(tree, asked.target) * largest))
        elif goal is Goal.CLOSEST:
            widths.append((goal, 0))
    weight, found = 1, {}
    for name, most in reversed(widths):
        found[name] = weight
        weight *= most + 1
    if weight > LARGEST_COST:
        return None
    domains = {level: found[level] for level in range(tree.node_level + 1) if level in found}
    return Weights(
        domains,
        found[Goal.MEAN_DISTANCE],
        found[Goal.FEWEST_NODES],
        found[Goal.LEAST_LEFTOVER],
        found[Goal.CLOSEST],
    )
