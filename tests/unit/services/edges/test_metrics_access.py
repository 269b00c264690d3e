"""Who may read metrics, by what the API server answers about a token."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bayplan.kube.client.client import Unreachable
from bayplan.services.edges.metrics_access import KEPT_FOR, MOST_KEPT, MetricsGuard
from bayplan.services.edges.reviews import TOKEN_REVIEWS

PROMETHEUS = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "groups": ["system:authenticated"],
    "uid": "u1",
}


class ApiServer:
    """Knows one token and whether its user may read."""

    def __init__(self, *, allowed: bool = True, away: bool = False) -> None:
        self.allowed = allowed
        self.away = away
        self.asked: list[tuple[str, Any]] = []

    async def request(self, verb: str, path: str, *, body: Any) -> bytes:
        self.asked.append((path, body["spec"]))
        if self.away:
            raise Unreachable("connection refused")
        if path == TOKEN_REVIEWS:
            known = body["spec"]["token"] == "good"
            return json.dumps({"status": {"authenticated": known, **({"user": PROMETHEUS} if known else {})}}).encode()
        return json.dumps({"status": {"allowed": self.allowed}}).encode()


def guard_of(server: ApiServer, now: list[float] | None = None) -> MetricsGuard:
    moment = now if now is not None else [0.0]
    client: Any = server
    return MetricsGuard(client, clock=lambda: moment[0])


def status_for(guard: MetricsGuard, header: str) -> int:
    refused = asyncio.run(guard.refusal(header))
    return 200 if refused is None else refused.status


@pytest.mark.parametrize(
    "header,server,status",
    [
        ("Bearer good", ApiServer(), 200),
        ("bearer  good", ApiServer(), 200),
        ("Bearer good", ApiServer(allowed=False), 403),
        ("Bearer bad", ApiServer(), 401),
        ("", ApiServer(), 401),
        ("Basic Zm9v", ApiServer(), 401),
        (f"Bearer {'x' * 20_000}", ApiServer(), 401),
        ("Bearer good", ApiServer(away=True), 503),
    ],
)
def test_a_request_is_answered_by_its_token(header: str, server: ApiServer, status: int) -> None:
    assert status_for(guard_of(server), header) == status


def test_the_api_server_hears_user_groups_and_path() -> None:
    server = ApiServer()
    status_for(guard_of(server), "Bearer good")
    (_, spec) = server.asked[1]
    assert spec["user"] == PROMETHEUS["username"]
    assert spec["groups"] == PROMETHEUS["groups"]
    assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}


def test_an_answer_is_kept_for_a_while_and_an_outage_is_not() -> None:
    server, now = ApiServer(away=True), [0.0]
    guard = guard_of(server, now)
    assert status_for(guard, "Bearer good") == 503
    server.away = False
    assert status_for(guard, "Bearer good") == 200
    asked = len(server.asked)
    server.allowed = False
    assert status_for(guard, "Bearer good") == 200
    assert len(server.asked) == asked
    now[0] = KEPT_FOR + 1
    assert status_for(guard, "Bearer good") == 403


def test_a_flood_of_wrong_tokens_is_forgotten() -> None:
    guard = guard_of(ApiServer())
    for number in range(2 * MOST_KEPT):
        status_for(guard, f"Bearer {number}")
    assert len(guard._kept) == MOST_KEPT
