"""A meddler that is never quiet: single requests fail in every way that a network and an API server know, and watches
repeat and swap what they bring.

In good weather everything passes. What happens is drawn from a seed, so a soak can be told which one to meet again.
"""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import AsyncIterator, Callable

import aiohttp

from tests.kubernetes.faults.meddler import (
    ANSWER_LOST,
    LOST_ON_THE_WAY,
    PASSES,
    Fate,
    Kind,
    Meddler,
    refused,
)

# Of a hundred requests, so many meet each of these.
FATES: tuple[tuple[float, Fate], ...] = (
    (1.0, refused(429, retry_after=1)),
    (1.0, refused(500)),
    (0.5, refused(503)),
    (0.5, LOST_ON_THE_WAY),
    (0.5, ANSWER_LOST),
    (0.5, Fate(cut=True)),
    (2.0, Fate(delay=0.3)),
    (0.3, Fate(delay=3.0)),
)
WATCH_FATES: tuple[tuple[float, Fate], ...] = (
    (3.0, refused(410)),
    (3.0, refused(500)),
    (3.0, LOST_ON_THE_WAY),
    (5.0, Fate(delay=1.0)),
)
REPEATED, SWAPPED, TOO_OLD = 2.0, 2.0, 0.05
GONE = {
    "type": "ERROR",
    "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"},
}


class Weather(Meddler):
    """The proxy with bad weather, until `clears`."""

    def __init__(self, server: str, tls: ssl.SSLContext, seed: int = 1) -> None:
        super().__init__(server, tls)
        self._dice = random.Random(seed)
        self._good = False
        for kind in Kind:
            self.decide(kind, self._drawn_from(WATCH_FATES if kind is Kind.WATCH else FATES))

    def clears(self) -> None:
        """Everything passes from now on."""
        self._good = True

    def _drawn_from(self, fates: tuple[tuple[float, Fate], ...]) -> Callable[[int], Fate]:
        return lambda _: self._draw(fates)

    def _draw(self, fates: tuple[tuple[float, Fate], ...]) -> Fate:
        if self._good:
            return PASSES
        drawn = self._dice.uniform(0, 100)
        for share, fate in fates:
            drawn -= share
            if drawn < 0:
                return fate
        return PASSES

    async def _news(self, said: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Lines, some of them twice, some before the one that they follow; now and then the server has forgotten."""
        rest = b""
        async for chunk in said.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            if not self._good:
                lines = self._muddled(lines)
            if lines:
                yield b"\n".join(lines) + b"\n"

    def _muddled(self, lines: list[bytes]) -> list[bytes]:
        muddled: list[bytes] = []
        for line in lines:
            drawn = self._dice.uniform(0, 100)
            if drawn < SWAPPED and muddled and _about(line) != _about(muddled[-1]):
                muddled.insert(-1, line)
            else:
                muddled.append(line)
            if drawn > 100 - REPEATED:
                muddled.append(line)
            if drawn > 100 - TOO_OLD:
                muddled.append(json.dumps(GONE).encode())
        return muddled


def _about(line: bytes) -> str:
    """Which object a line is about."""
    try:
        metadata = json.loads(line)["object"]["metadata"]
    except (ValueError, KeyError):
        return ""
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
