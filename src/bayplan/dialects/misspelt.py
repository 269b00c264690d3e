"""Keys of annotations that look like ones that are understood, and are none: a misspelt wish must not be lost in silence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice

_ALIKE = 0.75
# Keys of one object that are looked at.
MOST_JUDGED = 32


@dataclass(frozen=True, slots=True)
class KeyFamily:
    """The keys with one prefix that are understood, what else after the prefix tells that one of them is meant, and with what keys begin that are never meant."""

    prefix: str
    known: tuple[str, ...]
    telling: re.Pattern[str] | None = None
    never_meant: str = ""


def judged(keys: Iterable[str], *families: KeyFamily) -> list[str]:
    """The keys that begin as those of a family do, the first of very many: finding what was meant takes a while, and an object may have ten thousand."""
    prefixes = tuple(family.prefix for family in families)
    return list(islice((key for key in keys if key.startswith(prefixes)), MOST_JUDGED))


@lru_cache(maxsize=4096)
def complaint_about(key: str, family: KeyFamily) -> str:
    """What to say about a key that was meant to be one of a family; empty if it is one, or has nothing to do with it."""
    prefix, known = family.prefix, family.known
    if key in known or not key.startswith(prefix) or (family.never_meant and key.startswith(family.never_meant)):
        return ""
    rest = key.removeprefix(prefix)
    close = get_close_matches(rest.lower(), [each.removeprefix(prefix) for each in known], n=1, cutoff=_ALIKE)
    if close:
        return f"is not known; did you mean {prefix}{close[0]}?"
    if family.telling is not None and family.telling.search(rest):
        return f"is not known; there are {', '.join(known)}"
    return ""
