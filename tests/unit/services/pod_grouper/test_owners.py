"""Walking up the owners: each asked for once, kept for a moment, and not mistaken for another of its name."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from dataclasses import replace
from typing import cast

import pytest

from bayplan.grouping.grouping import Lookup
from bayplan.grouping.raw import Reference
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.json_text import decode
from bayplan.services.pod_grouper.owners import (
    ABSENT_FOR,
    LISTS_STAY_FRESH,
    MAX_ABSENT,
    Chain,
    Discovery,
    OwnerFetcher,
    memory_of,
)
from tests.builders.bodies import Json
from tests.builders.services import api_error, in_virtual_time, now
from tests.scripted_api_server import ScriptedServer, asynchronous
from tests.unit.services.pod_grouper.small_cluster import SmallCluster, job, pod_of

REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web-7d", "namespace": "ml", "uid": "rs"},
}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "ml", "uid": "d"}}


def owners_in(cluster: SmallCluster) -> OwnerFetcher:
    client = cast("KubeClient", cluster)
    return OwnerFetcher(client, Discovery(client, now), now)


def chain_of(cluster: SmallCluster, owner: Json) -> Chain:
    async def told() -> Chain:
        return await owners_in(cluster).chain(pod_of(owner, 0), no_older_than=2.0)

    return in_virtual_time(told())


def owned(thing: Json, *by: Json, controller: bool = True) -> Json:
    references = [
        {"apiVersion": each["apiVersion"], "kind": each["kind"], "name": each["metadata"]["name"]}
        | {"uid": each["metadata"]["uid"], "controller": controller and each is by[-1]}
        for each in by
    ]
    return {**thing, "metadata": {**thing["metadata"], "ownerReferences": references}}


def test_the_chain_goes_up_to_the_top() -> None:
    cluster = SmallCluster()
    cluster.put_owner(owned(REPLICA_SET, DEPLOYMENT))
    cluster.put_owner(DEPLOYMENT)
    assert [each["kind"] for each in chain_of(cluster, REPLICA_SET).owners] == ["ReplicaSet", "Deployment"]


def test_of_several_owners_the_controller_counts() -> None:
    cluster = SmallCluster()
    cluster.put_owner(owned(REPLICA_SET, job("bystander"), DEPLOYMENT))
    cluster.put_owner(DEPLOYMENT)
    assert chain_of(cluster, REPLICA_SET).owners[-1]["kind"] == "Deployment"


def test_owners_in_a_circle_come_to_an_end() -> None:
    cluster = SmallCluster()
    cluster.put_owner(owned(REPLICA_SET, REPLICA_SET))
    assert len(chain_of(cluster, REPLICA_SET).owners) > 1


def test_an_owner_that_does_not_exist_is_missing() -> None:
    cluster = SmallCluster()
    cluster.put_owner(owned(REPLICA_SET, DEPLOYMENT))
    assert chain_of(cluster, REPLICA_SET).missing == Reference("apps/v1", "Deployment", "ml", "web", "d")


def test_a_kind_that_is_not_installed_ends_the_chain_before_it() -> None:
    cluster = SmallCluster()
    foreign = {"apiVersion": "example.com/v1", "kind": "App", "metadata": {"name": "a", "uid": "u"}}
    cluster.put_owner(owned(REPLICA_SET, foreign))
    chain = chain_of(cluster, REPLICA_SET)
    assert ([each["kind"] for each in chain.owners], chain.missing) == (["ReplicaSet"], None)
    assert chain.unreadable == "App (example.com/v1) is not installed"


QUESTION = Lookup("batch/v1", "Job", "ml", labels=(("jobset.sigs.k8s.io/jobset-name", "train"),))
LIST_OF_JOBS = "/apis/batch/v1/namespaces/ml/jobs"


def test_a_list_is_shared_for_a_moment() -> None:
    cluster = SmallCluster()
    cluster.owners[LIST_OF_JOBS] = {"items": [job()]}

    async def story() -> list[int]:
        owners = owners_in(cluster)
        told = []
        for _ in range(2):
            answers = await asyncio.gather(*(owners.answer(QUESTION) for _ in range(20)))
            assert [each[0]["metadata"]["name"] for each in answers] == ["train"] * 20
            told.append(cluster.asked.count(LIST_OF_JOBS))
            await asyncio.sleep(LISTS_STAY_FRESH)
        return told

    assert in_virtual_time(story()) == [1, 2]


def test_a_list_that_is_no_longer_shared_is_not_kept() -> None:
    """A list has no bound of its own: a tenant may have made thousands of large objects."""
    cluster = SmallCluster()
    cluster.owners[LIST_OF_JOBS] = {"items": [job()]}
    cluster.owners["/apis/batch/v1/namespaces/web/jobs"] = {"items": []}

    async def story() -> list[Lookup]:
        owners = owners_in(cluster)
        await owners.answer(QUESTION)
        await asyncio.sleep(LISTS_STAY_FRESH)
        await owners.answer(replace(QUESTION, namespace="web"))
        return list(owners._lists)

    assert [each.namespace for each in in_virtual_time(story())] == ["web"]


@pytest.mark.parametrize(
    "answer",
    [
        b"[" + b"[]," * 50_000 + b"[]]",
        b"[" + b"{}," * 50_000 + b"{}]",
        b"[" + b",".join(b'{"k%d":1}' % number for number in range(20_000)) + b"]",
        b"{" + b",".join(b'"%d":"x"' % number for number in range(50_000)) + b"}",
        json.dumps(job()).encode(),
    ],
    ids=["lists", "maps", "maps of one", "one map", "a Job"],
)
def test_the_memory_of_an_owner_is_known_from_its_json(answer: bytes) -> None:
    """An owner of empty lists takes twenty times its JSON: a bound in bytes of JSON would be no bound."""
    tracemalloc.start()
    try:
        kept = decode(answer)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept
    assert 0.6 * taken < memory_of(answer) < 6 * taken


def test_a_list_that_failed_is_asked_for_again_and_one_that_is_forbidden_is_empty() -> None:
    answers = [api_error(500), api_error(403)]
    cluster = SmallCluster()

    def trouble(verb: str, path: str) -> None:
        if path == LIST_OF_JOBS:
            raise answers.pop(0)

    cluster.trouble = trouble

    async def story() -> list[Json]:
        owners = owners_in(cluster)
        with pytest.raises(ApiError):
            await owners.answer(QUESTION)
        return await owners.answer(QUESTION)

    assert in_virtual_time(story()) == []


def test_a_kind_that_is_installed_later_is_found_after_a_while() -> None:
    async def told() -> None:
        cluster = SmallCluster()
        cluster.put_owner(job())
        owners = owners_in(cluster)

        def absent(verb: str, what: str) -> None:
            if what == "/apis/batch/v1":
                raise api_error(404)

        cluster.trouble = absent
        assert (await owners.chain(pod_of(job(), 0), no_older_than=2.0)).unreadable
        cluster.trouble = lambda verb, what: None
        assert (await owners.chain(pod_of(job(), 0), no_older_than=2.0)).unreadable
        await asyncio.sleep(ABSENT_FOR)
        assert (await owners.chain(pod_of(job(), 0), no_older_than=2.0)).owners == (job(),)

    in_virtual_time(told())


def test_answers_are_shared_on_their_way_and_kept_for_a_moment() -> None:
    async def told() -> None:
        cluster = SmallCluster()
        cluster.put_owner(job())
        owners = owners_in(cluster)
        await asyncio.gather(*(owners.chain(pod_of(job(), index), no_older_than=2.0) for index in range(50)))
        await owners.chain(pod_of(job(), 51), no_older_than=2.0)
        # All ask for the kind at the same moment; the object itself is asked for once.
        jobs = "/apis/batch/v1/namespaces/ml/jobs/train"
        assert cluster.asked.count(jobs) == 1
        await asyncio.sleep(3)
        await owners.chain(pod_of(job(), 52), no_older_than=2.0)
        assert cluster.asked.count(jobs) == 2

    in_virtual_time(told())


def test_a_cancelled_caller_does_not_cancel_the_request_of_others() -> None:
    async def told() -> None:
        cluster = SmallCluster()
        cluster.put_owner(job())
        owners = owners_in(cluster)
        first = asyncio.create_task(owners.chain(pod_of(job(), 0), no_older_than=2.0))
        second = asyncio.create_task(owners.chain(pod_of(job(), 1), no_older_than=2.0))
        await asyncio.sleep(0.005)
        first.cancel()
        assert (await second).owners == (job(),)

    in_virtual_time(told())


@asynchronous
async def test_unknown_api_versions_are_forgotten() -> None:
    async with ScriptedServer() as server, server.client() as client:
        discovery = Discovery(client, lambda: 0.0)
        for number in range(MAX_ABSENT + 100):
            assert await discovery.place(f"tenant-{number}.example.com/v1", "Thing") is None
        assert len(discovery._versions) == MAX_ABSENT
