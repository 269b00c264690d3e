"""Following a resource through everything that an API server and a network do to a watch.

Waiting times are a few milliseconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from bayplan.kube.client.watch import Absent, Broken, Changes, Listed, WatchSettings, follow
from bayplan.kube.resources import (
    COSCHEDULING_POD_GROUPS,
    HYPER_NODES,
    KAI_POD_GROUPS,
    KAI_TOPOLOGIES,
    KUBERNETES_POD_GROUPS,
    KUBERNETES_WORKLOADS,
    KUEUE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGIES,
    NUMATOPOLOGIES,
    POD_GROUPS,
    PODS,
    VOLCANO_JOBS,
    VOLCANO_POD_GROUPS,
    Resource,
)
from tests.scripted_api_server import (
    Answer,
    ScriptedServer,
    asynchronous,
    bookmark,
    event,
    listing,
    named,
    refusal,
    says_text,
    watch,
)

QUICK = WatchSettings(silence=2.0, absent_retry=0.01, first_backoff=0.001, longest_backoff=0.01)
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"


async def first_news(
    count: int,
    server: ScriptedServer,
    resource: Resource[Any] = PODS,
    *,
    settings: WatchSettings = QUICK,
    troubles: list[str] | None = None,
    **where: Any,
) -> list[str]:
    """The first news of a resource in words."""
    told: list[str] = []
    on_error = (lambda _: None) if troubles is None else troubles.append
    async with (
        server.client() as client,
        aclosing(follow(client, resource, settings=settings, on_error=on_error, **where)) as all_news,
    ):
        async for news in all_news:
            told.append(in_words(news))
            if len(told) == count:
                break
    return told


def in_words(news: Listed[Any] | Changes[Any] | Absent) -> str:
    match news:
        case Listed():
            words = ["listed", *(item.metadata.name for item in news.items)]
        case Changes():
            words = [f"{change.kind} {change.object.metadata.name}" for change in news.changes]
        case _:
            return ", unreadable ".join(["absent", *news.unreadable])
    return ", ".join([*words, *(_broken_in_words(broken) for broken in news.broken)])


def _broken_in_words(broken: Broken) -> str:
    return f"{'deleted ' if broken.deleted else ''}broken {broken.name} ({broken.problem})"


@asynccontextmanager
async def pod_server(
    lists: list[Answer], watches: list[Answer], path: str = "/api/v1/pods"
) -> AsyncIterator[ScriptedServer]:
    """A server with one script for lists and one for watches."""

    async def list_or_watch(request: web.Request) -> web.StreamResponse:
        script = watches if "watch" in request.query else lists
        return await (script.pop(0) if len(script) > 1 else script[0])(request)

    async with ScriptedServer() as server:
        server.answers("GET", path, list_or_watch)
        yield server


def watched_from(server: ScriptedServer) -> list[str]:
    """The versions that watches were asked to begin from."""
    return [query["resourceVersion"] for query in server.queries() if "watch" in query]


@asynchronous
async def test_first_everything_then_what_changes_in_the_order_it_happened() -> None:
    lines = [event("ADDED", named("b", "6")), event("MODIFIED", named("a", "7")), event("DELETED", named("a", "8"))]
    async with pod_server([listing(["a"], version="5")], [watch(b"".join(lines), then="silence")]) as server:
        assert await first_news(2, server) == ["listed, a", "ADDED b, MODIFIED a, DELETED a"]


@asynchronous
async def test_pages_can_be_had_before_the_whole_list() -> None:
    pages = [listing(["a", "b"], ticket="t1"), listing(["c", named("bad", spec={"priority": "high"})], ticket="t2")]
    async with pod_server([*pages, listing(["d"])], [watch(then="silence")]) as server:
        news = await first_news(3, server, by_page=True)
    assert news[0] == "ADDED a, ADDED b"
    assert news[1].startswith("ADDED c, broken bad (spec.priority: ")
    assert news[2].startswith("listed, a, b, c, d, broken bad (spec.priority: ")


@asynchronous
async def test_a_list_that_starts_over_begins_with_its_first_page_again() -> None:
    lists = [listing(["a"], ticket="t1"), refusal(410, "Expired"), listing(["b"], ticket="t2"), listing(["c"])]
    async with pod_server(lists, [watch(then="silence")]) as server:
        assert await first_news(3, server, by_page=True) == ["ADDED a", "ADDED b", "listed, b, c"]


@asynchronous
async def test_a_list_after_the_first_one_comes_as_a_whole() -> None:
    """A page says nothing about objects that are gone, so half a page ahead of them would be wrong."""
    lists = [listing(["a"], ticket="t1"), listing(["b"]), listing(["c"], ticket="t2"), listing(["d"])]
    watches = [watch(event("ERROR", GONE)), watch(then="silence")]
    async with pod_server(lists, watches) as server:
        assert await first_news(3, server, by_page=True) == ["ADDED a", "listed, a, b", "listed, c, d"]


FORBIDDEN = refusal(403, "Forbidden")
PAGE = listing(["a"], ticket="t1")


@pytest.mark.parametrize(
    "lists, told",
    [
        pytest.param([PAGE, FORBIDDEN, listing(["z"])], ["ADDED a", "absent", "listed, z"], id="after a page"),
        pytest.param([FORBIDDEN, PAGE, FORBIDDEN, listing(["z"])], ["absent", "listed, z"], id="before a page, too"),
        pytest.param(
            [FORBIDDEN, PAGE, listing(["b"])], ["absent", "listed, a, b"], id="a list after absence is not the first"
        ),
    ],
)
@asynchronous
async def test_a_resource_that_becomes_absent_between_two_pages_has_no_objects(
    lists: list[Answer], told: list[str]
) -> None:
    async with pod_server(list(lists), [watch(then="silence")]) as server:
        assert await first_news(len(told), server, by_page=True, forbidden_is_absent=True) == told


@pytest.mark.parametrize("by_page", [False, True])
@asynchronous
async def test_pages_of_a_list_that_never_completes_are_no_progress(by_page: bool) -> None:
    """Readiness depends on it: what is known stays stale."""
    heard: list[str] = []
    lists = [PAGE, says_text("<html>"), PAGE, says_text("<html>"), PAGE, listing(["b"])]
    async with pod_server(lists, [watch(then="silence")]) as server, server.client() as client:
        news = follow(
            client,
            PODS,
            settings=QUICK,
            on_error=lambda _: heard.append("error"),
            on_progress=lambda: heard.append("progress"),
            by_page=by_page,
        )
        async with aclosing(news):
            async for each in news:
                if isinstance(each, Listed):
                    break
    assert heard == ["error", "error", "progress"]


@asynchronous
async def test_the_server_is_asked_for_bookmarks_and_for_an_end_before_we_call_it_silent() -> None:
    async with pod_server([listing([], version="5")], [watch(event("ADDED", named("a")), then="silence")]) as server:
        await first_news(2, server, settings=WatchSettings(silence=100), field_selector="spec.nodeName=")
        asked = dict(server.queries()[1])
    assert 70 <= int(asked.pop("timeoutSeconds")) <= 90
    assert asked == {
        "watch": "true",
        "resourceVersion": "5",
        "allowWatchBookmarks": "true",
        "fieldSelector": "spec.nodeName=",
    }


@asynchronous
async def test_a_watch_that_ends_goes_on_from_the_last_version_without_a_list() -> None:
    watches = [
        watch(event("ADDED", named("b", "6"))),
        watch(event("ADDED", named("c", "9")), bookmark("12")),
        watch(event("ADDED", named("d", "13"))),
    ]
    troubles: list[str] = []
    async with pod_server([listing(["a"], version="5")], watches) as server:
        assert await first_news(4, server, troubles=troubles) == ["listed, a", "ADDED b", "ADDED c", "ADDED d"]
        assert watched_from(server) == ["5", "6", "12"]
        assert troubles == []


@asynchronous
async def test_a_connection_that_drops_goes_on_from_the_last_version() -> None:
    watches = [
        watch(event("ADDED", named("b", "6")), b'{"type": "ADD', then="drop"),
        watch(event("ADDED", named("c", "7"))),
    ]
    troubles: list[str] = []
    async with pod_server([listing(["a"], version="5")], watches) as server:
        assert await first_news(3, server, troubles=troubles) == ["listed, a", "ADDED b", "ADDED c"]
        assert watched_from(server) == ["5", "6"]
    assert troubles[0].startswith("watch /api/v1/pods: ")


@asynchronous
async def test_a_silent_watch_is_opened_again() -> None:
    watches = [watch(event("ADDED", named("b", "6")), then="silence"), watch(event("ADDED", named("c", "7")))]
    troubles: list[str] = []
    short = WatchSettings(silence=0.1, first_backoff=0.001)
    async with pod_server([listing(["a"], version="5")], watches) as server:
        told = await first_news(3, server, settings=short, troubles=troubles)
        assert told == ["listed, a", "ADDED b", "ADDED c"]
        assert watched_from(server) == ["5", "6"]
    assert troubles == ["watch /api/v1/pods: silent for 0.1 s"]


GONE = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old resource version"}


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(refusal(410, "Expired", "too old resource version"), id="as the answer"),
        pytest.param(watch(event("ERROR", GONE)), id="as a line"),
        pytest.param(watch(event("ADDED", named("x", "6")), event("ERROR", GONE), then="silence"), id="after a change"),
    ],
)
@asynchronous
async def test_a_version_that_the_server_forgot_lists_again(gone: Answer) -> None:
    lists = [listing(["a", "b"], version="5"), listing(["b", "c"], version="20")]
    watches = [gone, watch(event("ADDED", named("d", "21")))]
    troubles: list[str] = []
    async with pod_server(lists, watches) as server:
        told = await first_news(4, server, troubles=troubles)
        assert [each for each in told if each != "ADDED x"][:3] == ["listed, a, b", "listed, b, c", "ADDED d"]
        assert watched_from(server)[:2] == ["5", "20"]
    assert "410 Expired: too old resource version" in troubles[0]


@pytest.mark.parametrize(
    "garbage, problem",
    [
        (b"<html>502 Bad Gateway</html>\n", "JSON is malformed"),
        (b'{"type": "ADDED", "object": {"metadata"\n', "Input data was truncated"),
        (b'{"type": "ADDED"}\n', "missing required field"),
        (b'{"type": "ADDED", "object": {"metadata": {"name": "\xff\xfe"}}}\n', "utf-8"),
        (b'{"type": "ADDED", "object": {"x": ' + b"[" * 100_000 + b"\n", "recursion"),
    ],
)
@asynchronous
async def test_after_garbage_everything_is_listed_again(garbage: bytes, problem: str) -> None:
    watches = [watch(event("ADDED", named("b", "6")) + garbage, then="silence"), watch(event("ADDED", named("c", "9")))]
    troubles: list[str] = []
    async with pod_server([listing(["a"], version="5"), listing(["a", "b"], version="8")], watches) as server:
        told = await first_news(4, server, troubles=troubles)
    assert told == ["listed, a", "ADDED b", "listed, a, b", "ADDED c"]
    assert problem in troubles[0]


@asynchronous
async def test_empty_lines_and_lines_in_pieces_are_no_trouble() -> None:
    line = event("ADDED", named("b", "6"))
    pieces = [b"\n", line[:7], line[7:20], line[20:] + b"\r\n" + line[:3], line[3:]]
    async with pod_server([listing([], version="5")], [watch(*pieces, then="silence")]) as server:
        assert await first_news(3, server) == ["listed", "ADDED b", "ADDED b"]


@asynchronous
async def test_unknown_kinds_of_lines_are_passed_over() -> None:
    lines = event("RENAMED", named("a", "6")) + event("ADDED", named("b", "7"))
    async with pod_server([listing([], version="5")], [watch(lines, then="silence")]) as server:
        assert await first_news(2, server) == ["listed", "ADDED b"]


BAD = named("bad", "7", spec={"priority": "high"})
WRONG = "spec.priority: must be a whole number, not a string"


@pytest.mark.parametrize(
    "lines, told",
    [
        ([("ADDED", BAD), ("ADDED", named("b", "8"))], f"ADDED b, broken bad ({WRONG})"),
        ([("DELETED", BAD)], f"deleted broken bad ({WRONG})"),
        ([("ADDED", BAD), ("MODIFIED", named("bad", "8"))], "MODIFIED bad"),
        ([("ADDED", named("bad", "6")), ("MODIFIED", BAD)], f"ADDED bad, broken bad ({WRONG})"),
        (
            [("ADDED", {"metadata": {"name": "n", "labels": 3}})],
            "broken n (metadata.labels: must be a mapping, not a whole number)",
        ),
    ],
)
@asynchronous
async def test_a_broken_object_is_named_and_everyone_else_is_delivered(
    lines: list[tuple[str, dict[str, Any]]], told: str
) -> None:
    data = b"".join(event(kind, thing) for kind, thing in lines)
    async with pod_server([listing([], version="5")], [watch(data, then="silence")]) as server:
        assert await first_news(2, server) == ["listed", told]


@asynchronous
async def test_a_bookmark_of_a_kind_with_required_fields_is_not_a_broken_object() -> None:
    group = named("g", "7", spec={"topology": "network", "size": 2, "pod": {"resources": {"cpu": 1}}})
    path = "/apis/bayplan.io/v1alpha1/podgroups"
    async with pod_server([listing([])], [watch(bookmark("6"), event("ADDED", group), then="silence")], path) as server:
        assert await first_news(2, server, POD_GROUPS) == ["listed", "ADDED g"]


@asynchronous
async def test_a_forbidden_resource_can_count_as_absent() -> None:
    lists = [refusal(403, "Forbidden", "not for you"), refusal(403, "Forbidden", "not for you"), listing(["worker-1"])]
    troubles: list[str] = []
    async with pod_server(lists, [watch(then="silence")], TOPOLOGIES) as server:
        server.serves("topology.node.k8s.io", v1alpha2="noderesourcetopologies")
        told = await first_news(2, server, NODE_RESOURCE_TOPOLOGIES, troubles=troubles, forbidden_is_absent=True)
    assert told == ["absent", "listed, worker-1"]
    assert len(troubles) == 1
    assert "not for you" in troubles[0]


@asynchronous
async def test_a_resource_that_is_not_installed_is_absent_also_where_its_name_is_forbidden() -> None:
    """RBAC is asked before the API server looks for the kind: 403, where others get 404."""
    lists = [refusal(403, "Forbidden", "not for you"), listing(["worker-1"])]
    troubles: list[str] = []
    async with pod_server(lists, [watch(then="silence")], TOPOLOGIES) as server:
        server.serves("topology.node.k8s.io")
        told = await first_news(2, server, NODE_RESOURCE_TOPOLOGIES, troubles=troubles)
    assert (told, troubles) == (["absent", "listed, worker-1"], [])


@asynchronous
async def test_a_right_that_is_taken_away_can_make_a_resource_absent() -> None:
    forbidden = refusal(403, "Forbidden", "not for you")
    lists = [listing(["a"]), forbidden, listing(["b"]), forbidden]
    async with pod_server(lists, [forbidden]) as server:
        told = await first_news(4, server, forbidden_is_absent=True)
    assert told == ["listed, a", "absent", "listed, b", "absent"]


@asynchronous
async def test_a_resource_that_is_not_installed_is_absent_until_it_is() -> None:
    lists = [refusal(404), refusal(404), refusal(404), listing(["worker-1"], version="5")]
    troubles: list[str] = []
    async with pod_server(lists, [watch(event("ADDED", named("worker-2", "6")))], TOPOLOGIES) as server:
        told = await first_news(3, server, NODE_RESOURCE_TOPOLOGIES, troubles=troubles)
    assert told == ["absent", "listed, worker-1", "ADDED worker-2"]
    assert troubles == []


@asynchronous
async def test_a_resource_that_vanishes_is_absent_and_listed_when_it_is_back() -> None:
    lists = [listing(["worker-1"], version="5"), refusal(404), refusal(404), listing(["worker-2"], version="9")]
    watches = [watch(event("DELETED", named("worker-1", "6"))), refusal(404), watch(event("ADDED", named("c", "10")))]
    async with pod_server(lists, watches, TOPOLOGIES) as server:
        told = await first_news(5, server, NODE_RESOURCE_TOPOLOGIES)
    assert told == ["listed, worker-1", "DELETED worker-1", "absent", "listed, worker-2", "ADDED c"]


GROUP, PLURAL = "topology.node.k8s.io", "noderesourcetopologies"
FOREIGN = (
    KUEUE_TOPOLOGIES,
    KAI_TOPOLOGIES,
    KAI_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    KUBERNETES_WORKLOADS,
    VOLCANO_POD_GROUPS,
    VOLCANO_JOBS,
    COSCHEDULING_POD_GROUPS,
    NUMATOPOLOGIES,
    HYPER_NODES,
)
OLDER = f"/apis/{GROUP}/v1alpha1/{PLURAL}"


@asynchronous
async def test_an_older_version_is_followed_where_only_that_is_served() -> None:
    async with pod_server(
        [listing(["worker-1"], version="5")], [watch(event("ADDED", named("b", "6")))], OLDER
    ) as server:
        server.serves(GROUP, v1alpha1=PLURAL)
        troubles: list[str] = []
        told = await first_news(2, server, NODE_RESOURCE_TOPOLOGIES, troubles=troubles)
    assert (told, troubles) == (["listed, worker-1", "ADDED b"], [])


@asynchronous
async def test_a_better_version_that_comes_later_is_listed_and_followed() -> None:
    watches = [watch(event("ADDED", named("b", "6"))), watch(then="silence")]
    async with pod_server([listing(["worker-1"], version="5")], watches, OLDER) as server:
        server.serves(GROUP, v1alpha1=PLURAL)
        troubles: list[str] = []
        async with (
            server.client() as client,
            aclosing(follow(client, NODE_RESOURCE_TOPOLOGIES, settings=QUICK, on_error=troubles.append)) as all_news,
        ):
            told = [in_words(await anext(all_news)), in_words(await anext(all_news))]
            server.answers("GET", TOPOLOGIES, listing(["worker-2"], version="9"))
            server.serves(GROUP, v1alpha2=PLURAL, v1alpha1=PLURAL)
            told.append(in_words(await anext(all_news)))
    assert (told, troubles) == (["listed, worker-1", "ADDED b", "listed, worker-2"], [])


@asynchronous
async def test_a_version_that_goes_is_replaced_by_another_one() -> None:
    async with pod_server([listing(["a"], version="5"), refusal(404)], [refusal(404)], TOPOLOGIES) as server:
        server.serves(GROUP, v1alpha1=PLURAL)
        server.answers("GET", OLDER, listing(["b"], version="9"))
        assert await first_news(2, server, NODE_RESOURCE_TOPOLOGIES) == ["listed, a", "listed, b"]


@asynchronous
async def test_versions_that_cannot_be_read_are_told_once_and_left_when_one_can_be() -> None:
    lists = [refusal(404), refusal(404), refusal(404), listing(["worker-1"], version="5")]
    troubles: list[str] = []
    async with pod_server(lists, [watch(then="silence")], TOPOLOGIES) as server:
        server.serves(GROUP, v1beta9=PLURAL)
        told = await first_news(2, server, NODE_RESOURCE_TOPOLOGIES, troubles=troubles)
    assert told == ["absent, unreadable v1beta9", "listed, worker-1"]
    (trouble,) = troubles
    assert trouble == (
        "noderesourcetopologies.topology.node.k8s.io: the API server serves v1beta9; bayplan reads v1alpha2, v1alpha1,"
        " so it sees no NodeResourceTopology"
    )


@pytest.mark.parametrize("resource", FOREIGN, ids=str)
@asynchronous
async def test_that_holds_for_every_kind_of_other_systems(resource: Resource[Any]) -> None:
    async with ScriptedServer() as server:
        server.serves(resource.api_version.rpartition("/")[0], v99=resource.plural)
        assert await first_news(1, server, resource) == ["absent, unreadable v99"]


@asynchronous
async def test_a_group_that_has_the_resource_in_no_version_does_not_have_it() -> None:
    """`scheduling.k8s.io` is always there, for PriorityClasses."""
    async with pod_server([refusal(404), listing(["a"])], [watch(then="silence")], TOPOLOGIES) as server:
        server.serves(GROUP, v1="priorityclasses")
        assert await first_news(2, server, NODE_RESOURCE_TOPOLOGIES) == ["absent", "listed, a"]


@pytest.mark.parametrize("status, reason", [(401, "Unauthorized"), (403, "Forbidden")])
@asynchronous
async def test_a_forbidden_watch_says_so_and_tries_again(status: int, reason: str) -> None:
    lists = [refusal(status, reason, "pods is forbidden"), listing(["a"], version="5")]
    watches = [refusal(status, reason, "pods is forbidden"), watch(event("ADDED", named("b", "6")))]
    troubles: list[str] = []
    async with pod_server(lists, watches) as server:
        assert await first_news(2, server, troubles=troubles) == ["listed, a", "ADDED b"]
    assert troubles == [f"GET /api/v1/pods: {status} {reason}: pods is forbidden"] * 2


@asynchronous
async def test_a_server_that_ends_every_watch_at_once_is_not_asked_without_pause() -> None:
    troubles: list[str] = []
    async with pod_server(
        [listing([], version="5")], [watch(), watch(), watch(event("ADDED", named("a", "6")))]
    ) as server:
        assert await first_news(2, server, troubles=troubles) == ["listed", "ADDED a"]
    assert troubles == ["watch /api/v1/pods: ended at once and brought nothing"] * 2


@asynchronous
async def test_an_overloaded_server_is_left_alone_as_long_as_it_asks(waits: list[float]) -> None:
    busy = [refusal(429, "TooManyRequests", retry_after=7), watch(event("ADDED", named("b", "6")))]
    async with pod_server([listing(["a"], version="5")], busy) as server:
        assert await first_news(2, server, settings=WatchSettings()) == ["listed, a", "ADDED b"]
    assert waits[0] == 7


@asynchronous
async def test_a_server_that_forgets_every_version_at_once_is_listed_ever_more_rarely(waits: list[float]) -> None:
    settings = WatchSettings(first_backoff=1.0, longest_backoff=100.0)
    async with pod_server([listing(["a"])], [watch(event("ERROR", GONE))]) as server:
        assert await first_news(6, server, settings=settings) == ["listed, a"] * 6
    waited = [seconds for seconds in waits if seconds >= 0.5]  # the server's own pauses are shorter
    assert all(2**step / 2 <= seconds <= 2**step * 1.5 for step, seconds in enumerate(waited))


@asynchronous
async def test_an_absent_resource_on_a_server_that_goes_away_is_polled_with_pauses(waits: list[float]) -> None:
    troubles: list[str] = []
    lists = [refusal(404), *[refusal(500, "InternalError", "etcd is away")] * 4, listing(["worker-1"])]
    async with pod_server(lists, [watch(then="silence")], TOPOLOGIES) as server:
        told = await first_news(2, server, NODE_RESOURCE_TOPOLOGIES, settings=WatchSettings(), troubles=troubles)
    assert told == ["absent", "listed, worker-1"]
    assert waits[0] == 30
    assert all(seconds > 0 for seconds in waits[:5])  # three inside the list, one after it
    assert troubles == [f"GET {TOPOLOGIES}: 500 InternalError: etcd is away"]


@asynchronous
async def test_a_namespace_can_be_followed_alone() -> None:
    async with pod_server([listing(["a"])], [watch(then="silence")], "/api/v1/namespaces/telco/pods") as server:
        assert await first_news(1, server, namespace="telco") == ["listed, a"]


@asynchronous
async def test_a_line_without_end_is_not_read_endlessly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.kube.client.watch.LONGEST_LINE", 1000)
    troubles: list[str] = []
    watches = [watch(b"x" * 2000, then="silence"), watch(event("ADDED", named("b", "6")))]
    async with pod_server([listing(["a"])], watches) as server:
        assert await first_news(3, server, troubles=troubles) == ["listed, a", "listed, a", "ADDED b"]
    assert troubles == ["watch /api/v1/pods: a line has more than 1000 bytes"]
