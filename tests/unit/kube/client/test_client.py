"""The client against a server that follows a script: what is asked, what comes back, and what trouble becomes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.kube.client import client as module
from bayplan.kube.client.access import Access
from bayplan.kube.client.client import ApiError, KubeClient, PatchKind, Unreachable
from bayplan.kube.client.credentials import Credential, Fixed, TokenFile
from bayplan.kube.resources import (
    EVENTS,
    KUEUE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    POD_GROUPS,
    PODS,
    Resource,
)
from tests.scripted_api_server import (
    ScriptedServer,
    asynchronous,
    drops,
    listing,
    named,
    never,
    refusal,
    says,
    says_text,
    watch,
)

ALL_PODS = "/api/v1/pods"
UPF = "/api/v1/namespaces/telco/pods/upf-0"
pytestmark = pytest.mark.usefixtures("waits")


@pytest.mark.parametrize(
    "resource, namespace, name, subresource, path",
    [
        (PODS, None, None, None, "/api/v1/pods"),
        (PODS, "telco", None, None, "/api/v1/namespaces/telco/pods"),
        (PODS, "telco", "upf-0", "binding", "/api/v1/namespaces/telco/pods/upf-0/binding"),
        (NODES, "ignored", "worker-3", None, "/api/v1/nodes/worker-3"),
        (EVENTS, "telco", None, None, "/apis/events.k8s.io/v1/namespaces/telco/events"),
        (
            NODE_RESOURCE_TOPOLOGIES,
            None,
            "worker-3",
            None,
            "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/worker-3",
        ),
        (KUEUE_TOPOLOGIES, None, "a/../b", None, "/apis/kueue.x-k8s.io/v1beta2/topologies/a%2F..%2Fb"),
        (POD_GROUPS, "ml", "pretrain", "status", "/apis/bayplan.io/v1alpha1/namespaces/ml/podgroups/pretrain/status"),
    ],
)
def test_where_a_resource_lives(
    resource: Resource[Any], namespace: str | None, name: str | None, subresource: str | None, path: str
) -> None:
    assert resource.path(namespace, name, subresource) == path


# ---------------------------------------------------------------------------------------------------------------------
# reading


@asynchronous
async def test_an_object_comes_back_typed() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", UPF, says(named("upf-0", spec={"nodeName": "worker-3", "hostname": "not read"})))
        assert (await client.get(PODS, "upf-0", "telco")).spec.node_name == "worker-3"
        assert client.counts == {("GET", 200): 1}
        assert server.asked[0].headers["User-Agent"].startswith("bayplan/")


@asynchronous
async def test_of_some_resources_only_the_metadata_is_asked_for() -> None:
    heads = replace(PODS, metadata_only=True)
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", ALL_PODS, listing(["upf-0"]))
        server.answers("GET", UPF, says(named("upf-0")))
        server.answers("PATCH", UPF, says(named("upf-0")))
        await client.list(heads)
        await client.get(heads, "upf-0", "telco")
        await client.patch(heads, "upf-0", {}, "telco")
        await client.get(PODS, "upf-0", "telco")
    assert [asked.headers["Accept"] for asked in server.asked] == [
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        "application/json",
    ]


@asynchronous
async def test_a_list_is_asked_for_in_pages_and_comes_back_whole() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers(
            "GET",
            ALL_PODS,
            listing(["a", "b"], version="7", ticket="more"),
            listing(["c", "d"], version="7", ticket="and more"),
            listing(["e"], version="7"),
        )
        listed = await client.list(PODS, page=2, field_selector="spec.nodeName=", label_selector="app in (x, y)")
        assert [pod.metadata.name for pod in listed.items] == ["a", "b", "c", "d", "e"]
        assert listed.resource_version == "7"
        selectors = {"fieldSelector": "spec.nodeName=", "labelSelector": "app in (x, y)", "limit": "2"}
        tickets = [{}, {"continue": "more"}, {"continue": "and more"}]
        assert server.queries() == [{**selectors, **ticket} for ticket in tickets]


@asynchronous
async def test_reports_are_asked_for_in_one_answer() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", NODE_RESOURCE_TOPOLOGIES.path(), listing([]))
        await client.list(NODE_RESOURCE_TOPOLOGIES)
        assert server.queries() == [{}]


@asynchronous
async def test_an_expired_ticket_starts_over_and_the_second_time_without_pages() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers(
            "GET",
            ALL_PODS,
            listing(["a"], ticket="t1"),
            refusal(410, "Expired"),
            listing(["a"], ticket="t2"),
            refusal(410, "Expired"),
            listing(["a", "b"], version="9"),
        )
        listed = await client.list(PODS, page=1)
        assert [pod.metadata.name for pod in listed.items] == ["a", "b"]
        assert server.queries()[-1] == {}


@asynchronous
async def test_a_broken_object_affects_no_other_object() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", ALL_PODS, listing(["a", named("bad", spec={"priority": "high"}), "c"]))
        listed = await client.list(PODS)
        assert [pod.metadata.name for pod in listed.items] == ["a", "c"]
        (broken,) = listed.broken
        assert (broken.namespace, broken.name) == ("default", "bad")
        assert broken.problem == "spec.priority: must be a whole number, not a string"


@asynchronous
async def test_an_empty_list_may_have_no_items_at_all() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", ALL_PODS, says({"metadata": {"resourceVersion": "3"}, "items": None}))
        listed = await client.list(PODS)
        assert (listed.items, listed.resource_version) == ([], "3")


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
@asynchronous
async def test_reading_is_tried_again_where_time_may_heal(status: int) -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", ALL_PODS, refusal(status), drops(), listing(["a"]))
        assert len((await client.list(PODS)).items) == 1
        assert client.counts["GET", status] == 1


@asynchronous
async def test_retry_after_is_obeyed_within_reason(waits: list[float]) -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", ALL_PODS, refusal(429, "TooManyRequests", retry_after=3), listing(["a"]))
        await client.list(PODS)
        assert waits == [3]
        server.answers("GET", ALL_PODS, refusal(429, "TooManyRequests", retry_after=600), listing(["a"]))
        with pytest.raises(ApiError) as caught:
            await client.list(PODS)
        assert caught.value.retry_after == 600


@asynchronous
async def test_a_status_may_say_it_instead_of_the_header(waits: list[float]) -> None:
    starting = {"kind": "Status", "code": 503, "message": "starting", "details": {"retryAfterSeconds": 2}}
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", ALL_PODS, says(starting, 503), listing(["a"]))
        await client.list(PODS)
        assert waits == [2]


@asynchronous
async def test_after_some_attempts_the_caller_decides() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", ALL_PODS, refusal(500, "InternalError", "etcd is away"))
        with pytest.raises(ApiError, match="GET /api/v1/pods: 500 InternalError: etcd is away"):
            await client.list(PODS)
        assert len(server.asked) == module.READ_ATTEMPTS


@pytest.mark.parametrize(
    "status, reason, message",
    [(403, "Forbidden", 'pods is forbidden: User "x" cannot list'), (404, "NotFound", "no"), (401, "Unauthorized", "")],
)
@asynchronous
async def test_a_plain_no_is_told_at_once(status: int, reason: str, message: str) -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", ALL_PODS, refusal(status, reason, message or "Unauthorized"))
        with pytest.raises(ApiError) as caught:
            await client.list(PODS)
        assert (caught.value.status, caught.value.reason) == (status, reason)
        assert message in caught.value.message
        assert len(server.asked) == 1


@asynchronous
async def test_a_kind_that_is_not_installed_is_told_in_the_api_servers_name() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", UPF, says_text("404 page not found\n", status=404))
        with pytest.raises(ApiError, match="404 Not Found: nothing is served there"):
            await client.get(PODS, "upf-0", "telco")


@asynchronous
async def test_a_proxy_that_answers_instead_is_told_from_the_api_server() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", UPF, says_text("<html>Bad Request</html>", status=400))
        with pytest.raises(ApiError, match="400 Bad Request: the answer is not the API server's: <html>Bad Request"):
            await client.get(PODS, "upf-0", "telco")
        server.answers("GET", UPF, says_text("<html>Welcome</html>"))
        with pytest.raises(Unreachable, match=r"not an object.*Welcome"):
            await client.get(PODS, "upf-0", "telco")
        server.answers("GET", ALL_PODS, says_text("<html>Welcome</html>"))
        with pytest.raises(Unreachable, match=r"not a list.*Welcome"):
            await client.list(PODS)


# ---------------------------------------------------------------------------------------------------------------------
# writing


@asynchronous
async def test_a_bind_carries_uid_and_annotations() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("POST", f"{UPF}/binding", says({"kind": "Status", "status": "Success", "code": 201}, 201))
        await client.bind("telco", "upf-0", "1-2-3", "worker-3", {"bayplan.io/rank": "4"})
        assert server.asked[0].body == {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": "upf-0",
                "namespace": "telco",
                "uid": "1-2-3",
                "annotations": {"bayplan.io/rank": "4"},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": "worker-3"},
        }
        assert client.counts == {("POST", 201): 1}


@pytest.mark.parametrize(
    "answer, expected",
    [
        (refusal(409, "Conflict", "pod upf-0 is already assigned to node worker-1"), "already assigned"),
        (refusal(429, "TooManyRequests", "slow down", retry_after=1), "slow down"),
        (refusal(500, "InternalError", "etcd is away"), "etcd is away"),
        (drops(), "POST /api/v1/namespaces/telco/pods/upf-0/binding at http://127"),
    ],
)
@asynchronous
async def test_a_write_is_never_repeated(answer: Any, expected: str) -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("POST", f"{UPF}/binding", answer)
        with pytest.raises((ApiError, Unreachable), match=expected):
            await client.bind("telco", "upf-0", "1-2-3", "worker-3", {})
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "kind, content_type, query",
    [
        ("strategic", "application/strategic-merge-patch+json", {"fieldManager": "bayplan"}),
        ("merge", "application/merge-patch+json", {"fieldManager": "bayplan"}),
        ("json", "application/json-patch+json", {"fieldManager": "bayplan"}),
        ("apply", "application/apply-patch+yaml", {"fieldManager": "bayplan", "force": "true"}),
    ],
)
@asynchronous
async def test_patches_of_all_kinds(kind: PatchKind, content_type: str, query: dict[str, str]) -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("PATCH", f"{UPF}/status", says({}))
        await client.patch(PODS, "upf-0", {}, "telco", subresource="status", kind=kind, force=kind == "apply")
        assert server.asked[0].headers["Content-Type"] == content_type
        assert server.asked[0].query == query


@asynchronous
async def test_create_update_and_delete() -> None:
    async with ScriptedServer() as server, server.client() as client:
        server.answers("POST", "/api/v1/nodes", says({"made": 1}, 201))
        server.answers("PUT", "/api/v1/nodes/worker-3/status", says({"changed": 1}))
        server.answers("DELETE", UPF, says({}))
        assert msgspec.json.decode(await client.create(NODES, {"kind": "Node"})) == {"made": 1}
        await client.update(NODES, "worker-3", b'{"status": {}}', subresource="status")
        await client.delete(PODS, "upf-0", "telco", uid="1-2-3", grace=0)
        assert [asked.body for asked in server.asked] == [
            {"kind": "Node"},
            {"status": {}},
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "1-2-3"},
                "gracePeriodSeconds": 0,
            },
        ]


# ---------------------------------------------------------------------------------------------------------------------
# the way there


@asynchronous
async def test_an_answer_that_does_not_come_is_given_up() -> None:
    async with ScriptedServer() as server, server.client(timeout=0.05) as client:
        server.answers("POST", "/api/v1/nodes", never())
        with pytest.raises(Unreachable, match=f"POST /api/v1/nodes at {server.url}: no answer within 0.05 s"):
            await client.create(NODES, {})
        assert client.counts == {("POST", 0): 1}


@asynchronous
async def test_a_list_takes_longer_than_the_timeout_as_long_as_bytes_arrive() -> None:
    async with ScriptedServer() as server, server.client(timeout=0.5) as client:
        slow = [b" "] * 100  # a hundredth of a second each
        server.answers("GET", ALL_PODS, watch(*slow, b'{"metadata": {"resourceVersion": "3"}, "items": []}'))
        assert (await client.list(PODS)).resource_version == "3"
        assert client.counts == {("GET", 200): 1}


@asynchronous
async def test_a_server_that_is_not_there() -> None:
    async with KubeClient(Access("http://127.0.0.1:1", Fixed(Credential()))) as client:
        with pytest.raises(Unreachable) as caught:
            await client.list(PODS)
    assert str(caught.value) == (
        "GET /api/v1/pods at http://127.0.0.1:1: cannot connect to 127.0.0.1:1: Connection refused"
    )


@asynchronous
async def test_an_address_with_a_path_is_the_start_of_every_path() -> None:
    async with ScriptedServer() as server:
        server.answers("GET", "/k8s/clusters/c-1/api/v1/pods", listing(["a"]))
        async with KubeClient(Access(f"{server.url}/k8s/clusters/c-1", Fixed(Credential()))) as client:
            assert len((await client.list(PODS)).items) == 1


@asynchronous
async def test_flow_control_spreads_requests(waits: list[float]) -> None:
    async with ScriptedServer() as server, server.client(qps=0.1, burst=2) as client:
        server.answers("GET", UPF, says(named("upf-0")))
        await asyncio.gather(*(client.get(PODS, "upf-0", "telco") for _ in range(4)))
        assert waits == pytest.approx([10, 20], abs=1)


@asynchronous
async def test_a_refused_token_is_read_again_even_for_a_write(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    async with ScriptedServer() as server, server.client(TokenFile(token, None)) as client:
        server.answers("POST", "/api/v1/nodes", says({}), refusal(401, "Unauthorized"), says({}))
        await client.create(NODES, {})
        token.write_text("new\n")
        await client.create(NODES, {})
        shown = [asked.headers["Authorization"] for asked in server.asked]
        assert shown == ["Bearer old", "Bearer old", "Bearer new"]


@asynchronous
async def test_a_refused_token_that_stays_the_same_is_refused_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with ScriptedServer() as server, server.client(TokenFile(token, None)) as client:
        server.answers("POST", "/api/v1/nodes", refusal(401, "Unauthorized"))
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await client.create(NODES, {})
        assert len(server.asked) == 1


@asynchronous
async def test_the_client_must_be_entered() -> None:
    client = KubeClient(Access("http://127.0.0.1:1", Fixed(Credential())))
    with pytest.raises(RuntimeError, match="async with"):
        await client.create(NODES, {})


@pytest.mark.parametrize("status", [204, 302, 307, 399])
@asynchronous
async def test_only_the_codes_with_which_an_api_server_says_yes_are_success(status: int) -> None:
    """A proxy in between may answer a bind with a redirect, and the pod has no node."""
    async with ScriptedServer() as server, server.client() as client:
        server.answers("POST", f"{UPF}/binding", says_text("", status))
        with pytest.raises(ApiError) as refused:
            await client.bind("telco", "upf-0", "uid", "worker-3", {})
    assert refused.value.status == status
