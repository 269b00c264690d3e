"""Fetch a pod's owners up to the top, and share the answers for a moment.

Nothing is watched: owners may be of any kind, and only those of waiting pods matter. A thousand pods of one Job ask for
the same Job, so requests in flight and recent answers are shared. Lists of pods are never shared.

An owner that does not exist makes the chain *missing*: the pod is early, or about to be garbage-collected. An
unreadable owner (its kind is not installed, or RBAC forbids it) ends the chain; the owners below it count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

import msgspec

from bayplan.grouping.grouping import Lookup
from bayplan.grouping.raw import RawObject, Reference, managing, metadata_of
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.client.decoding import beside_the_loop
from bayplan.kube.client.versions import resources_of
from bayplan.kube.json_text import decode, items_of
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import OwnerReference, Pod
from bayplan.services.edges.bounded_dict import BoundedDict, SizedCache

MAX_OBJECTS = 10_000
# Bytes of memory, about; a tenant can make owners of a megabyte of JSON each.
MAX_BYTES = 256 << 20
# A value takes far more memory than its brackets and commas in JSON: an empty list has 56 bytes.
BYTES_PER_VALUE = 64
BYTES_PER_MAP = 184
MAX_LISTS = 100
# Chains have three or four owners; more is a cycle.
MAX_CHAIN = 12
# Seconds for which a list is shared.
LISTS_STAY_FRESH = 2.0
# Seconds before a missing kind is looked up again.
ABSENT_FOR = 30.0
# An owner reference may name any API version. Of those that serve nothing, the latest are remembered.
MAX_ABSENT = 256


@dataclass(frozen=True, slots=True)
class ApiLocation:
    """Where the API server keeps objects of a kind."""

    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        """The path of an object, or of all objects; cluster-scoped kinds ignore `namespace`."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        inside = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{root}{inside}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class Discovery:
    """Looks up the location of kinds, one request per API version; a missing kind is looked up again later."""

    def __init__(self, client: KubeClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._versions: dict[str, tuple[float, dict[str, ApiLocation]]] = {}

    async def place(self, api_version: str, kind: str) -> ApiLocation | None:
        """Where objects of this kind are kept; None if the kind is not installed. Raises what the client raises."""
        asked_at, places = self._versions.get(api_version, (-ABSENT_FOR, {}))
        if kind not in places and self._clock() - asked_at >= ABSENT_FOR:
            served = await resources_of(self._client, api_version)
            places = {
                each.kind: ApiLocation(api_version, each.name, each.namespaced)
                for each in served
                if "/" not in each.name
            }
            self._versions.pop(api_version, None)
            self._versions[api_version] = (self._clock(), places)
            self._forget_absent()
        return places.get(kind)

    def _forget_absent(self) -> None:
        absent = [version for version, (_, places) in self._versions.items() if not places]
        for version in absent[: max(len(absent) - MAX_ABSENT, 0)]:
            del self._versions[version]

    def forget(self, api_version: str) -> None:
        """Look the version up again: an object was missing, so its kind may be gone."""
        self._versions.pop(api_version, None)


@dataclass(frozen=True, slots=True)
class Chain:
    """Owners, nearest first. `missing` does not exist; `unreadable` says why the chain ends before the top."""

    owners: tuple[RawObject, ...] = ()
    missing: Reference | None = None
    unreadable: str = ""


class Unreadable(Exception):
    """An object that may exist but cannot be read; the message says why."""


class OwnerFetcher:
    """Fetches owners and other objects by name, and shares the answers."""

    def __init__(self, client: KubeClient, discovery: Discovery, clock: Callable[[], float]) -> None:
        self._client = client
        self._discovery = discovery
        self._clock = clock
        self._kept: SizedCache[Reference, tuple[float, RawObject]] = SizedCache(MAX_OBJECTS, MAX_BYTES)
        self._asking: dict[Reference, asyncio.Task[RawObject | None]] = {}
        self._lists: BoundedDict[Lookup, tuple[float, asyncio.Task[list[RawObject]]]] = BoundedDict(MAX_LISTS)

    async def chain(self, pod: Pod, *, no_older_than: float) -> Chain:
        """A pod's owners, at most this many seconds old. Raises what the client raises."""
        namespace = pod.metadata.namespace or "default"
        owners: list[RawObject] = []
        above = _owner_of([_as_written(each) for each in pod.metadata.owner_references or ()], namespace)
        while above is not None and len(owners) < MAX_CHAIN:
            try:
                found = await self.fetch(above, no_older_than=no_older_than)
            except Unreadable as unreadable:
                return Chain(tuple(owners), unreadable=str(unreadable))
            if found is None:
                return Chain(tuple(owners), missing=above)
            owners.append(found)
            above = _owner_of(metadata_of(found).get("ownerReferences") or [], namespace)
        return Chain(tuple(owners))

    async def fetch(self, about: Reference, *, no_older_than: float) -> RawObject | None:
        """One object; None if it does not exist or was replaced. Raises `Unreadable`, and what the client raises."""
        kept = self._kept.get(about)
        if kept is not None and self._clock() - kept[0] < no_older_than:
            return kept[1]
        asking = self._asking.get(about)
        if asking is None:
            asking = self._asking[about] = asyncio.create_task(self._fetch(about))
            asking.add_done_callback(lambda _: self._asking.pop(about, None))
        # Shielded: other callers may wait for the same answer.
        return await asyncio.shield(asking)

    async def answer(self, question: Lookup) -> list[RawObject]:
        """Answer a question of `grouping/`: one object by name, or all with some labels."""
        if question.name:
            about = Reference(question.api_version, question.kind, question.namespace, question.name)
            try:
                found = await self.fetch(about, no_older_than=0.0)
            except Unreadable:
                return []
            return [] if found is None else [found]
        if question.kind == PODS.kind:
            return await self._list(question)
        at, listing = self._lists.pop(question, (0.0, None))
        if listing is None or self._clock() - at >= LISTS_STAY_FRESH or _failed(listing):
            at, listing = self._clock(), asyncio.create_task(self._list(question))
        for other in [each for each, (since, _) in self._lists.items() if at - since >= LISTS_STAY_FRESH]:
            del self._lists[other]
        self._lists[question] = at, listing
        return await asyncio.shield(listing)

    async def _list(self, question: Lookup) -> list[RawObject]:
        """Objects with some labels; none if they cannot be read."""
        place = await self._discovery.place(question.api_version, question.kind)
        if place is None:
            return []
        selector = ",".join(f"{key}={value}" for key, value in question.labels)
        path = place.path(question.namespace)
        try:
            answer = await self._client.request("GET", path, query={"labelSelector": selector})
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                return []
            raise
        listed = await beside_the_loop(lambda data: list(_readable(data)), answer)
        return [{"apiVersion": question.api_version, "kind": question.kind, **each} for each in listed]

    async def _fetch(self, about: Reference) -> RawObject | None:
        place = await self._discovery.place(about.api_version, about.kind)
        if place is None:
            raise Unreadable(f"{about.kind} ({about.api_version}) is not installed")
        found: RawObject | None
        answer = b""
        try:
            answer = await self._client.request("GET", place.path(about.namespace, about.name))
            found = await beside_the_loop(decode, answer)
        except msgspec.DecodeError as error:
            raise Unreadable(f"{about.kind} {about.name} {error}") from None
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                raise Unreadable(f"reading {place.plural} ({about.api_version}) is forbidden") from None
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self._discovery.forget(about.api_version)
            found = None
        if found is not None and about.uid and metadata_of(found).get("uid") != about.uid:
            found = None
        if found is None:
            self._kept.drop(about)
        else:
            self._kept.put(about, (self._clock(), found), memory_of(answer))
        return found


def memory_of(answer: bytes) -> int:
    """About how many bytes an object takes once it is decoded; never much less."""
    values = sum(map(answer.count, (b",", b":", b"[", b"{")))
    return len(answer) + BYTES_PER_VALUE * values + BYTES_PER_MAP * answer.count(b"{")


def _readable(answer: bytes) -> Iterator[RawObject]:
    """The objects of a list, except those nested too deeply."""
    try:
        yield from decode(answer).get("items") or []
    except msgspec.DecodeError:
        for item in items_of(answer)[0]:
            with suppress(msgspec.DecodeError):
                yield decode(item)


def _failed(listing: asyncio.Task[list[RawObject]]) -> bool:
    return listing.done() and (listing.cancelled() or listing.exception() is not None)


def _owner_of(references: Sequence[RawObject], namespace: str) -> Reference | None:
    """The managing owner of an object."""
    owner = managing(references)
    if owner is None:
        return None
    return Reference(owner["apiVersion"], owner["kind"], namespace, owner["name"], owner.get("uid") or "")


def _as_written(reference: OwnerReference) -> RawObject:
    return {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
        "controller": reference.controller,
    }
