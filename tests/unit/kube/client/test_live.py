"""Following a whole cluster: everything at first, then again after changes."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.kube.client.access import Access
from bayplan.kube.client.client import ApiError
from bayplan.kube.client.credentials import Credential, Fixed
from bayplan.kube.client.live import follow_cluster, read_cluster
from bayplan.kube.object_set import ObjectSet
from tests.scripted_api_server import ScriptedServer, asynchronous, event, listing, named, refusal, watch

NODES, PODS, NAMESPACES = "/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces"


class Enough(Exception):
    """What was waited for has come."""


async def names_shown(server: ScriptedServer, times: int) -> list[list[str]]:
    """The names of nodes and pods each time that the cluster is shown."""
    shown: list[list[str]] = []

    def show(objects: ObjectSet, _problems: list[str]) -> None:
        nodes = [node.metadata.name for node in objects.nodes]
        shown.append([*nodes, *(pod.metadata.name for pod in objects.pods)])
        if len(shown) == times:
            raise Enough

    with pytest.raises(Enough):
        await follow_cluster(Access(server.url, Fixed(Credential())), show, settle=0.2)
    return shown


@asynchronous
async def test_everything_is_shown_once_all_of_it_is_known_and_again_after_changes() -> None:
    async with ScriptedServer() as server:
        server.answers("GET", NAMESPACES, listing([]), watch(then="silence"))
        changes = [event("ADDED", named("n2", "2")), event("DELETED", named("n1", "3"))]

        async def later(request: object) -> object:
            await asyncio.sleep(0.6)
            return await watch(*changes, then="silence")(request)  # type: ignore[arg-type]

        server.answers("GET", NODES, listing(["n1"]), later)  # type: ignore[arg-type]
        server.answers("GET", PODS, listing(["p1"]), watch(then="silence"))
        assert await names_shown(server, 2) == [["n1", "p1"], ["n2", "p1"]]


@asynchronous
async def test_an_object_of_a_wrong_shape_is_left_out_until_it_is_right() -> None:
    async with ScriptedServer() as server:
        server.answers("GET", NAMESPACES, listing([]), watch(then="silence"))
        server.answers("GET", PODS, listing([]), watch(then="silence"))
        wrong = named("n1", "2", spec={"unschedulable": "yes"})

        async def later(request: object) -> object:
            await asyncio.sleep(0.6)
            return await watch(event("MODIFIED", wrong), then="silence")(request)  # type: ignore[arg-type]

        server.answers("GET", NODES, listing(["n1"]), later)  # type: ignore[arg-type]
        assert await names_shown(server, 2) == [["n1"], []]


@asynchronous
async def test_what_an_account_must_not_read_is_left_out_and_told() -> None:
    """Namespaces only matter to terms with a namespaceSelector.

    Kinds that are not installed are not worth a word, although RBAC forbids them too.
    """
    forbidden = refusal(403, "Forbidden", "not for you")
    async with ScriptedServer() as server:
        server.answers("GET", NODES, listing(["n1"]))
        server.answers("GET", PODS, listing(["p1"]))
        server.answers("GET", NAMESPACES, forbidden)
        server.answers("GET", "/apis/bayplan.io/v1alpha1/podgroups", forbidden)
        objects, problems = await read_cluster(Access(server.url, Fixed(Credential())))
    assert ([node.metadata.name for node in objects.nodes], [pod.metadata.name for pod in objects.pods]) == (
        ["n1"],
        ["p1"],
    )
    assert problems == ["no right to list namespaces"]


@asynchronous
async def test_without_nodes_or_pods_there_is_no_answer() -> None:
    async with ScriptedServer() as server:
        server.answers("GET", NODES, refusal(403, "Forbidden", "not for you"))
        server.answers("GET", PODS, listing(["p1"]))
        server.answers("GET", NAMESPACES, listing([]))
        with pytest.raises(ApiError, match="GET /api/v1/nodes: 403"):
            await read_cluster(Access(server.url, Fixed(Credential())))


@asynchronous
async def test_changes_in_quick_succession_are_shown_together() -> None:
    async with ScriptedServer() as server:
        server.answers("GET", NAMESPACES, listing([]), watch(then="silence"))
        server.answers("GET", PODS, listing([]), watch(then="silence"))
        many = [event("ADDED", named(f"n{number}", str(number))) for number in range(2, 8)]

        async def later(request: object) -> object:
            await asyncio.sleep(0.6)
            return await watch(*many, then="silence")(request)  # type: ignore[arg-type]

        server.answers("GET", NODES, listing(["n1"]), later)  # type: ignore[arg-type]
        assert await names_shown(server, 2) == [["n1"], [f"n{number}" for number in range(1, 8)]]
