"""Could a running gang be closer together now? The search answers: the gang is started anew, on a copy of the cluster without it.

What counts is how many domains of a level the gang is in, and how far its pods are from each other on average. The level is the one that the gang prefers, else the
lowest of its tree; nodes, where all of it must be in one domain of that level anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Distances, Path, Tree, distances_among
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import single_label
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers

# Mean distances that differ by less are the same.
SAME_DISTANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Closeness:
    """In how many domains of `level` a running gang is now and would be if it were started anew, and how far apart its pods are.

    `anew` is None if the search found no place. A place that is no better is `proven` to be the best only if the search proved it.
    """

    level: str
    now: int
    distance: Distances
    anew: int | None = None
    distance_anew: Distances | None = None
    paths: tuple[Path, ...] = ()
    proven: bool = False

    @property
    def could_be_closer(self) -> bool:
        """True if a better place was found."""
        if self.anew is None or self.distance_anew is None:
            return False
        nearer = self.distance_anew.mean < self.distance.mean - SAME_DISTANCE
        return self.anew < self.now or (self.anew == self.now and nearer)


def unbound(pod: Pod) -> Pod:
    """The pod as it was before it came to a node."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=None))


def started_anew(group: Group) -> Group:
    """The group as it would be placed if none of its members ran."""
    return replace(
        group,
        pods=(*map(unbound, group.running), *group.pods),
        running=(),
        groups=tuple(map(started_anew, group.groups)),
        minimum=None,
        minimum_groups=None,
        coming=(),
        absent=(),
    )


def running_members(gang: Gang) -> list[Pod]:
    """The members that have nodes."""
    return [pod for group in gang.whole.every_group() for pod in group.running]


def closeness_of(scheduler: GangScheduler, gang: Gang, tree: Tree) -> Closeness | None:
    """Compare where a gang runs with where the search would put it; None if a member is on a node outside of the tree."""
    path_of = {path[-1]: path for path in tree.paths[tree.node_level]}
    nodes = [pod.spec.node_name or "" for pod in running_members(gang)]
    if not nodes or any(node not in path_of for node in nodes):
        return None
    level = _level(gang, tree)
    number = tree.level_number(level)
    if number is None:
        return None
    paths = [path_of[node] for node in nodes]
    now = Closeness(level, _domains(paths, number), distances_among(paths))
    trial = _without(scheduler, gang)
    whole = started_anew(gang.whole)
    asked = replace(
        gang,
        whole=replace(whole, preferred=whole.preferred or level),
        topology=gang.topology or tree.name or single_label(HOSTNAME),
        patience=None,
    )
    decision = schedule_gang(trial, asked)
    if not decision.seats or decision.left_out:
        return now
    seats = [seat.path for seat in decision.seats]
    return replace(
        now,
        anew=_domains(seats, number),
        distance_anew=distances_among(seats),
        paths=tuple(seats),
        proven=decision.status is Status.OPTIMAL and _knows_as_much(scheduler.state, trial.state, nodes),
    )


def _level(gang: Gang, tree: Tree) -> str:
    if gang.whole.preferred:
        return gang.whole.preferred
    lowest = tree.levels[-1] if tree.levels else HOSTNAME
    required = tree.level_number(gang.whole.required) if gang.whole.required else None
    return HOSTNAME if required is not None and required >= len(tree.levels) - 1 else lowest


def _domains(paths: list[Path], number: int) -> int:
    return len({path[: number + 1] for path in paths})


def _without(scheduler: GangScheduler, gang: Gang) -> GangScheduler:
    """A copy of the cluster without a gang."""
    state = scheduler.state.copy()
    for pod in running_members(gang):
        state.remove_pod(pod_key(pod))
    return GangScheduler(state, scheduler.trees.over(state), scheduler.profile, ClassAnswers(state))


def _knows_as_much(before: ClusterState, after: ClusterState, nodes: list[str]) -> bool:
    """False if a node's report becomes unusable without the gang: then it is unknown what the node could take."""
    return all(
        after.columns.topology[after.rows[node]] == before.columns.topology[before.rows[node]] for node in set(nodes)
    )
