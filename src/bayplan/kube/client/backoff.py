"""How long to wait after trouble: twice as long each time up to a limit, and by chance a little more or less.

Chance keeps a thousand clients that lost the same API server from coming back in the same instant.
"""

from __future__ import annotations

import random
from collections.abc import Callable

JITTER = 0.5


class Backoff:
    """Waiting times of one endeavour. `reset` after a success; `chance` draws from 0 to 1."""

    def __init__(self, *, first: float, longest: float, chance: Callable[[], float] = random.random) -> None:
        self._first = first
        self._longest = longest
        self._chance = chance
        self._failures = 0

    def after_failure(self) -> float:
        """Seconds to wait now: between half and one and a half times the next step."""
        step = min(self._first * 2.0 ** min(self._failures, 60), self._longest)
        self._failures += 1
        return step * (1 - JITTER + 2 * JITTER * self._chance())

    def reset(self) -> None:
        """It worked: the next failure waits a short time again."""
        self._failures = 0
