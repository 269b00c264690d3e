"""The pods of this node as the API server has them: who lives, who has ended, and the message if they cannot be
read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import WatchSettings
from bayplan.services.agent.sources.own_pods import KnownPods, OwnPods
from bayplan.services.agent.troubles import Troubles
from tests.builders.bodies import Json
from tests.scripted_api_server import Answer, ScriptedServer, asynchronous, drops, event, listing, refusal, watch

PODS = "/api/v1/pods"
QUICK = WatchSettings(absent_retry=0.01, first_backoff=0.01)
NOT_KNOWN = "pods of this node are unknown, reporting without them: GET /api/v1/pods: 403 Forbidden: no"


def pod(name: str, phase: str, uid: str = "") -> Json:
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": uid or f"uid-{name}", "resourceVersion": "2"},
        "status": {"phase": phase},
    }


class Followed:
    """Pods that are followed, and what was heard."""

    def __init__(self, client: KubeClient, *, required: bool) -> None:
        self.troubles = Troubles()
        self.news = asyncio.Event()
        self.was_known: list[bool] = []  # with each news
        self.was_trouble: list[list[str]] = []
        self.pods = OwnPods(client, "n1", self.troubles, self._hear, required=required, settings=QUICK)

    def _hear(self) -> None:
        self.was_known.append(self.pods.known() is not None)
        self.was_trouble.append([each.message for each in self.troubles.current.values()])
        self.news.set()


@asynccontextmanager
async def followed(server: ScriptedServer, *, required: bool = False) -> AsyncIterator[Followed]:
    async with server.client() as client:
        following = Followed(client, required=required)
        running = asyncio.create_task(following.pods.run())
        yield following
        running.cancel()


async def until(so: Callable[[], bool]) -> None:
    while not so():  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(0.01)


@asynchronous
async def test_alive_and_ended_pods() -> None:
    async with ScriptedServer() as server:
        server.answers(
            "GET",
            PODS,
            listing([pod("a", "Running"), pod("b", "Running")]),
            watch(event("MODIFIED", pod("a", "Running")), event("MODIFIED", pod("b", "Succeeded")), then="silence"),
        )
        async with followed(server) as following:
            await following.news.wait()
            following.news.clear()
            await following.news.wait()  # only for what matters: `a` lived before and does now
            known = following.pods.known()
        assert server.asked[0].query["fieldSelector"] == "spec.nodeName=n1"
    assert known is not None
    assert known == KnownPods(frozenset({"uid-a"}), frozenset({"uid-b"}), frozenset({("ml", "b")}))


@pytest.mark.parametrize(
    "last_phase, afterwards, known",
    [
        ("Succeeded", [], KnownPods(frozenset(), frozenset({"uid-a"}), frozenset({("ml", "a")}))),
        ("Running", [], KnownPods(frozenset(), frozenset(), frozenset())),
        (
            "Succeeded",
            [event("ADDED", pod("a", "Pending", uid="uid-new"))],
            KnownPods(frozenset({"uid-new"}), frozenset({"uid-a"}), frozenset()),
        ),
    ],
    ids=["had ended", "was running", "had ended, and another pod has its name"],
)
@asynchronous
async def test_a_pod_that_had_ended_has_so_after_it_is_deleted_too(
    last_phase: str, afterwards: list[bytes], known: KnownPods
) -> None:
    """Old kubelets list it a while longer."""
    async with ScriptedServer() as server:
        deleted = event("DELETED", pod("a", last_phase))
        server.answers("GET", PODS, listing([pod("a", "Running")]), watch(deleted, *afterwards, then="silence"))
        async with followed(server) as following:
            await until(lambda: following.pods.known() == known)


@asynchronous
async def test_a_pod_that_had_ended_and_is_not_listed_again_was_deleted() -> None:
    async with ScriptedServer() as server:
        gone = refusal(410, "Expired")
        server.answers("GET", PODS, listing([pod("a", "Failed")]), gone, listing([]), watch(then="silence"))
        async with followed(server) as following:
            await until(lambda: len(following.was_known) == 2)
            known = following.pods.known()
    assert known == KnownPods(frozenset(), frozenset({"uid-a"}), frozenset({("ml", "a")}))


@asynchronous
async def test_without_permission_one_line_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bayplan")
    async with ScriptedServer() as server:
        server.answers("GET", PODS, refusal(403, "Forbidden"))
        async with followed(server) as following:
            await following.news.wait()
            assert following.pods.known() is None
    assert not following.troubles.current
    assert [each.getMessage().partition(":")[0] for each in caplog.records] == ["reading pods is forbidden"]


@asynchronous
async def test_a_right_that_was_asked_for_and_is_missing_is_a_trouble_until_it_is_there() -> None:
    async with ScriptedServer() as server:
        server.answers("GET", PODS, refusal(403, "Forbidden"), listing([pod("a", "Running")]), watch(then="silence"))
        async with followed(server, required=True) as following:
            await until(lambda: len(following.was_known) == 2)
    assert following.was_known == [False, True]
    assert following.was_trouble == [[NOT_KNOWN], []]


@asynchronous
async def test_revoking_the_permission_drops_known_pods(caplog: pytest.LogCaptureFixture) -> None:
    forbidden = refusal(403, "Forbidden")
    async with ScriptedServer() as server:
        server.answers(
            "GET",
            PODS,
            listing([pod("a", "Succeeded")]),
            *(forbidden,) * 5,  # a watch, then lists
            listing([pod("a", "Running")]),
            watch(then="silence"),
        )
        async with followed(server) as following:
            await until(lambda: len(following.was_known) == 3)
    assert following.was_known == [True, False, True]
    assert following.was_trouble == [[], [NOT_KNOWN], []]
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING] == [NOT_KNOWN]


@asynchronous
async def test_an_agent_that_may_only_list_knows_listed_pods() -> None:
    async with ScriptedServer() as server:
        forbidden = refusal(403, "Forbidden")
        once, again = listing([pod("a", "Running")]), listing([pod("b", "Running")])
        server.answers("GET", PODS, once, forbidden, again, forbidden, again)
        async with followed(server) as following:
            await until(lambda: len(server.asked) >= 4)
            known = following.pods.known()
            assert known is not None
            assert known.alive == {"uid-b"}
            assert not following.troubles.current


@pytest.mark.parametrize(
    "answer, alive, told",
    [
        (listing([pod("a", "Running")]), {"uid-a"}, None),
        (refusal(403, "Forbidden"), None, None),
        (refusal(401, "Unauthorized"), None, "401 Unauthorized: no"),
        (drops(), None, "Server disconnected"),
    ],
    ids=["known", "forbidden", "unauthorized", "away"],
)
@asynchronous
async def test_asked_once(answer: Answer, alive: set[str] | None, told: str | None) -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", PODS, answer)
        asking = Followed(client, required=False)
        await asking.pods.ask_once()
    known = asking.pods.known()
    assert (None if known is None else known.alive) == alive
    messages = [each.message for each in asking.troubles.current.values()]
    assert messages == [] if told is None else told in messages[0]


@asynchronous
async def test_a_watch_that_breaks_and_is_resumed_in_silence_leaves_no_trouble() -> None:
    async with ScriptedServer() as server:
        server.answers("GET", PODS, listing([pod("a", "Running")]), drops(), watch(then="silence"))
        async with followed(server, required=True) as following:
            await following.news.wait()
            await until(lambda: len(server.asked) == 3)
            assert not following.troubles.current
            assert following.pods.known() is not None
