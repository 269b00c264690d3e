"""How many pods a manifest may stand for: a few lines can mean millions, which must be refused before they are made.

Every object has a limit of its own (`MOST_PODS_OF_OBJECT`). Inside `pods_limited`, all objects also share one: for
`bayplan web`, where others wait for the answer. A reader asks `most_pods_of` before it makes pods, and tells
`count_pods` how many an object stands for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from bayplan.kube.errors import InvalidObject, ObjectPath

MOST_PODS_OF_OBJECT = 100_000


class _SharedLimit:
    """A limit for all objects of a manifest; one that is read twice counts once."""

    def __init__(self, most: int, taken: int, advice: str) -> None:
        self.most = most
        self.advice = advice
        self._left = most - taken
        self._pods: dict[Hashable, int] = {}

    def left_for(self, about: Hashable) -> int:
        return self._left + self._pods.get(about, 0)

    def count(self, about: Hashable, pods: int) -> None:
        self._left = self.left_for(about) - pods
        self._pods[about] = pods


_SHARED: ContextVar[_SharedLimit | None] = ContextVar("_SHARED", default=None)


@contextmanager
def pods_limited(most: int, *, taken: int = 0, advice: str) -> Iterator[None]:
    """All objects read inside stand for at most so many pods together, `taken` of which are known already.

    `advice` says what to do instead.
    """
    token = _SHARED.set(_SharedLimit(most, taken, advice))
    try:
        yield
    finally:
        _SHARED.reset(token)


def most_pods_of(about: Hashable) -> int:
    """How many pods an object may stand for; `about` identifies it."""
    shared = _SHARED.get()
    return MOST_PODS_OF_OBJECT if shared is None else min(MOST_PODS_OF_OBJECT, shared.left_for(about))


def count_pods(about: Hashable, at: ObjectPath, pods: int, *, at_least: bool = False) -> None:
    """Count the pods of an object, all of them or `at_least` so many.

    Raises `InvalidObject` at this field if they are too many.
    """
    shared = _SHARED.get()
    most = MOST_PODS_OF_OBJECT if shared is None else min(MOST_PODS_OF_OBJECT, shared.most)
    advice = f"; {shared.advice}" if shared is not None and most == shared.most else ""
    if pods > most and at_least:
        raise InvalidObject(at, f"stands for more than {most} pods, the limit{advice}")
    if pods > most:
        raise InvalidObject(at, f"{pods} pods are too many: must be at most {most}{advice}")
    if shared is not None:
        if pods > shared.left_for(about):
            raise InvalidObject(at, f"stands for more than {most} pods together with other objects, the limit{advice}")
        shared.count(about, pods)
