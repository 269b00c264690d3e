"""What is written into the status of a PodGroup, in the terms of its API: data only, for `gang_writes.py` to send.

    bayplan         phase, counts, a message, the condition Scheduled (now) and Started (once set, permanent)
    Kubernetes      the condition PodGroupScheduled: once true it stays so, and its message tells the present
    Volcano         phase, the count of running pods, the condition Unschedulable or Scheduled
    KAI             the condition Scheduled, which stays true once it is, and the scheduling condition UnschedulableOnNodePool
    coscheduling    phase and the count of running pods; it has no place for a reason

Other controllers and users read these fields, which the scheduler that bayplan replaces used to write. As long as a gang has pods, its status in
each dialect shows whether it was ever complete: the dialects' `was_complete` knows how.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from bayplan.dispatch.roster import NOBODY, Tally
from bayplan.kube.visible import visible
from bayplan.kube.wire import (
    coscheduling_v1alpha1,
    podgroup_v1alpha1,
    podgroup_v2alpha2,
    scheduling_v1alpha2,
    volcano_scheduling_v1beta1,
)

Document = dict[str, Any]

_UNSCHEDULABLE = "Unschedulable"
_ENDED = "Ended"
_UNSCHEDULABLE_ON_POOL = "UnschedulableOnNodePool"
# The conditions that are written here, and the fields that hold them.
_OURS = frozenset(
    (
        podgroup_v1alpha1.SCHEDULED,
        podgroup_v1alpha1.STARTED,
        podgroup_v2alpha2.SCHEDULED,
        scheduling_v1alpha2.SCHEDULED,
        _UNSCHEDULABLE,
        _UNSCHEDULABLE_ON_POOL,
    )
)
_LISTS = ("conditions", "schedulingConditions")


class Stage(Enum):
    """How far a gang has come."""

    WAITS = auto()  # It was never complete.
    STANDS = auto()  # All pods that it needs have nodes.
    LACKS = auto()  # It was complete once, and pods that it needs have no node now.
    ENDED = auto()  # It was complete once, and no pods are left.


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a gang has come, how many of its pods are how far, and in words what there is to say about it."""

    stage: Stage
    message: str
    tally: Tally = NOBODY
    invalid: bool = False

    @property
    def reason(self) -> str:
        """One word, as conditions want it."""
        match self.stage:
            case Stage.STANDS:
                return "Scheduled"
            case Stage.ENDED:
                return _ENDED
            case _:
                return "SchedulerError" if self.invalid else _UNSCHEDULABLE

    @property
    def was_complete(self) -> bool:
        """True if all pods that the gang needs had nodes once, and some of it is there still."""
        return self.stage in (Stage.STANDS, Stage.LACKS)

    @property
    def waits(self) -> bool:
        """True if pods that the gang needs have no node."""
        return self.stage in (Stage.WAITS, Stage.LACKS)

    @property
    def is_partial(self) -> bool:
        """True if some pods of a gang that was complete have lost their others."""
        return self.stage is Stage.LACKS and self.tally.scheduled > 0

    def condition(self, kind: str, *, holds: bool) -> Document:
        """A condition, without the moment since when it is as it is."""
        return {
            "type": kind,
            "status": "True" if holds else "False",
            "reason": self.reason,
            "message": visible(self.message),
        }


def _own(progress: Progress) -> Document:
    phase = podgroup_v1alpha1.WAITING
    if progress.stage is Stage.STANDS:
        phase = podgroup_v1alpha1.SCHEDULED
    elif progress.stage is Stage.ENDED:
        phase = podgroup_v1alpha1.ENDED
    elif progress.is_partial:
        phase = podgroup_v1alpha1.DEGRADED
    conditions = [progress.condition(podgroup_v1alpha1.SCHEDULED, holds=progress.stage is Stage.STANDS)]
    if progress.was_complete:
        said = {"reason": "Complete", "message": "all pods that the gang needs had nodes"}
        conditions.append({"type": podgroup_v1alpha1.STARTED, "status": "True", **said})
    tally = progress.tally
    counts = {"members": tally.members, "scheduled": tally.scheduled, "running": tally.running}
    return {"phase": phase, "message": visible(progress.message), **counts, "conditions": conditions}


def _kubernetes(progress: Progress) -> Document:
    holds = progress.stage is not Stage.WAITS
    reason = "Scheduled" if holds else progress.reason
    return {"conditions": [{**progress.condition(scheduling_v1alpha2.SCHEDULED, holds=holds), "reason": reason}]}


def _volcano(progress: Progress) -> Document:
    if progress.stage is Stage.ENDED:
        # Volcano's controllers may create pods again.
        return {"phase": "Inqueue", "running": 0, "conditions": []}
    if progress.stage is Stage.STANDS:
        phase, kind, reason = "Running", "Scheduled", "tasks in gang are ready to be scheduled"
    else:
        phase = "Unknown" if progress.is_partial else "Inqueue"
        kind, reason = _UNSCHEDULABLE, "NotEnoughResources"
    condition = {**progress.condition(kind, holds=True), "reason": reason, "transitionID": ""}
    return {"phase": phase, "running": progress.tally.running, "conditions": [condition]}


def _kai(progress: Progress) -> Document:
    """KAI's own scheduler never wrote phases or counts, and newer versions of its PodGroup have no fields for them."""
    written = {"conditions": [progress.condition(podgroup_v2alpha2.SCHEDULED, holds=progress.was_complete)]}
    if not progress.waits:
        return {**written, "schedulingConditions": []}
    condition = progress.condition(_UNSCHEDULABLE_ON_POOL, holds=True)
    return {**written, "schedulingConditions": [{**condition, "nodePool": "default", "transitionID": ""}]}


def _coscheduling(progress: Progress) -> Document:
    if progress.stage is Stage.WAITS:
        return {}
    phase = "Scheduled" if progress.stage is Stage.STANDS else "Unknown" if progress.is_partial else "Pending"
    return {"phase": phase, "running": progress.tally.running}


_IN_WORDS_OF: dict[type[Any], Callable[[Progress], Document]] = {
    podgroup_v1alpha1.PodGroup: _own,
    scheduling_v1alpha2.PodGroup: _kubernetes,
    volcano_scheduling_v1beta1.PodGroup: _volcano,
    podgroup_v2alpha2.PodGroup: _kai,
    coscheduling_v1alpha1.PodGroup: _coscheduling,
}


def status_of(struct: type[Any], progress: Progress) -> Document:
    """The status of a group object of this wire struct, without times; empty if there is nothing to write."""
    return _IN_WORDS_OF[struct](progress)


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


def says(before: Document, document: Document) -> bool:
    """Whether a status says all of this already; conditions of others, and since when, do not matter."""
    return all(
        _said(before.get(name)) == _said(value) if name in _LISTS else before.get(name) == value
        for name, value in document.items()
    )


def _said(conditions: list[Document] | None) -> dict[str, tuple[str, ...]]:
    """What conditions of ours say, by their type."""
    words = ("status", "reason", "message")
    return {each["type"]: tuple(each[word] for word in words) for each in conditions or () if each["type"] in _OURS}
