"""Things into bins by swaps: groups into domains, pods onto nodes. For bins so full that best fit finds no place.

Everything gets a bin at first, even a full one. Then one thing moves, or two change places, whichever leaves the least
too much in all bins, and neither returns for a while (a tabu search). If no bin has too much, `suits` may still object
to what is in a bin: then things change places until it does not.

In come amounts as matrices, out goes the bin of each thing. A "no" proves nothing. The same question has the same
answer: ties are broken by numbers that are drawn from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget

Amounts = NDArray[np.float64]
Places = NDArray[np.intp]
# For how many swaps a thing does not return to a bin that it has left: this many, and up to as many more by chance.
TENURE = 5
# Measured: what a swap takes, what it takes to put one thing into its first bin, and more for each number looked at.
WORK_OF_A_SWAP, WORK_OF_A_THING, WORK_OF_A_NUMBER = 120, 15, 0.01
# Larger questions are not asked, and a swap weighs so many numbers at most: some megabytes.
MOST_BINS_OF_THINGS, MOST_NUMBERS = 1_000_000, 500_000
# A search that found nothing with so many swaps starts anew, with things in another order.
MOST_WITHOUT_START, JITTER = 150, 0.5
FORBIDDEN = 1e12
# Swaps that are tried to relieve a bin that does not suit its things.
MOST_TRIES = 24
NONE = -1
Suits = Callable[[int, Places], bool]
"""Whether a bin, which has enough room, suits these things."""


class Swaps:
    """The bin of each thing (`at`), and what the things in each bin take of every row.

    `takes[thing, row]` must not add up to more than `room[bin, row]`. Things of one kind are alike, and never in a
    bin that is `closed[thing, bin]` to them.
    """

    def __init__(self, takes: Amounts, room: Amounts, kind: Sequence[int], closed: NDArray[np.bool_]) -> None:
        self.takes, self.room, self.kind, self.closed = takes, room, np.array(kind), closed
        # A row counts in shares of all that is wanted of it.
        self.weight: Amounts = 1.0 / np.maximum(takes.sum(axis=0), 1.0)
        self.at: Places = np.zeros(len(takes), dtype=np.intp)
        self.again = np.zeros((0, 0), dtype=np.int32)
        self.load = np.zeros_like(room)
        self.random = np.random.default_rng(0)
        self.noise = 1e-3 * float(self.weight.min(initial=1.0, where=self.weight > 0))

    def search(self, budget: Budget, most: int, suits: Suits) -> Places | None:
        """The bin of each thing, if one is found for all with so many swaps."""
        things, rows = self.takes.shape
        bins = len(self.room)
        if things * bins > MOST_BINS_OF_THINGS:
            return None
        # The first swap after which a thing may return to a bin.
        self.again = np.zeros((things, bins), dtype=np.int32)
        most_leaving = max(1, MOST_NUMBERS // (max(things, bins) * max(rows, 1)))
        least = np.inf
        for step in range(most):
            if step % MOST_WITHOUT_START == 0:
                budget.spend(things * (WORK_OF_A_THING + WORK_OF_A_NUMBER * bins * rows))
                if budget.is_spent:
                    return None
                self._start(0.0 if step == 0 else JITTER)
                least = np.inf
            too_much = self._too_much(self.load, self.room)
            total = float(too_much.sum())
            leave = too_much.nonzero()[0] if total else self._unsuited(range(len(self.room)), suits)
            if not len(leave):
                return self.at
            least = min(least, total)
            leaving = np.isin(self.at, leave).nonzero()[0][:most_leaving]
            budget.spend(WORK_OF_A_SWAP + WORK_OF_A_NUMBER * len(leaving) * max(things, bins) * rows)
            if budget.is_spent:
                return None
            moves, swaps = self._after_moves(leaving, too_much), self._after_swaps(leaving, too_much)
            if not total and self._relieve(leaving, moves, swaps, suits):
                continue
            if not self._best(step, leaving, moves, swaps, least - total):
                return None
        return None

    def _unsuited(self, bins: Iterable[int], suits: Suits) -> Places:
        return np.array([each for each in bins if not suits(each, (self.at == each).nonzero()[0])], dtype=np.intp)

    def _start(self, jitter: float) -> None:
        """Each thing in the bin that has the least too much with it, then the least left; large things first."""
        self.load[:] = 0.0
        size = (self.takes @ self.weight) * (1.0 + jitter * self.random.random(len(self.takes)))
        for thing in np.argsort(-size, kind="stable").tolist():
            load = self.load + self.takes[thing]
            left = (self.room - load) @ self.weight
            order = np.lexsort((left, self._too_much(load, self.room), self.closed[thing]))
            self._put(thing, int(order[0]))

    def _put(self, thing: int, place: int) -> None:
        self.at[thing] = place
        self.load[place] += self.takes[thing]

    def _too_much(self, load: Amounts, room: Amounts) -> Amounts:
        too_much: Amounts = np.maximum(load - room, 0.0) @ self.weight
        return too_much

    def _relieve(self, leaving: Places, moves: Amounts, swaps: Amounts, suits: Suits) -> bool:
        """Make a move or swap after which fewer bins are unsuited and none has too much; False if none is found."""
        every = np.hstack((moves, swaps))
        harmless = self.random.permutation((every.ravel() <= 0.0).nonzero()[0])[:MOST_TRIES]
        for one, where in zip(*np.divmod(harmless, every.shape[1]), strict=True):
            thing, number = int(leaving[one]), int(where) - len(self.room)
            here, there = int(self.at[thing]), int(where) if number < 0 else int(self.at[number])
            before = len(self._unsuited((here, there), suits))
            self._exchange(thing, number, there)
            if len(self._unsuited((here, there), suits)) < before:
                return True
            self._exchange(thing, number, here)
        return False

    def _exchange(self, thing: int, other: int, place: int) -> None:
        """Put a thing into a bin, and another one, if it is not negative, into the bin that the first one leaves."""
        for each, at in ((thing, place), (other, int(self.at[thing]))):
            if each >= 0:
                self.load[self.at[each]] -= self.takes[each]
                self._put(each, at)

    def _best(self, step: int, leaving: Places, moves: Amounts, swaps: Amounts, wanted: float) -> bool:
        """Make the best move or swap of one of these things; False if there is none.

        Things return early only if that leaves less than ever, by `wanted`.
        """
        moves[(self.again[leaving] > step) & (moves >= wanted)] += FORBIDDEN / 2
        returns = (self.again[leaving][:, self.at] > step) | (step < self.again[:, self.at[leaving]].T)
        swaps[returns & (swaps >= wanted)] += FORBIDDEN / 2
        swaps += self.noise * self.random.random(swaps.shape)
        move, swap = int(moves.argmin()), int(swaps.argmin())
        if min(moves.flat[move], swaps.flat[swap]) >= FORBIDDEN:
            return False
        is_move = moves.flat[move] < swaps.flat[swap]
        one, where = divmod(move, moves.shape[1]) if is_move else divmod(swap, swaps.shape[1])
        thing, other = int(leaving[one]), NONE if is_move else where
        there = where if is_move else int(self.at[other])
        for each in (thing, other)[: 1 if is_move else 2]:
            self.again[each, self.at[each]] = step + TENURE + int(self.random.integers(TENURE))
        self._exchange(thing, other, there)
        return True

    def _after_moves(self, leaving: Places, too_much: Amounts) -> Amounts:
        """How much more is too much if one of these things goes to one of the bins."""
        takes, here = self.takes[leaving], self.at[leaving]
        without = self._too_much(self.load[here] - takes, self.room[here]) - too_much[here]
        more = self._too_much(self.load + takes[:, np.newaxis], self.room) - too_much + without[:, np.newaxis]
        more[np.arange(len(leaving)), here] = FORBIDDEN
        more[self.closed[leaving]] = FORBIDDEN
        return more

    def _after_swaps(self, leaving: Places, too_much: Amounts) -> Amounts:
        """How much more is too much if one of these things changes places with another one."""
        here, there = self.at[leaving], self.at
        gains = self.takes - self.takes[leaving][:, np.newaxis]
        more = self._too_much(self.load[here][:, np.newaxis] + gains, self.room[here][:, np.newaxis])
        more += self._too_much(self.load[there] - gains, self.room[there])
        more -= too_much[here][:, np.newaxis] + too_much[there]
        alike = self.kind[leaving][:, np.newaxis] == self.kind
        more[alike | (here[:, np.newaxis] == there)] = FORBIDDEN
        more[self.closed[leaving][:, there] | self.closed[:, here].T] = FORBIDDEN
        return more
