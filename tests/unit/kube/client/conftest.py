"""Waiting without a pause, for clients that back off."""

from __future__ import annotations

import asyncio

import pytest


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for; none is made."""
    waited: list[float] = []
    sleep = asyncio.sleep

    async def not_at_all(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", not_at_all)
    return waited
