"""What is written into the status of a PodGroup, in the words of whose PodGroup it is: data only, for `gang_writes.py` to send.

    bayplan         phase Waiting or Scheduled, a message, the condition Scheduled
    Kubernetes      the condition PodGroupScheduled
    Volcano         phase Inqueue or Running, the condition Unschedulable or Scheduled
    KAI             the scheduling condition UnschedulableOnNodePool, phase Running
    coscheduling    phase Scheduled; it has no place for a reason

Others' controllers and users look at these fields; whoever wrote them before was the scheduler in whose place bayplan works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayplan.kube import (
    coscheduling_v1alpha1,
    podgroup_v1alpha1,
    podgroup_v2alpha2,
    scheduling_v1alpha2,
    volcano_scheduling_v1beta1,
)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a gang has come: `members` have arrived, and `running` of them have nodes if it is complete; else `message` says why it waits, `since` when."""

    complete: bool
    since: str
    message: str
    members: int = 0
    running: int = 0
    invalid: bool = False

    @property
    def reason(self) -> str:
        """One word, as conditions want it."""
        return "Scheduled" if self.complete else "SchedulerError" if self.invalid else "Unschedulable"

    def condition(self, kind: str) -> Document:
        """A condition that is true once the gang is complete."""
        return {
            "type": kind,
            "status": "True" if self.complete else "False",
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": self.since,
        }


def _own(progress: Progress) -> Document:
    conditions = [progress.condition("Scheduled")]
    status = {"message": progress.message, "members": progress.members, "conditions": conditions}
    if progress.complete:
        return {"phase": podgroup_v1alpha1.SCHEDULED, "scheduled": progress.running, **status}
    return {"phase": podgroup_v1alpha1.WAITING, **status}


def _kubernetes(progress: Progress) -> Document:
    return {"conditions": [progress.condition(scheduling_v1alpha2.SCHEDULED)]}


def _volcano(progress: Progress) -> Document:
    kind = "Scheduled" if progress.complete else "Unschedulable"
    reason = "tasks in gang are ready to be scheduled" if progress.complete else "NotEnoughResources"
    condition = {**progress.condition(kind), "status": "True", "reason": reason, "transitionID": progress.since}
    return {"phase": "Running" if progress.complete else "Inqueue", "conditions": [condition]}


def _kai(progress: Progress) -> Document:
    if progress.complete:
        return {"phase": "Running", "schedulingConditions": []}
    condition = {
        **progress.condition("UnschedulableOnNodePool"),
        "status": "True",
        "nodePool": "default",
        "transitionID": progress.since,
    }
    return {"phase": "Pending", "schedulingConditions": [condition]}


def _coscheduling(progress: Progress) -> Document:
    return {"phase": "Scheduled"} if progress.complete else {}


_IN_WORDS_OF: dict[type[Any], Callable[[Progress], Document]] = {
    podgroup_v1alpha1.PodGroup: _own,
    scheduling_v1alpha2.PodGroup: _kubernetes,
    volcano_scheduling_v1beta1.PodGroup: _volcano,
    podgroup_v2alpha2.PodGroup: _kai,
    coscheduling_v1alpha1.PodGroup: _coscheduling,
}


def status_of(struct: type[Any], progress: Progress) -> Document:
    """The status of a group object of this wire struct; empty if there is nothing to write."""
    return _IN_WORDS_OF[struct](progress)
