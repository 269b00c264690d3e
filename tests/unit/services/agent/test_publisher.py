"""When a report is written and when it is not, in virtual time; and what is said when it cannot be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, cast

import msgspec
import pytest

from bayplan.kube.client.client import KubeClient, Unreachable
from bayplan.kube.resources import Resource
from bayplan.services.agent.heads import Head, HeadMetadata, Managed
from bayplan.services.agent.publisher import FIELD_MANAGER, PublishedReport, Publisher
from bayplan.services.agent.troubles import Troubles
from tests.builders.bodies import Json
from tests.builders.services import api_error, in_virtual_time, now


def report(free: int, made_at: float = 0.0) -> Json:
    """A node with so many CPUs free."""
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "attributes": [{"name": "bayplan.io/made-at", "value": f"{made_at:.6f}"}],
        "zones": [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "available": str(free)}]}],
    }


def free_in(document: Json) -> int:
    return int(document["zones"][0]["resources"][0]["available"])


class Server:
    """An API server that knows node n1 and keeps what is applied."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.node_trouble: Exception | None = None
        self.report_trouble: Exception | None = None
        self.uid = "uid-1"
        self.generation = 0
        self.writers = [Managed(FIELD_MANAGER, "2026-01-01T00:00:00Z")]
        self.delay = 0.0
        self.hangs = False
        self.writes: list[tuple[float, Json]] = []
        self.how: list[Json] = []

    async def get(self, resource: Resource[Head], name: str) -> Head:
        await self._perhaps_for_ever()
        if resource.kind != "Node":
            if self.report_trouble is not None:
                raise self.report_trouble
            return self._head()
        if self.node_trouble is not None:
            raise self.node_trouble
        return Head(metadata=HeadMetadata(name=name, uid=self.uid))

    def _head(self) -> Head:
        """Of the report."""
        return Head(HeadMetadata(name="n1", generation=self.generation, managed_fields=self.writers))

    def change(self, by: str) -> None:
        """Another client writes to the report."""
        self.generation += 1
        self.writers.append(Managed(by, f"2026-01-01T00:00:{len(self.writers):02}Z"))

    async def _perhaps_for_ever(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()

    async def patch(self, resource: Any, name: str, body: bytes, **how: Any) -> bytes:
        await self._perhaps_for_ever()
        await asyncio.sleep(self.delay)
        if self.trouble is not None:
            raise self.trouble
        self.writes.append((now(), msgspec.json.decode(body)))
        self.how.append({"path": resource.path(None, name), **how})
        self.generation += 1
        return msgspec.json.encode(self._head())

    @property
    def amounts(self) -> list[int]:
        return [free_in(document) for _, document in self.writes]

    @property
    def moments(self) -> list[float]:
        return [round(at, 1) for at, _ in self.writes]


Story = Callable[[Publisher, Server], Coroutine[Any, Any, None]]


class Told:
    """What came of a story."""

    def __init__(
        self, story: Story, heartbeat: float = 300.0, chance: float = 0.5, server: Server | None = None
    ) -> None:
        self.server = server or Server()
        self.troubles = Troubles(clock=lambda: 0.0)
        self.written: list[PublishedReport] = []

        async def all_of_it() -> None:
            publisher = Publisher(
                cast("KubeClient", self.server),
                "n1",
                self.troubles,
                heartbeat=heartbeat,
                clock=now,
                chance=lambda: chance,
                on_written=self.written.append,
            )
            running = asyncio.create_task(publisher.run())
            await story(publisher, self.server)
            running.cancel()

        in_virtual_time(all_of_it())

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.written]


def test_the_first_report_is_applied_with_the_node_as_its_owner() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        publisher.offer(report(free=4))
        await asyncio.sleep(5)

    server = Told(story).server
    ((at, written),) = server.writes
    assert at == 1.0  # spread over two seconds, by chance
    assert written["metadata"] == {
        "name": "n1",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1"}],
    }
    assert server.how == [
        {
            "path": "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/n1",
            "kind": "apply",
            "field_manager": FIELD_MANAGER,
            "force": True,
        }
    ]


def test_an_unchanged_report_is_not_written() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        for second in range(100):
            publisher.offer(report(free=4, made_at=second))
            await asyncio.sleep(1)

    assert Told(story).reasons == ["first"]


def test_only_the_newest_report_is_written_once_a_second() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        for step in range(40):
            publisher.offer(report(free=step))
            await asyncio.sleep(0.1)
        await asyncio.sleep(5)

    told = Told(story)
    assert told.server.moments == [1.0, 2.0, 3.0, 4.0]
    assert told.server.amounts[-1] == 39
    assert told.reasons == ["first", "changed", "changed", "changed"]


