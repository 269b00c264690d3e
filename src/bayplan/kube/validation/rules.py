"""Small steps of every check: reading fields whose types are known to be right, and the sentences for what is not
allowed.

A check is a generator of `InvalidObject`s. It runs on an object as it was written, after `fields.py` found its shape
right, and sees a field that is `null` as one that is absent, as the API server does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bayplan.kube.errors import InvalidObject, ObjectPath, did_you_mean
from bayplan.kube.quantity import Quantity, parse
from bayplan.kube.validation import names

Json = Mapping[str, Any]
Faults = Iterator[InvalidObject]


def text(thing: Json, field: str, default: str = "") -> str:
    """A text; the default also where it is empty, as the API server fills it in."""
    return thing.get(field) or default


def part(thing: Json, field: str) -> Json | None:
    """An object inside, None if it is absent. An empty one is there."""
    found: Json | None = thing.get(field)
    return found


def amount(value: Any) -> Quantity:
    """A quantity whose text is known to be right; the API server takes spaces around it, and null for nothing."""
    return parse(value.strip() if isinstance(value, str) else (value or 0))


def entries(thing: Json, field: str, at: ObjectPath) -> Iterator[tuple[Any, ObjectPath]]:
    """The entries of a list of objects, each with its place; `at` is the place of the thing."""
    for index, entry in enumerate(thing.get(field) or ()):
        yield entry or {}, at.child(field).item(index)


def texts(thing: Json, field: str, at: ObjectPath) -> Iterator[tuple[str, ObjectPath]]:
    """The entries of a list of texts, each with its place."""
    for index, entry in enumerate(thing.get(field) or ()):
        yield entry or "", at.child(field).item(index)


def named(value: str, rule: names.Rule, at: ObjectPath) -> Faults:
    """A value that has to follow a rule for names."""
    for problem in rule(value):
        yield InvalidObject(at, f'"{value}" is not allowed: {problem}')


def required(thing: Json, field: str, at: ObjectPath, rule: names.Rule | None = None, why: str = "") -> Faults:
    """A text that must not be empty, and follows a rule if there is one."""
    value = text(thing, field)
    if not value:
        yield missing(at.child(field), why)
    elif rule is not None:
        yield from named(value, rule, at.child(field))


def optional(thing: Json, field: str, at: ObjectPath, rule: names.Rule) -> Faults:
    """A text that follows a rule unless it is empty."""
    if value := text(thing, field):
        yield from named(value, rule, at.child(field))


def missing(at: ObjectPath, why: str = "") -> InvalidObject:
    """A field that has to be there."""
    return InvalidObject(at, f"is missing: {why}" if why else "is missing")


def choice(value: str, allowed: Sequence[str], at: ObjectPath) -> Faults:
    """One of a few words."""
    if value not in allowed:
        yield InvalidObject(at, f'"{value}" is not allowed: must be {", ".join(allowed)}{did_you_mean(value, allowed)}')


def chosen(thing: Json, field: str, allowed: Sequence[str], at: ObjectPath) -> Faults:
    """A field that may be absent; if it is there, even empty, it is one of a few words."""
    value = thing.get(field)
    if value is not None:
        yield from choice(value, allowed, at.child(field))


def within(value: int | None, least: int, most: int, at: ObjectPath) -> Faults:
    """A number within bounds, if it is there."""
    if value is not None and not least <= value <= most:
        yield InvalidObject(at, f"{value} is not allowed: must be {least} to {most}")


def not_negative(thing: Json, field: str, at: ObjectPath) -> Faults:
    """A number that is there must be 0 or more."""
    if (thing.get(field) or 0) < 0:
        yield InvalidObject(at.child(field), f"{thing[field]} is not allowed: must be 0 or more")


def twice(what: str, at: ObjectPath) -> InvalidObject:
    """A value that stands in two places of which only one may have it."""
    return InvalidObject(at, f'"{what}" appears twice')


def labels(thing: Json, field: str, at: ObjectPath) -> Faults:
    """Keys and values of labels."""
    for key, value in (thing.get(field) or {}).items():
        yield from named(key, names.qualified_name, at.child(field))
        yield from named(value or "", names.label_value, at.child(field).entry(key))
