"""The progress of a gang, from which each dialect writes the status of its group object (`status_of`).

Controllers and users read these fields. While a gang has pods, its status shows whether it was ever complete: the
dialect's `was_complete` reads that.
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
    """The number of pods of a gang, of those with nodes, and of those that run."""

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
    """The phase of a gang, its member counts, and a message.

    `api_version` is that of the object if its words depend on it.
    """

    phase: Phase
    message: str
    counts: MemberCounts = NO_MEMBERS
    invalid: bool = False
    api_version: str = ""

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
        """True if the gang has been complete and still has pods."""
        return self.phase in (Phase.COMPLETE, Phase.DEGRADED)

    @property
    def waits(self) -> bool:
        """True if pods that the gang needs have no node."""
        return self.phase in (Phase.WAITING, Phase.DEGRADED)

    @property
    def is_partial(self) -> bool:
        """True if a gang that was complete has lost some of its pods."""
        return self.phase is Phase.DEGRADED and self.counts.scheduled > 0

    def condition(self, kind: str, *, holds: bool) -> Document:
        """A condition without its transition time."""
        return {
            "type": kind,
            "status": "True" if holds else "False",
            "reason": self.reason,
            "message": visible(self.message),
        }


def has_ended(status: Document) -> bool:
    """True if a status describes a gang that was complete and had no pods left."""
    return any(each.get("reason") == _ENDED for each in status.get("conditions") or ())


def with_times(document: Document, before: Document, now: str) -> Document:
    """A status with transition times; a new message is not a transition."""
    timed = dict(document)
    for name in _LISTS:
        if name in document:
            known = {(each["type"], each["status"]): each.get("lastTransitionTime") for each in before.get(name) or ()}
            timed[name] = [_since(known.get((each["type"], each["status"])) or now, each) for each in document[name]]
    return timed


def _since(moment: str, condition: Document) -> Document:
    """A condition with its transition time, and with a transition ID if the system has one."""
    named = {"transitionID": moment} if "transitionID" in condition else {}
    return {**condition, "lastTransitionTime": moment, **named}


def says(before: Document, document: Document, conditions: Collection[str]) -> bool:
    """True if a status already has this content; only conditions of these types count, without their times."""

    def said(listed: list[Document] | None) -> dict[str, tuple[str, ...]]:
        words = ("status", "reason", "message")
        return {
            each["type"]: tuple(each[word] for word in words) for each in listed or () if each["type"] in conditions
        }

    return all(
        said(before.get(name)) == said(value) if name in _LISTS else before.get(name) == value
        for name, value in document.items()
    )
