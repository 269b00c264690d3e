"""Actions: the dispatcher returns them, `services/scheduler/` turns them into binds, events and deletions."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from bayplan.dispatch.units import GangUnit, Unit
from bayplan.gangs.model import GangDecision, Seat
from bayplan.gangs.preemption.plan import GangPreemption
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.preemption.plan import NoPreemption, Preemption

AnyPreemption = Preemption | GangPreemption | NoPreemption


class Stage(Enum):
    """What becomes of a preemption plan: it is only shown, its victims are to be evicted now, or they are leaving."""

    PLANNED = "planned"
    CARRY_OUT = "carry out"
    UNDER_WAY = "under way"


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


# The reason of a unit whose decision failed on a bug of bayplan, not of a package that extends it.
INTERNAL_ERROR = "internal error"


class Bind(Struct, frozen=True):
    """Every pod of a unit has a place, which is already assumed."""

    unit: Unit
    assignments: tuple[Assignment, ...]


class Unschedulable(Struct, frozen=True):
    """A unit has no place now. `reason` says why, or `decision` or `gang` hold the data.

    `beyond_need` means that the gang has all pods that it needs, and these would join it. `traceback` is set if a bug
    prevented the decision. `preemption` tells which evictions would make room, or why none does.
    """

    unit: Unit
    pods: tuple[Pod, ...]
    reason: str = ""
    decision: Decision | None = None
    gang: GangDecision | None = None
    invalid: bool = False
    beyond_need: bool = False
    traceback: str = ""
    preemption: AnyPreemption | None = None
    stage: Stage = Stage.PLANNED

    @property
    def undecided(self) -> bool:
        """True if no placement has been attempted yet: the gang waits for its pods, its PodGroup or a gate."""
        return isinstance(self.unit, GangUnit) and self.gang is None and not self.invalid

    @property
    def gang_name(self) -> str:
        """The gang's name in the roster; empty for a single pod."""
        return self.unit.gang if isinstance(self.unit, GangUnit) else ""


class Complete(Struct, frozen=True):
    """Every pod that a gang needs has a node."""

    gang: str


class Release(Struct, frozen=True):
    """A partially bound gang cannot be completed: delete these pods."""

    gang: str
    pods: tuple[Pod, ...]
    reason: str


Action = Bind | Unschedulable | Complete | Release
