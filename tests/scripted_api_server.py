"""An API server that follows a script: each request gets the next answer written down for its method and path.

    async with ScriptedServer() as server, server.client() as client:
        server.answers("GET", "/api/v1/pods", refusal(500), listing(["a"], version="7"))
        listed = await client.list(PODS)

The last answer of a path repeats. Answers may drop the connection, fall silent or be no JSON; `server.asked` tells
afterwards what was asked. Tests of the client, of watches and of their users start here.
"""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, Self

from aiohttp import web

from bayplan.kube.client.access import Access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.credentials import Credential, Credentials, Fixed

Json = dict[str, Any]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
P = ParamSpec("P")
ENDED = web.AppKey("ended", asyncio.Event)


def asynchronous(story: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Let pytest run a test that is a coroutine, for at most three minutes: some restart an API server."""

    @functools.wraps(story)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def in_time() -> None:
            async with asyncio.timeout(180):
                await story(*args, **kwargs)

        asyncio.run(in_time())

    return run


@dataclass(frozen=True)
class Asked:
    """A request as the server saw it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    certificate: str | None  # the common name in the client's certificate


class ScriptedServer:
    """Serves its script on a free port of the loopback, over TLS if a context is given."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.asked: list[Asked] = []
        self._script: dict[tuple[str, str], list[Answer]] = {}
        self._ended = asyncio.Event()

    def answers(self, method: str, path: str, *answers: Answer) -> None:
        """What to answer to this method and path, one after the other; forgets what was written down for it before."""
        self._script[method, path] = list(answers)

    def serves(self, group: str, **plurals: str) -> None:
        """What discovery says about an API group: a plural for each version, the preferred one first; nothing if none
        is given.
        """
        versions = [{"groupVersion": f"{group}/{each}", "version": each} for each in plurals]
        found = says({"versions": versions, "preferredVersion": versions[0]}) if versions else refusal(404)
        self.answers("GET", f"/apis/{group}", found)
        for version, plural in plurals.items():
            self.answers("GET", f"/apis/{group}/{version}", says({"resources": [{"name": plural}]}))

    def queries(self) -> list[Mapping[str, str]]:
        """The queries of all requests so far."""
        return [asked.query for asked in self.asked]

    def client(self, credentials: Credentials | None = None, **settings: Any) -> KubeClient:
        """A client of this server."""
        return KubeClient(Access(self.url, credentials or Fixed(Credential())), **settings)

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        application[ENDED] = self._ended
        self._runner = web.AppRunner(application, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        host, port = self._runner.addresses[0]
        self.url = f"{'https' if self._tls else 'http'}://{host}:{port}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._ended.set()
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(
            Asked(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                json.loads(body) if body else None,
                _common_name(request),
            )
        )
        script = self._script.get((request.method, request.path), [refusal(404, "NotFound", "no such path")])
        return await (script.pop(0) if len(script) > 1 else script[0])(request)


def _common_name(request: web.Request) -> str | None:
    certificate = request.get_extra_info("peercert") or {}
    return dict(pair for name in certificate.get("subject", ()) for pair in name).get("commonName")


def says(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Any JSON."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return answer


def says_text(text: str, status: int = 200) -> Answer:
    """Something that a proxy might say."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status)

    return answer


def refusal(status: int, reason: str = "", message: str = "no", *, retry_after: int | None = None) -> Answer:
    """A Status, as the API server refuses."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return says(body, status, headers)


def listing(items: Sequence[str | Json], *, version: str = "1", ticket: str = "") -> Answer:
    """A page of a list; an item is a name or an object."""
    metadata = {"resourceVersion": version, **({"continue": ticket} if ticket else {})}
    return says({"metadata": metadata, "items": [named(item) if isinstance(item, str) else item for item in items]})


def named(name: str, version: str = "1", **more: Any) -> Json:
    """An object with nothing but a name."""
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": version}, **more}


def event(kind: str, thing: Json) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def bookmark(version: str) -> bytes:
    """A line that brings nothing but a version."""
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version, "creationTimestamp": None}})


def watch(*pieces: bytes, then: str = "end") -> Answer:
    """A watch that brings these pieces, each by itself, and then ends, falls silent or drops the connection."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0.01)  # so that the pieces do not arrive as one
        if then == "silence":
            await request.app[ENDED].wait()
        if then == "drop" and request.transport is not None:
            request.transport.abort()
        return response

    return answer


def drops() -> Answer:
    """The connection breaks before the answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def never() -> Answer:
    """The answer does not come."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.app[ENDED].wait()
        return web.Response()

    return answer
