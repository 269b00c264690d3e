"""The extender's HTTP server: `POST /filter`, `/prioritize`, `/preempt` and `/bind`, with authentication and limits.

Every refusal is one line of text with its status: 400 malformed, 401 wrong token, 404 no such verb, 405 not POST, 408
too slow, 413 too large, 503 not ready. kube-scheduler takes any status but 200 as an error of the extender.

Four fixed paths need no router: aiohttp's server without one answers 0.1 ms sooner.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

from aiohttp import web

from bayplan.extensions import BrokenExtension
from bayplan.kube.visible import visible
from bayplan.services.edges.listening import listening
from bayplan.services.extender.metrics import ExtenderMetrics
from bayplan.services.extender.requests import BadRequest
from bayplan.services.extender.service import ExtenderService
from bayplan.services.extender.tls import ServingTls, Token

logger = logging.getLogger(__name__)

Verb = Callable[[bytes], Awaitable[bytes]]

# Requests that are read or answered at once. kube-scheduler sends one after another, and binds beside them.
MOST_AT_ONCE = 64
MOST_LINE = 400
# Seconds that an idle connection stays open, longer than Go's client keeps it; and that an unread body is discarded.
KEEP_ALIVE = 120.0
LINGERING = 1.0


@asynccontextmanager
async def serve_extender(
    address: str,
    service: ExtenderService,
    metrics: ExtenderMetrics,
    *,
    most_bytes: int,
    tls: ServingTls | None = None,
    token: Token | None = None,
) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port. Requests in progress are answered before it ends."""
    verbs = ExtenderVerbs(service, metrics, most_bytes=most_bytes, token=token)
    runner = web.ServerRunner(verbs.server(), shutdown_timeout=service.settings.timeout)
    async with listening(runner, address, tls.context if tls else None) as port:
        yield port


class ExtenderVerbs:
    """The verbs behind authentication, limits and metrics."""

    def __init__(
        self, service: ExtenderService, metrics: ExtenderMetrics, *, most_bytes: int, token: Token | None = None
    ) -> None:
        self._service = service
        self._metrics = metrics
        self._most_bytes = most_bytes
        self._token = token
        self._at_once = asyncio.Semaphore(MOST_AT_ONCE)
        self._verbs: dict[str, Verb] = {
            "/filter": service.filter,
            "/prioritize": service.prioritize,
            "/preempt": service.preempt,
            "/bind": service.bind,
        }

    def server(self) -> web.Server:
        """An HTTP server for them."""
        # `read` enforces the limit for bodies without Content-Length.
        requests = partial(web.BaseRequest, loop=asyncio.get_running_loop(), client_max_size=self._most_bytes)
        return web.Server(
            self._handle,
            request_factory=requests,
            keepalive_timeout=KEEP_ALIVE,
            lingering_time=LINGERING,
            access_log=None,
        )

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one request, and count it."""
        began = time.perf_counter()
        response = self._refusal(request) or await self._answer(request)
        verb = request.path[1:] if request.path in self._verbs else "other"
        self._metrics.request(verb, response.status, time.perf_counter() - began)
        return response

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        """The answer to a request that is not read."""
        if self._token is not None and not self._token.accepts(request.headers.get("Authorization", "")):
            return _refused(HTTPStatus.UNAUTHORIZED, "a bearer token is required", {"WWW-Authenticate": "Bearer"})
        if request.path not in self._verbs:
            names = ", ".join(path[1:] for path in self._verbs)
            return _refused(HTTPStatus.NOT_FOUND, f"no such verb; known: {names}")
        if request.method != "POST":
            text = f"{request.method} is not allowed; use POST"
            return _refused(HTTPStatus.METHOD_NOT_ALLOWED, text, {"Allow": "POST"})
        waiting = self._service.why_not_ready()
        if waiting is not None:
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {waiting}")
        if (request.content_length or 0) > self._most_bytes:
            refused = self._too_large()
            refused.force_close()  # the body stays unread
            return refused
        return None

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        try:
            async with self._at_once:
                async with asyncio.timeout(self._service.settings.timeout):
                    body = await _body_of(request)
                answer = await self._verbs[request.path](body)
        except BadRequest as error:
            return _refused(HTTPStatus.BAD_REQUEST, str(error))
        except TimeoutError:
            return _refused(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")
        except web.HTTPRequestEntityTooLarge:
            return self._too_large()
        except (asyncio.CancelledError, ConnectionError):
            raise
        except BrokenExtension as error:
            logger.exception("request failed in an extension", extra={"path": request.path, "problem": str(error)})
            return _refused(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        except Exception:
            # A bug triggered by one request must not affect others.
            logger.exception("request failed on an internal error", extra={"path": request.path})
            return _refused(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the extender's log")
        return web.Response(body=answer, content_type="application/json")

    def _too_large(self) -> web.Response:
        hint = "set nodeCacheCapable: true, or raise --max-request-size"
        return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the request exceeds {self._most_bytes} bytes; {hint}")


async def _body_of(request: web.BaseRequest) -> bytes:
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return await request.read()


def _refused(status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(text=visible(text)[:MOST_LINE] + "\n", status=status, headers=headers)
