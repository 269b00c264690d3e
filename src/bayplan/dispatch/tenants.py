"""Fairness between namespaces: what each one's units have cost lately, and who lets others go first.

The time that a unit takes to be decided about and to be explained is charged to its namespace. A debt is worked off at a tenth of the time that passes. A namespace
that owes more than the allowance is in debt: units of all other namespaces go before its own, whatever their priority. If no other namespace wants anything, it need
not wait, and among several that are in debt the one that owes least is next.

A search that hit its limit is likely to hit it again. So each one in a row doubles the rest of the unit, for all units of the namespace together, until one of them is placed.

`dispatch/queue.py` asks; nothing here reads a clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict

# A namespace works off its debt at this share of the time that passes.
SHARE = 0.1
# Seconds that a namespace may owe without letting others pass.
ALLOWANCE = 0.25
# Seconds that a unit rests after the first search that hit its limit, and at most.
FIRST_LIMIT_REST = 2.0
LONGEST_LIMIT_REST = 60.0
# Beyond this many accounts, settled ones are dropped.
MANY = 256
# So many namespaces have a figure of their own; the others share one.
MOST_NAMED = 50
OTHERS = "(others)"


class Tenants:
    """The accounts of all namespaces."""

    def __init__(self) -> None:
        # Seconds owed, and the moment at which that was so.
        self._debts: dict[str, tuple[float, float]] = {}
        self._limits_in_a_row: Counter[str] = Counter()
        self._most_accounts = MANY
        # What namespaces that have been in debt have cost in all.
        self.spent: defaultdict[str, float] = defaultdict(float)

    def charge(self, tenant: str, seconds: float, now: float) -> None:
        """Units of a namespace took so long."""
        owed = self.debt(tenant, now) + seconds
        self._debts[tenant] = (owed, now)
        named = tenant in self.spent or (owed > ALLOWANCE and len(self.spent) < MOST_NAMED)
        self.spent[tenant if named else OTHERS] += seconds
        if len(self._debts) > self._most_accounts:
            self._debts = {each: account for each, account in self._debts.items() if self.debt(each, now) > 0}
            self._most_accounts = max(2 * len(self._debts), MANY)

    def debt(self, tenant: str, now: float) -> float:
        """The seconds that a namespace owes."""
        owed, since = self._debts.get(tenant, (0.0, now))
        return max(owed - SHARE * (now - since), 0.0)

    def in_debt(self, tenant: str, now: float) -> bool:
        """Whether others go first."""
        return tenant in self._debts and self.debt(tenant, now) > ALLOWANCE

    def number_in_debt(self, now: float) -> int:
        """How many namespaces let others go first."""
        return sum(self.in_debt(tenant, now) for tenant in self._debts)

    def hit_limit(self, tenant: str) -> float:
        """A search for one of its units hit its limit; how long the unit rests."""
        self._limits_in_a_row[tenant] += 1
        doublings = min(self._limits_in_a_row[tenant] - 1, 30)
        return float(min(FIRST_LIMIT_REST * 2**doublings, LONGEST_LIMIT_REST))

    def placed(self, tenant: str) -> None:
        """One of its units found a place."""
        self._limits_in_a_row.pop(tenant, None)

    def gone(self, tenant: str) -> None:
        """A namespace was deleted. What it owes stays: one of the same name may come at once."""
        self._limits_in_a_row.pop(tenant, None)
