"""What users should know about objects that were read: each remark once, and only the latest of very many.

`ClusterState` and the dispatcher add remarks; commands print them, and the scheduler writes them as events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bayplan.kube.errors import ObjectPath

# More than anyone reads; a service that runs for months must not collect them without end.
MOST_REMARKS = 1000


@dataclass(frozen=True, slots=True)
class ObjectRemark:
    """Something a user should know about an object that was used nevertheless, or ignored."""

    at: ObjectPath
    text: str

    def __str__(self) -> str:
        return f"{self.at}: {self.text}"


class Remarks:
    """Remarks, iterable in the order in which they were noted."""

    def __init__(self) -> None:
        # A dictionary keeps order and makes both lookup and removal cheap.
        self._kept: dict[ObjectRemark, None] = {}
        # How often something was noted or withdrawn: who has seen all knows from it that nothing is new.
        self.changes = 0

    def __iter__(self) -> Iterator[ObjectRemark]:
        return iter(tuple(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def note(self, remark: ObjectRemark) -> None:
        """Keep a remark, unless it is known already."""
        self.changes += remark not in self._kept
        self._kept.setdefault(remark)
        if len(self._kept) > MOST_REMARKS:
            del self._kept[next(iter(self._kept))]

    def withdraw(self, remark: ObjectRemark) -> None:
        """Drop a remark about an object that is gone; the same remark about another object is new again."""
        self.changes += remark in self._kept
        self._kept.pop(remark, None)
