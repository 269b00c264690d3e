"""Whether members that run stand as their gang asks for: each group in one domain of the level that it requires.

bayplan binds no gang otherwise. But pods may have had nodes before anybody put them into a gang, or from another hand, or their nodes have got other labels since. Such a gang is not called
placed, and is told what is broken; its pods are left where they are.
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


def what_is_split(gang: Gang, tree: Tree, state: ClusterState) -> str:
    """In words, the first group whose running members are in several domains of the level that it requires; empty if there is none.

    What is only optional for may be given up. Nodes outside the tree are in no domain.
    """
    for group in gang.whole.every_group():
        level = None if group.required is None or group.optional else tree.level_number(group.required)
        if level is None:
            continue
        paths = ["/".join(tree.paths[level][domain]) for domain in _domains(group, level, tree, state)[:2]]
        if len(paths) > 1:
            return split_in_words(group, *paths)
        zones = _zones(group) if is_numa(group.required, tree.levels) else []
        if len(zones) > 1:
            return split_in_words(group, f"NUMA zone {zones[0]}", f"NUMA zone {zones[1]}")
    return ""


def _zones(group: Group) -> list[int]:
    """The NUMA zones that members of a group, or of groups inside it, were given, as far as their annotations tell."""
    pods = [pod for each in group.every_group() for pod in each.running]
    return sorted({zone for pod in pods for zones in zones_of_pod(pod).values() for zone in zones})


def standing_seats(gang: Gang, tree: Tree) -> tuple[Seat, ...]:
    """The places of running members in the order of their ranks (`_ranks`); -1 where a pod has no rank.

    The path of a node outside of the tree is its name alone.
    """
    members = [(group, pod) for group in gang.whole.every_group() for pod in group.running]
    nodes = {pod.spec.node_name for _, pod in members}
    path_of = {path[-1]: path for path in tree.paths[tree.node_level] if path[-1] in nodes}
    seats = []
    for (group, pod), rank in zip(members, _ranks([pod for _, pod in members]), strict=True):
        node = pod.spec.node_name or ""
        seats.append(Seat(pod_key(pod), group.name, node, path_of.get(node, (node,)), rank, written_segment(pod)))
    return tuple(sorted(seats, key=lambda seat: seat.rank))


def _ranks(pods: Sequence[Pod]) -> list[int]:
    """The rank that was written on each pod with its bind, else the one that its label gives it; -1 where it has neither.

    If no pod has a rank, the indices of their controller are the ranks, unless two pods share one: tasks of one gang each count from 0.
    """
    found = [written_rank(pod) for pod in pods]
    found = [given_rank(pod) if rank is None else rank for pod, rank in zip(pods, found, strict=True)]
    if all(rank is None for rank in found):
        indices = [index_of(pod) for pod in pods]
        inner = [None if index is None or index[0] else index[1] for index in indices]
        found = inner if len(set(inner)) == len(inner) else found
    return [-1 if rank is None else rank for rank in found]


def split_in_words(group: Group, one: str, other: str) -> str:
    """That members of a group run in two domains of a level that must be one."""
    who = f'group "{group.name}": ' if group.name else ""
    return f"{who}members run in {one} and in {other}, but {group.required} is required to be one"


def _domains(group: Group, level: int, tree: Tree, state: ClusterState) -> Index:
    """The numbers of the domains in which members of a group, or of groups inside it, run."""
    nodes = {pod.spec.node_name for each in group.every_group() for pod in each.running}
    rows = [state.rows[node] for node in nodes if node in state.rows]
    return np.unique(tree.domain_at[level][np.isin(tree.rows, rows)])
