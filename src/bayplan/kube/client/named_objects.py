"""Objects of any kind by name, from a cluster that runs: what `kubectl get KIND/NAME` would find, and the objects above
it.

In come a kind as users write it (`deploy`, `job.batch`, `trainingruns.example.com`) and a name; out come the objects as
they would stand in a dump. The API server's own discovery knows plurals and short names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from bayplan.kube.client.access import Access
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.client.versions import ServedResource, resources_of
from bayplan.kube.errors import InvalidObject, ObjectPath, decoding_words
from bayplan.kube.json_text import decode
from bayplan.kube.object_set import OtherObject
from bayplan.kube.resources import KUEUE_WORKLOAD, Resource
from bayplan.kube.wire.core_v1 import Metadata, OwnerReference, Pod

_Struct = TypeVar("_Struct")

LONGEST_CHAIN = 10
# Kueue's label on a Workload: the uid of its job.
JOB_UID = "kueue.x-k8s.io/job-uid"
# Owners of pods that never stand between a pod and another workload that could be asked for by name.
LOWEST = frozenset({"ReplicaSet", "DaemonSet", "Node"})
MOST_OWNERS = 500


class _Version(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, rename="camel"):
    name: str
    preferred_version: _Version
    versions: list[_Version] = []


class _Groups(msgspec.Struct):
    groups: list[_Group]


class _Head(msgspec.Struct, rename="camel"):
    metadata: Metadata = Metadata()


class _Listed(msgspec.Struct):
    items: list[msgspec.Raw]


Kind = tuple[str, str]
_Served = tuple[str, ServedResource]


async def read_named(
    access: Access, text: str, kinds: Sequence[Kind], name: str, namespace: str | None, pods: Sequence[Pod]
) -> list[OtherObject]:
    """The objects of a kind with a name, those above them, Kueue's Workloads of them, and owners of pods beside them.

    `kinds` are what the text is known to mean, by group and kind; without any, discovery says what it means.
    """
    async with KubeClient(access) as client:
        versions = await _versions(client)
        served = await _of_kinds(client, versions, kinds) if kinds else await _called(client, versions, text)
        found: list[OtherObject] = []
        for api_version, resource in served:
            found += await _named(client, api_version, resource, name, namespace)
        homes = {each.metadata.namespace for each in found}
        beside = _references(pod.metadata for pod in pods if pod.metadata.namespace in homes)
        chain = _Chain(client, found)
        for each in list(found):
            await chain.follow(each.metadata)
        of_kueue = await _kueue_workloads(client, versions, chain.found)
        await asyncio.gather(*(chain.fetch(*each) for each in beside[:MOST_OWNERS]))
        return chain.found + of_kueue


async def read_owners(access: Access, waiting: Sequence[Pod], pods: Sequence[Pod]) -> tuple[list[OtherObject], int]:
    """Everything above pods that wait, and above pods beside them in their namespaces; and how many owners were too
    many to read.
    """
    homes = {pod.metadata.namespace for pod in waiting}
    nearest = {_named_by(each): each for each in _references((pod.metadata for pod in waiting), frozenset())}
    beside = _references(pod.metadata for pod in pods if pod.metadata.namespace in homes)
    nearest |= {key: each for each in beside if (key := _named_by(each)) not in nearest}
    async with KubeClient(access) as client:
        chain = _Chain(client, [])
        await asyncio.gather(*(chain.climb(*each) for each in list(nearest.values())[:MOST_OWNERS]))
    return chain.found, max(len(nearest) - MOST_OWNERS, 0)


async def _kueue_workloads(
    client: KubeClient, versions: dict[str, list[str]], jobs: Sequence[OtherObject]
) -> list[OtherObject]:
    """Kueue's Workloads of some objects; none where Kueue is not installed or its Workloads must not be read."""
    found: list[OtherObject] = []
    for api_version, resource in await _of_kinds(client, versions, [KUEUE_WORKLOAD]):
        for job in jobs:
            path = _resource(api_version, resource).path(job.metadata.namespace)
            try:
                answer = await client.request("GET", path, query={"labelSelector": f"{JOB_UID}={job.metadata.uid}"})
            except ApiError as error:
                if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                    return []
                raise
            listed = _decoded(answer, _Listed, f"{resource.kind} of {job.metadata.name}").items
            found += [_other(api_version, resource.kind, bytes(each)) for each in listed]
    return found


async def _versions(client: KubeClient) -> dict[str, list[str]]:
    """The versions of each API group, the one that the server prefers first."""
    groups = msgspec.json.decode(await client.request("GET", "/apis"), type=_Groups).groups
    found = {"": ["v1"]}
    for group in groups:
        every = [group.preferred_version, *group.versions]
        found[group.name] = list(dict.fromkeys(each.group_version for each in every))
    return found


