"""Whether an object has the shape that its kind has: no field that Kubernetes does not know, and a value of the right
type in each.

The table beside this file lists the fields of nodes, pods, pod templates and the built-in workloads. It is written from
what an API server serves (`make object-fields`) and says of which version. Everything else about a pod is checked by
`pod.py`, once the shape is right.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bayplan.kube.errors import InvalidObject, ObjectPath, did_you_mean, in_words
from bayplan.kube.quantity import QuantityError, parse

_TABLE = Path(__file__).with_name("object_fields.json")
_FEW = 12  # fields to list where none resembles what was written
_INT_BITS = {"int32": 31, "int64": 63}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)")


class FieldTable(msgspec.Struct, frozen=True):
    """The fields of every type by name, each with its type: a scalar, another name, `[]` or `{}` before either."""

    kubernetes: str
    types: dict[str, dict[str, str]]


class UnknownField(InvalidObject):
    """A field that this version of Kubernetes does not have: `--validate` may let it pass."""


class _Walk(NamedTuple):
    value: Any
    type: str
    at: ObjectPath


@functools.cache
def field_table() -> FieldTable:
    """The table, read once."""
    return msgspec.json.decode(_TABLE.read_bytes(), type=FieldTable)


def field_faults(document: Any, kind: str, at: ObjectPath) -> Iterator[InvalidObject]:
    """Unknown fields and values of a wrong type in an object of a kind, or of any type that the table has."""
    types = field_table().types
    waiting = [_Walk(document, kind, at)]
    while waiting:
        value, expected, place = waiting.pop()
        if value is None:
            continue  # absent, to the API server
        if expected.startswith("[]"):
            if not isinstance(value, list):
                yield _wrong(value, "a list", place)
                continue
            inner = [_Walk(each, expected[2:], place.item(index)) for index, each in enumerate(value)]
            waiting += reversed(inner)
        elif expected.startswith("{}"):
            if not isinstance(value, dict):
                yield _wrong(value, "a mapping", place)
                continue
            waiting += reversed([_Walk(each, expected[2:], place.key(str(key))) for key, each in value.items()])
        elif expected in types:
            if not isinstance(value, dict):
                yield _wrong(value, "a mapping", place)
                continue
            known = types[expected]
            for key in value:
                if key not in known:
                    yield UnknownField(place.child(str(key)), f"unknown field{_meant(str(key), known)}")
            waiting += reversed([_Walk(value[key], known[key], place.child(key)) for key in value if key in known])
        else:
            yield from _scalar_faults(value, expected, place)


def without_nulls(value: Any, expected: str) -> Any:
    """A value as the API server reads it: a field that is null is absent, an entry that is null is zero or empty.

    Wrong shapes stay as they are.
    """
    known = field_table().types.get(expected)
    if isinstance(value, list) and expected.startswith("[]"):
        return [_filled(each, expected[2:]) for each in value]
    if isinstance(value, dict) and expected.startswith("{}"):
        return {key: _filled(each, expected[2:]) for key, each in value.items()}
    if isinstance(value, dict) and known is not None:
        present = {key: each for key, each in value.items() if each is not None}
        return {key: without_nulls(each, known.get(key, "any")) for key, each in present.items()}
    return value


def _filled(value: Any, expected: str) -> Any:
    empty: Any = {} if expected in field_table().types else "" if expected == "string" else 0
    return empty if value is None else without_nulls(value, expected)


def _meant(field: str, known: Iterable[str]) -> str:
    fields = list(known)
    return did_you_mean(field, fields) or (f"; expected {', '.join(fields)}" if len(fields) <= _FEW else "")


def _scalar_faults(value: Any, expected: str, at: ObjectPath) -> Iterator[InvalidObject]:
    match expected:
        case "string":
            if not isinstance(value, str):
                yield _wrong(value, "a string" if isinstance(value, dict | list) else "a string: put it in quotes", at)
        case "boolean":
            if not isinstance(value, bool):
                yield _wrong(value, "true or false", at)
        case "int32" | "int64":
            yield from _integer_faults(value, _INT_BITS[expected], at)
        case "int-or-string":
            if not isinstance(value, str):
                yield from _integer_faults(value, _INT_BITS["int32"], at)
        case "quantity":
            yield from _quantity_faults(value, at)
        case "time":
            if not isinstance(value, str) or not _is_time(value):
                yield _wrong(value, "a time such as 2026-01-31T09:00:00Z", at)


def _integer_faults(value: Any, bits: int, at: ObjectPath) -> Iterator[InvalidObject]:
    if not isinstance(value, int) or isinstance(value, bool):
        yield _wrong(value, "a whole number", at)
    elif not -(2**bits) <= value < 2**bits:
        yield InvalidObject(at, f"{value} is too large: must be a whole number of {bits + 1} bits")


def _quantity_faults(value: Any, at: ObjectPath) -> Iterator[InvalidObject]:
    if isinstance(value, bool | dict | list):
        yield _wrong(value, "a quantity such as 4, 500m or 2Gi", at)
        return
    try:
        parse(value.strip() if isinstance(value, str) else value)
    except QuantityError as error:
        yield InvalidObject(at, str(error))


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _wrong(value: Any, expected: str, at: ObjectPath) -> InvalidObject:
    return InvalidObject(at, f"{in_words(value)} is not allowed: must be {expected}")
