"""The last so many things that were asked for, by key: caches that do not grow while a cluster runs for months."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

MOST_KEPT = 10_000

_Kept = TypeVar("_Kept")


class Recent(Generic[_Kept]):
    """Keeps the `most` that were used last; whoever was asked for longest ago makes room."""

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST_KEPT if most is None else most
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def get(self, key: Hashable) -> _Kept | None:
        """What is kept under a key."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, thing: _Kept) -> _Kept:
        """Keep a thing, and hand it back."""
        self._kept[key] = thing
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return thing

    def __len__(self) -> int:
        return len(self._kept)