async def _of_kinds(client: KubeClient, versions: dict[str, list[str]], kinds: Sequence[Kind]) -> list[_Served]:
    for group, kind in kinds:
        for api_version in versions.get(group, ()):
            resources = await resources_of(client, api_version)
            found = [(api_version, each) for each in resources if each.kind == kind and "/" not in each.name]
            if found:
                return found[:1]
    return []


async def _called(client: KubeClient, groups: dict[str, list[str]], text: str) -> list[_Served]:
    """The kind that a text means: a kind, plural or short name, with or without its group."""
    asked, _, group = text.lower().partition(".")
    versions = [versions[0] for name, versions in groups.items() if not group or name == group]
    answers = await asyncio.gather(*(resources_of(client, version) for version in versions))
    found = [
        (version, each)
        for version, resources in zip(versions, answers, strict=True)
        for each in resources
        if "/" not in each.name and asked in (each.kind.lower(), each.name, *(each.short_names or ()))
    ]
    return found[:1]


async def _named(
    client: KubeClient, api_version: str, resource: ServedResource, name: str, namespace: str | None
) -> list[OtherObject]:
    """Objects with a name, in one namespace or in all of them."""
    path = _resource(api_version, resource).path(namespace)
    answer = await client.request("GET", path, query={"fieldSelector": f"metadata.name={name}"})
    listed = _decoded(answer, _Listed, f"{resource.kind} {name}").items
    return [_other(api_version, resource.kind, bytes(each)) for each in listed]


def _resource(api_version: str, served: ServedResource) -> Resource[Any]:
    return Resource(api_version, served.name, served.kind, Any, served.namespaced)


def _other(api_version: str, kind: str, document: bytes) -> OtherObject:
    return OtherObject(api_version, kind, _decoded(document, _Head, kind).metadata, document)


def _decoded(answer: bytes, kind: type[_Struct], about: str) -> _Struct:
    """What the server answered.

    Raises `InvalidObject` if an object in it cannot be read, such as one that is nested too deeply.
    """
    try:
        return decode(answer, kind)
    except msgspec.DecodeError as error:
        raise InvalidObject(ObjectPath(about), decoding_words(error)) from None


def _references(owned: Iterable[Metadata], without: frozenset[str] = LOWEST) -> list[tuple[str, OwnerReference]]:
    """The owners of objects that may themselves belong to a workload, each once, with their namespace."""
    found: dict[tuple[str, str, str], tuple[str, OwnerReference]] = {}
    for metadata in owned:
        for each in metadata.owner_references or ():
            if each.kind not in without:
                named = (metadata.namespace or "", each)
                found[_named_by(named)] = named
    return list(found.values())


def _named_by(owner: tuple[str, OwnerReference]) -> tuple[str, str, str]:
    namespace, reference = owner
    return reference.kind, namespace, reference.name


class _Chain:
    """Objects above others, each fetched once. One that is gone or must not be read ends the chain."""

    def __init__(self, client: KubeClient, found: list[OtherObject]) -> None:
        self._client = client
        self.found = found
        self._seen = {(each.kind, each.metadata.namespace or "", each.metadata.name) for each in found}
        self._resources: dict[str, list[ServedResource]] = {}

    async def follow(self, metadata: Metadata) -> None:
        """Fetch every owner above an object."""
        here = metadata
        for _ in range(LONGEST_CHAIN):
            above = [await self.fetch(*each) for each in _references([here])]
            owner = next((each for each in above if each is not None), None)
            if owner is None:
                return
            here = owner.metadata

    async def climb(self, namespace: str, owner: OwnerReference) -> None:
        """Fetch an owner and everything above it."""
        found = await self.fetch(namespace, owner)
        if found is not None:
            await self.follow(found.metadata)

    async def fetch(self, namespace: str, owner: OwnerReference) -> OtherObject | None:
        """One owner; None if it was fetched before or cannot be read."""
        key = (owner.kind, namespace, owner.name)
        if key in self._seen or owner.kind == "Pod":
            return None
        self._seen.add(key)
        if owner.api_version not in self._resources:
            self._resources[owner.api_version] = await resources_of(self._client, owner.api_version)
        served = [
            each for each in self._resources[owner.api_version] if each.kind == owner.kind and "/" not in each.name
        ]
        if not served:
            return None
        path = _resource(owner.api_version, served[0]).path(namespace, owner.name)
        try:
            answer = await self._client.request("GET", path)
        except ApiError as error:
            if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                return None
            raise
        found = _other(owner.api_version, owner.kind, bytes(answer))
        self.found.append(found)
        return found
