"""What pods hold of their nodes as a whole: amounts, a pod slot and host ports, and which pods a node has.

`cluster/state.py` books a pod when it is assumed or seen bound. `cluster/reports/promises.py` does zones.
"""

from __future__ import annotations

from collections import defaultdict

from bayplan.cluster.columns.columns import Columns
from bayplan.cluster.pods.pod_class import HostPort
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.reports.ledger import PlacedPod


class Bookings:
    """The placed pods by key and by row, written into columns."""

    def __init__(self, columns: Columns) -> None:
        self.pods: dict[str, PlacedPod] = {}
        # Only rows with pods have an entry: a hundred thousand empty sets cost memory and garbage collection.
        self.by_row: defaultdict[int, set[str]] = defaultdict(set)
        self.port_users: dict[tuple[str, int], dict[int, list[HostPort]]] = {}
        self._columns = columns
        columns.referred = self._columns_of_charges

    def book(self, key: str, placed: PlacedPod) -> None:
        """Take what a pod holds of its node as a whole. Zones, neighbours and the log are the caller's."""
        self._take(placed, 1)
        for port in placed.host_ports:
            users = self.port_users.setdefault((port.protocol, port.number), {})
            users.setdefault(placed.row, []).append(port)
        self.pods[key] = placed
        self.by_row[placed.row].add(key)

    def unbook(self, key: str) -> PlacedPod:
        """Give back what `book` took."""
        placed = self.pods.pop(key)
        row = placed.row
        self._take(placed, -1)
        for port in placed.host_ports:
            users = self.port_users[port.protocol, port.number]
            users[row].remove(port)
            if not users[row]:
                del users[row]
        self.by_row[row].discard(key)
        return placed

    def _take(self, placed: PlacedPod, sign: int) -> None:
        columns, row = self._columns, placed.row
        for resource, amount in placed.request.total.items():
            columns.take(resource, row, sign * amount)
        columns.take(PODS, row, sign)
        for resource, amount in placed.request.unrequested.items():
            columns.unrequested[columns.resource_index[resource], row] += sign * amount

    def _columns_of_charges(self) -> set[int]:
        """The columns that amounts held by pods refer to."""
        return {charge.resource for placed in self.pods.values() for charge in (*placed.charges, *placed.promised)}
