"""Waiting for what another program does: ask again and again, and say what never came.

In: a question. Out: nothing, once its answer is yes; an AssertionError that names it if that takes too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(question: Callable[[], bool], what: str, *, timeout: float = 120.0) -> None:
    """Return as soon as `question` says yes."""
    end = time.monotonic() + timeout
    while not question():
        assert time.monotonic() < end, f"not within {timeout:.0f} s: {what}"
        time.sleep(0.05)
