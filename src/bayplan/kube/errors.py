"""One error for every object that says something wrong, and the path that names the place.

A message always reads `Pod telco/upf-0: spec.containers[0].resources.requests.cpu: "1.5x" ...`, so that a user finds
the object, the field, the value and what would be allowed in one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

import msgspec


class _Metadata(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str | None: ...


class _Named(Protocol):
    """Any wire object: it has metadata and knows its kind."""

    @property
    def metadata(self) -> _Metadata: ...


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """An object and a field in it, as a user would write it: `Node worker-3: status.allocatable.cpu`."""

    subject: str
    field: str = ""

    @classmethod
    def of(cls, thing: _Named) -> ObjectPath:
        """The path of a wire object itself."""
        metadata = thing.metadata
        name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        return cls(f"{type(thing).__name__} {name or '(no name)'}")

    def child(self, name: str) -> ObjectPath:
        """A field of the place this path names."""
        return ObjectPath(self.subject, f"{self.field}.{name}" if self.field else name)

    def entry(self, name: str) -> ObjectPath:
        """One key of a map whose keys are names that users chose: always quoted."""
        return ObjectPath(self.subject, f'{self.field}["{name}"]')

    def item(self, index: int) -> ObjectPath:
        """One entry of the list this path names."""
        return ObjectPath(self.subject, f"{self.field}[{index}]")

    def key(self, name: str) -> ObjectPath:
        """One key of the map this path names; quoted where a dot or slash would be read as a field."""
        return ObjectPath(self.subject, f'{self.field}["{name}"]' if set(name) & set("./") else f"{self.field}.{name}")

    def in_file(self, file: Path) -> ObjectPath:
        """The same place, with the file that the object came from."""
        return ObjectPath(f"{self.subject} ({file})", self.field)

    def __str__(self) -> str:
        return f"{self.subject}: {self.field}" if self.field else self.subject


_UNKNOWN_FIELD = "Object contains unknown field "
_ALIKE = 0.7
_LONGEST_QUOTE = 80


class InvalidObject(ValueError):
    """An object from a file or the API server that cannot mean what it says."""

    def __init__(self, at: ObjectPath, problem: str) -> None:
        super().__init__(f"{at}: {problem}")
        self.at = at
        self.problem = problem


def field_and_problem(error: msgspec.ValidationError) -> tuple[str, str]:
    """msgspec's "Expected `str`, got `int` - at `$.spec.nodeName`" as the field's path and what is wrong with it.

    >>> field_and_problem(msgspec.ValidationError("Object contains unknown field `nodeNam` - at `$.spec`"))
    ('spec.nodeNam', 'there is no such field')
    """
    problem, _, path = str(error).partition(" - at `$")
    field = path.strip("`").lstrip(".")
    unknown = problem.removeprefix(_UNKNOWN_FIELD)
    if unknown == problem:
        return field, problem
    return ".".join(part for part in (field, unknown.strip("`")) if part), "there is no such field"


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """The end of a message about a misspelt word; empty if it resembles none of those allowed.

    >>> did_you_mean("nodeselector", ["nodeName", "nodeSelector"])
    '; did you mean nodeSelector?'
    """
    by_lower = {each.lower(): each for each in allowed}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=_ALIKE)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""


def in_words(value: object) -> str:
    """A value as a user wrote it; lists and mappings only by what they are."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"' if len(value) <= _LONGEST_QUOTE else f'"{value[:_LONGEST_QUOTE]}..."'
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case None:
            return "null"
        case _:
            return str(value)
