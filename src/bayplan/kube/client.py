"""The Kubernetes client: aiohttp carries the bytes, msgspec decodes only the fields that bayplan reads.

In come an `Access` (where the API server is, how it is convinced) and resources; out come wire structs for what is read and the
server's raw answer for what is written. Whatever goes wrong is one of two exceptions: `ApiError`, the server answered and said no;
`Unreachable`, there was no answer, and nobody knows whether a write happened. Reading is tried again a few times when time may
heal the trouble; a write never is: whoever wrote looks at the watch (`kube/watch.py`) and decides. An answer of 401 is no
exception to this: the server did nothing yet, so any request is repeated once with fresh credentials if there are any.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp import ClientTimeout
from yarl import URL

from bayplan import __version__
from bayplan.kube.access import Access
from bayplan.kube.backoff import Backoff
from bayplan.kube.credentials import AccessError, Credential
from bayplan.kube.decoding import NOT_JSON, Listed, ResourceDecoder, decoder_of, status_of
from bayplan.kube.flow_control import TokenBucket
from bayplan.kube.meta_v1 import Status, T
from bayplan.kube.resources import PODS, Resource

READ_ATTEMPTS = 4
FIRST_WAIT = 0.1  # seconds, before the second attempt
LONGEST_RETRY_AFTER = 30.0  # seconds; a server that asks for more is left to the caller
TIME_MAY_HEAL = frozenset({429, 500, 502, 503, 504})
READ_BUFFER = 1 << 20

PatchKind = Literal["strategic", "merge", "json", "apply"]
_PATCH_TYPES: Mapping[PatchKind, str] = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(Exception):
    """The API server said no: its HTTP status, its reason (`Conflict`, `NotFound`) and its sentence."""

    def __init__(self, request: str, code: int, said: Status, retry_after: float | None = None) -> None:
        super().__init__(f"{request}: {code} {said.reason or '(no reason)'}: {said.message}")
        self.status = code
        self.reason = said.reason
        self.message = said.message
        self.details = said.details
        self.retry_after = retry_after


class Unreachable(Exception):
    """No answer: connection refused or reset, timeout, no credentials to ask with."""


class KubeClient:
    """`async with KubeClient(access) as client`. At most `connections` requests at once; watches have connections of their own."""

    def __init__(
        self, access: Access, *, qps: float = 0.0, burst: int = 1, timeout: float = 30.0, connections: int = 32
    ) -> None:
        self.access = access
        self.counts: Counter[tuple[str, int]] = Counter()  # (verb, HTTP status or 0 for no answer) -> requests
        self._connections = connections
        self._patience = ClientTimeout(total=timeout)
        self._bucket = TokenBucket(qps, burst, now=time.monotonic())
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._requests = _session(self.access, self._connections)
        self._watches = _session(self.access, 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()
        self._requests = self._watches = None

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        """One object. Raises msgspec.ValidationError if it is not of its kind's shape."""
        decoder: ResourceDecoder[T] = decoder_of(resource)
        return decoder.one(await _read(self, resource.path(namespace, name)))

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        page: int = 500,
    ) -> Listed[T]:
        """All objects at one version, asked for in pages of `page` (0: all at once).

        Tickets to the next page expire after some minutes; then it starts over, the second time without pages.
        """
        path = resource.path(namespace)
        query = selectors(label_selector, field_selector)
        for limit in (page, page, 0):
            try:
                return await _list_once(self, resource, path, query, limit)
            except ApiError as error:
                if error.status != 410 or not limit:
                    raise
        raise AssertionError("the last attempt has no pages")  # and therefore returned or raised

    async def create(
        self,
        resource: Resource[T],
        body: object,
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """Create an object, or a subresource of the object `name`. `body` is anything that msgspec encodes, or bytes."""
        return await self.request("POST", resource.path(namespace, name, subresource), body=body)

    async def update(
        self,
        resource: Resource[T],
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> bytes:
        """Replace an object; a 409 if `body` carries a resource version that is no longer current."""
        return await self.request("PUT", resource.path(namespace, name, subresource), body=body)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        kind: PatchKind = "strategic",
        field_manager: str = "bayplan",
        force: bool = False,
    ) -> bytes:
        """Change parts of an object. Custom resources know no strategic patches; `apply` creates what does not exist."""
        query = {"fieldManager": field_manager}
        if force:
            query["force"] = "true"
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, body=body, query=query, content_type=_PATCH_TYPES[kind])

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace: int | None = None,
    ) -> None:
        """Delete an object; with `uid` only this very one and not a successor of the same name (409)."""
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self.request("DELETE", resource.path(namespace, name), body=options)

    async def bind(
        self,
        namespace: str,
        pod: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str],
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Put a pod on a node; the server writes annotations and labels onto the pod in the same step. 409: it has a node, or another uid."""
        metadata: dict[str, object] = {"name": pod, "namespace": namespace, "uid": uid}
        if annotations:
            metadata["annotations"] = annotations
        if labels:
            metadata["labels"] = labels
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self.request("POST", PODS.path(namespace, pod, "binding"), body=body)

    async def request(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
    ) -> bytes:
        """One request of any kind, tried once; the answer's body."""
        request = _Request(verb, self._url(path, query), _encoded(body), content_type)
        response = await self._open(self._requests, request, self._patience)
        try:
            async with response:
                return await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"{request} at {self.access.server}: the answer broke off: {self._said(error)}") from None

    @asynccontextmanager
    async def watch(
        self, path: str, query: Mapping[str, str], *, silence: float
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """Open a watch and give what arrives, as it arrives; Unreachable after `silence` seconds without a byte."""
        request = _Request("GET", self._url(path, {**query, "watch": "true"}))
        # A watch has no end; only its silence is limited.
        patience = ClientTimeout(total=None, sock_connect=self._patience.total, sock_read=silence)
        response = await self._open(self._watches, request, patience)
        transport = response.connection.transport if response.connection is not None else None
        _notice_a_dead_peer(transport)
        try:
            yield _chunks(response, f"watch {path}", silence)
        finally:
            if transport is not None:
                transport.abort()  # no farewell: the peer may be the one that fell silent
            response.close()

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        text = f"{self.access.server}{path}"
        return URL(f"{text}?{urlencode(query)}" if query else text, encoded=True)

    def _said(self, error: Exception) -> str:
        """What an exception says; a timeout says nothing by itself."""
        if isinstance(error, TimeoutError):
            return f"no answer within {self._patience.total:g} s"
        return str(error) or type(error).__name__

    async def _open(
        self, session: aiohttp.ClientSession | None, request: _Request, patience: ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send a request; the response has a good status and an unread body."""
        if session is None:
            raise RuntimeError("the client is used outside of its `async with`")
        delay = self._bucket.take(time.monotonic())
        if delay:
            await asyncio.sleep(delay)
        credentials = self.access.credentials
        try:
            shown = await credentials.current()
            response = await self._send(session, request, patience, shown)
            if response.status == 401 and credentials.refused(shown):
                await response.read()  # so that the connection can serve again
                response = await self._send(session, request, patience, await credentials.current())
            if response.status >= 400:
                raise await _refusal(request, response)
        except (aiohttp.ClientError, TimeoutError, AccessError) as error:
            self.counts[request.verb, 0] += 1
            raise Unreachable(f"{request} at {self.access.server}: {self._said(error)}") from None
        return response

    async def _send(
        self, session: aiohttp.ClientSession, request: _Request, patience: ClientTimeout, shown: Credential
    ) -> aiohttp.ClientResponse:
        headers = {"Content-Type": request.content_type} if request.body is not None else {}
        if shown.authorization is not None:
            headers["Authorization"] = shown.authorization
        response = await session.request(
            request.verb,
            request.url,
            data=request.body,
            headers=headers,
            ssl=shown.tls if shown.tls is not None else True,
            server_hostname=self.access.tls_server_name,
            proxy=self.access.proxy,
            timeout=patience,
            allow_redirects=False,
        )
        self.counts[request.verb, response.status] += 1
        return response


@dataclass(frozen=True, slots=True)
class _Request:
    verb: str
    url: URL
    body: bytes | None = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.verb} {self.url.path}"


def selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    """The query that narrows a list or a watch."""
    query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in query.items() if value}


async def _list_once(
    client: KubeClient, resource: Resource[T], path: str, query: Mapping[str, str], limit: int
) -> Listed[T]:
    decoder: ResourceDecoder[T] = decoder_of(resource)
    listed: Listed[T] = Listed([], "", [])
    ticket = ""
    while True:
        asked = {**query, **({"limit": str(limit)} if limit else {}), **({"continue": ticket} if ticket else {})}
        data = await _read(client, path, asked)
        try:
            items, broken, head = decoder.page(data)
        except NOT_JSON as error:
            raise Unreachable(f"GET {path}: the answer is not a list: {error}: {data[:80]!r}") from None
        listed.items += items
        listed.broken += broken
        listed.resource_version = listed.resource_version or head.resource_version
        ticket = head.continue_
        if not ticket:
            return listed


async def _read(client: KubeClient, path: str, query: Mapping[str, str] | None = None) -> bytes:
    """Read, and try again a few times where time may heal the trouble."""
    backoff = Backoff(first=FIRST_WAIT, longest=2.0)
    for _ in range(READ_ATTEMPTS - 1):
        try:
            return await client.request("GET", path, query=query)
        except Unreachable:
            delay = backoff.after_failure()
        except ApiError as error:
            if error.status not in TIME_MAY_HEAL or (error.retry_after or 0) > LONGEST_RETRY_AFTER:
                raise
            delay = max(backoff.after_failure(), error.retry_after or 0)
        await asyncio.sleep(delay)
    return await client.request("GET", path, query=query)


async def _chunks(response: aiohttp.ClientResponse, request: str, silence: float) -> AsyncGenerator[bytes, None]:
    try:
        while chunk := await response.content.readany():
            yield chunk
    except TimeoutError:
        raise Unreachable(f"{request}: silent for {silence:g} s") from None
    except aiohttp.ClientError as error:
        raise Unreachable(f"{request}: {str(error) or type(error).__name__}") from None


def _notice_a_dead_peer(transport: asyncio.Transport | None) -> None:
    """Let the kernel ask a quiet peer whether it lives, within seconds instead of hours: a lost host says no goodbye."""
    connected: socket.socket | None = transport.get_extra_info("socket") if transport is not None else None
    if connected is not None and hasattr(socket, "TCP_KEEPIDLE"):  # Linux
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


async def _refusal(request: _Request, response: aiohttp.ClientResponse) -> ApiError:
    async with response:
        data = await response.read()
    said = status_of(data)
    if not said.message:  # a proxy or load balancer in between
        foreign = data[:80].decode(errors="replace")
        said = Status(reason=response.reason or "", message=f"the answer is not the API server's: {foreign}")
    return ApiError(str(request), response.status, said, _seconds(response.headers.get("Retry-After")))


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After in seconds; the form with a date is not the API server's."""
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else None


def _encoded(body: object) -> bytes | None:
    return body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)


def _session(access: Access, connections: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=[
            ("User-Agent", f"bayplan/{__version__}"),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),  # packing costs both sides more than a local network does
            *access.headers,
        ],
        read_bufsize=READ_BUFFER,
    )
