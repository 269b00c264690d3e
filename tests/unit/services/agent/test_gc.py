"""Which reports the collector deletes and which it marks; on an API server it is tested in
tests/kubernetes/test_agent.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bayplan.services.agent.gc import Collector, Report, plan
from bayplan.services.agent.metrics import CollectorMetrics
from bayplan.services.agent.troubles import Troubles
from tests.scripted_api_server import (
    Answer,
    Asked,
    ScriptedServer,
    asynchronous,
    drops,
    listing,
    refusal,
    says,
    says_text,
)

NOW = 10_000.0
REPORTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
NODES = "/api/v1/nodes"


@pytest.mark.parametrize(
    "made_at, marked, decision",
    [
        (NOW - 10, False, ""),
        (NOW - 901, False, "mark"),
        (NOW - 901, True, ""),
        (NOW - 10, True, "unmark"),
        (NOW + 60, False, ""),  # a node whose clock is ahead
        (None, False, ""),
        (None, True, "unmark"),
    ],
)
def test_stale_reports_are_marked_until_they_are_renewed(made_at: float | None, marked: bool, decision: str) -> None:
    planned = plan([Report("n1", "1", made_at, marked)], frozenset({"n1"}), now=NOW, stale_after=900)
    found = {"mark": planned.mark, "unmark": planned.unmark, "delete": planned.delete}
    assert [name for name, reports in found.items() if reports] == ([decision] if decision else [])


def test_the_report_of_a_node_that_is_gone_is_deleted_however_fresh() -> None:
    planned = plan([Report("gone", "1", NOW, marked=False)], frozenset({"n1"}), now=NOW, stale_after=900)
    assert [report.name for report in planned.delete] == ["gone"]
    assert planned.stale == 0


def report(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "zones": []}


@pytest.mark.parametrize(
    "said, stale",
    [
        ({"attributes": [{"name": "bayplan.io/made-at", "value": "9000.0"}]}, 1),
        ({"metadata": {"name": "n1", "annotations": {"bayplan.io/made-at": "9000.0"}}}, 1),  # v1alpha1
        ({"attributes": [{"name": "bayplan.io/made-at", "value": "yesterday"}]}, 0),
        ({}, 0),
    ],
)
@asynchronous
async def test_where_a_report_has_its_timestamp(said: dict[str, object], stale: int) -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", NODES, listing(["n1"]))
        server.answers("GET", REPORTS, listing([{**report("n1"), **said}]))
        server.answers("PATCH", f"{REPORTS}/n1", says({}))
        done = await Collector(client, now=lambda: NOW, stale_after=900).round()
    assert done.stale == stale


def deletes(asked: list[Asked]) -> list[Asked]:
    return [each for each in asked if each.method == "DELETE"]


@asynchronous
async def test_a_delete_holds_only_for_the_object_that_was_seen() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", NODES, listing(["n1"]))
        server.answers("GET", REPORTS, listing([report("gone")]))
        server.answers("DELETE", f"{REPORTS}/gone", says({}))
        done = await Collector(client).round()
        (asked,) = deletes(server.asked)
    assert done.deleted == ("gone",)
    assert asked.body["preconditions"] == {"uid": "uid-gone"}


@asynchronous
async def test_a_node_that_is_there_after_all_keeps_its_report() -> None:
    """It registered between the list and the delete."""
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", NODES, listing([]))
        server.answers("GET", REPORTS, listing([report("n1")]))
        server.answers("GET", f"{NODES}/n1", says({"metadata": {"name": "n1"}}))
        done = await Collector(client).round()
        assert deletes(server.asked) == []
    assert (done.deleted, done.failures) == ((), ())


@asynchronous
async def test_one_failure_does_not_keep_the_others_from_being_deleted() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", NODES, listing([]))
        server.answers("GET", REPORTS, listing([report("a"), report("b"), report("c")]))
        server.answers("DELETE", f"{REPORTS}/a", refusal(403, "Forbidden"))
        server.answers("DELETE", f"{REPORTS}/b", refusal(404, "NotFound"))
        server.answers("DELETE", f"{REPORTS}/c", says({}))
        done = await Collector(client).round()
    assert done.deleted == ("c",)
    assert len(done.failures) == 1
    assert "Forbidden" in done.failures[0]


@pytest.mark.parametrize(
    "answer, cause, told",
    [
        (
            says_text("404 page not found", 404),
            "kind-missing",
            "the API server does not know NodeResourceTopology: install",
        ),
        (
            refusal(403, "Forbidden"),
            "forbidden",
            "the collector is not allowed to read nodes or reports (deploy/agent/gc-role.yaml)",
        ),
        (refusal(400, "BadRequest"), "error", "the API server does not list nodes or reports: "),
        (drops(), "unreachable", "the API server does not answer: "),
    ],
    ids=["kind missing", "forbidden", "error", "away"],
)
def test_a_failed_round_is_reported_once_and_retried(
    answer: Answer, cause: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    troubles = Troubles()
    metrics = CollectorMetrics(troubles)

    @asynchronous
    async def story() -> None:
        async with ScriptedServer() as server, server.client() as client:
            server.answers("GET", NODES, listing([]))
            server.answers("GET", REPORTS, answer)
            if cause == "forbidden":  # installed: an API server may also forbid kinds that do not exist
                server.serves("topology.node.k8s.io", v1alpha2="noderesourcetopologies")
            collector = Collector(client, interval=0.01, troubles=troubles)
            running = asyncio.create_task(collector.run())
            await until(lambda: troubles.counts["round", cause] >= 2)
            assert told in str(collector.problem)
            assert 'bayplan_agent_gc_trouble{kind="round"} 1.0' in metrics.text().decode()
            server.answers("GET", REPORTS, listing([]))
            await until(lambda: collector.problem is None)
            running.cancel()

    story()
    assert caplog.text.count(told) == 1
    assert 'bayplan_agent_gc_trouble{kind="round"} 0.0' in metrics.text().decode()


async def until(so: Callable[[], bool]) -> None:
    while not so():  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(0.01)
