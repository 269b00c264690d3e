"""What open pages learn: new states, trouble, and its end."""

from __future__ import annotations

import asyncio
from typing import Any

from bayplan.services.web.board import Board, Notice


def test_pages_learn_of_a_new_state_of_trouble_and_of_its_end() -> None:
    async def story() -> list[tuple[int, str]]:
        board, answers = Board(), None
        given: Any = answers
        told: list[Notice | None] = [board.notice]
        for news in (board.publish(given), board.report("away"), board.report(""), board.publish(given)):
            waiting = asyncio.create_task(board.next_notice(told[-1], 5.0))
            await asyncio.sleep(0)
            await news
            told.append(await waiting)
        return [(each.generation, each.trouble) for each in told if each is not None]

    assert asyncio.run(story()) == [(0, ""), (1, ""), (1, "away"), (1, ""), (2, "")]


def test_the_same_trouble_is_told_once() -> None:
    async def story() -> Notice | None:
        board = Board()
        await board.report("away")
        seen = board.notice
        await board.report("away")
        return await board.next_notice(seen, 0.01)

    assert asyncio.run(story()) is None
