"""A decision as data: where a pod goes and what it takes, or why it goes nowhere.

`schedule_one` returns one of these; `explain/` turns it into sentences, tables and pictures, and the long-running services
turn it into bindings and events. Nothing here computes anything.
"""

from __future__ import annotations

from msgspec import Struct

from bayplan.cluster.state import ZoneCharge
from bayplan.engine.numa.placement import ContainerZones


class CauseCount(Struct, frozen=True):
    """How many nodes one cause of one plugin kept a pod away from, in the order the filters are asked.

    `reason` is the kubelet's own (`SMTAlignmentError`), where a replay of its admission refused; empty for filters. `details` name terms and pods, where
    neighbours are the cause.
    """

    plugin: str
    cause: str
    nodes: tuple[str, ...]
    reason: str = ""
    details: tuple[str, ...] = ()


class NearestMiss(Struct, frozen=True):
    """A node that almost fits: the resource it lacks most, where, what it has there and what is wanted.

    `reason` is what the kubelet would say where the amount is not the obstacle; the resource is empty where none is named.
    """

    node: str
    resource: str
    zone: int | None
    have: int
    want: int
    reason: str = ""

    @property
    def missing_share(self) -> float:
        """The part of what is wanted that is not there; 0 where the amount is not the obstacle."""
        return max(0.0, (self.want - self.have) / self.want) if self.want else 0.0


class Shortfall(Struct, frozen=True):
    """The data behind a "no"."""

    nodes: int
    causes: tuple[CauseCount, ...]
    nearest: tuple[NearestMiss, ...]


class Decision(Struct, frozen=True, gc=False):
    """The outcome of one scheduling cycle for one pod."""

    pod: str
    node: str | None
    row: int = -1
    score: int = 0
    containers: tuple[ContainerZones, ...] = ()
    charges: tuple[ZoneCharge, ...] = ()
    by_amounts: bool = True
    shortfall: Shortfall | None = None
    held_back: str = ""
    remark: str = ""
    """What a user should know about the node that was chosen."""

    @property
    def placed(self) -> bool:
        """True if the pod goes somewhere."""
        return self.node is not None
