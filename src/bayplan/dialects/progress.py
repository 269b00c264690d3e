"""How far a gang has come, for the status of its group object. Each dialect writes it in its own terms (`status_of`); here is what they share.

Other controllers and users read these fields, which the scheduler that bayplan replaces used to write. As long as a gang has pods, its status in
each dialect shows whether it was ever complete: the dialect's `was_complete` knows how.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from bayplan.kube.visible import visible

Document = dict[str, Any]

UNSCHEDULABLE = "Unschedulable"
_ENDED = "Ended"
# The fields that hold conditions.
_LISTS = ("conditions", "schedulingConditions")


@dataclass(frozen=True, slots=True)
class MemberCounts:
    """How many pods a gang has, how many of them have nodes, and how many of those run."""

    members: int = 0
    scheduled: int = 0
    running: int = 0


NO_MEMBERS = MemberCounts()


class Phase(Enum):
    """How far a gang has come."""

    WAITING = auto()  # It was never complete.
    COMPLETE = auto()  # All pods that it needs have nodes.
    DEGRADED = auto()  # It was complete once, and pods that it needs have no node now.
    ENDED = auto()  # It was complete once, and no pods are left.


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a gang has come, how many of its pods are how far, and in words what there is to say about it."""

    phase: Phase
    message: str
    counts: MemberCounts = NO_MEMBERS
    invalid: bool = False

    @property
    def reason(self) -> str:
        """One word, as conditions want it."""
        match self.phase:
            case Phase.COMPLETE:
                return "Scheduled"
            case Phase.ENDED:
                return _ENDED
            case _:
                return "SchedulerError" if self.invalid else UNSCHEDULABLE

    @property
    def was_complete(self) -> bool:
        """True if all pods that the gang needs had nodes once, and some of it is there still."""
        return self.phase in (Phase.COMPLETE, Phase.DEGRADED)

    @property
    def waits(self) -> bool:
        """True if pods that the gang needs have no node."""
        return self.phase in (Phase.WAITING, Phase.DEGRADED)

    @property
    def is_partial(self) -> bool:
        """True if some pods of a gang that was complete have lost their others."""
        return self.phase is Phase.DEGRADED and self.counts.scheduled > 0

    def condition(self, kind: str, *, holds: bool) -> Document:
        """A condition, without the moment since when it is as it is."""
        return {
            "type": kind,
            "status": "True" if holds else "False",
            "reason": self.reason,
            "message": visible(self.message),
        }


def has_ended(status: Document) -> bool:
    """Whether a status describes a gang that was complete once and had no pods left when it was written."""
    return any(each.get("reason") == _ENDED for each in status.get("conditions") or ())


def with_times(document: Document, before: Document, now: str) -> Document:
    """A status with the moments since when its conditions are as they are: a new message is not a new state."""
    timed = dict(document)
    for name in _LISTS:
        if name in document:
            known = {(each["type"], each["status"]): each.get("lastTransitionTime") for each in before.get(name) or ()}
            timed[name] = [_since(known.get((each["type"], each["status"])) or now, each) for each in document[name]]
    return timed


def _since(moment: str, condition: Document) -> Document:
    """A condition that is as it is since this moment, which also names the transition where a system wants that."""
    named = {"transitionID": moment} if "transitionID" in condition else {}
    return {**condition, "lastTransitionTime": moment, **named}


def says(before: Document, document: Document, conditions: Collection[str]) -> bool:
    """Whether a status says all of this already; of conditions only those of these types count, and not since when they hold."""

    def said(listed: list[Document] | None) -> dict[str, tuple[str, ...]]:
        words = ("status", "reason", "message")
        return {
            each["type"]: tuple(each[word] for word in words) for each in listed or () if each["type"] in conditions
        }

    return all(
        said(before.get(name)) == said(value) if name in _LISTS else before.get(name) == value
        for name, value in document.items()
    )
