"""Follow a resource indefinitely: first all objects (`Listed`), then the changes (`Changes`), whatever happens to the
connection.

An API server ends watches at any time, forgets old versions (410), restarts, or falls silent while the connection looks
alive. `follow` lists, watches from the list's version, remembers the version of every line and bookmark, and resumes
from there when a watch ends. It lists again only if the server no longer knows that version. The receiver replaces
everything it knows with each `Listed`: an object that is not in it is gone. A resource that is not installed is
`Absent` until it is. If the server only serves another version that bayplan can read (`Resource.other_versions`),
`follow` uses that one until a better one is served.

With `by_page`, each page of the first list is also yielded as it arrives, as `Changes`, and the `Listed` completes it.

    async for news in follow(client, NODES):
        match news:
            case Listed(): ...
            case Changes(): ...
            case Absent(): ...
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic

from msgspec import Struct

from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.client import PAGE, ApiError, KubeClient, Unreachable, selectors
from bayplan.kube.client.decoding import (
    NOT_JSON,
    Broken,
    Changes,
    Listed,
    ResourceDecoder,
    WatchLines,
    beside_the_loop,
    decoder_of,
)
from bayplan.kube.client.versions import Served, cannot_read, is_installed, served
from bayplan.kube.resources import Resource
from bayplan.kube.wire.meta_v1 import Change, T

# Re-exports everything that `follow` yields.
__all__ = ["Absent", "Broken", "Change", "Changes", "Listed", "WatchSettings", "follow"]

LONGEST_LINE = 64 << 20  # bytes; objects have at most a few MiB, so this is not the API server speaking
AT_ONCE = 1.0  # seconds; a watch that ends sooner and brought nothing counts as a failure, to avoid a tight loop


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Times in seconds; `page` is the number of objects that one list request asks for.

    The server is asked to end each watch before `silence`, so that a living one is never mistaken for a dead one. It
    sends the first bookmark after a minute: shorter watches of a quiet resource would never learn a newer version.
    """

    silence: float = 100.0
    absent_retry: float = 30.0
    first_backoff: float = 0.2
    longest_backoff: float = 15.0
    page: int = PAGE


class Absent(Struct, frozen=True):
    """The resource is not installed (any more), or only in `unreadable` versions.

    Yielded once; requested again every `absent_retry` seconds.
    """

    resource: Resource[Any]
    unreadable: tuple[str, ...] = ()


class _Ended(Exception):
    """A watch ended abnormally; the message says how."""


class _VersionLost(_Ended):
    """Nothing can be resumed from the version that we know: list again."""


async def follow(
    client: KubeClient,
    resource: Resource[T],
    *,
    namespace: str | None = None,
    field_selector: str = "",
    label_selector: str = "",
    settings: WatchSettings = WatchSettings(),  # noqa: B008 - immutable
    on_error: Callable[[str], None] = lambda _: None,
    on_progress: Callable[[], None] = lambda: None,
    forbidden_is_absent: bool = False,
    by_page: bool = False,
) -> AsyncGenerator[Listed[T] | Changes[T] | Absent, None]:
    """All news of a resource, without end.

    `on_error` gets one sentence for each failure that is retried. `on_progress` is called when a list is complete, when
    lines of a watch came, or when a watch ended normally: on a quiet resource at least every `silence` seconds.

    With `forbidden_is_absent` a resource that must not be listed (any more) counts as one that is not installed: for
    what the caller can do without. A resource that is forbidden and not installed is absent in any case.

    `by_page` yields the pages of the first list as they arrive, until the first `Listed` or `Absent`. Later lists are
    yielded as a whole, because a page says nothing about objects that are gone.
    """
    query = selectors(label_selector, field_selector)
    backoff = Backoff(first=settings.first_backoff, longest=settings.longest_backoff)
    reading = _Reading(
        client, resource, on_error, on_progress, forbidden_is_absent=forbidden_is_absent, by_page=by_page
    )
    version: str | None = None  # None: unknown, list first
    while True:
        asked_to_wait = 0.0
        try:
            if version is None:
                async with aclosing(reading.lists(namespace, query, settings.page)) as lists:
                    async for news in lists:
                        yield news
                version = reading.list_version
            path = reading.served.path(namespace)
            async with aclosing(_watch(client, reading.served, path, query, version, settings)) as watch:
                async for said in watch:
                    version = said.resource_version or version
                    if said.changes or said.broken:
                        yield Changes(said.changes, list(said.broken.values()))
                    _check(said)
                    backoff.reset()
                    on_progress()
            on_progress()
            version = await reading.resumes_from(version)
            continue  # a normal end
        except ApiError as error:
            if version is None and await reading.may_be_absent(error):
                absent = await reading.missing(error)
                if absent is not None:
                    on_progress()
                    if reading.note_absent(absent):
                        yield absent
                    await asyncio.sleep(settings.absent_retry)
                continue
            version = reading.resumes_after(error, version)
            trouble, asked_to_wait = str(error), min(error.retry_after or 0.0, settings.longest_backoff)
        except _VersionLost as error:
            trouble, version = str(error), None
        except (_Ended, Unreachable) as error:
            trouble = str(error)
        on_error(trouble)
        await asyncio.sleep(max(backoff.after_failure(), asked_to_wait))


