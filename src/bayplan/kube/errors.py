"""One error for every object that says something wrong, and the path that names the place.

A message always reads `Pod telco/upf-0: spec.containers[0].resources.requests.cpu: "1.5x" ...`, so that a user finds
the object, the field, the value and what would be allowed in one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Protocol, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from bayplan.kube.json_text import OUT_OF_RANGE, json_words
from bayplan.kube.visible import short_values, visible

NAMELESS = "is missing: every object needs a name"
TWICE = "appears twice: the first one counts"


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

    def in_file(self, file: Path, position: object = None) -> ObjectPath:
        """The same place, with the file that the object came from and, if it is known, line and column."""
        where = f"{file}:{position}" if position else str(file)
        return ObjectPath(f"{self.subject} ({where})", self.field)

    def __str__(self) -> str:
        return f"{self.subject}: {self.field}" if self.field else self.subject


_UNKNOWN_FIELD = "Object contains unknown field "
_MISSING_FIELD = "Object missing required field "
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>[^`]*)`(?P<rest>(?:(?!, got ).)*)(?:, got `?(?P<got>[^`]*)`?)?")
_TYPE_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}
_GOT = re.compile(r"got `(\w+)`")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_JSON_TYPES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    type(None): "null",
}
_ALIKE = 0.7
_LONGEST_QUOTE = 80


class InvalidObject(ValueError):
    """An object from a file or the API server that cannot mean what it says."""

    def __init__(self, at: ObjectPath, problem: str) -> None:
        super().__init__(short_values(visible(f"{at}: {problem}")))
        self.at = at
        self.problem = problem


class InvalidObjects(InvalidObject):
    """Everything that is wrong with one object; the first is the one to name where there is room for one."""

    def __init__(self, faults: Sequence[InvalidObject]) -> None:
        super().__init__(faults[0].at, faults[0].problem)
        self.faults = tuple(faults)


def left_out(error: InvalidObject) -> str:
    """What a command says of an object of a cluster that it cannot use."""
    if error.problem == TWICE:
        return str(error)
    kind = error.at.subject.partition(" ")[0]
    return f"{error}; the {kind if kind[:1].isupper() else 'object'} is left out"


def field_and_problem(error: msgspec.ValidationError, struct: type[Struct] | None = None) -> tuple[str, str]:
    """msgspec's message as the field's path and, in the words of a user, what is wrong with it.

    With the `struct` that was to be decoded, an unknown field gets the known one that it resembles.

    >>> field_and_problem(msgspec.ValidationError("Object contains unknown field `nodeNam` - at `$.spec`"))
    ('spec.nodeNam', 'there is no such field')
    >>> field_and_problem(msgspec.ValidationError("Expected `array | null`, got `str` - at `$.zones`"))
    ('zones', 'must be a list, not a string')
    """
    problem, _, path = str(error).partition(" - at `")
    field = path.removeprefix("key` in `").strip("`").removeprefix("$").lstrip(".")
    unknown = problem.removeprefix(_UNKNOWN_FIELD)
    if unknown != problem:
        name = unknown.strip("`")
        hint = did_you_mean(name, _fields_at(struct, field)) if struct is not None else ""
        return ".".join(part for part in (field, name) if part), f"there is no such field{hint}"
    missing = problem.removeprefix(_MISSING_FIELD)
    if missing != problem:
        return ".".join(part for part in (field, missing.strip("`")) if part), "is missing"
    return field, _in_user_words(problem)


def decoding_words(error: msgspec.DecodeError) -> str:
    """What is wrong with JSON or its shape, in the words of a user and with the field if there is one."""
    if not isinstance(error, msgspec.ValidationError):
        return f"is not valid JSON: {json_words(error)}"
    field, problem = field_and_problem(error)
    return f"{field}: {problem}" if field else problem


def within(at: str, error: msgspec.ValidationError) -> str:
    """The same about a value at a path."""
    field, problem = field_and_problem(error)
    return f"{at}.{field}: {problem}" if field else f"{at}: {problem}"


def _fields_at(struct: type[Struct], path: str) -> Iterable[str]:
    """The names of the fields that there are at a path below a struct."""
    at: type[Struct] | None = struct
    for part in filter(None, re.sub(r"\[[^\]]*\]", "", path).split(".")):
        found = None if at is None else struct_fields(at).get(part)
        at = None if found is None else found.struct
    return () if at is None else struct_fields(at)


class StructField(NamedTuple):
    """The struct of a field's value, or of the entries of its list or map, if there is one.

    `keyed` if a mapping there is a map of entries.
    """

    struct: type[Struct] | None
    keyed: bool


@cache
def struct_fields(struct: type[Struct]) -> Mapping[str, StructField]:
    """The fields of a struct as they are written."""
    return {
        field.encode_name: StructField(_struct_in(field.type), _is_keyed(field.type))
        for field in msgspec.structs.fields(struct)
    }


def _is_keyed(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(map(_is_keyed, get_args(annotation)))
    return get_origin(annotation) is dict


def _struct_in(annotation: Any) -> type[Struct] | None:
    if get_origin(annotation) in (Union, UnionType, list, dict):
        return next((inner for each in get_args(annotation) if (inner := _struct_in(each)) is not None), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, Struct) else None


def exact_field(field: str, message: str, document: object) -> str:
    """A field with the key where msgspec says `[...]` for a value of a mapping: that of the first value of the type
    that was found.

    >>> exact_field("metadata.labels[...]", "Expected `str`, got `int`", {"metadata": {"labels": {"a": "b", "c": 5}}})
    'metadata.labels.c'
    """
    got = _GOT.search(message)
    before, gap, after = field.partition("[...]")
    if not gap or not got:
        return field
    for key, value in _entries_at(before, document):
        if _JSON_TYPES.get(type(_value_at(after, value))) == got[1]:
            return ObjectPath("", before).key(key).field + after
    return field


def _entries_at(field: str, document: object) -> list[tuple[str, object]]:
    found = _value_at(field, document)
    return list(found.items()) if isinstance(found, dict) else []


def _value_at(field: str, document: object) -> object:
    for name, index in _STEP.findall(field):
        if isinstance(document, dict) and name:
            document = document.get(name)
        elif isinstance(document, list) and index and int(index) < len(document):
            document = document[int(index)]
    return document


def _in_user_words(problem: str) -> str:
    """What msgspec expected and got, without its names for types."""
    wrong = _WRONG_TYPE.fullmatch(problem)
    if wrong:
        expected = [_TYPE_WORDS.get(each, each) for each in wrong["expected"].split(" | ") if each != "null"]
        got = _TYPE_WORDS.get(wrong["got"] or "", wrong["got"] or "")
        if got == "a number" and "a whole number" in expected:
            got = "a fraction"
        must = f"must be {' or '.join(dict.fromkeys(expected))}{wrong['rest'].replace('`', '')}"
        return f"{must}, not {got}" if got else must
    if problem.endswith(" out of range"):
        return OUT_OF_RANGE
    enum = problem.removeprefix("Invalid enum value ")
    if enum != problem:
        return f'"{enum.strip("`").strip(chr(39))}" is not allowed'
    return f"{problem[:1].lower()}{problem[1:]}".replace("`", "")


def did_you_mean(word: str, allowed: Iterable[str], alike: float = _ALIKE) -> str:
    """The end of a message about a misspelt word; empty if it resembles none of those allowed.

    >>> did_you_mean("nodeselector", ["nodeName", "nodeSelector"])
    '; did you mean nodeSelector?'
    """
    by_lower = {each.lower(): each for each in allowed}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=alike)
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