def test_a_quiet_node_gives_a_sign_of_life() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        for minute in range(11):
            publisher.offer(report(free=4, made_at=60.0 * minute))
            await asyncio.sleep(60)

    told = Told(story, heartbeat=300)
    assert told.reasons == ["first", "heartbeat"]
    made = [document["attributes"][0]["value"] for _, document in told.server.writes]
    assert made == ["0.000000", "360.000000"]


def test_without_a_look_there_is_no_sign_of_life() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        publisher.offer(report(free=4))
        await asyncio.sleep(10_000)

    assert Told(story).reasons == ["first"]


def test_heartbeat_0_is_none() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        for _ in range(100):
            publisher.offer(report(free=4))
            await asyncio.sleep(60)

    assert Told(story, heartbeat=0).reasons == ["first"]


def test_a_report_that_is_outdated_before_its_write_is_dropped() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        publisher.offer(report(free=4))
        await asyncio.sleep(1.5)
        publisher.offer(report(free=3))
        publisher.offer(report(free=4))
        await asyncio.sleep(10)

    assert Told(story).server.amounts == [4]


def test_a_report_that_changes_during_its_write_is_written_again() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        publisher.offer(report(free=4))
        await asyncio.sleep(5)
        server.delay = 1.0
        publisher.offer(report(free=3))
        await asyncio.sleep(0.5)
        publisher.offer(report(free=4))
        await asyncio.sleep(10)

    assert Told(story).server.amounts == [4, 3, 4]


def test_after_a_write_with_unknown_outcome_the_report_is_written_again() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        publisher.offer(report(free=4))
        await asyncio.sleep(5)
        server.trouble = Unreachable("the answer broke off")
        publisher.offer(report(free=3))  # which the server may have taken
        await asyncio.sleep(0.5)
        server.trouble = None
        publisher.offer(report(free=4))
        await asyncio.sleep(10)

    assert Told(story).server.amounts == [4, 4]


@pytest.mark.parametrize(
    "trouble, cause, words",
    [
        (Unreachable("connection refused"), "unreachable", "the API server does not answer: connection refused"),
        (api_error(403, "Forbidden"), "forbidden", "the agent is not allowed to write reports"),
        (api_error(404, "NotFound"), "kind-missing", "does not know NodeResourceTopology"),
        (api_error(401, "Unauthorized"), "unauthorized", "rejects this agent's credentials"),
        (api_error(422, "Invalid"), "refused", "rejects the report"),
        (api_error(500, "InternalError"), "error", "cannot write the report"),
    ],
)
def test_a_trouble_is_logged_once_and_when_it_ends(
    trouble: Exception, cause: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        server.trouble = trouble
        for minute in range(10):
            publisher.offer(report(free=minute))
            await asyncio.sleep(60)
        server.trouble = None
        await asyncio.sleep(120)

    with caplog.at_level(logging.INFO, "bayplan"):
        told = Told(story)
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert words in warnings[0]
    assert caplog.records[-1].getMessage() == "recovered"
    assert told.server.amounts == [9]
    # Pauses grow: some 15 attempts in ten minutes, not hundreds.
    assert 5 < told.troubles.counts["api", cause] < 30
    assert told.troubles.numbers() == {"api": 0}


def test_a_server_that_asks_for_time_gets_it() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        busy = api_error(429, "TooManyRequests")
        server.trouble = busy
        busy.retry_after = 30.0
        publisher.offer(report(free=4))
        await asyncio.sleep(10)
        server.trouble = None
        await asyncio.sleep(60)

    assert Told(story).server.moments == [31.0]


def test_no_report_is_written_for_a_node_that_is_not_registered(caplog: pytest.LogCaptureFixture) -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        server.node_trouble = api_error(404, "NotFound")
        publisher.offer(report(free=4))
        await asyncio.sleep(60)
        assert server.writes == []
        server.node_trouble = None
        await asyncio.sleep(60)

    told = Told(story)
    assert told.server.amounts == [4]
    assert "node n1 is not registered" in caplog.text
    assert told.troubles.numbers()["node"] == 0


def test_without_the_right_to_read_nodes_a_report_has_no_owner(caplog: pytest.LogCaptureFixture) -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        server.node_trouble = api_error(403, "Forbidden")
        publisher.offer(report(free=4))
        await asyncio.sleep(60)

    ((_, written),) = Told(story).server.writes
    assert written["metadata"] == {"name": "n1"}
    assert "the report has no owner" in caplog.text


def test_a_node_that_was_registered_anew_is_the_owner_with_the_next_heartbeat() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        for _ in range(7):
            publisher.offer(report(free=4))
            await asyncio.sleep(60)
            server.uid = "uid-2"

    owners = [document["metadata"]["ownerReferences"][0]["uid"] for _, document in Told(story).server.writes]
    assert owners == ["uid-1", "uid-2"]


# -- reports that are gone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble, reasons",
    [
        (None, ["first"]),
        (api_error(404, "NotFound"), ["first", "again"]),
        (api_error(403, "Forbidden"), ["first"]),
        (Unreachable("connection refused"), ["first"]),
    ],
    ids=["it is there", "deleted", "forbidden to read", "no answer"],
)
def test_a_deleted_report_is_written_again(trouble: Exception | None, reasons: list[str]) -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        watching = asyncio.create_task(publisher.watch_over(60))
        publisher.offer(report(free=4))
        await asyncio.sleep(30)
        server.report_trouble, server.uid = trouble, "uid-2"
        await asyncio.sleep(31)
        server.report_trouble = None
        await asyncio.sleep(200)
        watching.cancel()

    told = Told(story)
    assert told.reasons == reasons
    owners = [document["metadata"]["ownerReferences"][0]["uid"] for _, document in told.server.writes]
    assert owners == ["uid-1", "uid-2"][: len(reasons)]


