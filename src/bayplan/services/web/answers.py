"""The question-and-answer contract between the server and the cluster it shows.

The server knows HTTP, access and caching; an `Answers` object knows one state of the cluster and gives documents about
it, the same that the commands print with `-o json`. `cli/web_answers/` implements it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Protocol

Document = dict[str, Any]


class Unanswerable(Exception):
    """A question without an answer: the HTTP status and one sentence.

    With `names_are_the_viewers` it names only what the question itself names, so nothing in it is hidden.
    """

    def __init__(self, status: HTTPStatus, text: str, *, names_are_the_viewers: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.names_are_the_viewers = names_are_the_viewers


class Standing(StrEnum):
    """How current a state is: it follows a cluster, a simulation that goes on or has finished, or files."""

    LIVE = "live"
    RUNNING = "running"
    FINISHED = "finished"
    DUMP = "dump"


@dataclass(frozen=True, slots=True)
class Names:
    """Names that belong to a namespace: `by_name` has the namespaces of each pod, gang and workload of that name.

    A node's own objects (mirror pods) are owned by it, and `nodes` are no secret.
    """

    namespaces: frozenset[str] = frozenset()
    by_name: Mapping[str, frozenset[str]] = field(default_factory=dict)
    nodes: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What a request asks: a kind of answer, its parameters, and the manifest of a what-if.

    `visible` are the namespaces that the viewer may read; None: all.
    """

    kind: str
    parameters: tuple[tuple[str, str], ...] = ()
    manifest: bytes = b""
    visible: frozenset[str] | None = None

    def get(self, name: str, default: str = "") -> str:
        """The value of a parameter."""
        return dict(self.parameters).get(name, default)


class Answers(Protocol):
    """One state of the cluster."""

    @property
    def source(self) -> str:
        """What is shown: a cluster, a dump or a simulation."""

    @property
    def standing(self) -> Standing:
        """How current it is."""

    @property
    def names(self) -> Names:
        """Everything that must not be shown to viewers without the right to read its namespace."""

    def answer(self, question: Question) -> Document:
        """The document; raises `Unanswerable`. Runs in a thread, one question at a time."""
