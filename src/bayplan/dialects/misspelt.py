"""Misspelt keys of labels and annotations: a typo must not be lost in silence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice

_ALIKE = 0.75
# The most keys of one object to check.
MOST_JUDGED = 32


@dataclass(frozen=True, slots=True)
class KeyFamily:
    """Known keys with one prefix.

    Keys that match `telling` belong to the family; those with prefix `never_meant` do not. `told` are the keys that a
    message lists, if not all known ones: those that have an effect on the object.
    """

    prefix: str
    known: tuple[str, ...]
    telling: re.Pattern[str] | None = None
    never_meant: str = ""
    told: tuple[str, ...] = ()


def judged(keys: Iterable[str], *families: KeyFamily) -> list[str]:
    """The keys with the prefix of a family, at most `MOST_JUDGED`: matching is slow, and there can be ten thousand."""
    prefixes = tuple(family.prefix for family in families)
    return list(islice((key for key in keys if key.lower().startswith(prefixes)), MOST_JUDGED))


@lru_cache(maxsize=4096)
def complaint_about(key: str, family: KeyFamily) -> str:
    """What is wrong with a key that resembles one of a family; empty if it is valid or unrelated."""
    prefix, known = family.prefix, family.known
    lower = key.lower()
    if key in known or not lower.startswith(prefix) or (family.never_meant and lower.startswith(family.never_meant)):
        return ""
    rest = key[len(prefix) :]
    close = get_close_matches(rest.lower(), [each.removeprefix(prefix) for each in known], n=1, cutoff=_ALIKE)
    if close:
        return f"is not known; did you mean {prefix}{close[0]}?"
    if family.telling is not None and family.telling.search(rest):
        return f"is not known; expected {', '.join(family.told or known)}"
    return ""
