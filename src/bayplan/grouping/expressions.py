"""Paths and amounts in rules: where a value is, and small sums of values.

    spec.replicas                                      a path
    metadata.annotations["example.com/size"]           a key with dots or slashes
    spec.completions - status.succeeded                a difference, never below 0
    replicas|1 * template.spec.parallelism|1           a product; `|1` is the default of a missing value
    spec.completions|spec.parallelism|1                the first path that has a value
    replicas|0 max minReplicas min maxReplicas         the larger and the smaller of two
    spec.completions - #status.failedIndexes           the number of indexes in a text such as 1,3-5

An amount whose first path has no value (and no `|`) is absent; later missing values change nothing. Amounts are
evaluated from left to right.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from bayplan.grouping.raw import Path, WrongValue, look_up, number_at, written
from bayplan.kube.whole_number import whole_number

_KEY = re.compile(r'\.?([A-Za-z_][A-Za-z0-9_-]*)|\["([^"]+)"\]')
_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "*": lambda total, number: total * number,
    "-": lambda total, number: max(total - number, 0),
    "max": max,
    "min": min,
}
_INDEXES = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*")
SYNTAX = (
    'must be paths like spec.replicas or metadata.annotations["example.com/size"], '
    'joined by " * ", " - ", " max " or " min "'
)


@dataclass(frozen=True, slots=True)
class Operand:
    """A number, or the value at a path with its default, or the number of indexes listed there."""

    path: Path
    otherwise: Operand | int | None
    lists_indexes: bool = False

    def value(self, thing: object) -> int | None:
        """The value; None if it is absent."""
        if self.lists_indexes:
            return _indexes(thing, self.path)
        found = _number(thing, self.path) if self.path else None
        if found is None:
            return self.otherwise.value(thing) if isinstance(self.otherwise, Operand) else self.otherwise
        if found < 0:
            raise WrongValue(written(self.path), found, "must be 0 or more")
        return found


@dataclass(frozen=True, slots=True)
class Amount:
    """Operands, and the operator that joins each to those before it."""

    first: Operand
    others: tuple[tuple[str, Operand], ...] = ()

    def value(self, thing: object) -> int | None:
        """How many; None if nothing says so."""
        total = self.first.value(thing)
        if total is None:
            return None
        for operator, operand in self.others:
            found = operand.value(thing)
            if found is not None:
                total = _OPERATORS[operator](total, found)
        return total


def _number(thing: object, path: Path) -> int | None:
    """The number at a path; in annotations and environments numbers are text."""
    found = look_up(thing, path)
    number = whole_number(found) if isinstance(found, str) else None
    return number_at(thing, path) if number is None else number


def _indexes(thing: object, path: Path) -> int | None:
    """The number of indexes in a text such as `1,3-5`."""
    found = look_up(thing, path)
    if found is None or found == "":
        return None
    if not isinstance(found, str) or not _INDEXES.fullmatch(found):
        raise WrongValue(written(path), found, "must be indexes such as 1,3-5")
    spans = (span.partition("-") for span in found.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)


@lru_cache(maxsize=1024)
def path_of(text: str) -> Path:
    """The keys of a path. Raises `ValueError` if the text is not a path."""
    keys: list[str] = []
    at = 0
    while at < len(text):
        found = _KEY.match(text, at)
        if found is None or (found.group(1) and bool(keys) != (text[at] == ".")):
            raise ValueError(SYNTAX)
        keys.append(found.group(1) or found.group(2))
        at = found.end()
    if not keys:
        raise ValueError(SYNTAX)
    return tuple(keys)


@lru_cache(maxsize=1024)
def amount_of(text: str) -> Amount:
    """The amount of a text. Raises `ValueError` if it is not an amount."""
    words = text.split()
    if len(words) % 2 == 0 or any(word not in _OPERATORS for word in words[1::2]):
        raise ValueError(SYNTAX)
    operands = [_operand(word) for word in words[::2]]
    return Amount(operands[0], tuple(zip(words[1::2], operands[1:], strict=True)))


def _operand(word: str) -> Operand:
    if word.isdecimal():
        return Operand((), int(word))
    if word.startswith("#"):
        return Operand(path_of(word[1:]), None, lists_indexes=True)
    path, bar, otherwise = word.partition("|")
    return Operand(path_of(path), _operand(otherwise) if bar else None)
