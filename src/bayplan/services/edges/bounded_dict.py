"""Dicts for caches and "already reported" sets that must not grow without limit."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedDict(dict[Key, Value]):
    """Keeps the `limit` entries that were set last."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: Key, value: Value) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._limit:
            del self[next(iter(self))]


class SizedCache(Generic[Key, Value]):
    """Keeps the entries that were set last, as long as they are at most `limit` and their sizes add up to `most`."""

    def __init__(self, limit: int, most: int) -> None:
        self._limit = limit
        self._most = most
        self._kept: dict[Key, tuple[int, Value]] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Value | None:
        """What is kept under a key."""
        found = self._kept.get(key)
        return None if found is None else found[1]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keep a value of this size; one that is larger than all may be together is not kept."""
        self.drop(key)
        if size > self._most:
            return
        self._kept[key] = (size, value)
        self._size += size
        while len(self._kept) > self._limit or self._size > self._most:
            self.drop(next(iter(self._kept)))

    def drop(self, key: Key) -> None:
        """Forget a key."""
        self._size -= self._kept.pop(key, (0, None))[0]
