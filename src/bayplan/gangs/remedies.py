"""Changes that would let a gang in: each is searched, and its seats are taken on trial, before it is suggested.

Tries, one at a time: opening closed nodes, fewer pods, a wider required level, a preferred instead of a required
level, preferred instead of required segments, and moving or ending one running workload. All searches share one budget
of work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec import structs

from bayplan.cluster.node_status import NOT_READY_TAINTS, Closing, closing, closings
from bayplan.cluster.pods.tolerations import UNSCHEDULABLE_TAINT
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.budget import WORK_OF_A_DECISION, Budget
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group
from bayplan.gangs.numa_level import is_numa
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.topology_levels import HOSTNAME, NUMA
from bayplan.kube.wire.core_v1 import Pod, Toleration
from bayplan.scheduling.remedies import EVERYTHING, OpenNodes, opened

# All searches together cost at most as much as one decision.
WORK = WORK_OF_A_DECISION
# The cost of seating a pod on trial, and of copying a node.
WORK_OF_A_SEAT = 100
WORK_OF_A_NODE = 10
# Limits on groups that are changed one by one, and on workloads that are removed on trial.
MOST_GROUPS = 4
MOST_WORKLOADS = 6
# Cordons, kubelets and taints that are tried one by one.
MOST_CLOSURES = 6


@dataclass(frozen=True, slots=True)
class FewerPods:
    """The group would fit with `pods` pods instead of `instead_of`."""

    group: str
    pods: int
    instead_of: int


@dataclass(frozen=True, slots=True)
class WiderLevel:
    """The group would fit if it required `level` instead of `instead_of`."""

    group: str
    level: str
    instead_of: str


@dataclass(frozen=True, slots=True)
class PreferredLevel:
    """The group would fit if `level` were preferred instead of required; in `domains` domains, if known."""

    group: str
    level: str
    domains: int | None


@dataclass(frozen=True, slots=True)
class PreferredSegments:
    """The group would fit if its segments were preferred instead of required."""

    group: str
    size: int
    level: str


@dataclass(frozen=True, slots=True)
class WorkloadGone:
    """The gang would fit, on these nodes, if a workload were gone; `moves` if that one would fit elsewhere."""

    name: str
    pods: int
    moves: bool
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """A running gang or pod that could make room: its pods, and the gang it would be if restarted, None if unknown."""

    name: str
    bound: tuple[Pod, ...]
    anew: Callable[[], Gang | None]


GangRemedy = OpenNodes | FewerPods | WiderLevel | PreferredLevel | PreferredSegments | WorkloadGone


def gang_remedies(scheduler: GangScheduler, gang: Gang, running: Sequence[Running] = ()) -> tuple[GangRemedy, ...]:
    """Return changes that would help a gang that does not fit; `running` are workloads that could make room."""
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    if tree is None:
        return ()
    tries = _Tries(scheduler)
    groups = [group for group in gang.root.every_group() if group.pods or group.required or group.segments]
    open_nodes = tuple(_open_nodes(tries, gang))
    found: list[FewerPods | WiderLevel | PreferredLevel | PreferredSegments] = []
    for group in groups[:MOST_GROUPS]:
        found += _fewer_pods(tries, gang, group)
        found += _other_levels(tries, gang, group, tree)
        found += _softer_segments(tries, gang, group)
    if sum(bool(group.pods) for group in groups) == 1:
        found = [replace(each, group="") for each in found]  # only one group can be meant
    return (*open_nodes, *found, *_without_workloads(tries, gang, running, tree))


class _Tries:
    """Searches for changed gangs within one budget."""

    def __init__(self, scheduler: GangScheduler) -> None:
        self.scheduler = scheduler
        self.budget = Budget(WORK)

    def fits(self, gang: Gang, scheduler: GangScheduler | None = None) -> GangDecision | None:
        """Return the decision for a gang that fits; None if it does not, or if the budget is spent."""
        if self.budget.is_spent:
            return None
        chosen = scheduler or self.scheduler
        decision = schedule_gang(chosen, gang, parent=self.budget)
        self.budget.spend(WORK_OF_A_SEAT * len(decision.seats))
        return decision if decision.seats and _is_admitted(chosen, gang, decision) else None


def _is_admitted(scheduler: GangScheduler, gang: Gang, decision: GangDecision) -> bool:
    """Take every seat and give it back: a kubelet may refuse what counts promise."""
    taken = assume_gang(scheduler, gang, decision)
    for each in taken or ():
        scheduler.state.forget(each.pod)
    return taken is not None


def _open_nodes(tries: _Tries, gang: Gang) -> Iterator[OpenNodes]:
    """Yield the cordon, kubelet or taint without which the gang would fit; all of them if only together they help."""
    decision = tries.fits(_tolerating(gang, [EVERYTHING]))
    if decision is None:
        return
    state = tries.scheduler.state
    rows = np.flatnonzero(state.columns.present[: state.columns.size])
    classes = set(map(state.classes.of, gang.pods))
    kinds = [kind for pod in classes for kind in closings(state, rows, pod.tolerations, exactly=True).kinds]
    parts = list(dict.fromkeys(part for kind in kinds for part in _parts(kind)))
    helpful = False
    for part in parts[:MOST_CLOSURES]:
        alone = tries.fits(_tolerating(gang, _tolerations(part)))
        if alone is not None:
            helpful = True
            yield opened(_closed_seats(state, gang, alone))
    if parts and not helpful:
        yield opened(_closed_seats(state, gang, decision))


def _parts(closing: Closing) -> list[Closing]:
    """Return each obstacle by itself: the kubelet, the cordon, and each taint."""
    kubelet = [Closing(not_ready=True)] if closing.not_ready else []
    cordon = [Closing(cordoned=True)] if closing.cordoned else []
    return [*kubelet, *cordon, *(Closing(taints=(taint,)) for taint in closing.taints)]


def _tolerations(closing: Closing) -> list[Toleration]:
    """Return what a pod would have to tolerate."""
    keys = [*(NOT_READY_TAINTS if closing.not_ready else ()), *([UNSCHEDULABLE_TAINT.key] if closing.cordoned else ())]
    of_taints = (Toleration(key=each.key, operator="Exists", effect=each.effect) for each in closing.taints)
    return [*(Toleration(key=key, operator="Exists") for key in keys), *of_taints]


def _closed_seats(state: ClusterState, gang: Gang, decision: GangDecision) -> dict[str, Closing]:
    """Return what closes the nodes of some seats to the gang's pods as they are."""
    pods = {pod_key(pod): state.classes.of(pod) for pod in gang.pods}
    by_node = {
        seat.node: closing(state, state.rows[seat.node], pods[seat.pod].tolerations, exactly=True)
        for seat in decision.seats
    }
    return {node: found for node, found in sorted(by_node.items()) if found}


