"""Could a running gang be closer together now? The search restarts it on a copy of the cluster without it.

Compares the number of domains and the mean distance of pods. The level is the preferred one, else the lowest of the
tree, or nodes if the whole gang must be in one domain of that level anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Distances, Path, Tree, distances_among
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import single_label
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Pod

# Tolerance for equal mean distances.
SAME_DISTANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Closeness:
    """The number of domains of `level` and the distances of a gang, now and if it were restarted (`anew`).

    `anew` is None if the search found no place. `proven` if the search proved that there is no better place.
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
        """True if there is a better place."""
        if self.anew is None or self.distance_anew is None:
            return False
        nearer = self.distance_anew.mean < self.distance.mean - SAME_DISTANCE
        return self.anew < self.now or (self.anew == self.now and nearer)


def unbound(pod: Pod) -> Pod:
    """Return the pod as it was before its bind."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=None))


def started_anew(group: Group) -> Group:
    """Return the group with its running members waiting again."""
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
    """Return the members that have nodes."""
    return [pod for group in gang.root.every_group() for pod in group.running]


def closeness_of(scheduler: GangScheduler, gang: Gang, tree: Tree) -> Closeness | None:
    """Compare where a gang runs with where the search would put it.

    None if it is a single pod or wants to be spread, or if a member's node is not in the tree.
    """
    path_of = {path[-1]: path for path in tree.paths[tree.node_level]}
    nodes = [pod.spec.node_name or "" for pod in running_members(gang)]
    if len(nodes) < 2 or gang.spread or any(node not in path_of for node in nodes):
        return None
    level = _level(gang, tree)
    number = tree.level_number(level)
    if number is None:
        return None
    paths = [path_of[node] for node in nodes]
    now = Closeness(level, _domains(paths, number), distances_among(paths))
    trial = scheduler.without(running_members(gang))
    root = started_anew(gang.root)
    asked = replace(
        gang,
        root=replace(root, preferred=root.preferred or level),
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
    if gang.root.preferred:
        return gang.root.preferred
    lowest = tree.levels[-1] if tree.levels else HOSTNAME
    required = tree.level_number(gang.root.required) if gang.root.required else None
    return HOSTNAME if required is not None and required >= len(tree.levels) - 1 else lowest


def _domains(paths: list[Path], number: int) -> int:
    return len({path[: number + 1] for path in paths})


def _knows_as_much(before: ClusterState, after: ClusterState, nodes: list[str]) -> bool:
    """False if a node's report becomes unusable without the gang: the node's room is then unknown."""
    return all(
        after.columns.topology[after.rows[node]] == before.columns.topology[before.rows[node]] for node in set(nodes)
    )
