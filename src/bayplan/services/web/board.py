"""What the pages show now: the current answers, their number, and what is wrong with their source.

A source (a watched cluster, watched files) publishes; requests read; open pages wait for the next number.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bayplan.services.web.answers import Answers


@dataclass(frozen=True, slots=True)
class Notice:
    """One state of the board, as pages learn of it: `trouble` is a sentence while the source cannot be read."""

    generation: int = 0
    trouble: str = ""
    taken_at: float = 0.0


class Board:
    """The current answers. Use it on the event loop only."""

    def __init__(self) -> None:
        self.notice = Notice()
        self.answers: Answers | None = None
        self._changed = asyncio.Condition()

    async def publish(self, answers: Answers) -> None:
        """Show a new state; earlier trouble is over."""
        async with self._changed:
            self.answers, self.notice = answers, Notice(self.notice.generation + 1, "", time.time())
            self._changed.notify_all()

    async def report(self, trouble: str) -> None:
        """Tell pages that they are no longer updated."""
        async with self._changed:
            if trouble != self.notice.trouble:
                self.notice = Notice(self.notice.generation, trouble, self.notice.taken_at)
                self._changed.notify_all()

    async def next_notice(self, seen: Notice | None, patience: float) -> Notice | None:
        """The current notice as soon as it differs from the one seen; None if that takes longer than `patience`."""
        try:
            async with asyncio.timeout(patience), self._changed:
                await self._changed.wait_for(lambda: self.notice != seen)
        except TimeoutError:
            return None
        return self.notice