def _tolerating(gang: Gang, tolerations: list[Toleration]) -> Gang:
    def in_group(group: Group) -> Group:
        specs = ((pod, [*(pod.spec.tolerations or ()), *tolerations]) for pod in group.pods)
        pods = (structs.replace(pod, spec=structs.replace(pod.spec, tolerations=more)) for pod, more in specs)
        return replace(group, pods=tuple(pods), groups=tuple(map(in_group, group.groups)))

    return replace(gang, root=in_group(gang.root))


def _changed(gang: Gang, name: str, **changes: Any) -> Gang:
    def in_group(group: Group) -> Group:
        inner = replace(group, groups=tuple(map(in_group, group.groups)))
        return replace(inner, **changes) if group.name == name else inner

    return replace(gang, root=in_group(gang.root))


def _fewer_pods(tries: _Tries, gang: Gang, group: Group) -> Iterator[FewerPods]:
    """Yield the largest number of pods that fits, in whole segments; found by bisection."""
    segment_size = next((each.size for each in group.segments if each.required), 1)
    low, high = 0, (group.least - 1) // segment_size
    while low < high:
        middle = (low + high + 1) // 2
        if tries.fits(_changed(gang, group.name, pods=group.pods[: middle * segment_size], minimum=None)):
            low = middle
        else:
            high = middle - 1
    # A minimum below the size stays one, which not every style supports.
    is_minimum = group.minimum is not None and group.minimum < len(group.pods)
    if low and (not is_minimum or tries.fits(_changed(gang, group.name, minimum=low * segment_size))):
        yield FewerPods(group.name, low * segment_size, group.least)


