"""Decode the API server's bytes into wire structs, for one resource: an object, a page of a list, lines of a watch.

The fast path decodes the whole batch into typed structs: one call for a page or for all lines of one socket read. Only
if that fails, or if the page is large, is each object decoded separately, so a malformed object does not affect the
others: it becomes a `Broken`. `kube/client/client.py` and `kube/client/watch.py` call this module; the consumers of
`Listed` and `Changes` are in `services/`.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from bayplan.kube.errors import field_and_problem
from bayplan.kube.json_text import TOO_DEEP, items_of, json_words, pruned
from bayplan.kube.resources import Resource
from bayplan.kube.unread_fields import remarked, unknown_field
from bayplan.kube.wire.core_v1 import GroupObject, WireStruct
from bayplan.kube.wire.meta_v1 import Change, ListMeta, Page, RawPage, Status, T, WatchLine

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# What one object can bring about: the API server serves any nesting, and in managedFields bytes that are not UTF-8.
OF_ONE_OBJECT = (msgspec.ValidationError, UnicodeDecodeError, RecursionError)

# Bytes of JSON that are decoded on the event loop: a megabyte of invalid objects takes up to 0.3 s.
MOST_ON_LOOP = 64 << 10
# Bytes of JSON that are decoded in one call, which holds up all threads: 8 MiB take 30 ms.
MOST_AT_ONCE = 8 << 20


class Broken(Struct, frozen=True):
    """An object that is not of the shape its kind has; everyone else is delivered."""

    namespace: str
    name: str
    problem: str
    deleted: bool = False


class Listed(Struct, Generic[T]):
    """All objects of a resource at one version; an object in neither list does not exist.

    The first `delivered` items came before, page by page, as `Changes`.
    """

    items: list[T]
    resource_version: str
    broken: list[Broken]
    delivered: int = 0


class Changes(Struct, Generic[T]):
    """Changes in order: events of a watch, or a page of a list.

    `broken` describes the state after all changes.
    """

    changes: list[Change[T]]
    broken: list[Broken]


@dataclass(slots=True)
class WatchLines(Generic[T]):
    """What lines of a watch said."""

    changes: list[Change[T]] = field(default_factory=list)
    broken: dict[tuple[str, str], Broken] = field(default_factory=dict)
    resource_version: str = ""  # of the last line; empty if no line told
    refusal: Status | None = None  # the server ends the watch with this
    garbage: str = ""  # a line that is not JSON: whatever follows it was not read


class _Head(WireStruct, frozen=True):
    """As little as possible: what is wrong may stand anywhere else."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _AnyObject(Struct):
    metadata: _Head = _Head()


_any_object = msgspec.json.Decoder(_AnyObject)
_raw_page = msgspec.json.Decoder(RawPage)
_watch_line = msgspec.json.Decoder(WatchLine)
_status = msgspec.json.Decoder(Status)


V = TypeVar("V")

HEAD_OF_LIST = 4096
_TICKET = re.compile(rb'"continue":"([^"\\]*)"')


def next_ticket(data: bytes) -> str:
    """The ticket to the next page of a list, read ahead of the page's objects; empty if it does not come first."""
    head, items, _ = data[:HEAD_OF_LIST].partition(b'"items"')
    found = _TICKET.search(head) if items else None
    return found[1].decode() if found else ""


def in_version(decoded: V, api_version: str) -> V:
    """The same object with the API version that it was read in, if it has a field for that and does not name one."""
    if isinstance(decoded, Struct) and getattr(decoded, "api_version", None) == "":
        return msgspec.structs.replace(decoded, api_version=api_version)
    return decoded


async def beside_the_loop(decode: Callable[[bytes], V], data: bytes) -> V:
    """Decode: here if there is little, in a thread if there is much."""
    return decode(data) if len(data) <= MOST_ON_LOOP else await asyncio.to_thread(decode, data)


@functools.cache
def decoder_of(resource: Resource[T]) -> ResourceDecoder[T]:
    """The decoder of a resource, made once."""
    return ResourceDecoder(resource)


