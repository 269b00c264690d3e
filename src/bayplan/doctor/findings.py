"""What a check finds: how bad it is, which objects it concerns, what is wrong and how to repair it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How bad a finding is. Notes are for information and never fail a run."""

    NOTE = 0
    WARNING = 1
    ERROR = 2

    @property
    def text(self) -> str:
        """As documents and `--fail-on` write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, for all objects that have it.

    `objects` are written as `kind/name` or `kind/namespace/name`; they may be thousands. `problem` is a sentence
    without their names.
    """

    severity: Severity
    problem: str
    advice: str
    objects: tuple[str, ...] = ()


def error(problem: str, advice: str, *objects: str) -> Finding:
    """Something does not work."""
    return Finding(Severity.ERROR, problem, advice, objects)


def warning(problem: str, advice: str, *objects: str) -> Finding:
    """Something works worse than it could, or will stop working."""
    return Finding(Severity.WARNING, problem, advice, objects)


def note(problem: str, advice: str, *objects: str) -> Finding:
    """Something is unusual but may be intended."""
    return Finding(Severity.NOTE, problem, advice, objects)
