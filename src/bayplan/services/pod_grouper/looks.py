"""When which pod is looked at: at once, again after trouble, again because its owner may have changed. No clock of its own."""

from __future__ import annotations

import heapq

FIRST_WAIT = 0.2
LONGEST_WAIT = 30.0


class Looks:
    """Pods by the moment of their next look; each has at most one."""

    def __init__(self) -> None:
        self._when: dict[str, float] = {}
        self._order: list[tuple[float, str]] = []
        self._failures: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._when)

    def put(self, key: str, when: float) -> None:
        """Look at a pod then, or at the moment that was named before if that is sooner."""
        if key not in self._when or when < self._when[key]:
            self._when[key] = when
            heapq.heappush(self._order, (when, key))

    def after_trouble(self, key: str, now: float) -> int:
        """Look again, the later the more often there was trouble; says how often in a row."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.put(key, now + min(FIRST_WAIT * 2 ** min(failures - 1, 20), LONGEST_WAIT))
        return failures

    def done(self, key: str) -> None:
        """A look came to an end: past trouble is forgotten."""
        self._failures.pop(key, None)

    def drop(self, key: str) -> None:
        """The pod is gone."""
        self._when.pop(key, None)
        self._failures.pop(key, None)

    def pop(self, now: float) -> str | None:
        """A pod that is due; None if there is none."""
        while self._order and self._order[0][0] <= now:
            when, key = heapq.heappop(self._order)
            if self._when.get(key) == when:
                del self._when[key]
                return key
        return None

    def next_time(self) -> float | None:
        """When the next look is due; None if none is."""
        while self._order and self._when.get(self._order[0][1]) != self._order[0][0]:
            heapq.heappop(self._order)
        return self._order[0][0] if self._order else None
