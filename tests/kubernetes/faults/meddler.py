"""A proxy in front of the real API server that meddles with single requests: refuses them, loses them, or
reports them.

    scheduler (its kubeconfig says http://127.0.0.1:PORT) -> Meddler -> kube-apiserver

Every request has a `Fate`. What a test says about the fate of the first, second, ... bind is the fault that it is
about; all other requests pass. Binds are let through one at a time, so "after the third bind" is a moment and not a
race. Watches can be cut or made silent while the connection looks alive. Nothing of bayplan is used here.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from tests.kubernetes.faults.loop_thread import LoopThread

HANDED_ON = ("Accept", "Content-Type", "User-Agent")
HANDED_BACK = ("Content-Type", "Retry-After")


class Kind(Enum):
    """Requests that a fault can be about."""

    BIND = "bind"
    WHOLE = "whole"
    """The note on a PodGroup that its gang is whole."""
    RELEASE = "release"
    """The deletion of a pod."""
    WATCH = "watch"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a request: whether it `reaches` the server, and what comes back of the answer."""

    reaches: bool = True
    status: int | None = None
    """Answered with this instead of what the server says."""
    retry_after: int | None = None
    lost: bool = False
    """The connection breaks instead of an answer."""
    silent: bool = False
    """The connection stays, and nothing ever comes."""
    cut: bool = False
    """The connection breaks in the middle of the answer's body."""
    delay: float = 0.0
    """Seconds before the request goes on."""
    before: Callable[[], None] | None = None
    """Called when the request has arrived here."""
    after: Callable[[], None] | None = None
    """Called when the server has done it, before any client hears of it."""


PASSES = Fate()
LOST_ON_THE_WAY = Fate(reaches=False, lost=True)
ANSWER_LOST = Fate(lost=True)
ANSWER_NEVER_COMES = Fate(silent=True)


def refused(status: int, *, retry_after: int | None = None) -> Fate:
    """The server, or something before it, says no."""
    return Fate(reaches=False, status=status, retry_after=retry_after)


def at(number: int, fate: Fate) -> Callable[[int], Fate]:
    """This fate for one request, counted from 0; the others pass."""
    return lambda count: fate if count == number else PASSES


def until(number: int, fate: Fate) -> Callable[[int], Fate]:
    """This fate for so many requests, then they pass."""
    return lambda count: fate if count < number else PASSES


