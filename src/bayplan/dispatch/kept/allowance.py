"""How much room each namespace may keep for members still to come, against the units of other namespaces.

A PodGroup can say that ten thousand pods are still to come. So only room up to a share of the cluster is safe from
other namespaces: what a namespace keeps beyond it is kept from its own units alone. Room that was not used counts for
a while as if it were still kept, so that asking again gains nothing. Nothing here reads a clock.
"""

from __future__ import annotations

from collections import Counter, deque

from bayplan.cluster.state import ClusterState

# The share of each resource of the cluster that a namespace can keep from other namespaces.
SHARE = 1 / 8
# For this many seconds, room that was not used counts as kept.
UNUSED_COUNTS_FOR = 600.0
# The oldest entries beyond this number are forgotten.
MOST_UNUSED = 1_000

Amounts = Counter[str]


class Allowance:
    """What the namespaces keep, and what they kept in vain."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._kept: dict[str, Amounts] = {}
        self._unused: deque[tuple[float, str, Amounts]] = deque(maxlen=MOST_UNUSED)

    def allows(self, tenant: str, more: Amounts, now: float) -> bool:
        """True if a namespace stays within its share with `more`."""
        while self._unused and self._unused[0][0] <= now:
            self._unused.popleft()
        total = self._kept.get(tenant, Amounts()) + more
        for _, of, amounts in self._unused:
            if of == tenant:
                total += amounts
        columns = self._state.columns
        return all(
            amount <= SHARE * float(columns.allocatable[columns.index_of(name)].sum()) for name, amount in total.items()
        )

    def add(self, tenant: str, amounts: Amounts) -> None:
        """A namespace keeps more room."""
        self._kept[tenant] = self._kept.get(tenant, Amounts()) + amounts

    def remove(self, tenant: str, amounts: Amounts) -> None:
        """A namespace keeps less room."""
        left = self._kept.get(tenant, Amounts()) - amounts
        if left:
            self._kept[tenant] = left
        else:
            self._kept.pop(tenant, None)

    def was_unused(self, tenant: str, amounts: Amounts, now: float) -> None:
        """This room was not used until its time ended."""
        self._unused.append((now + UNUSED_COUNTS_FOR, tenant, amounts))
