"""How a service ends: SIGTERM from its supervisor, SIGINT from a person, or a bug in one of its parts.

    await until_a_signal(service.follow(), lead())

runs the parts side by side. On a signal each of them is cancelled and has the time that it needs to clean up: finish what is in flight, release
a lease. A part that fails ends the others too, and its exception propagates to the caller: half a service is none.
Signals with other meanings are handled where they are understood, as SIGHUP is by the agent (`services/agent/sources/wakers.py`).
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)

ENDING = (signal.SIGTERM, signal.SIGINT)


async def until_a_signal(*parts: Coroutine[Any, Any, None]) -> None:
    """Run the parts of a service until SIGTERM or SIGINT, or until one of them ends; then cancel all and wait for them."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ENDING:  # as long as the loop lives: a second signal must not cut off what is being put in order
        loop.add_signal_handler(number, stop.set)
    tasks = [asyncio.create_task(part) for part in parts]
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()  # raises what ended it
        logger.info("stopping")
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.gather(*tasks, stopping, return_exceptions=True)
