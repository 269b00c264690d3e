"""A JSON list of node names in one piece: what kube-scheduler sends for every pod, in another order each time.

`name_index.py` finds the rows of all names at once. Decoding 5,000 names and looking each one up takes twice as long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.intp]
Words = NDArray[np.uint64]

WORD = 8
_QUOTE, _COMMA = b'",'
_BETWEEN = len('","')


class NameList:
    """A list as Go writes it: `["a","b"]`, without blanks and escapes."""

    def __init__(self, written: bytes, starts: Positions, ends: Positions) -> None:
        self._written = written
        self._starts = starts
        self._ends = ends
        self.lengths: Positions = ends - starts

    @classmethod
    def of(cls, written: bytes) -> NameList | None:
        """The list; None if it is empty or has another form."""
        if not (written.startswith(b'["') and written.endswith(b'"]')) or b"\\" in written:
            return None
        characters = np.frombuffer(written, dtype=np.uint8)
        quotes = np.flatnonzero(characters == _QUOTE)
        if len(quotes) % 2:
            return None
        starts, ends = quotes[0::2] + 1, quotes[1::2]
        # Exactly a comma between two names also excludes objects, nested lists and numbers.
        if (starts[1:] - ends[:-1] != _BETWEEN).any() or (characters[ends[:-1] + 1] != _COMMA).any():
            return None
        return cls(written, starts, ends)

    def words(self, count: int) -> list[Words]:
        """The names as words of 8 bytes: the last one overlaps the one before it, and further ones repeat it. The only
        word of a shorter name has zeros at its end.
        """
        padded = bytes(WORD) + self._written  # the first name may be shorter than a word
        every: Words = np.ndarray((len(padded) - WORD + 1,), dtype="<u8", buffer=padded, strides=(1,))
        last = self._ends  # in `padded`, where the last word of each name begins
        found = [every[np.minimum(self._starts + number * WORD, last)] for number in range(1, count)]
        found.append(every[last])
        if self.lengths.min() < WORD:
            # What comes before the name is shifted out; in two steps, because 64 bits at once are undefined.
            half = ((WORD - np.minimum(self.lengths, WORD)) * 4).astype(np.uint64)
            found = [words >> half >> half for words in found]
        return found
