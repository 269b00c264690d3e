"""Parallel groups of a training job: read from a PodGroup, preferred by the search, and kept together by ranks.

    spec:
      size: 8
      parallelism: [{name: tensor, size: 8}, {name: pipeline, size: 4}, {name: data, size: 2}]  # 64 ranks, 8 per pod

Sizes follow the order of ranks, innermost first, as training frameworks number them. Groups that fit into one pod need
no care. The innermost of the others become preferred segments, and `engine/gangs/parallel.py` orders the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.parallel import order_by_groups
from bayplan.engine.gangs.problem import Counts
from bayplan.gangs.model import Gang, Group, ParallelGroups, Segments
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.bayplan_v1alpha1 import ParallelGroup


def parallel_groups(written: Sequence[ParallelGroup], pods: int, at: ObjectPath) -> tuple[ParallelGroups, ...]:
    """Return the groups of several pods each; raises `InvalidObject` if names repeat, or the sizes do not match."""
    small = next((index for index, each in enumerate(written) if each.size < 1), None)
    if small is not None:
        raise InvalidObject(at.item(small).child("size"), f"{written[small].size} must be 1 or more")
    for index, each in enumerate(written):
        if each.name in {before.name for before in written[:index]}:
            raise InvalidObject(at.item(index).child("name"), f'"{each.name}" is the name of another one already')
    ranks = prod(each.size for each in written)
    if not pods:
        return ()
    if ranks % pods and pods % ranks:
        raise InvalidObject(at, f"makes {ranks} ranks, neither a multiple nor a divisor of the {pods} pods")
    ranks_of_pod = max(ranks // pods, 1)
    found: list[ParallelGroups] = []
    reached = 1
    for index, each in enumerate(written):
        reached *= each.size
        if max(reached, ranks_of_pod) % min(reached, ranks_of_pod):
            problem = f"makes groups of {reached} ranks, which do not go with {ranks_of_pod} ranks in each pod"
            raise InvalidObject(at.item(index).child("size"), problem)
        if reached > ranks_of_pod:
            found.append(ParallelGroups(each.name, reached // ranks_of_pod))
    return tuple(found)


def preferring_groups(root: Group, gang: Gang, tree: Tree, slots: Counts) -> Group:
    """Make the innermost groups preferred segments of the narrowest level that can hold one of them.

    Leaves running gangs and those with groups or segments as they are.
    """
    if not gang.parallelism or root.groups or root.segments or root.running:
        return root
    size = gang.parallelism[0].pods
    levels = (*tree.levels, HOSTNAME)
    for level in range(tree.node_level, -1, -1):
        if int(tree.sums(slots, level).max(initial=0)) >= size and len(root.pods) % size == 0:
            return replace(root, segments=(Segments(size, levels[level], required=False),))
    return root


def seated_by_groups(gang: Gang, tree: Tree, positions: Sequence[int]) -> list[int]:
    """Return the positions of a gang's pods in rank order."""
    if not gang.parallelism or any(group.running for group in gang.root.every_group()):
        return list(positions)
    sizes = [each.pods for each in gang.parallelism]
    # How many groups of the previous kind make up one.
    return order_by_groups(tree, positions, [size // before for size, before in zip(sizes, (1, *sizes), strict=False)])
