"""A cluster whose connections look alive is asked for signs of life."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Self

import pytest

from bayplan.cli.web_answers import sources
from bayplan.kube.client.client import ApiError, Unreachable
from bayplan.kube.wire.meta_v1 import Status
from bayplan.services.web.board import Board

FORBIDDEN = ApiError("GET /version", HTTPStatus.FORBIDDEN, Status(reason="Forbidden", message="no"))
BROKEN = ApiError("GET /version", HTTPStatus.INTERNAL_SERVER_ERROR, Status(message="etcd is gone"))
ACCESS: Any = None  # the client is not a real one


class Client:
    """An API server that answers, or not, as the test says."""

    answer: Exception | None = None
    asked = 0

    def __init__(self, _access: Any, *, timeout: float) -> None:
        assert timeout + sources.BETWEEN_SIGNS + sources.RETRY < 30

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def request(self, method: str, path: str) -> None:
        assert (method, path) == ("GET", "/version")
        Client.asked += 1
        if Client.answer is not None:
            raise Client.answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "KubeClient", Client)
    monkeypatch.setattr(sources, "RETRY", 0.005)
    monkeypatch.setattr(sources, "BETWEEN_SIGNS", 0.01)
    Client.answer, Client.asked = None, 0


async def watched(board: Board, answers: list[Exception | None]) -> list[str]:
    """What the board says after each answer was given a few times."""
    task = asyncio.create_task(sources._look_for_signs_of_life(board, ACCESS))
    said = []
    try:
        for answer in answers:
            Client.answer, before = answer, Client.asked
            for _ in range(2000):
                await asyncio.sleep(0.005)
                if Client.asked >= before + 3:
                    break
            said.append(board.notice.trouble)
    finally:
        task.cancel()
    return said


def test_an_api_server_that_does_not_answer_is_told_until_it_does() -> None:
    gone = Unreachable("no answer in 10 s")
    said = asyncio.run(watched(Board(), [None, gone, None, BROKEN, FORBIDDEN]))
    assert said[0] == said[2] == said[4] == ""
    assert said[1] == f"{sources.INTERRUPTED}: no answer in 10 s"
    assert "etcd is gone" in said[3]


def test_other_trouble_stays_whatever_the_api_server_answers() -> None:
    async def reported() -> list[str]:
        board = Board()
        await board.report("the cluster cannot be read: 403")
        return await watched(board, [None, Unreachable("gone")])

    assert asyncio.run(reported()) == ["the cluster cannot be read: 403"] * 2