class Meddler:
    """The proxy; `url` is where it listens. Made by `meddler_before`."""

    def __init__(self, server: str, tls: ssl.SSLContext) -> None:
        self._server = server
        self._tls = tls
        self.counts = dict.fromkeys(Kind, 0)
        self.taken = dict.fromkeys(Kind, 0)
        """Requests that the server has done."""
        self.problems: list[Exception] = []
        self._fates: dict[Kind, Callable[[int], Fate]] = {}
        self._cut_off = False
        self._one_bind_at_a_time = asyncio.Lock()
        self._ended = asyncio.Event()
        self._watches: set[asyncio.Transport] = set()
        self._muted: set[asyncio.Transport] = set()

    # -- what tests say; from any thread --------------------------------------------------------------------------

    def decide(self, kind: Kind, fate_of: Callable[[int], Fate]) -> None:
        """What becomes of the requests of a kind from now on, which are counted anew."""
        self.counts[kind] = self.taken[kind] = 0
        self._fates[kind] = fate_of

    def cut_off(self) -> None:
        """Nothing passes any more."""
        self._cut_off = True

    def cut_watches(self) -> None:
        """All open watches break."""
        self._loop.call_soon_threadsafe(self._abort_watches)

    def mute_watches(self) -> None:
        """Watches that are open now stay open and never bring anything again; new ones do."""
        self._loop.call_soon_threadsafe(lambda: self._muted.update(self._watches))

    # -- serving --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on a free port."""
        self._loop = asyncio.get_running_loop()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls), auto_decompress=False
        )
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, handle_signals=False, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0]
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        """Break what is open and stop listening."""
        self._cut_off = True
        self._ended.set()
        self._abort_watches()
        await self._runner.cleanup()
        await self._session.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.read()
        except ConnectionError:  # the client is gone
            return _broken(request)
        kind = _kind_of(request, body)
        async with self._one_bind_at_a_time if kind is Kind.BIND else nullcontext():
            fate = self._next_fate(kind)
            await asyncio.sleep(fate.delay)
            await self._call(fate.before)
            answer = await self._meet(request, kind, body, fate)
            await self._call(fate.after)
        if fate.silent:
            await self._ended.wait()
        if fate.lost or fate.silent or self._cut_off:
            return _broken(request)
        if fate.cut and isinstance(answer, web.Response) and isinstance(answer.body, bytes):
            return await _cut(request, answer.body)
        return answer if fate.status is None else _refusal(fate.status, fate.retry_after)

    async def _call(self, hook: Callable[[], None] | None) -> None:
        """Do what the test wants done now, beside this loop: it may take a while."""
        if hook is not None:
            try:
                await asyncio.to_thread(hook)
            except Exception as problem:
                self.problems.append(problem)
                raise

    def _next_fate(self, kind: Kind) -> Fate:
        number = self.counts[kind]
        self.counts[kind] += 1
        fate_of = self._fates.get(kind)
        return fate_of(number) if fate_of is not None else PASSES

    async def _meet(self, request: web.Request, kind: Kind, body: bytes, fate: Fate) -> web.StreamResponse:
        """Hand a request on, if it gets so far."""
        if self._cut_off or not fate.reaches:
            return web.Response()
        answer = await (self._watch(request) if kind is Kind.WATCH else self._forward(request, body))
        self.taken[kind] += answer.status < HTTPStatus.BAD_REQUEST
        return answer

    async def _forward(self, request: web.Request, body: bytes) -> web.StreamResponse:
        try:
            async with self._session.request(
                request.method, self._server + request.raw_path, data=body or None, headers=_kept(request, HANDED_ON)
            ) as said:
                return web.Response(body=await said.read(), status=said.status, headers=_kept(said, HANDED_BACK))
        except aiohttp.ClientError:
            return _broken(request)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        connection = request.transport
        if connection is None:  # the client is gone
            return web.Response()
        self._watches.add(connection)
        try:
            async with self._session.get(
                self._server + request.raw_path,
                headers=_kept(request, HANDED_ON),
                timeout=aiohttp.ClientTimeout(total=None),
            ) as said:
                answer = web.StreamResponse(status=said.status, headers=_kept(said, HANDED_BACK))
                await answer.prepare(request)
                async for chunk in self._news(said):
                    if connection not in self._muted:
                        await answer.write(chunk)
                if connection in self._muted:
                    await self._ended.wait()  # not even the end is told
                return answer
        except (aiohttp.ClientError, ConnectionError):
            return _broken(request)
        finally:
            self._watches.discard(connection)
            self._muted.discard(connection)

    def _news(self, said: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """What a watch brings."""
        return said.content.iter_any()

    def _abort_watches(self) -> None:
        for connection in list(self._watches):
            connection.abort()


def _kind_of(request: web.Request, body: bytes) -> Kind:
    if request.method == "POST" and request.path.endswith("/binding"):
        return Kind.BIND
    if request.method == "PATCH" and "/podgroups/" in request.path and b'"Started"' in body:
        return Kind.WHOLE
    if request.method == "DELETE" and "/pods/" in request.path:
        return Kind.RELEASE
    return Kind.WATCH if request.query.get("watch") == "true" else Kind.OTHER


def _kept(message: Any, names: tuple[str, ...]) -> dict[str, str]:
    return {name: message.headers[name] for name in names if name in message.headers}


def _broken(request: web.Request) -> web.StreamResponse:
    """The connection breaks; what is returned goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _cut(request: web.Request, body: bytes) -> web.StreamResponse:
    """Half of an answer, then nothing."""
    answer = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body) + 1)})
    with suppress(ConnectionError):  # the client may be gone already
        await answer.prepare(request)
        await answer.write(body[: len(body) // 2])
    return _broken(request)


def _refusal(status: int, retry_after: int | None) -> web.Response:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    said = {"kind": "Status", "status": "Failure", "code": status, "reason": "Meddled", "message": f"meddled: {status}"}
    return web.json_response(said, status=status, headers=headers)


@contextmanager
def meddler_before(
    kubeconfig: Path, folder: Path, kind: Callable[[str, ssl.SSLContext], Meddler] = Meddler
) -> Iterator[tuple[Meddler, Path]]:
    """A meddler between the users of the second, a kubeconfig, and the API server that `kubeconfig` names."""
    given = json.loads(kubeconfig.read_text(encoding="utf-8"))
    cluster, user = given["clusters"][0]["cluster"], given["users"][0]["user"]
    tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
    tls.load_cert_chain(user["client-certificate"], user["client-key"])
    with LoopThread() as loop:
        meddler = loop.run(_new(kind, cluster["server"], tls))
        path = folder / "meddler.kubeconfig"
        written = {**given, "clusters": [{"name": "test", "cluster": {"server": meddler.url}}]}
        path.write_text(json.dumps({**written, "users": [{"name": "test", "user": {}}]}), encoding="utf-8")
        try:
            yield meddler, path
        finally:
            loop.run(meddler.stop())
    assert meddler.problems == [], "what the test wanted done in the middle failed"


async def _new(kind: Callable[[str, ssl.SSLContext], Meddler], server: str, tls: ssl.SSLContext) -> Meddler:
    meddler = kind(server, tls)
    await meddler.start()
    return meddler
