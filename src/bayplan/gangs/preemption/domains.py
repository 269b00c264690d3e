"""Which domains could hold a gang once less important pods have left, and in what order to look into them.

All domains are judged at once, from the columns of `scheduling/preemption/freeable.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.preemption.victims import PRIORITY_OFFSET
from bayplan.gangs.model import Gang
from bayplan.gangs.relations.member_rules import Evenly, Together
from bayplan.gangs.scheduler import GangScheduler
from bayplan.plugins.pod_topology_spread import spread_counts
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.profile import PASSES

Slots = Mapping[PodClass, NDArray[np.float64]]
# Of a domain with more nodes, this many are looked into at first.
MOST_ROWS = 512


@dataclass(frozen=True, slots=True)
class DomainRows:
    """The rows of a domain that are of use, and how important its most important victim is at least.

    In a wide domain `rows` are those where a slot takes the fewest victims, and `others` the rest.
    """

    rows: list[int]
    least_highest: int
    others: list[int] = field(default_factory=list)

    def whole(self) -> DomainRows:
        """The domain with all rows."""
        return DomainRows(self.rows + self.others, self.least_highest)


def wanted_by(scheduler: GangScheduler, gang: Gang) -> dict[PodClass, int]:
    """How many pods of each class must start together."""
    wanted: dict[PodClass, int] = {}
    for group in gang.root.every_group():
        for pod in group.pods[: group.least]:
            pod_class = scheduler.state.classes.of(pod)
            wanted[pod_class] = wanted.get(pod_class, 0) + 1
    return wanted or {scheduler.state.classes.of(gang.pods[0]): 1}


def others_close_nodes(scheduler: GangScheduler, gang: Gang, tree: Tree) -> NDArray[np.bool_]:
    """By position, whether affinity or spread with pods outside closes a node to some member.

    Those pods may run on other nodes, where they are not looked for.
    """
    closed = np.zeros(tree.size, dtype=np.bool_)
    for is_open in scheduler.relations(gang).open_rows.values():
        closed |= ~is_open[tree.rows]
    return closed


def others_count(scheduler: GangScheduler, gang: Gang, tree: Tree) -> bool:
    """True if pods elsewhere may decide whether a domain holds a gang: their affinity, or where they are counted."""
    rules = scheduler.relations(gang).fellows.rules
    counted = (spread_counts(scheduler.state, rule.incoming, rule.rule) for rule in rules if isinstance(rule, Evenly))
    joins = any(isinstance(rule, Together) and rule.joined is not None for rule in rules)
    return joins or bool(others_close_nodes(scheduler, gang, tree).any()) or any(each.before.any() for each in counted)


@dataclass(frozen=True)
class DomainSearch:
    """The domains of a gang's required level."""

    scheduler: GangScheduler
    gang: Gang
    tree: Tree
    freeable: Freeable
    priority: int
    """Only pods below it may go."""

    def in_order(self) -> Iterator[DomainRows]:
        """The domains that could hold the gang if all less important pods left, the least to evict first."""
        tree = self.tree
        if not tree.size:
            return
        level = tree.level_number(self.gang.root.required) if self.gang.root.required else None
        starts = np.zeros(1, dtype=np.intp)
        if level is not None:
            starts = tree.starts[level] if level < tree.node_level else np.arange(tree.size)
        ends = np.append(starts[1:], tree.size)
        wanted = wanted_by(self.scheduler, self.gang)
        self.freeable.refresh(frozenset(name for pod in wanted for name in pod.request.total) | {PODS})
        now, then = ({pod: self._slots(pod, below) for pod in wanted} for below in (None, self.priority))

        def enough(slots: Slots) -> NDArray[np.bool_]:
            held: NDArray[np.bool_] = np.ones(len(starts), dtype=np.bool_)
            for pod, count in wanted.items():
                held &= np.add.reduceat(slots[pod], starts) >= count
            return held

        able = enough(then)
        # The lowest priority up to which pods must leave some domain at least: those where that suffices come first.
        below, least = self.priority, then
        levels = self.freeable.priorities_below(self.priority)
        low, high = 0, max(len(levels) - 1, 0)
        while low < high and able.any():
            middle = (low + high) // 2
            slots_then = {pod: self._slots(pod, levels[middle] + 1) for pod in wanted}
            if enough(slots_then).any():
                high, below, least = middle, levels[middle] + 1, slots_then
            else:
                low = middle + 1
        first = enough(least)
        pods_on = self.freeable.pods_below(below)[tree.rows]
        found: list[tuple[bool, float, int]] = []
        for number in np.flatnonzero(able).tolist():
            part = slice(starts[number], ends[number])
            victims = sum(
                _least_pods(now[pod][part], least[pod][part], pods_on[part], count) for pod, count in wanted.items()
            )
            found.append((not first[number], victims, number))
        lowest = levels[low : low + 2] or [-PRIORITY_OFFSET]
        for later, _, number in sorted(found):
            part = slice(starts[number], ends[number])
            useful = np.flatnonzero(np.maximum.reduce([then[pod][part] for pod in wanted]) > 0) + part.start
            first_rows, others = _by_promise(useful, now, least, pods_on, wanted)
            least_highest = lowest[-1] if later else lowest[0]
            yield DomainRows(tree.rows[first_rows].tolist(), least_highest, tree.rows[others].tolist())

    def _slots(self, pod: PodClass, below: int | None) -> NDArray[np.float64]:
        """By position in the tree, how many pods of a class fit at most once those below a priority have left."""
        scheduler = self.scheduler
        slots = self.freeable.slots(pod, scheduler.profile, self.tree.rows, below)
        by_node = scheduler.answers.for_class(pod, scheduler.profile).blocked_by_node[self.tree.rows]
        return np.where(by_node == PASSES, slots, 0.0)


def _by_promise(
    positions: NDArray[np.intp], now: Slots, least: Slots, pods: NDArray[np.float64], wanted: Mapping[PodClass, int]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The nodes of a wide domain where a slot takes the fewest victims, if they can hold the gang; and the others."""
    if len(positions) <= MOST_ROWS:
        return positions, positions[:0]
    gained = np.sum([least[pod][positions] - now[pod][positions] for pod in wanted], axis=0)
    has_room = np.maximum.reduce([now[pod][positions] for pod in wanted]) > 0
    of_a_slot = np.where(has_room, 0.0, pods[positions] / np.where(gained > 0, gained, 1e-9))
    order = np.argsort(of_a_slot, kind="stable")
    chosen, others = np.sort(positions[order[:MOST_ROWS]]), np.sort(positions[order[MOST_ROWS:]])
    if any(least[pod][chosen].sum() < count for pod, count in wanted.items()):
        return positions, positions[:0]
    return chosen, others


def _least_pods(now: NDArray[np.float64], then: NDArray[np.float64], pods: NDArray[np.float64], count: int) -> float:
    """About how many pods must leave a domain for `count` slots, from the nodes where a slot takes the fewest."""
    lacking = count - float(now.sum())
    gained = then - now
    rows = np.flatnonzero(gained > 0)
    if lacking <= 0 or not len(rows):
        return 0.0
    of_a_slot = pods[rows] / gained[rows]
    order = np.argsort(of_a_slot, kind="stable")
    taken = np.minimum(
        np.maximum(lacking - np.cumsum(gained[rows][order]) + gained[rows][order], 0), gained[rows][order]
    )
    return float((taken * of_a_slot[order]).sum())
