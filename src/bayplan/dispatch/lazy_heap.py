"""A priority queue whose members can leave or move at any time: a heap with lazy deletion.

A member that leaves loses its ticket; its heap entry is dropped at the front. When most entries are leftovers, the
heap is rebuilt.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Order = tuple[float, ...]

# Heaps with fewer leftovers are not worth rebuilding.
LEFTOVERS = 64

_Member = TypeVar("_Member", bound=Hashable)


class LazyHeap(Generic[_Member]):
    """Members in ascending order; members of equal order are first in, first out."""

    def __init__(self) -> None:
        self._heap: list[tuple[Order, int, _Member]] = []
        self._tickets: dict[_Member, int] = {}
        self._next_ticket = count()

    def put(self, member: _Member, order: Order) -> None:
        """Add a member, or move it if present."""
        ticket = next(self._next_ticket)
        self._tickets[member] = ticket
        heappush(self._heap, (order, ticket, member))
        self._tidy()

    def remove(self, member: _Member) -> None:
        """Remove a member, if present."""
        if self._tickets.pop(member, None) is not None:
            self._tidy()

    def first(self) -> tuple[Order, _Member] | None:
        """The first member and its order; None if the heap is empty."""
        heap, tickets = self._heap, self._tickets
        while heap:
            order, ticket, member = heap[0]
            if tickets.get(member) == ticket:
                return order, member
            heappop(heap)
        return None

    def __len__(self) -> int:
        return len(self._tickets)

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._tickets) + LEFTOVERS:
            self._heap = [entry for entry in self._heap if self._tickets.get(entry[2]) == entry[1]]
            heapify(self._heap)
