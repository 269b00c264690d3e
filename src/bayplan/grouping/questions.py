"""Lookups that grouping needs: questions that a caller with cluster access answers, so that grouping itself reads nothing.

Most gangs follow from a pod and its owners. A few need one more object: Grove keeps its gang in an object that owns no pods, and a JobSet's Jobs know
which of its pods are done. Judging stops there and returns the `Question`; the caller finds the answer, puts it into `answers` and asks again:

    answers = {}
    while isinstance(outcome := group_for(pod, owners, settings, answers), Question):
        answers[outcome] = await find(outcome)

An answer is the objects found: one or none where the question names one, any number where it gives labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayplan.grouping.raw import RawObject


@dataclass(frozen=True, slots=True)
class Question:
    """One object by name, or all objects with these labels."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()


Answers = Mapping[Question, Sequence[RawObject]]


class Unanswered(Exception):
    """Judging cannot go on without this answer; never leaves the room."""

    def __init__(self, question: Question) -> None:
        super().__init__(str(question))
        self.question = question


def one(answers: Answers, question: Question) -> RawObject | None:
    """The object that a question names; None if it does not exist."""
    found = every(answers, question)
    return found[0] if found else None


def every(answers: Answers, question: Question) -> Sequence[RawObject]:
    """The objects that a question means."""
    if question not in answers:
        raise Unanswered(question)
    return answers[question]
