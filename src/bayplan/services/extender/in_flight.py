"""Pods that passed `filter` and are not bound yet.

kube-scheduler asks about the next pod while it still binds the last one. Where that one goes is unknown until its bind
arrives, usually a millisecond later, so the next pod waits for it: otherwise both might get the same zone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress


class PodsInFlight:
    """Pods between `filter` and `bind`, each for at most `patience` seconds."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._until: dict[str, float] = {}
        self._changed = asyncio.Event()

    def passed(self, uid: str) -> None:
        """A pod passed `filter` or `prioritize`, so kube-scheduler binds it next."""
        if self._patience and uid:
            self._until[uid] = asyncio.get_running_loop().time() + self._patience

    def settled(self, uid: str) -> None:
        """A pod is bound, or its zones are taken."""
        if self._until.pop(uid, None) is not None:
            self._changed.set()

    async def wait_for_others(self, uid: str) -> None:
        """Wait until all other pods are settled or their time is up. A pod that comes again was not bound."""
        self.settled(uid)
        loop = asyncio.get_running_loop()
        while self._until:
            now = loop.time()
            self._until = {each: until for each, until in self._until.items() if until > now}
            if not self._until:
                return
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(max(self._until.values())):
                    await self._changed.wait()