class _Reading(Generic[T]):
    """A resource in the version that the API server has, as far as that is known."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        on_error: Callable[[str], None],
        on_progress: Callable[[], None],
        *,
        forbidden_is_absent: bool,
        by_page: bool,
    ) -> None:
        self.served = resource
        self.list_version = ""  # of the last complete list
        self._by_page = by_page
        self._forbidden_is_absent = forbidden_is_absent
        self._last_absent: Absent | None = None  # None once the caller has objects
        self._client = client
        self._resource = resource
        self._on_error = on_error
        self._on_progress = on_progress
        self._installed = True

    async def lists(
        self, namespace: str | None, query: Mapping[str, str], page: int
    ) -> AsyncGenerator[Listed[T] | Changes[T], None]:
        """The whole list; as long as pages are wanted, each page but the last before it."""
        async with aclosing(self._client.list_by_page(self.served, namespace, query, page)) as pages:
            async for news in pages:
                if isinstance(news, Changes) and not self._by_page:
                    continue
                self._last_absent = None
                if isinstance(news, Listed):
                    self.list_version = news.resource_version
                    news.delivered = news.delivered if self._by_page else 0
                    self._by_page = False
                    self._on_progress()
                yield news

    async def resumes_from(self, version: str) -> str | None:
        """The last version.

        None if an older API version was read and a better one is served by now: list that one instead.
        """
        better = self.served is not self._resource and self._switch_version(await self._discover())
        return None if better else version

    def resumes_after(self, error: ApiError, version: str | None) -> str | None:
        """The last version; None after an error that says that it is too old, or that the resource may be absent."""
        forbidden = error.status == HTTPStatus.FORBIDDEN and self._forbidden_is_absent
        return None if forbidden or error.status in (404, 410) else version

    async def may_be_absent(self, error: ApiError) -> bool:
        """Whether a refused list means that the resource is not installed, or counts as absent.

        If discovery fails, it counts as installed.
        """
        if error.status == HTTPStatus.FORBIDDEN:
            try:
                self._installed = await is_installed(self._client, self._resource)
            except (ApiError, Unreachable, *NOT_JSON):
                self._installed = True
            return self._forbidden_is_absent or not self._installed
        return error.status == HTTPStatus.NOT_FOUND

    async def missing(self, error: ApiError) -> Absent | None:
        """What a refused list means: None if another API version can be listed instead."""
        found = await self._discover() if error.status == HTTPStatus.NOT_FOUND else Served()
        if self._switch_version(found):
            return None
        absent = Absent(self._resource, found.unreadable)
        if absent.unreadable or (error.status == HTTPStatus.FORBIDDEN and self._installed):
            problem = cannot_read(self._resource, absent.unreadable) if absent.unreadable else str(error)
            if absent != self._last_absent:
                self._on_error(problem)
        return absent

    def note_absent(self, absent: Absent) -> bool:
        """Remember that the caller knows this; True if that is news."""
        before, self._last_absent = self._last_absent, absent
        self._by_page = False
        return before != absent

    def _switch_version(self, found: Served) -> bool:
        """Read the version that discovery found; True if it is another one."""
        if found.readable is None or found.readable == self.served:
            return False
        self.served = found.readable
        return True

    async def _discover(self) -> Served:
        """The versions that the API server has; none if discovery fails."""
        try:
            return await served(self._client, self._resource)
        except (ApiError, Unreachable, *NOT_JSON) as error:
            self._on_error(f"discovery of {self._resource}: {error}")
            return Served()


async def _watch(
    client: KubeClient,
    resource: Resource[T],
    path: str,
    query: dict[str, str],
    version: str,
    settings: WatchSettings,
) -> AsyncGenerator[WatchLines[T], None]:
    """One watch, from `version` to its end; what each read of the socket brought."""
    decoder: ResourceDecoder[T] = decoder_of(resource)
    loop = asyncio.get_running_loop()
    opened_at = loop.time()
    asked = {
        **query,
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(max(1, int(settings.silence * random.uniform(0.7, 0.9)))),  # noqa: S311 - not a secret
    }
    start_of_line = b""
    nothing = True
    async with (
        client.watch(path, asked, silence=settings.silence, accept=resource.accept()) as chunks,
        aclosing(chunks),
    ):
        async for chunk in chunks:
            end = chunk.rfind(b"\n") + 1
            if end:
                nothing = False
                yield await beside_the_loop(decoder.lines, start_of_line + chunk[:end])
                start_of_line = chunk[end:]
            else:
                start_of_line += chunk
            if len(start_of_line) > LONGEST_LINE:
                raise _VersionLost(f"watch {path}: a line has more than {LONGEST_LINE} bytes")
    if nothing and loop.time() - opened_at < AT_ONCE:
        raise _Ended(f"watch {path}: ended at once and brought nothing")


def _check(said: WatchLines[T]) -> None:
    """Raise if these lines were the last ones that make sense."""
    if said.refusal is not None:
        refusal = said.refusal
        raise _VersionLost(f"watch: {refusal.code} {refusal.reason}: {refusal.message}")
    if said.garbage:
        raise _VersionLost(f"watch: a line is not JSON: {said.garbage}")
