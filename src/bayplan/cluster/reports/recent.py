"""The most recently used values by key, a fixed number of them: caches that do not grow while a cluster runs for
months.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

MOST_KEPT = 10_000
# Of keys that are bytes, or tuples with bytes; those of ordinary pods have a few hundred.
MOST_BYTES = 16 << 20

_Kept = TypeVar("_Kept")


class Recent(Generic[_Kept]):
    """Least-recently-used cache: keeps the `most` recently used entries, fewer if their keys are long."""

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST_KEPT if most is None else most
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> _Kept | None:
        """What is kept under a key."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, thing: _Kept) -> _Kept:
        """Keep a thing, and hand it back."""
        if key not in self._kept:
            self._bytes += _length(key)
        self._kept[key] = thing
        while len(self._kept) > self._most or (self._bytes > MOST_BYTES and len(self._kept) > 1):
            gone, _ = self._kept.popitem(last=False)
            self._bytes -= _length(gone)
        return thing

    def __len__(self) -> int:
        return len(self._kept)


def _length(key: Hashable) -> int:
    if isinstance(key, tuple):
        return sum(map(_length, key))
    return len(key) if isinstance(key, bytes) else 0