def _other_levels(tries: _Tries, gang: Gang, group: Group, tree: Tree) -> Iterator[WiderLevel | PreferredLevel]:
    """Yield the next wider level that fits, and the same level preferred."""
    required = group.required
    number = None if required is None else tree.level_number(required)
    if required is None or number is None:
        return
    in_zone = is_numa(required, tree.levels)
    for level in (*((HOSTNAME,) if in_zone else ()), *reversed(tree.levels[:number])):
        if tries.fits(_changed(gang, group.name, required=level)):
            yield WiderLevel(group.name, level, required)
            break
    decision = tries.fits(_changed(gang, group.name, required=None, preferred=required))
    if decision is not None:
        label = NUMA if in_zone else HOSTNAME if number == tree.node_level else tree.levels[number]
        yield PreferredLevel(
            group.name, label, decision.preferred_domains if group is gang.root and not in_zone else None
        )


def _softer_segments(tries: _Tries, gang: Gang, group: Group) -> Iterator[PreferredSegments]:
    for each in group.segments:
        if each.required:
            segments = tuple(replace(one, required=one.required and one is not each) for one in group.segments)
            if tries.fits(_changed(gang, group.name, segments=segments)):
                yield PreferredSegments(group.name, each.size, each.level)
                return


# -- room that others could make -------------------------------------------------------------------------------------


def _without_workloads(tries: _Tries, gang: Gang, running: Sequence[Running], tree: Tree) -> Iterator[WorkloadGone]:
    """Yield the smallest workload whose room would do; one that fits elsewhere before one that does not."""
    ending: WorkloadGone | None = None
    for each in _promising(tries.scheduler, gang, running, tree)[:MOST_WORKLOADS]:
        if tries.budget.is_spent:
            break
        tries.budget.spend(WORK_OF_A_NODE * tree.size)
        trial = tries.scheduler.without(each.bound)
        decision = tries.fits(gang, trial)
        if decision is None or assume_gang(trial, gang, decision) is None:
            continue
        moves = _has_room(tries, trial, each.anew())
        gone = WorkloadGone(each.name, len(each.bound), moves, tuple(sorted({seat.node for seat in decision.seats})))
        if moves:
            yield gone
            return
        ending = ending or gone
    if ending is not None:
        yield ending


def _has_room(tries: _Tries, scheduler: GangScheduler, gang: Gang | None) -> bool:
    """True if all pods of a gang find room, not only its minimum."""
    decision = None if gang is None else tries.fits(gang, scheduler)
    return gang is not None and decision is not None and len(decision.seats) == len(gang.pods)


def _promising(scheduler: GangScheduler, gang: Gang, running: Sequence[Running], tree: Tree) -> list[Running]:
    """Return workloads that could free enough in total, fewest pods first; all of them if pods of the gang differ."""
    by_size = sorted(running, key=lambda each: (len(each.bound), each.name))
    classes = {scheduler.state.classes.of(pod) for pod in gang.pods}
    if len(classes) != 1:
        return by_size
    pod, state = classes.pop(), scheduler.state
    needed = sum(group.least for group in gang.root.every_group())
    level = tree.level_number(gang.root.required) if gang.root.required else None
    slots = scheduler.slots(pod, tree, len(gang.pods))
    position_of = {state.names[row]: position for position, row in enumerate(tree.rows)}
    wanted = {name: amount for name, amount in pod.request.total.items() if amount}
    before = slots.sum(keepdims=True) if level is None else tree.sums(slots, level)

    def room(workload: Running) -> int:
        freed: dict[int, Counter[str]] = {}
        for each in workload.bound:
            position = position_of.get(each.spec.node_name or "")
            if position is not None:
                freed.setdefault(position, Counter()).update(state.classes.request_of(each).total)
        after = before.copy()
        for position, amounts in freed.items():
            row = int(tree.rows[position])
            then = [
                (int(state.columns.free[state.columns.index_of(name), row]) + amounts[name]) // wanted[name]
                for name in wanted
            ]
            domain = 0 if level is None else int(tree.domain_at[level][position])
            after[domain] += max(int(min(then, default=len(gang.pods))) - int(slots[position]), 0)
        return int(after.max(initial=0))

    return [each for each in by_size if room(each) >= needed]
