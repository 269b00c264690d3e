"""Capacity rows: what counting says about pods of several shapes in one domain. Each row is an inequality that every packing obeys.

For a resource and a pod size t: a pod that takes a of it counts floor(a/t), a node that has f free counts floor(f/t). Whatever stands on a node
counts no more than the node, so sums over a domain bound what it holds; large pods on fragmented nodes are seen by that, which plain sums do not see. There is a row for every size
of pods, one for the plain sum, and one for each shape by its slots, which are what kubelets would admit.

Domains that pass all rows mostly hold the pods; whether they do is for `nodes.py` to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from bayplan.engine.gangs.problem import Counts, Pods, Problem

# Rows for more sizes of one resource, or for more shapes, cost more than they tell: then the largest sizes have one.
MOST_SIZES = 8
MOST_SHAPES = 8


@dataclass(frozen=True)
class CapacityRows:
    """What one pod of each shape counts in each row, `per_pod[shape, row]`, and what each node has, `per_node[row, position]`."""

    per_pod: Counts
    per_node: Counts

    def of(self, pods: Pods) -> Counts:
        """What so many pods by shape count."""
        rows: Counts = np.array(list(pods.values()), dtype=np.int64) @ self.per_pod[np.array(list(pods), dtype=np.intp)]
        return rows


def capacity_rows(problem: Problem, *, every_shape: bool = False) -> CapacityRows:
    """The rows of a problem; the last ones are about single shapes, `every_shape` if that is asked for."""
    shapes = list(problem.shapes)
    pods: list[Counts] = []
    nodes: list[Counts] = []
    for resource in range(problem.free.shape[0]):
        amounts = problem.amounts[:, resource].astype(np.int64)
        used = sorted({int(amount) for amount in amounts[shapes] if amount > 0})
        if not used:
            continue
        free = np.maximum(problem.free[resource], 0.0)
        for size in dict.fromkeys((gcd(*used), *used[-MOST_SIZES:])):
            pods.append(amounts // size)
            nodes.append((free // size).astype(np.int64))
    if every_shape or len(shapes) <= MOST_SHAPES:
        for shape in shapes:
            pods.append(np.arange(len(problem.slots)) == shape)
            nodes.append(problem.slots[shape])
    return CapacityRows(np.stack(pods, axis=1).astype(np.int64), np.stack(nodes))
