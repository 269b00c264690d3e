"""Who owns a pod, up to the top: each owner fetched when it is needed, and kept for a moment.

A thousand pods of one Job ask for the same Job, so answers are shared while they are on their way and for some seconds after. (Lists of pods are not: whether one is there is the question.) Nothing is watched: the kinds
may be any, and only owners of pods that wait are of interest.

An owner that does not exist (yet, or any more) makes the chain *missing*: the pod is too early, or about to be collected. One that cannot be read, because its
kind is not installed or reading it is forbidden, ends the chain before it: what is known of the others counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from bayplan.grouping.grouping import Question
from bayplan.grouping.raw import RawObject, Reference, managing, metadata_of
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.json_text import decode, items_of
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import OwnerReference, Pod
from bayplan.services.pod_grouper.discovery import Discovery

MOST_KEPT = 10_000
MOST_LISTS_KEPT = 100
# A chain of owners is three or four long; more is a circle.
LONGEST_CHAIN = 12
# Seconds for which the answer to a question about many objects is shared.
LISTS_STAY_FRESH = 2.0


@dataclass(frozen=True, slots=True)
class Chain:
    """The owners, the nearest first. `missing` is one that does not exist, `unreadable` says why the chain ends before the top."""

    owners: tuple[RawObject, ...] = ()
    missing: Reference | None = None
    unreadable: str = ""


class Unreadable(Exception):
    """An object that may exist and cannot be seen; the message says why."""


class OwnerFetcher:
    """Fetches owners and other objects by name, sharing and keeping the answers."""

    def __init__(self, client: KubeClient, discovery: Discovery, clock: Callable[[], float]) -> None:
        self._client = client
        self._discovery = discovery
        self._clock = clock
        self._kept: dict[Reference, tuple[float, RawObject | None]] = {}
        self._asking: dict[Reference, asyncio.Task[RawObject | None]] = {}
        self._lists: dict[Question, tuple[float, asyncio.Task[list[RawObject]]]] = {}

    async def chain(self, pod: Pod, *, no_older_than: float) -> Chain:
        """A pod's owners, at most this many seconds old. Raises what the client raises."""
        namespace = pod.metadata.namespace or "default"
        owners: list[RawObject] = []
        above = _owner_of([_as_written(each) for each in pod.metadata.owner_references or ()], namespace)
        while above is not None and len(owners) < LONGEST_CHAIN:
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
        """One object; None if it does not exist, or another one has its name. Raises `Unreadable`, and what the client raises."""
        at, found = self._kept.get(about, (0.0, None))
        if found is not None and self._clock() - at < no_older_than:
            return found
        asking = self._asking.get(about)
        if asking is None:
            asking = self._asking[about] = asyncio.create_task(self._fetch(about))
            asking.add_done_callback(lambda _: self._asking.pop(about, None))
        # Others may wait for the same answer: cancelling one caller must not take it from them.
        return await asyncio.shield(asking)

    async def answer(self, question: Question) -> list[RawObject]:
        """What the pure core asks for: one object by name, or those with some labels."""
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
        self._lists[question] = at, listing
        if len(self._lists) > MOST_LISTS_KEPT:
            self._lists.pop(next(iter(self._lists)))
        return await asyncio.shield(listing)

    async def _list(self, question: Question) -> list[RawObject]:
        """Objects with some labels; none if they cannot be seen."""
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
        listed = list(_readable(answer))
        return [{"apiVersion": question.api_version, "kind": question.kind, **each} for each in listed]

    async def _fetch(self, about: Reference) -> RawObject | None:
        place = await self._discovery.place(about.api_version, about.kind)
        if place is None:
            raise Unreadable(f"{about.kind} ({about.api_version}) is not installed")
        found: RawObject | None
        try:
            found = decode(await self._client.request("GET", place.path(about.namespace, about.name)))
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
        self._keep(about, found)
        return found

    def _keep(self, about: Reference, found: RawObject | None) -> None:
        self._kept.pop(about, None)
        if found is not None:
            self._kept[about] = (self._clock(), found)
            if len(self._kept) > MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))


def _readable(answer: bytes) -> Iterator[RawObject]:
    """The objects of a list, without those that are nested too deeply."""
    try:
        yield from decode(answer).get("items") or []
    except msgspec.DecodeError:
        for item in items_of(answer):
            with suppress(msgspec.DecodeError):
                yield decode(item)


def _failed(listing: asyncio.Task[list[RawObject]]) -> bool:
    return listing.done() and (listing.cancelled() or listing.exception() is not None)


def _owner_of(references: Sequence[RawObject], namespace: str) -> Reference | None:
    """The owner that manages an object."""
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
