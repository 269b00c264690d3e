"""Durations as Go writes them and Kubernetes accepts them: `90s`, `1h30m`, `250ms`; a plain number is seconds.

Parsing a text returns seconds or raises `NoDuration`, which says what the text is and what is allowed. The caller adds
where the text is: an option, an annotation, a line of a scenario.
"""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST_DURATION = 10 * 365 * 86_400  # seconds
UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_SPANS = re.compile(rf"(?:{_SPAN.pattern})+")


class NoDuration(ValueError):
    """A text that is no duration, or none that can be used."""


def seconds_of(text: str) -> float:
    """The seconds of a duration.

    >>> seconds_of("1h30m"), seconds_of("0.25")
    (5400.0, 0.25)
    """
    negative = text.startswith("-")
    unsigned = text[1:] if negative else text
    if NUMBER.fullmatch(unsigned):
        seconds = Fraction(unsigned.rstrip("."))
    elif _SPANS.fullmatch(unsigned):
        seconds = sum(
            (Fraction(count.rstrip(".")) * UNITS[unit] for count, unit in _SPAN.findall(unsigned)), Fraction()
        )
    else:
        raise NoDuration(f'"{text[:60]}" is no duration: must be like 90s, 1h30m or 250ms')
    if negative and seconds:
        raise NoDuration(f'"{text[:60]}" is negative: must be 0s or more')
    if seconds > LONGEST_DURATION:
        raise NoDuration(f'"{text[:60]}" is too long: must be at most ten years')
    return float(seconds)
