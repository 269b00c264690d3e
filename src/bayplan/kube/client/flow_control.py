"""Client-side flow control: so many requests a second on average (`qps`), so many at once after a pause (`burst`).

A bucket holds up to `burst` tokens and gains `qps` of them a second; each request takes one. Who finds it empty takes a
token of the future and is told how long to wait for it, so requests leave in the order in which they came. The client
does the waiting.
"""

from __future__ import annotations


class TokenBucket:
    """Tokens for requests. A `qps` of 0 or less means no limit; a `burst` below 1 counts as 1."""

    def __init__(self, qps: float, burst: int, *, now: float) -> None:
        self._qps = qps
        self._burst = max(burst, 1)
        self._tokens = float(self._burst)
        self._at = now

    def take(self, now: float) -> float:
        """Take a token at the time `now`; the answer is how many seconds to wait until it may be used."""
        if self._qps <= 0:
            return 0.0
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)
