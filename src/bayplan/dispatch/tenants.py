"""Fairness between namespaces: which ones used much time lately, and let others go first.

The time to decide about and to explain a unit is charged to its namespace. Debt decays at a tenth of the elapsed time.
Units of a namespace that owes more than the allowance go after units of all other namespaces, whatever their priority.
Among namespaces in debt, the one that owes least is next.

A search that hit its limit will likely hit it again. So each one in a row doubles the rest of the unit, counted per
namespace, until one of its units is placed. Nothing here reads a clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict

# The share of the elapsed time at which debt decays.
SHARE = 0.1
# Seconds that a namespace can owe without letting others go first.
ALLOWANCE = 0.25
# Seconds of rest after the first search that hit its limit, and at most.
FIRST_LIMIT_REST = 2.0
LONGEST_LIMIT_REST = 60.0
# Beyond this many accounts, settled ones are dropped.
MANY = 256
# The most namespaces with a figure of their own; the others share one.
MOST_NAMED = 50
OTHERS = "(others)"


class Tenants:
    """The accounts of all namespaces."""

    def __init__(self) -> None:
        # Seconds owed at a moment, and that moment.
        self._debts: dict[str, tuple[float, float]] = {}
        self._limits_in_a_row: Counter[str] = Counter()
        self._most_accounts = MANY
        # Total seconds of namespaces that have been in debt.
        self.spent: defaultdict[str, float] = defaultdict(float)

    def bill(self, tenant: str, seconds: float, now: float) -> None:
        """Charge decision time to a namespace."""
        owed = self.debt(tenant, now) + seconds
        self._debts[tenant] = (owed, now)
        named = tenant in self.spent or (owed > ALLOWANCE and len(self.spent) < MOST_NAMED)
        self.spent[tenant if named else OTHERS] += seconds
        if len(self._debts) > self._most_accounts:
            self._debts = {each: account for each, account in self._debts.items() if self.debt(each, now) > 0}
            self._most_accounts = max(2 * len(self._debts), MANY)

    def debt(self, tenant: str, now: float) -> float:
        """Seconds that a namespace owes."""
        owed, since = self._debts.get(tenant, (0.0, now))
        return max(owed - SHARE * (now - since), 0.0)

    def in_debt(self, tenant: str, now: float) -> bool:
        """True if units of other namespaces go first."""
        return tenant in self._debts and self.debt(tenant, now) > ALLOWANCE

    def number_in_debt(self, now: float) -> int:
        """The number of namespaces that let others go first."""
        return sum(self.in_debt(tenant, now) for tenant in self._debts)

    def hit_limit(self, tenant: str) -> float:
        """Note that a search hit its limit, and return how long the unit rests."""
        self._limits_in_a_row[tenant] += 1
        doublings = min(self._limits_in_a_row[tenant] - 1, 30)
        return float(min(FIRST_LIMIT_REST * 2**doublings, LONGEST_LIMIT_REST))

    def placed(self, tenant: str) -> None:
        """Note that a unit of the namespace found a place."""
        self._limits_in_a_row.pop(tenant, None)

    def gone(self, tenant: str) -> None:
        """A namespace was deleted. Its debt stays: it may be recreated at once."""
        self._limits_in_a_row.pop(tenant, None)
