"""Running gangs: whether each group is in one domain of its required level, and the seats of its members.

bayplan never splits a gang. But pods may have been bound before they joined it or by another scheduler, or node labels
may have changed. A split gang is reported and does not count as placed; its pods stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.cluster.reports.pod_zones import zones_of_pod
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Index, Tree
from bayplan.gangs.model import Gang, Group, Seat
from bayplan.gangs.numa_level import is_numa
from bayplan.gangs.ranks.ranks import given_rank, index_of, written_rank, written_segment
from bayplan.kube.wire.core_v1 import Pod


def split_problem(gang: Gang, tree: Tree, state: ClusterState) -> str:
    """Describe the first group whose running members are in several domains of its required level; empty if none is.

    Ignores optional requirements. Nodes outside the tree are in no domain.
    """
    for group in gang.root.every_group():
        level = None if group.required is None or group.optional else tree.level_number(group.required)
        if level is None:
            continue
        paths = ["/".join(tree.paths[level][domain]) for domain in _domains(group, level, tree, state)[:2]]
        if len(paths) > 1:
            return split_message(group, *paths)
        zones = _zones(group) if is_numa(group.required, tree.levels) else []
        if len(zones) > 1:
            return split_message(group, f"NUMA zone {zones[0]}", f"NUMA zone {zones[1]}")
    return ""


def _zones(group: Group) -> list[int]:
    """Return the NUMA zones of members of a group and of groups inside it, according to their annotations."""
    pods = [pod for each in group.every_group() for pod in each.running]
    return sorted({zone for pod in pods for zones in zones_of_pod(pod).values() for zone in zones})


def running_seats(gang: Gang, tree: Tree) -> tuple[Seat, ...]:
    """Return the seats of running members by rank; rank -1 if a pod has none.

    The path of a node outside of the tree is its name alone.
    """
    members = [(group, pod) for group in gang.root.every_group() for pod in group.running]
    nodes = {pod.spec.node_name for _, pod in members}
    path_of = {path[-1]: path for path in tree.paths[tree.node_level] if path[-1] in nodes}
    seats = []
    for (group, pod), rank in zip(members, _ranks([pod for _, pod in members]), strict=True):
        node = pod.spec.node_name or ""
        seats.append(Seat(pod_key(pod), group.name, node, path_of.get(node, (node,)), rank, written_segment(pod)))
    return tuple(sorted(seats, key=lambda seat: seat.rank))


def _ranks(pods: Sequence[Pod]) -> list[int]:
    """Return the rank written with the bind, else the one from the pod's label, else -1.

    If no pod has a rank, controller indices serve as ranks unless two are equal: tasks of one gang each count from 0.
    """
    found = [written_rank(pod) for pod in pods]
    found = [given_rank(pod) if rank is None else rank for pod, rank in zip(pods, found, strict=True)]
    if all(rank is None for rank in found):
        indices = [index_of(pod) for pod in pods]
        inner = [None if index is None or index[0] else index[1] for index in indices]
        found = inner if len(set(inner)) == len(inner) else found
    return [-1 if rank is None else rank for rank in found]


def split_message(group: Group, one: str, other: str) -> str:
    """Say that members of a group run in two domains of its required level."""
    prefix = f'group "{group.name}": ' if group.name else ""
    return f"{prefix}members run in {one} and in {other}, but must share one {group.required}"


def _domains(group: Group, level: int, tree: Tree, state: ClusterState) -> Index:
    """Return the domains in which members of a group, or of groups inside it, run."""
    nodes = {pod.spec.node_name for each in group.every_group() for pod in each.running}
    rows = [state.rows[node] for node in nodes if node in state.rows]
    return np.unique(tree.domain_at[level][np.isin(tree.rows, rows)])
