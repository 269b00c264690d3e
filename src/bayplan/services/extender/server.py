"""The extender's HTTP server: `POST /filter`, `/prioritize`, `/preempt` and `/bind`, with authentication and limits.

Every refusal is one line of text with its status: 400 malformed, 401 wrong token, 404 no such verb, 405 not POST, 408
too slow, 413 too large, 503 not ready. kube-scheduler takes any status but 200 as an error of the extender.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware

from bayplan.kube.visible import visible
from bayplan.services.edges.listening import listening
from bayplan.services.extender.metrics import ExtenderMetrics
from bayplan.services.extender.requests import BadRequest
from bayplan.services.extender.service import ExtenderService
from bayplan.services.extender.tls import ServingTls, Token

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
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
    application = extender_application(service, metrics, most_bytes=most_bytes, token=token)
    timeout = service.settings.timeout
    runner = web.AppRunner(
        application,
        shutdown_timeout=timeout,
        keepalive_timeout=KEEP_ALIVE,
        lingering_time=LINGERING,
        access_log=None,
    )
    async with listening(runner, address, tls.context if tls else None) as port:
        yield port


def extender_application(
    service: ExtenderService, metrics: ExtenderMetrics, *, most_bytes: int, token: Token | None = None
) -> web.Application:
    """The verbs behind authentication, limits and metrics."""
    verbs: Mapping[str, Verb] = {
        "filter": service.filter,
        "prioritize": service.prioritize,
        "preempt": service.preempt,
        "bind": service.bind,
    }
    at_once = asyncio.Semaphore(MOST_AT_ONCE)
    application = web.Application(client_max_size=most_bytes, middlewares=[_guard(metrics, verbs, token)])

    def handler_of(verb: Verb) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            waiting = service.why_not_ready()
            if waiting is not None:
                return _refused(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {waiting}")
            if (request.content_length or 0) > most_bytes:
                # Unread: the connection ends with the answer.
                refused = _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(most_bytes))
                refused.force_close()
                return refused
            try:
                async with at_once:
                    async with asyncio.timeout(service.settings.timeout):
                        body = await request.read()
                    answer = await verb(body)
            except BadRequest as error:
                return _refused(HTTPStatus.BAD_REQUEST, str(error))
            except TimeoutError:
                return _refused(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")
            return web.Response(body=answer, content_type="application/json")

        return handle

    for name, verb in verbs.items():
        application.router.add_post(f"/{name}", handler_of(verb))
    return application


def _guard(metrics: ExtenderMetrics, verbs: Mapping[str, Verb], token: Token | None) -> Middleware:
    """Authenticate, turn errors into one line, and count."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        began = time.perf_counter()
        response = await answered(request, handler)
        verb = request.path.removeprefix("/")
        metrics.request(verb if verb in verbs else "other", response.status, time.perf_counter() - began)
        return response

    async def answered(request: web.Request, handler: Handler) -> web.StreamResponse:
        if token is not None and not token.accepts(request.headers.get("Authorization", "")):
            refused = _refused(HTTPStatus.UNAUTHORIZED, "a bearer token is required")
            refused.headers["WWW-Authenticate"] = "Bearer"
            return refused
        try:
            return await handler(request)
        except web.HTTPRequestEntityTooLarge:
            return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(request.client_max_size))
        except web.HTTPMethodNotAllowed as error:
            refused = _refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not allowed; use POST")
            refused.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
            return refused
        except web.HTTPNotFound:
            return _refused(HTTPStatus.NOT_FOUND, f"no such verb; there are {', '.join(verbs)}")
        except web.HTTPException as error:
            return _refused(HTTPStatus(error.status), error.reason)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            # A bug triggered by one request must not affect others.
            logger.exception("request failed on an internal error", extra={"path": request.path})
            return _refused(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the extender's log")

    return guard


def _too_large(most_bytes: int) -> str:
    return f"the request exceeds {most_bytes} bytes; set nodeCacheCapable: true, or raise --max-request-size"


def _refused(status: HTTPStatus, text: str) -> web.Response:
    return web.Response(text=visible(text)[:MOST_LINE] + "\n", status=status)
