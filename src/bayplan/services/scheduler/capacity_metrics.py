"""How much room aligned pods and gangs find, as metrics: fragmentation of NUMA zones, free amounts by topology level,
and the largest gang by level for pods of given shapes.

The leader computes them once a minute in the side thread: 20,000 nodes with 8 zones take about a tenth of a second.
Names of resources and Topologies come from nodes and users, so only the first few of each become labels. Shapes of pods
are those of the command line.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.node_status import closings
from bayplan.cluster.pods.request import CPU, MEMORY, PODS
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.numa.fragmentation import MILLI_PER_CPU, aligned_amounts
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile
from bayplan.services.edges.metrics import CapacityMetrics
from bayplan.services.edges.side_thread import SideThread

logger = logging.getLogger(__name__)

EVERY = 60.0
MAX_RESOURCES = 8
MAX_TOPOLOGIES = 8
NODE = "node"
ALL_SLOTS = 1 << 16


@dataclass(frozen=True, slots=True)
class Capacity:
    """Fragmentation by resource, and the free amount of the roomiest domain by topology, level and resource."""

    fragmentation: Mapping[str, float]
    largest_free: Mapping[tuple[str, str, str], float]
    largest_gang: Mapping[tuple[str, str, str], int]


class GangShapes:
    """Pods of given shapes, by the text that describes each, and how many of them find room together."""

    def __init__(self, state: ClusterState, trees: Trees, profile: Profile, shapes: Mapping[str, Pod]) -> None:
        self._state = state
        self._shapes = shapes
        self._scheduler = GangScheduler(state, trees, profile, ClassAnswers(state))

    def largest(self, tree: Tree) -> Iterator[tuple[str, str, int]]:
        """Level, shape, and the most pods that one domain of the level takes now."""
        for text, pod in self._shapes.items():
            slots = self._scheduler.slots(self._state.classes.of(pod), tree, ALL_SLOTS)
            for number, level in enumerate((*tree.levels, NODE)):
                yield level, text, int(tree.sums(slots, number).max())


def capacity_of(state: ClusterState, trees: Trees, shapes: GangShapes) -> Capacity:
    """The figures of the cluster as it is now; nodes that are closed to new pods do not count."""
    columns = state.columns
    every = np.fromiter(state.rows.values(), dtype=np.intp, count=len(state.rows))
    rows = every[closings(state, every).open]
    resources = _resources(state, rows)
    fragmentation = {}
    for name in resources:
        aligned = aligned_amounts(state, name, rows)
        at_best = float(aligned.at_best.sum())
        if at_best > 0:
            fragmentation[name] = 1.0 - float(aligned.largest.sum()) / at_best
    largest: dict[tuple[str, str, str], float] = {}
    gangs: dict[tuple[str, str, str], int] = {}
    for topology in sorted(trees.names)[:MAX_TOPOLOGIES]:
        tree = trees.get(topology)
        if tree is None or not tree.size:
            continue
        is_open = closings(state, tree.rows).open
        for name in resources:
            free = np.where(is_open, np.maximum(columns.free[columns.index_of(name)][tree.rows], 0.0), 0.0)
            for number, level in enumerate((*tree.levels, NODE)):
                most = float(tree.sums(free, number).max())
                largest[topology, level, name] = most / MILLI_PER_CPU if name == CPU else most
        gangs |= {(topology, level, text): pods for level, text, pods in shapes.largest(tree)}
    return Capacity(fragmentation, largest, gangs)


def _resources(state: ClusterState, rows: NDArray[np.intp]) -> list[str]:
    """CPU and memory, then other names that schedulable nodes have, as many as become labels."""
    columns = state.columns
    names = [name for name in columns.resource_names if name and name not in (CPU, MEMORY, PODS)]
    present = [name for name in names if columns.allocatable[columns.index_of(name)][rows].any()]
    return [CPU, MEMORY, *sorted(present)][:MAX_RESOURCES]


async def keep_measuring(
    state: ClusterState, trees: Trees, shapes: GangShapes, metrics: CapacityMetrics, side_thread: SideThread
) -> None:
    """Set the metrics once a minute until cancelled."""
    while True:
        try:
            found = await side_thread.run(partial(capacity_of, state, trees, shapes))
            metrics.set(found.fragmentation, found.largest_free, found.largest_gang)
        except Exception:
            # Figures are not worth a scheduler that ends.
            logger.exception("measuring the capacity failed, retrying")
        await asyncio.sleep(EVERY)
