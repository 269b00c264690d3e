"""What the dispatcher wants done: data, to be carried out by a caller with access to an API server.

`dispatch/dispatcher.py` makes these, `services/scheduler/` turns them into binds, events, conditions and deletions.
"""

from __future__ import annotations

from msgspec import Struct

from bayplan.gangs.model import GangDecision, Seat
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.decision import Decision

# Before the key of a gang: how units that are gangs are called.
GANG = "gang "


class Assignment(Struct, frozen=True):
    """One pod and its place; `seat` if it is a member of a gang."""

    pod: Pod
    decision: Decision
    seat: Seat | None = None

    @property
    def node(self) -> str:
        """The node's name."""
        assert self.decision.node is not None
        return self.decision.node


class Bind(Struct, frozen=True):
    """All pods of a unit have their places, which are assumed already."""

    unit: str
    assignments: tuple[Assignment, ...]


class Unschedulable(Struct, frozen=True):
    """A unit has no place now. `reason` where it is known in words; else `decision` or `gang` hold the data.

    `beyond_need` if a gang has all that it needs, and these pods would only join it. `traceback` is for the log: a bug of ours
    kept it from being decided about.
    """

    unit: str
    pods: tuple[Pod, ...]
    reason: str = ""
    decision: Decision | None = None
    gang: GangDecision | None = None
    invalid: bool = False
    beyond_need: bool = False
    traceback: str = ""

    @property
    def undecided(self) -> bool:
        """True if no placement has been attempted yet: the gang waits for its pods, its PodGroup or a gate."""
        return self.unit.startswith(GANG) and self.gang is None and not self.invalid


class Complete(Struct, frozen=True):
    """Every pod that a gang needs has a node."""

    gang: str


class Release(Struct, frozen=True):
    """A gang that began and cannot be completed."""

    gang: str
    pods: tuple[Pod, ...]
    reason: str


Action = Bind | Unschedulable | Complete | Release