def test_a_report_changed_by_another_client_is_written_again(caplog: pytest.LogCaptureFixture) -> None:
    """Another agent on the same node, which is stopped in the end."""

    async def story(publisher: Publisher, server: Server) -> None:
        watching = asyncio.create_task(publisher.watch_over(60))
        publisher.offer(report(free=4))
        await asyncio.sleep(30)
        for _ in range(3):
            server.change(by="nfd-topology-updater")
            await asyncio.sleep(60)
        await asyncio.sleep(60)
        watching.cancel()

    caplog.set_level(logging.INFO)
    told = Told(story, heartbeat=0)
    assert told.reasons == ["first", "again", "again", "again"]
    assert told.troubles.counts["report", "changed"] == 3
    assert caplog.text.count("another client changed the report (nfd-topology-updater): writing it again") == 1
    assert caplog.text.count("recovered") == 1


def test_a_report_written_during_its_lookup_is_not_taken_for_a_strangers() -> None:
    class Slow(Server):
        async def get(self, resource: Resource[Head], name: str) -> Head:
            found = await super().get(resource, name)
            await asyncio.sleep(10)
            return found

    async def story(publisher: Publisher, server: Server) -> None:
        watching = asyncio.create_task(publisher.watch_over(60))
        publisher.offer(report(free=4))
        await asyncio.sleep(65)
        publisher.offer(report(free=3))
        await asyncio.sleep(100)
        watching.cancel()

    assert Told(story, server=Slow()).reasons == ["first", "changed"]


@pytest.mark.parametrize("heartbeat, interval, within", [(15, 5, 15), (300, 60, 76), (0, 60, 76)])
@pytest.mark.parametrize("free", [4, 3], ids=["nothing to write", "something to write"])
def test_an_api_server_that_hangs_is_noticed_within_a_heartbeat(
    heartbeat: float, interval: float, within: float, free: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It takes connections and says nothing: found out with the next write, or in the next round if there is nothing to
    write.
    """
    caplog.set_level(logging.INFO)
    silence = "the API server does not answer: no answer within"

    async def story(publisher: Publisher, server: Server) -> None:
        watching = asyncio.create_task(publisher.watch_over(interval))
        publisher.offer(report(free=4))
        await asyncio.sleep(5)
        server.hangs = True
        publisher.offer(report(free))
        await asyncio.sleep(within)
        assert silence in caplog.text
        server.hangs = False
        await asyncio.sleep(100)
        watching.cancel()

    told = Told(story, heartbeat=heartbeat)
    assert told.server.amounts[-1] == free
    assert not told.troubles.current
    assert (caplog.text.count(silence), caplog.text.count("recovered")) == (1, 1)


def test_in_doubt_the_next_report_is_written_even_if_unchanged() -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        for _ in range(3):
            publisher.offer(report(free=4))
            await asyncio.sleep(10)
        publisher.doubt()
        for _ in range(3):
            publisher.offer(report(free=4))
            await asyncio.sleep(10)

    assert Told(story).reasons == ["first", "again"]


def test_the_advice_depends_on_the_kind(caplog: pytest.LogCaptureFixture) -> None:
    async def story(publisher: Publisher, server: Server) -> None:
        server.trouble = api_error(403, "Forbidden")
        publisher.offer({**report(free=4), "apiVersion": "nodeinfo.volcano.sh/v1alpha1", "kind": "Numatopology"})
        await asyncio.sleep(10)

    Told(story)
    assert "the agent is not allowed to write reports (deploy/agent/numatopology-role.yaml)" in caplog.text