class ResourceDecoder(Generic[T]):
    """Decodes what the API server says about one resource."""

    def __init__(self, resource: Resource[T]) -> None:
        self._type = resource.type
        self._api_version = resource.api_version
        kind: Any = resource.type
        self._object: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        self._page: msgspec.json.Decoder[Page[T]] = msgspec.json.Decoder(Page[kind])
        self._change: msgspec.json.Decoder[Change[T]] = msgspec.json.Decoder(Change[kind])
        # Of objects that describe gangs every field is looked at, one object after another. There are few of them.
        self._is_group = issubclass(kind, GroupObject)

    def one(self, data: bytes | Raw) -> T:
        """An object; raises msgspec.ValidationError if it has another shape, is nested too deeply or is not UTF-8."""
        try:
            return in_version(remarked(self._object.decode(data), data), self._api_version)
        except RecursionError:
            raise msgspec.ValidationError(TOO_DEEP) from None
        except UnicodeDecodeError as error:
            raise msgspec.ValidationError(json_words(error)) from None

    def page(self, data: bytes) -> tuple[list[T], list[Broken], ListMeta]:
        """A page of a list; raises msgspec.DecodeError if it is not a list at all."""
        if self._is_group or len(data) > MOST_AT_ONCE:
            return self._page_one_by_one(data)
        try:
            page = self._page.decode(data)
        except OF_ONE_OBJECT:
            return self._page_one_by_one(data)
        return page.items or [], [], page.metadata

    def lines(self, data: bytes) -> WatchLines[T]:
        """Whole lines of a watch."""
        if self._is_group:
            return self._lines_one_by_one(data)
        try:
            changes = self._change.decode_lines(data)
        except NOT_JSON:  # among them: bookmarks and errors, which are no changes
            return self._lines_one_by_one(data)
        return WatchLines(changes, resource_version=changes[-1].object.metadata.resource_version if changes else "")

    def _page_one_by_one(self, data: bytes) -> tuple[list[T], list[Broken], ListMeta]:
        items, broken = [], []
        try:
            page = _raw_page.decode(data)
        except RecursionError:
            found, rest = items_of(data)
            page = _raw_page.decode(pruned(rest))
            page.items = [Raw(item) for item in found]
        for raw in page.items or []:
            try:
                items.append(self.one(raw))
            except msgspec.ValidationError as error:
                broken.append(_broken(raw, error, self._type))
        return items, broken, page.metadata

    def _lines_one_by_one(self, data: bytes) -> WatchLines[T]:
        said: WatchLines[T] = WatchLines()
        for line in data.splitlines():
            if not line.strip():
                continue
            try:
                self._one_line(line, said)
            except NOT_JSON as error:
                said.garbage = f"{error}: {line[:80]!r}"
            if said.garbage or said.refusal:
                break
        return said

    def _one_line(self, line: bytes, said: WatchLines[T]) -> None:
        try:
            change = self._change.decode(line)
            if self._is_group:
                told = remarked(change.object, _watch_line.decode(line).object)
                change.object = in_version(told, self._api_version)
        except OF_ONE_OBJECT as error:
            _line_of_another_shape(line, error, said, self._type)
            return
        metadata = change.object.metadata
        said.broken.pop((metadata.namespace or "", metadata.name), None)
        said.changes.append(change)
        said.resource_version = metadata.resource_version


def _line_of_another_shape(
    line: bytes,
    error: msgspec.ValidationError | UnicodeDecodeError | RecursionError,
    said: WatchLines[T],
    kind: type[T],
) -> None:
    """A bookmark, the server's refusal to go on, or a change of an object that is broken."""
    try:
        watch_line = _watch_line.decode(line)
    except RecursionError as too_deep:
        watch_line, error = _watch_line.decode(pruned(line, head_at=2)), too_deep
    if watch_line.type == "ERROR":
        said.refusal = status_of(bytes(watch_line.object))
        return
    head = _head_of(watch_line.object)
    if isinstance(error, UnicodeDecodeError) and not head.name:
        raise error
    said.resource_version = head.resource_version or said.resource_version
    if watch_line.type in ("ADDED", "MODIFIED", "DELETED"):
        broken = _broken(watch_line.object, error, kind, deleted=watch_line.type == "DELETED")
        said.broken[broken.namespace, broken.name] = broken


def _broken(
    raw: Raw,
    error: msgspec.ValidationError | UnicodeDecodeError | RecursionError,
    kind: type[T],
    *,
    deleted: bool = False,
) -> Broken:
    head = _head_of(raw)
    return Broken(head.namespace, head.name, _what_is_wrong(raw, error, kind), deleted)


def _what_is_wrong(
    raw: Raw, error: msgspec.ValidationError | UnicodeDecodeError | RecursionError, kind: type[T]
) -> str:
    if isinstance(error, RecursionError) or str(error) == TOO_DEEP:
        return TOO_DEEP
    if isinstance(error, UnicodeDecodeError):
        return json_words(error)
    path, problem = field_and_problem(error)
    path = path.removeprefix("object.")  # the line of a watch holds the object
    try:
        told = unknown_field(raw, kind)
    except RecursionError:
        return TOO_DEEP
    except (msgspec.DecodeError, UnicodeDecodeError):
        told = ""
    return told or (f"{path}: {problem}" if path else problem)


def _head_of(raw: Raw) -> _Head:
    try:
        return _any_object.decode(raw).metadata
    except OF_ONE_OBJECT:
        pass
    try:
        return _any_object.decode(pruned(bytes(raw), head_at=1)).metadata
    except (msgspec.ValidationError, UnicodeDecodeError):
        return _Head()


def status_of(data: bytes) -> Status:
    """The Status in an answer; an empty one if something else, such as a proxy, wrote the answer."""
    try:
        return _status.decode(data)
    except NOT_JSON:
        return Status()
