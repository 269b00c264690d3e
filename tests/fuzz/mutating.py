"""Spoil a document: values of other types and sizes, fields left out, renamed, repeated or moved, text that no author
would write.

Everything is drawn from one `Random`, so that a seed gives the same document again.
"""

from __future__ import annotations

import contextlib
import copy
from random import Random
from typing import Any

Json = Any

TEXTS = (
    "", " ", "0", "-1", "1e400", "1.5x", "9" * 30, "NaN", "true", "null", "a/b/c", "../../etc", "\x1b]0;x\x07",
    "\u202e", "x" * 300, "\n", "é", "{}", "[", "1Gi", "500m", "10E", "-0", "0x10", "cpu",
    "node-0", "node-99999999999", "example.com/rack", "%s%n", "\ud7ff",
)  # fmt: skip
NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    63,
    64,
    65,
    255,
    2**31 - 1,
    2**31,
    2**53,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    10**30,
    0.5,
    -0.0,
    1e308,
)
VALUES: tuple[Json, ...] = (*TEXTS, *NUMBERS, None, True, False, [], {}, [[]], [None], {"": ""}, [{}], ["a", "a"])
MOST_COPIES = 12
DEEP = 400


def mutated(random: Random, document: Json, changes: int = 1, others: tuple[Json, ...] = ()) -> Json:
    """A copy with so many changes; `others` are documents to take parts from."""
    document = copy.deepcopy(document)
    for _ in range(changes):
        places = list(_places(document))
        if not places:
            break
        around, key = random.choice(places)
        with contextlib.suppress(RecursionError):  # Python cannot copy what is nested even deeper.
            _change(random, around, key, others)
    return document


def _places(document: Json) -> list[tuple[Json, Any]]:
    """Every value in a document, by what holds it and its key there."""
    found: list[tuple[Json, Any]] = []
    left = [document]
    while left:
        each = left.pop()
        if isinstance(each, dict | list):
            keys = list(each) if isinstance(each, dict) else list(range(len(each)))
            found += [(each, key) for key in keys]
            left += [each[key] for key in keys]
    return found


def _change(random: Random, around: Json, key: Any, others: tuple[Json, ...]) -> None:
    value = around[key]
    match random.randrange(12):
        case 0:
            del around[key]
        case 1 if isinstance(around, dict):
            around[random.choice((f"{key}s", str(key).upper(), f" {key}", "x", ""))] = around.pop(key)
        case 2 if isinstance(around, list):
            around[key:key] = [copy.deepcopy(value) for _ in range(random.randint(1, MOST_COPIES))]
        case 3 if others:
            around[key] = _part(random, random.choice(others))
        case 4 if isinstance(value, str):
            around[key] = _spoiled_text(random, value)
        case 5 if isinstance(value, int | float) and not isinstance(value, bool):
            around[key] = random.choice((value + 1, -value, value // 2, 2**40, str(value)))
        case 6:
            around[key] = _nested(random, value)
        case 7 if isinstance(around, dict):
            around[f"{key}{random.randrange(100)}"] = copy.deepcopy(value)
        case 8 if isinstance(around, list):
            random.shuffle(around)
        case _:
            around[key] = copy.deepcopy(random.choice(VALUES))


def _part(random: Random, document: Json) -> Json:
    places = _places(document)
    if not places:
        return document
    around, key = random.choice(places)
    return copy.deepcopy(around[key])


def _spoiled_text(random: Random, text: str) -> str:
    at = random.randint(0, len(text))
    return random.choice(
        (text[:at] + random.choice(TEXTS) + text[at:], text[:at], text[at:], text * 2, text.upper(), f"-{text}")
    )


def _nested(random: Random, value: Json) -> Json:
    depth = DEEP if random.random() < 0.05 else random.randint(1, 3)
    for _ in range(depth):
        value = [value] if random.random() < 0.5 else {"f": value}
    return value
