"""The outcome of grouping: the PodGroup to apply, the pod's place in it, and what is invalid.

`Grouping` is the same for all modes. The service applies `manifest` (server-side), puts `labels` and `annotations` on
the pod, and reports each `InvalidValue` as an event on its object.

Most gangs follow from a pod and its owners. Grove's gangs and the progress of a JobSet need one more object. Grouping
then returns a `Lookup`; the caller, who has access to the cluster, looks it up and asks again:

    answers = {}
    while isinstance(outcome := group_for(pod, owners, settings, answers), Question):
        answers[outcome] = await find(outcome)

An answer is a list of objects: at most one for a name, any number for labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.grouping.raw import RawObject, Reference, shown
from bayplan.kube.errors import InvalidObject, ObjectPath

# Reasons of events: an object has an invalid value, or one that bayplan does not support.
INVALID_GROUP = "InvalidGroup"
NOT_SUPPORTED = "NotSupported"

# The annotation behind each field and value of a PodGroup, as a path seen from the owner.
AskedIn = Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class InvalidValue:
    """An invalid value in an object: where, what, and what is allowed.

    One that `holds` keeps the pods waiting until it is fixed; the others are remarks. `reason` is that of the event.
    """

    about: Reference
    field: str
    value: object
    allowed: str
    holds: bool = True
    reason: str = INVALID_GROUP

    def __str__(self) -> str:
        return str(self.as_error())

    def as_error(self) -> InvalidObject:
        """The same for callers that cannot go on."""
        value = "" if self.value is None else f"{shown(self.value)} "
        return InvalidObject(ObjectPath(str(self.about)).child(self.field), f"{value}{self.allowed}")


class InvalidGrouping(Exception):
    """Ends grouping because of one problem; never leaves this room."""

    def __init__(self, problem: InvalidValue) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Grouping:
    """The group of a pod, its place there, and remarks.

    Without a `manifest` the pod stands alone, or waits if it is `held`. `asked_in` has the annotation for PodGroup
    fields and their values, as a path seen from the owner.
    """

    name: str = ""
    manifest: RawObject | None = None
    owner: Reference | None = None
    group: str = ""
    rank: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[InvalidValue, ...] = ()
    asked_in: AskedIn = field(default_factory=dict)

    @property
    def held(self) -> bool:
        """True if the pod must wait until the problem is fixed."""
        return any(problem.holds for problem in self.problems)


# -- lookups ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lookup:
    """One object by name, or all objects with these labels."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()


Answers = Mapping[Lookup, Sequence[RawObject]]


class Unanswered(Exception):
    """Grouping cannot continue without this answer; never leaves this room."""

    def __init__(self, question: Lookup) -> None:
        super().__init__(str(question))
        self.question = question


def one(answers: Answers, question: Lookup) -> RawObject | None:
    """The object that a question names; None if it does not exist."""
    found = every(answers, question)
    return found[0] if found else None


def every(answers: Answers, question: Lookup) -> Sequence[RawObject]:
    """The objects that a question means."""
    if question not in answers:
        raise Unanswered(question)
    return answers[question]
