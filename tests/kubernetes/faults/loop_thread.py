"""An event loop in a thread of its own, so that a test can be written as a plain story while something answers beside
it.

The meddler and the scheduler inside the test's process live on one each: whatever the test does, they are never kept
waiting.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

Result = TypeVar("Result")
PATIENCE = 180.0


class LoopThread:
    """`with LoopThread() as loop: loop.run(coroutine)`."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.run(_cancel_the_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine there and wait for what it gives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)


async def _cancel_the_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
