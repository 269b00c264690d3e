"""Objects of any kind by name: what kubectl would find, and what stands above it."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.kube.client.access import Access
from bayplan.kube.client.credentials import Credential, Fixed
from bayplan.kube.client.named_objects import read_named, read_owners
from bayplan.kube.wire.core_v1 import Metadata, OwnerReference, Pod
from tests.scripted_api_server import ScriptedServer, asynchronous, refusal, says

Json = dict[str, Any]


def group(name: str, *versions: str) -> Json:
    served = [{"groupVersion": f"{name}/{version}"} for version in versions]
    return {"name": name, "preferredVersion": served[0], "versions": served}


def resource(plural: str, kind: str, *short: str) -> Json:
    return {"name": plural, "kind": kind, "namespaced": True, "shortNames": list(short)}


def thing(name: str, *owners: tuple[str, str, str]) -> Json:
    references = [{"apiVersion": version, "kind": kind, "name": owner} for version, kind, owner in owners]
    return {"metadata": {"name": name, "namespace": "ml", "ownerReferences": references}, "spec": {}}


def serve(server: ScriptedServer) -> None:
    """MPIJobs in the second version of their group, TrainingRuns by a short name, RayJobs that own RayClusters."""
    groups = [group("kubeflow.org", "v1", "v2beta1"), group("example.com", "v1"), group("ray.io", "v1")]
    server.answers("GET", "/apis", says({"groups": groups}))
    server.answers("GET", "/apis/kubeflow.org/v1", says({"resources": [resource("pytorchjobs", "PyTorchJob")]}))
    server.answers("GET", "/apis/kubeflow.org/v2beta1", says({"resources": [resource("mpijobs", "MPIJob")]}))
    server.answers(
        "GET", "/apis/example.com/v1", says({"resources": [resource("trainingruns", "TrainingRun", "trun")]})
    )
    served = [resource("rayjobs", "RayJob"), resource("rayclusters", "RayCluster")]
    server.answers("GET", "/apis/ray.io/v1", says({"resources": served}))


async def found(
    server: ScriptedServer, text: str, kinds: list[tuple[str, str]], pods: list[Pod] | None = None
) -> list[str]:
    access = Access(server.url, Fixed(Credential()))
    others = await read_named(access, text, kinds, "x", "ml", pods or [])
    return [f"{each.api_version} {each.kind} {each.metadata.name}" for each in others]


@asynchronous
async def test_a_kind_is_found_in_any_version_of_its_group() -> None:
    async with ScriptedServer() as server:
        serve(server)
        path = "/apis/kubeflow.org/v2beta1/namespaces/ml/mpijobs"
        server.answers("GET", path, says({"items": [thing("x")]}))
        assert await found(server, "mpijob", [("kubeflow.org", "MPIJob")]) == ["kubeflow.org/v2beta1 MPIJob x"]
        assert {"fieldSelector": "metadata.name=x"} in server.queries()


@asynchronous
async def test_discovery_knows_short_names_of_kinds_that_bayplan_does_not() -> None:
    async with ScriptedServer() as server:
        serve(server)
        server.answers("GET", "/apis/example.com/v1/namespaces/ml/trainingruns", says({"items": [thing("x")]}))
        for text in ("trun", "trainingruns", "TrainingRun", "trainingruns.example.com"):
            assert await found(server, text, []) == ["example.com/v1 TrainingRun x"]
        assert await found(server, "nothing", []) == []


@asynchronous
async def test_owners_above_and_owners_of_pods_beside_come_with_it() -> None:
    pod = Pod(
        metadata=Metadata(
            name="p",
            namespace="ml",
            owner_references=[OwnerReference(api_version="ray.io/v1", kind="RayCluster", name="x-abcde")],
        )
    )
    async with ScriptedServer() as server:
        serve(server)
        above = ("example.com/v1", "TrainingRun", "night")
        server.answers("GET", "/apis/ray.io/v1/namespaces/ml/rayjobs", says({"items": [thing("x", above)]}))
        server.answers("GET", "/apis/example.com/v1/namespaces/ml/trainingruns/night", says(thing("night")))
        server.answers(
            "GET",
            "/apis/ray.io/v1/namespaces/ml/rayclusters/x-abcde",
            says(thing("x-abcde", ("ray.io/v1", "RayJob", "x"))),
        )
        assert await found(server, "rayjob", [("ray.io", "RayJob")], [pod]) == [
            "ray.io/v1 RayJob x",
            "example.com/v1 TrainingRun night",
            "ray.io/v1 RayCluster x-abcde",
        ]


@asynchronous
async def test_an_owner_that_must_not_be_read_is_left_out() -> None:
    async with ScriptedServer() as server:
        serve(server)
        above = ("example.com/v1", "TrainingRun", "night")
        server.answers("GET", "/apis/ray.io/v1/namespaces/ml/rayjobs", says({"items": [thing("x", above)]}))
        server.answers("GET", "/apis/example.com/v1/namespaces/ml/trainingruns/night", refusal(403, "Forbidden"))
        assert await found(server, "rayjob", [("ray.io", "RayJob")]) == ["ray.io/v1 RayJob x"]


@asynchronous
@pytest.mark.parametrize("allowed", [True, False])
async def test_kueues_workload_comes_with_its_job_where_it_may_be_read(allowed: bool) -> None:
    async with ScriptedServer() as server:
        server.answers("GET", "/apis", says({"groups": [group("batch", "v1"), group("kueue.x-k8s.io", "v1beta2")]}))
        server.answers("GET", "/apis/batch/v1", says({"resources": [resource("jobs", "Job")]}))
        served = [resource("workloads", "Workload")]
        server.answers("GET", "/apis/kueue.x-k8s.io/v1beta2", says({"resources": served}))
        job = thing("x")
        job["metadata"]["uid"] = "1b4e"
        server.answers("GET", "/apis/batch/v1/namespaces/ml/jobs", says({"items": [job]}))
        listed = says({"items": [thing("job-x-7c3f1")]}) if allowed else refusal(403, "Forbidden")
        server.answers("GET", "/apis/kueue.x-k8s.io/v1beta2/namespaces/ml/workloads", listed)
        told = ["kueue.x-k8s.io/v1beta2 Workload job-x-7c3f1"] if allowed else []
        assert await found(server, "job", [("batch", "Job")]) == ["batch/v1 Job x", *told]
        assert {"labelSelector": "kueue.x-k8s.io/job-uid=1b4e"} in server.queries()


@asynchronous
async def test_owners_of_pods_that_wait_are_read_to_the_top_and_those_beside_them() -> None:
    def pod(name: str, kind: str, owner: str) -> Pod:
        references = [OwnerReference(api_version="ray.io/v1", kind=kind, name=owner)]
        return Pod(metadata=Metadata(name=name, namespace="ml", owner_references=references))

    waiting, beside = pod("p", "RayCluster", "x-abcde"), pod("q", "RayCluster", "y-abcde")
    async with ScriptedServer() as server:
        serve(server)
        at = "/apis/ray.io/v1/namespaces/ml"
        above = ("ray.io/v1", "RayJob", "x")
        server.answers("GET", f"{at}/rayclusters/x-abcde", says(thing("x-abcde", above)))
        server.answers("GET", f"{at}/rayjobs/x", says(thing("x")))
        server.answers("GET", f"{at}/rayclusters/y-abcde", refusal(404, "NotFound"))
        owners, left_out = await read_owners(Access(server.url, Fixed(Credential())), [waiting], [waiting, beside])
        assert [(each.kind, each.metadata.name) for each in owners] == [("RayCluster", "x-abcde"), ("RayJob", "x")]
        assert left_out == 0
