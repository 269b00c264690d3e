"""Room: per level of a tree, how many domains hold so many equal pods, and the most pods that one of them holds.

This is what a gang that does not fit is told, and, before and after a placement, how much that placement has broken up.
"""

from __future__ import annotations

from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.problem import Counts
from bayplan.gangs.model import LevelRoom

NODE = "node"


def rooms_of(tree: Tree, slots: Counts, pods: int) -> tuple[LevelRoom, ...]:
    """One entry for each level, the node last; `slots` are by position in the tree."""
    rooms = []
    for level, label in enumerate((*tree.levels, NODE)):
        sums = tree.sums(slots, level)
        best = int(sums.argmax()) if len(sums) else -1
        rooms.append(
            LevelRoom(
                label,
                len(sums),
                int((sums >= pods).sum()),
                int(sums[best]) if best >= 0 else 0,
                tree.paths[level][best] if best >= 0 else (),
            )
        )
    return tuple(rooms)
