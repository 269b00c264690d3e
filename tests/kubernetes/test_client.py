"""The client, watches and leader election on a real API server: what a script of our own could only claim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.client.lease import LeaderElection, LeaseSettings
from bayplan.kube.client.watch import Absent, Changes, Listed, WatchSettings, follow
from bayplan.kube.resources import NODES, PODS, Resource
from bayplan.kube.wire.core_v1 import Metadata, Pod, WireStruct
from tests.builders.bodies import pod_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.scripted_api_server import asynchronous

QUICK = WatchSettings(silence=2.0, absent_retry=0.1, first_backoff=0.05, longest_backoff=0.5)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Widget(WireStruct, frozen=True):
    """A kind that is not there unless the test installs it."""

    metadata: Metadata = Metadata()


WIDGETS = Resource("example.com/v1", "widgets", "Widget", Widget, namespaced=False)
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@asynccontextmanager
async def administrator(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    async with KubeClient(find_access(str(control_plane.kubeconfig))) as client:
        yield client


async def make_pods(client: KubeClient, namespace: str, *names: str) -> None:
    await asyncio.gather(
        *(client.create(PODS, pod_body(name, scheduler="none", annotations={"mine": "1"}), namespace) for name in names)
    )


News = AsyncGenerator[Listed[Any] | Changes[Any] | Absent, None]


async def until_told(news: News, wanted: str) -> list[str]:
    """What is told until `wanted` is, in words: `listed a b`, `ADDED a`, `absent`."""
    told: list[str] = []
    async for each in news:
        match each:
            case Listed():
                told.append(" ".join(["listed", *sorted(item.metadata.name for item in each.items)]))
            case Changes():
                told += [f"{change.kind} {change.object.metadata.name}" for change in each.changes]
            case _:
                told.append("absent")
        if wanted in told:
            break
    return told


@asynchronous
async def test_a_list_in_pages_is_whole(control_plane: ControlPlane, namespace: str) -> None:
    names = [f"pod-{index:02}" for index in range(25)]
    async with administrator(control_plane) as client:
        await make_pods(client, namespace, *names)
        client.counts.clear()
        listed = await client.list(PODS, namespace, page=10)
        assert client.counts == {("GET", 200): 3}
        assert sorted(item.metadata.name for item in listed.items) == names
        assert int(listed.resource_version) > 0
        assert all(item.metadata.uid for item in listed.items)
        one = await client.list(PODS, namespace, field_selector="metadata.name=pod-07")
        assert [item.metadata.name for item in one.items] == ["pod-07"]


@asynchronous
async def test_a_bind_writes_node_and_annotations_in_one_step(control_plane: ControlPlane, namespace: str) -> None:
    async with administrator(control_plane) as client:
        await make_pods(client, namespace, "a")
        before = await client.get(PODS, "a", namespace)
        async with aclosing(follow(client, PODS, namespace=namespace, settings=QUICK)) as news:
            await anext(news)
            await client.bind(namespace, "a", before.metadata.uid, "worker", {"bayplan.io/rank": "3"})
            changed = await anext(news)
        assert isinstance(changed, Changes)
        (change,) = changed.changes
        bound: Pod = change.object
        assert bound.spec.node_name == "worker"
        assert bound.metadata.annotations == {"mine": "1", "bayplan.io/rank": "3"}
        with pytest.raises(ApiError, match=r"409 Conflict: .*already assigned to node"):
            await client.bind(namespace, "a", before.metadata.uid, "other", {})


@asynchronous
async def test_a_bind_or_delete_meant_for_a_predecessor_is_refused(control_plane: ControlPlane, namespace: str) -> None:
    stranger = "6d6c0a3e-0000-0000-0000-000000000000"
    async with administrator(control_plane) as client:
        await make_pods(client, namespace, "a")
        with pytest.raises(ApiError, match=r"409 Conflict: .*UID"):
            await client.bind(namespace, "a", stranger, "worker", {})
        with pytest.raises(ApiError, match=r"409 Conflict: .*UID"):
            await client.delete(PODS, "a", namespace, uid=stranger)
        with pytest.raises(ApiError) as caught:
            await client.bind(namespace, "missing", stranger, "worker", {})
        assert caught.value.status == 404
        mine = await client.get(PODS, "a", namespace)
        await client.delete(PODS, "a", namespace, uid=mine.metadata.uid, grace=0)


@asynchronous
async def test_patches_of_status_and_by_apply(control_plane: ControlPlane, namespace: str) -> None:
    async with administrator(control_plane) as client:
        await make_pods(client, namespace, "a")
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
        await client.patch(PODS, "a", {"status": {"conditions": [condition]}}, namespace, subresource="status")
        seen = await client.get(PODS, "a", namespace)
        assert seen.status is not None
        assert [(each.type, each.reason) for each in seen.status.conditions or []] == [
            ("PodScheduled", "Unschedulable")
        ]
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"rack": "1"}}}
        for _ in range(2):  # creates, then changes nothing
            await client.patch(NODES, "n", node, kind="apply", force=True)
        assert ((await client.get(NODES, "n")).metadata.labels or {})["rack"] == "1"


@asynchronous
async def test_nothing_is_lost_or_told_twice_while_watches_end_every_second(
    control_plane: ControlPlane, namespace: str
) -> None:
    names = [f"pod-{index:03}" for index in range(120)]
    async with administrator(control_plane) as client:

        async def make_slowly() -> None:
            for name in names:
                await make_pods(client, namespace, name)
                await asyncio.sleep(0.02)

        async with aclosing(follow(client, PODS, namespace=namespace, settings=QUICK)) as news:
            assert await until_told(news, "listed") == ["listed"]
            making = asyncio.create_task(make_slowly())
            told = await until_told(news, f"ADDED {names[-1]}")
            await making
        assert told == [f"ADDED {name}" for name in names]


@asynchronous
async def test_after_a_restart_and_a_compaction_everything_is_listed_again(
    control_plane: ControlPlane, namespace: str
) -> None:
    troubles: list[str] = []
    async with administrator(control_plane) as client:
        await make_pods(client, namespace, "a", "b")
        news = follow(client, PODS, namespace=namespace, settings=QUICK, on_error=troubles.append)
        async with aclosing(news):
            assert await until_told(news, "listed a b") == ["listed a b"]
            control_plane.apiserver.stop()
            control_plane.etcd.compact()
            control_plane.apiserver.start()
            assert await until_told(news, "listed a b") == ["listed a b"]
            await make_pods(client, namespace, "c")
            assert await until_told(news, "ADDED c") == ["ADDED c"]
    assert any("410" in trouble for trouble in troubles), troubles


@asynchronous
async def test_a_kind_that_is_installed_and_removed_while_it_is_followed(control_plane: ControlPlane) -> None:
    async with administrator(control_plane) as client:
        news = follow(client, WIDGETS, settings=QUICK)
        async with aclosing(news):
            assert await until_told(news, "absent") == ["absent"]
            control_plane.apply(DEFINITION)
            assert await until_told(news, "listed") == ["listed"]
            control_plane.apply({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
            assert await until_told(news, "ADDED w") == ["ADDED w"]
            control_plane.delete(f"{DEFINITIONS}/widgets.example.com")
            assert (await until_told(news, "absent"))[-1] == "absent"
            control_plane.apply(DEFINITION)
            assert await until_told(news, "listed") == ["listed"]
    control_plane.delete(f"{DEFINITIONS}/widgets.example.com")


@asynchronous
async def test_missing_rights_are_reported_and_can_be_granted_later(
    control_plane: ControlPlane, namespace: str
) -> None:
    troubles: list[str] = []
    async with KubeClient(find_access(str(control_plane.kubeconfig_for("jane")))) as client:
        with pytest.raises(ApiError) as caught:
            await client.list(PODS, namespace)
        assert caught.value.reason == "Forbidden"
        assert 'User "jane" cannot list resource "pods"' in caught.value.message
        news = follow(client, PODS, namespace=namespace, settings=QUICK, on_error=troubles.append)
        async with aclosing(news):
            first = asyncio.create_task(until_told(news, "listed"))
            while not troubles:  # noqa: ASYNC110 - a list, not an event
                await asyncio.sleep(0.01)
            group = "rbac.authorization.k8s.io"
            rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
            role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "see"}, "rules": [rule]}
            control_plane.apply(role, namespace=namespace)
            binding = {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "see"},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": "see"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}],
            }
            control_plane.apply(binding, namespace=namespace)
            assert await first == ["listed"]
    assert 'User "jane" cannot list resource "pods"' in troubles[0]


@asynchronous
async def test_a_token_that_is_no_longer_good_is_read_again(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    token = tmp_path / "token"
    control_plane.apply(account, namespace=namespace)
    token.write_text(control_plane.token_for(namespace, "robot"))
    written = yaml.safe_load(control_plane.kubeconfig_with_token("unused").read_text())
    written["users"][0]["user"] = {"tokenFile": "token"}
    (tmp_path / "config").write_text(yaml.safe_dump(written))
    async with KubeClient(find_access(str(tmp_path / "config"))) as client:
        assert b"robot" in await client.request("POST", reviews, body=review)
        token.write_text("no longer good")
        client.access.credentials.refused(await client.access.credentials.current())  # as if a minute had passed
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await client.request("POST", reviews, body=review)
        token.write_text(control_plane.token_for(namespace, "robot"))
        assert b"robot" in await client.request("POST", reviews, body=review)


@asynchronous
async def test_two_candidates_and_one_lease(control_plane: ControlPlane, namespace: str) -> None:
    async with administrator(control_plane) as client:
        first, second = (
            LeaderElection(client, LeaseSettings(namespace, "bayplan", name, duration=2, renew_deadline=1, retry=0.1))
            for name in ("first", "second")
        )
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        renewing = asyncio.create_task(first.renew_until_lost())
        await asyncio.sleep(2.5)  # longer than the lease lasts
        assert [first.leads, second.leads] == [True, False]
        renewing.cancel()  # the first falls silent
        await waiting
        assert [first.leads, second.leads] == [False, True]
        await second.release()
        await first.acquire()
        spec = control_plane.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/bayplan")["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("first", 2)
