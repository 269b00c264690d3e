"""Requests and watches as bytes: what aiohttp does for `kube/client/client.py`, which knows resources and verbs.

A request is a verb, a path and a body. It waits for its token (`kube/client/flow_control.py`), carries the current
credentials (`kube/client/credentials.py`) and is counted. The result is the response's bytes or one of two exceptions.
`ApiError`: the server responded with an error. `Unreachable`: there was no response, and it is unknown whether a write
happened. Requests are never sent twice, with one exception: after a 401 the server has done nothing yet, so the request
is repeated once if there are fresh credentials.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp import ClientTimeout
from yarl import URL

from bayplan import __version__
from bayplan.kube.client.access import Access
from bayplan.kube.client.credentials import AccessError, Credential
from bayplan.kube.client.decoding import status_of
from bayplan.kube.client.flow_control import TokenBucket
from bayplan.kube.wire.meta_v1 import JSON, Status

READ_BUFFER = 1 << 20
CLOSING = 0.01  # seconds
# The codes with which an API server says yes. A redirect, for one, is a proxy's answer: nothing has happened.
SUCCESS = frozenset({200, 201, 202})
NO_SUCH_PATH = "404 page not found"


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


class Transport:
    """Connections to one API server, open between `async with` and its end."""

    def __init__(
        self, access: Access, *, qps: float = 0.0, burst: int = 1, timeout: float = 30.0, connections: int = 32
    ) -> None:
        self.access = access
        self.counts: Counter[tuple[str, int]] = Counter()  # (verb, HTTP status or 0 for no answer) -> requests
        self._connections = connections
        self._patience = ClientTimeout(total=timeout)
        self._between_bytes = ClientTimeout(total=None, connect=timeout, sock_read=timeout)
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
        # Connections close in the loop's next turns; if this were its end, they would stay open.
        await asyncio.sleep(CLOSING)

    async def request(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        accept: str = JSON,
        is_list: bool = False,
    ) -> bytes:
        """One request of any kind, tried once; the answer's body.

        A list takes as long as it needs while bytes arrive: it can have hundreds of megabytes.
        """
        request = _Request(verb, self._url(path, query), _encoded(body), content_type, accept)
        response = await self._open(self._requests, request, self._between_bytes if is_list else self._patience)
        try:
            async with response:
                return await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"{request} at {self.access.server}: the answer broke off: {self._said(error)}") from None

    @asynccontextmanager
    async def watch(
        self, path: str, query: Mapping[str, str], *, silence: float, accept: str = JSON
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """Open a watch and give what arrives, as it arrives; Unreachable after `silence` seconds without a byte."""
        request = _Request("GET", self._url(path, {**query, "watch": "true"}), accept=accept)
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
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return f"its certificate is not to be trusted: {error.certificate_error}"
        if isinstance(error, aiohttp.ClientConnectorError):
            # aiohttp's own message dumps its settings, which are unreadable.
            reason = error.os_error
            number = reason.errno or 0  # below 0 where the name could not be resolved
            plain = os.strerror(number) if number > 0 else reason.strerror or str(reason)
            return f"cannot connect to {error.host}:{error.port}: {plain}"
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
            if response.status not in SUCCESS:
                raise await _refusal(request, response)
        except (aiohttp.ClientError, TimeoutError, AccessError) as error:
            self.counts[request.verb, 0] += 1
            raise Unreachable(f"{request} at {self.access.server}: {self._said(error)}") from None
        return response

    async def _send(
        self, session: aiohttp.ClientSession, request: _Request, patience: ClientTimeout, shown: Credential
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": request.accept}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
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
    content_type: str = JSON
    accept: str = JSON

    def __str__(self) -> str:
        return f"{self.verb} {self.url.path}"


async def _chunks(response: aiohttp.ClientResponse, request: str, silence: float) -> AsyncGenerator[bytes, None]:
    try:
        while chunk := await response.content.readany():
            yield chunk
    except TimeoutError:
        raise Unreachable(f"{request}: silent for {silence:g} s") from None
    except aiohttp.ClientError as error:
        raise Unreachable(f"{request}: {str(error) or type(error).__name__}") from None


def _notice_a_dead_peer(transport: asyncio.Transport | None) -> None:
    """Let the kernel ask a quiet peer whether it lives, within seconds instead of hours: a lost
    host says no goodbye.
    """
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
    if not said.message:
        text = data[:80].decode(errors="replace").strip()
        # The API server itself says this about kinds that are not installed; everything else is from a proxy or load
        # balancer in between.
        message = "nothing is served there" if text == NO_SUCH_PATH else f"the answer is not the API server's: {text}"
        said = Status(reason=response.reason or "", message=message)
    retry_after = _seconds(response.headers.get("Retry-After"))
    if retry_after is None and said.details is not None and said.details.retry_after_seconds:
        retry_after = float(said.details.retry_after_seconds)
    return ApiError(str(request), response.status, said, retry_after)


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
            ("Accept-Encoding", "identity"),  # packing costs both sides more than a local network does
            *access.headers,
        ],
        read_bufsize=READ_BUFFER,
    )
