"""Group objects inside group objects: which gang the pods of each belong to.

The outermost object is the gang. Objects name their parents before those exist, and any client can name any parent. So
every walk upwards ends after the levels that Kubernetes allows. `roster.py` reports a gang whose outermost object still
has a parent then: it is nested too deeply, or inside itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.kube.wire.k8s_scheduling_v1alpha3 import MOST_LEVELS


class GroupHierarchy:
    """Keys of group objects, and the objects that they are a part of."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._inside: dict[str, set[str]] = {}

    def put(self, key: str, parent: str) -> None:
        """An object is a part of `parent`; of none if that is empty."""
        self.remove(key)
        if parent:
            self._parent[key] = parent
            self._inside.setdefault(parent, set()).add(key)

    def remove(self, key: str) -> None:
        """An object is gone. Objects inside it still name it."""
        parent = self._parent.pop(key, "")
        if parent:
            self._inside[parent].discard(key)
            if not self._inside[parent]:
                del self._inside[parent]

    def parent(self, key: str) -> str:
        """The object that this one is a part of; empty if there is none."""
        return self._parent.get(key, "")

    def inside(self, key: str) -> list[str]:
        """The objects directly inside, in order."""
        return sorted(self._inside.get(key, ()))

    def outermost(self, key: str) -> str:
        """The object that decides about the pods of this one, at most `MOST_LEVELS` of them up, itself included."""
        for _ in range(MOST_LEVELS - 1):
            if key not in self._parent:
                break
            key = self._parent[key]
        return key

    def below(self, key: str) -> Iterator[str]:
        """The object and all that are inside it, to the depth that is allowed."""
        level, seen = [key], {key}
        for _ in range(MOST_LEVELS):
            yield from level
            level = [each for above in level for each in self.inside(above) if each not in seen]
            seen.update(level)
