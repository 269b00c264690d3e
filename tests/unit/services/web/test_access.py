"""Who may look at the page, and at which namespaces, by what the API server answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bayplan.kube.client.client import Unreachable
from bayplan.services.edges.reviews import TOKEN_REVIEWS
from bayplan.services.web.access import KEPT_FOR, MOST_KEPT, ReviewedAccess, Viewer
from bayplan.services.web.answers import Unanswerable

NAMESPACES = ("ml", "telco")


class ApiServer:
    """Knows one token, and what its user may list: (resource, namespace), the namespace being empty for all."""

    def __init__(self, *allowed: tuple[str, str], away: bool = False) -> None:
        self.allowed = allowed
        self.away = away
        self.asked = 0

    async def request(self, _verb: str, path: str, *, body: Any) -> bytes:
        self.asked += 1
        if self.away:
            raise Unreachable("connection refused")
        spec = body["spec"]
        if path == TOKEN_REVIEWS:
            known = spec["token"] == "good"
            return json.dumps({"status": {"authenticated": known, "user": {"username": "ada"}}}).encode()
        wanted = spec["resourceAttributes"]
        assert (spec["user"], wanted["verb"]) == ("ada", "list")
        return json.dumps({"status": {"allowed": (wanted["resource"], wanted["namespace"]) in self.allowed}}).encode()


def access_to(server: ApiServer, now: list[float] | None = None) -> ReviewedAccess:
    moment = now if now is not None else [0.0]
    client: Any = server
    return ReviewedAccess(client, clock=lambda: moment[0])


def viewer(access: ReviewedAccess, header: str = "Bearer good") -> Viewer | int:
    try:
        return asyncio.run(access.viewer(header, NAMESPACES))
    except Unanswerable as refused:
        return refused.status


@pytest.mark.parametrize(
    "header,server,seen",
    [
        ("Bearer good", ApiServer(("nodes", ""), ("pods", "")), Viewer("ada")),
        ("Bearer good", ApiServer(("nodes", ""), ("pods", "ml")), Viewer("ada", frozenset({"ml"}))),
        ("Bearer good", ApiServer(("nodes", "")), Viewer("ada", frozenset())),
        ("Bearer good", ApiServer(("pods", "")), 403),
        ("Bearer bad", ApiServer(("nodes", "")), 401),
        ("", ApiServer(("nodes", "")), 401),
        ("Basic Zm9v", ApiServer(("nodes", "")), 401),
        (f"Bearer {'x' * 20_000}", ApiServer(("nodes", "")), 401),
        ("Bearer good", ApiServer(away=True), 503),
    ],
)
def test_the_api_server_says_who_sees_what(header: str, server: ApiServer, seen: Viewer | int) -> None:
    assert viewer(access_to(server), header) == seen


def test_answers_are_kept_for_a_while_and_then_asked_again() -> None:
    server, now = ApiServer(("nodes", ""), ("pods", "")), [0.0]
    access = access_to(server, now)
    viewer(access)
    asked = server.asked
    now[0] = KEPT_FOR - 1
    viewer(access)
    assert server.asked == asked
    server.allowed = ()
    now[0] = KEPT_FOR
    assert viewer(access) == 403


def test_rights_in_namespaces_that_were_not_asked_about_are_asked() -> None:
    server = ApiServer(("nodes", ""), ("pods", "ml"))
    access = access_to(server)
    # The stream of events asks about no namespace, and may come first.
    assert asyncio.run(access.viewer("Bearer good", ())) == Viewer("ada", frozenset())
    assert viewer(access) == Viewer("ada", frozenset({"ml"}))
    asked = server.asked
    assert asyncio.run(access.viewer("Bearer good", ())) == Viewer("ada", frozenset({"ml"}))
    assert server.asked == asked


def test_an_api_server_that_was_away_is_asked_again_at_once() -> None:
    server = ApiServer(("nodes", ""), ("pods", ""), away=True)
    access = access_to(server)
    assert viewer(access) == 503
    server.away = False
    assert viewer(access) == Viewer("ada")


def test_a_flood_of_wrong_tokens_is_bounded() -> None:
    access = access_to(ApiServer())
    for number in range(MOST_KEPT + 50):
        viewer(access, f"Bearer wrong-{number}")
    assert len(access._kept) == MOST_KEPT
