"""How much one client may ask: a token bucket per address, and how many pages may stay open."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from bayplan.services.edges.bounded_dict import BoundedDict

PER_SECOND = 20.0
BURST = 300.0
MOST_CLIENTS = 4096
# Open event streams of all clients together.
MOST_STREAMS = 200
# A path with its query, in characters, and a manifest, in bytes.
LONGEST_QUERY = 4096
LARGEST_MANIFEST = 1 << 20


class RateLimit:
    """A bucket of `BURST` requests per client that refills at `PER_SECOND`."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._buckets: BoundedDict[str, tuple[float, float]] = BoundedDict(MOST_CLIENTS)

    def seconds_to_wait(self, client: str, cost: float = 1.0) -> float:
        """0 if the request may proceed, which takes its cost; else the seconds until it may."""
        now = self._clock()
        filled, at = self._buckets.get(client, (BURST, now))
        filled = min(BURST, filled + (now - at) * PER_SECOND)
        allowed = filled >= cost
        self._buckets[client] = (filled - cost if allowed else filled, now)
        return 0.0 if allowed else (cost - filled) / PER_SECOND
