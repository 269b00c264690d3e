"""What comes of grouping: the PodGroup to apply, the pod's place in it, and what is wrong.

`Grouping` is the same for both modes, so that the service need not know which one it serves: it applies `manifest` (server-side), puts `labels` and
`annotations` on the pod, and tells each `InvalidValue` as an event on the object that it is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayplan.grouping.raw import RawObject, Reference, shown
from bayplan.kube.errors import InvalidObject, ObjectPath

# Why an event is written: an object says what cannot be meant, or what bayplan does not do.
INVALID_GROUP = "InvalidGroup"
NOT_SUPPORTED = "NotSupported"


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
    """Grouping ends here because of one problem; never leaves the room."""

    def __init__(self, problem: InvalidValue) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Grouping:
    """The group that a pod belongs to, its place there, and what is to be said about it.

    Without a `manifest` the pod stands alone, or waits if it is `held`. `asked_in` tells for fields of the PodGroup and their values which annotation asks for them,
    as a path that is said on the owner.
    """

    name: str = ""
    manifest: RawObject | None = None
    owner: Reference | None = None
    group: str = ""
    rank: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[InvalidValue, ...] = ()
    asked_in: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def held(self) -> bool:
        """Whether the pod must wait until the problem is fixed."""
        return any(problem.holds for problem in self.problems)
