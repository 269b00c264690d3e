"""LeastAllocated, MostAllocated and BalancedAllocation over NUMA zones, as scheduler-plugins computes them.

Each zone is scored for the request, a node is worth its *worst* zone (the kubelet may pick that one) where a zone worth 0
counts as "does not fit" and is passed over. Only `single-numa-node` nodes are scored; other policies get 0. At container scope
the mean over containers is taken. Quotients are exact: a non-integer quotient below 100 is further from an integer than a
float64 division errs, as long as amounts stay below 2^46.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns import TOPOLOGY_USABLE, Columns
from bayplan.cluster.kubelet_settings import Policy, Scope
from bayplan.cluster.pod_request import CPU, PodRequest
from bayplan.engine.rows import Rows, among, count

MOST_SCORE = 100
Scores = NDArray[np.int32]
Grid = NDArray[np.float64]
Weights = Mapping[str, int]
ZoneScore = Callable[[list[tuple[Grid, int, Grid, int]], list[int]], Grid]


def allocation_scores(
    columns: Columns, request: PodRequest, rows: Rows, zone_score: ZoneScore, weights: Weights
) -> Scores:
    """The score of every node in `rows`: 0 to 100."""
    nodes = count(rows, columns.size)
    if not request.guaranteed:
        return np.full(nodes, MOST_SCORE, dtype=np.int32)
    scored = (
        (columns.topology[rows] == TOPOLOGY_USABLE)
        & columns.fresh[rows]
        & (columns.policy[rows] == Policy.SINGLE_NUMA_NODE)
    )
    scores = np.zeros(nodes, dtype=np.int32)
    by_pod = columns.scope[rows] == Scope.POD
    per_container = [container.requests for container in request.containers]
    for chosen, asked in ((scored & by_pod, [request.largest_or_sum]), (scored & ~by_pod, per_container)):
        if not asked:
            continue
        if chosen.all():
            scores = _mean_of_worst_zones(columns, asked, rows, zone_score, weights)
        elif chosen.any():
            scores[chosen] = _mean_of_worst_zones(columns, asked, among(rows, chosen), zone_score, weights)
    return scores


def least_allocated(resources: list[tuple[Grid, int, Grid, int]], weights: list[int]) -> Grid:
    """Weighted share that would stay free: high for roomy zones."""
    return _weighted_share(resources, weights, lambda available, wanted: available - wanted)


def most_allocated(resources: list[tuple[Grid, int, Grid, int]], weights: list[int]) -> Grid:
    """Weighted share that would be used: high for full zones."""
    return _weighted_share(resources, weights, lambda available, wanted: np.full_like(available, wanted))


def balanced_allocation(resources: list[tuple[Grid, int, Grid, int]], weights: list[int]) -> Grid:
    """High if the request uses the same share of every resource; weights play no part."""
    shares = []
    for _, _, available, wanted in resources:
        share = np.ones_like(available)
        np.divide(float(wanted), available, out=share, where=available > 0)
        shares.append(share)
    number = len(shares)
    mean = sum(shares[1:], shares[0]) / number
    squares = sum(((share - mean) ** 2 for share in shares), np.zeros_like(mean))
    drift = sum((share - mean for share in shares), np.zeros_like(mean))
    # The sample variance; a single resource is balanced with itself.
    variance = (squares - drift * drift / number) / (number - 1) if number > 1 else np.zeros_like(mean)
    overcommitted = np.logical_or.reduce([share > 1 for share in shares])
    return np.where(overcommitted, 0.0, np.trunc((1 - variance) * MOST_SCORE))


STRATEGIES: dict[str, ZoneScore] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}


def weight_of(weights: Weights, resource: str) -> int:
    """A configured weight of at least 1; anything else counts as 1."""
    return max(weights.get(resource, 1), 1)


def _weighted_share(
    resources: list[tuple[Grid, int, Grid, int]], weights: list[int], kept: Callable[[Grid, int], Grid]
) -> Grid:
    total: Grid | None = None
    for (exact_available, exact_wanted, available, wanted), weight in zip(resources, weights, strict=True):
        share = kept(available, wanted)
        share *= MOST_SCORE
        with np.errstate(divide="ignore", invalid="ignore"):
            share /= available
        np.floor(share, out=share)
        share[(exact_available < exact_wanted) | (exact_available == 0)] = 0
        if weight != 1:
            share *= weight
        total = share if total is None else np.add(total, share, out=total)
    assert total is not None
    return np.floor(total / sum(weights))


def _mean_of_worst_zones(
    columns: Columns, asked: list[Mapping[str, int]], rows: Rows, zone_score: ZoneScore, weights: Weights
) -> Scores:
    per_request = [_worst_zone(columns, amounts, rows, zone_score, weights) for amounts in asked]
    total = sum(per_request[1:], per_request[0])
    return np.trunc(total / len(per_request)).astype(np.int32)


def _worst_zone(
    columns: Columns, amounts: Mapping[str, int], rows: Rows, zone_score: ZoneScore, weights: Weights
) -> Grid:
    """The lowest score of any zone, zones worth 0 passed over; 0 if there is no other."""
    if not amounts:
        return np.zeros(count(rows, columns.size))
    resources = [_as_scored(columns, name, amount, rows) for name, amount in amounts.items()]
    scores = zone_score(resources, [weight_of(weights, name) for name in amounts])
    exists = np.arange(scores.shape[0])[:, np.newaxis] < columns.zone_count[rows]
    scores[~exists] = 0
    scores[scores == 0] = np.inf
    worst = scores.min(axis=0)
    return np.where(np.isinf(worst), 0.0, worst)


def _as_scored(columns: Columns, name: str, amount: int, rows: Rows) -> tuple[Grid, int, Grid, int]:
    """Exact amounts for "does it fit" and whole units (CPUs rounded up) for the share."""
    index = columns.resource_index.get(name)
    zones = columns.zone_available.shape[1]
    if index is None:
        nothing = np.zeros((zones, count(rows, columns.size)))
        return nothing, amount, nothing, amount
    available = columns.zone_available[index][:, rows]
    if name != CPU:
        return available, amount, available, amount
    return available, amount, np.ceil(available / 1000), -(-amount // 1000)
