"""Rows of a table joined: from the least cost of 0, 1, 2, ... pods in each of some domains to that in all of them.

Domains are joined in pairs, then pairs of pairs, in all wider domains at once: 16 racks take four rounds of a few calls
instead of sixteen. Only costs are kept. The way back (`shares`) compares again where pods are divided, which is a
handful of places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.gangs.problem import Counts

LARGEST_COST = 1 << 60
NO_WAY = np.int64(1 << 61)


@dataclass(frozen=True, slots=True)
class Joined:
    """`costs[wider domain, pods]`, and the rounds that led to them.

    `rounds[round][wider domain, number inside, pods]` begin with the domains themselves.
    """

    rounds: Sequence[Counts]
    costs: Counts

    def shares(self, domain: int, pods: int) -> Iterator[tuple[int, int]]:
        """How the pods of a wider domain are divided at least cost: the number of each domain inside, and its pods."""
        divided = [(len(self.rounds) - 1, 0, pods)]
        while divided:
            round_, number, here = divided.pop()
            if not round_:
                yield number, here
                continue
            one, other = self.rounds[round_ - 1][domain, 2 * number : 2 * number + 2]
            fewest, most = max(0, here - len(one) + 1), min(here, len(other) - 1)
            share = fewest + int((one[here - most : here - fewest + 1][::-1] + other[fewest : most + 1]).argmin())
            divided += [(round_ - 1, 2 * number + 1, share)] if share else []
            divided += [(round_ - 1, 2 * number, here - share)] if here > share else []


def joined(costs: Counts, first: NDArray[np.intp], sizes: NDArray[np.intp], width: int, *, all_pods: bool) -> Joined:
    """Join rows for up to `width` - 1 pods: of each wider domain `sizes` rows, from `first` on.

    With `all_pods`, only the costs of `width` - 1 pods are worked out: nothing is joined to them.
    """
    most, number = int(sizes.max()), costs.shape[1]
    if int(sizes.min()) == most:
        rows = costs[int(first[0]) : int(first[0]) + most * len(first)].reshape(len(first), most, number)
    else:
        inside = np.arange(most)
        rows = np.where(inside < sizes[:, np.newaxis], first[:, np.newaxis] + inside, len(costs))
        rows = np.concatenate((costs, _nothing(1, number)))[rows]
    rounds = [_even(rows)]
    while rows.shape[1] > 1:
        last = all_pods and rows.shape[1] == 2
        rows = _in_one_pair(rounds[-1], width) if last else _in_pairs(rounds[-1], width)
        rounds.append(_even(rows))
    if all_pods and most > 1:
        return Joined(rounds, rows[:, 0])
    costs = _wide(rows[:, 0], width)
    return Joined(rounds, costs[:, -1:] if all_pods else costs)


def _even(rows: Counts) -> Counts:
    """The same rows, with one for a domain that takes no pods if there is an odd number of several."""
    if rows.shape[1] == 1 or rows.shape[1] % 2 == 0:
        return rows
    nothing = np.broadcast_to(_nothing(1, rows.shape[2]), (len(rows), 1, rows.shape[2]))
    return np.concatenate((rows, nothing), axis=1)


def _wide(costs: Counts, width: int) -> Counts:
    """Costs of up to `width` - 1 pods, more than there is room for being impossible."""
    missing = width - costs.shape[1]
    return np.pad(costs, ((0, 0), (0, missing)), constant_values=NO_WAY) if missing > 0 else costs[:, :width]


def _nothing(rows: int, width: int) -> Counts:
    """Rows of domains that take no pods."""
    nothing = np.full((rows, width), NO_WAY)
    nothing[:, 0] = 0
    return nothing


def _in_one_pair(rows: Counts, width: int) -> Counts:
    """`[wider domain, 0, 0]`, the cost of `width` - 1 pods, from `[wider domain, two domains, pods]`."""
    inner = rows.shape[2]
    # The second domain has at least the pods that the first one has no room for.
    fewest, behind = max(0, width - inner), min(width, inner)
    if fewest >= behind:
        return np.full((len(rows), 1, 1), NO_WAY)
    one, other = rows[:, :1, width - behind : width - fewest], rows[:, 1:, fewest:behind]
    costs: Counts = (one[..., ::-1] + other).min(axis=2, keepdims=True)
    costs[costs >= LARGEST_COST] = NO_WAY
    return costs


def _in_pairs(rows: Counts, width: int) -> Counts:
    """`[wider domain, pair, pods]` from `[wider domain, domain, pods]`."""
    wider, domains, inner = rows.shape
    outer = min(2 * inner - 1, width)
    # Padding: from the place of n pods on, there are the costs of n - k pods, k descending, for k in the other domain.
    padded = np.full((wider, domains // 2, outer + inner - 1), NO_WAY)
    padded[:, :, inner - 1 : 2 * inner - 1] = rows[:, ::2, :outer]
    # A view, not a copy, and compared along the first axis: that takes a third of the time.
    some = np.ndarray((inner, wider, domains // 2, outer), np.int64, padded, strides=(8, *padded.strides[:2], 8))
    others = rows[:, 1::2, ::-1].transpose(2, 0, 1)
    costs: Counts = (some + others[..., np.newaxis]).min(axis=0)
    costs[costs >= LARGEST_COST] = NO_WAY
    return costs
