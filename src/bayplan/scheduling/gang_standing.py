"""Whether members that run stand as their gang asks for: each group in one domain of the level that it requires.

bayplan binds no gang otherwise. But pods may have had nodes before anybody put them into a gang, or from another hand, or their nodes have got other labels since. Such a gang is not called
placed, and is told what is broken; its pods are left where they are.
"""

from __future__ import annotations

import numpy as np

from bayplan.cluster.state import ClusterState
from bayplan.cluster.tree import Index, Tree
from bayplan.scheduling.gang import Gang, Group


def what_is_split(gang: Gang, tree: Tree, state: ClusterState) -> str:
    """In words, the first group whose running members are in several domains of the level that it requires; empty if there is none.

    What is only wished for may be given up. Nodes outside the tree are in no domain.
    """
    for group in gang.whole.every_group():
        level = None if group.required is None or group.wished else tree.level_number(group.required)
        if level is None:
            continue
        paths = ["/".join(tree.paths[level][domain]) for domain in _domains(group, level, tree, state)[:2]]
        if len(paths) > 1:
            return split_in_words(group, *paths)
    return ""


def split_in_words(group: Group, one: str, other: str) -> str:
    """That members of a group run in two domains of a level that must be one."""
    who = f'group "{group.name}": ' if group.name else ""
    return f"{who}members run in {one} and in {other}, but {group.required} is required to be one"


def _domains(group: Group, level: int, tree: Tree, state: ClusterState) -> Index:
    """The numbers of the domains in which members of a group, or of groups inside it, run."""
    nodes = {pod.spec.node_name for each in group.every_group() for pod in each.running}
    rows = [state.rows[node] for node in nodes if node in state.rows]
    return np.unique(tree.domain_at[level][np.isin(tree.rows, rows)])
