"""Whole numbers that are written as text: in labels, annotations and environments everything is."""

from __future__ import annotations

# Kubernetes counts with 32 bits.
LARGEST = 2**31 - 1
_MOST_DIGITS = len(str(LARGEST))


def whole_number(text: str) -> int | None:
    """The number, 0 or more, that a text of digits alone means; None if it means none.

    >>> whole_number("12"), whole_number("-1"), whole_number("1e3"), whole_number("9999999999")
    (12, None, None, None)
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number <= LARGEST else None
