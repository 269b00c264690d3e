"""The HTTP server of `bayplan web`: the page, its modules, and `/api/v1` behind limits and strict headers.

Every refusal is `{"error": SENTENCE}` with its status. Paths of screens (`/node/worker-3`) all serve the same page,
whose modules read the path. The Content-Security-Policy allows this server's own files and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.resources import files
from ipaddress import ip_address
from math import ceil
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from bayplan.explain.theme import DARK, LIGHT, css_variables
from bayplan.kube.visible import visible
from bayplan.services.edges.health import host_and_port
from bayplan.services.edges.listening import listening
from bayplan.services.extender.tls import ServingTls
from bayplan.services.web.access import Access
from bayplan.services.web.answers import Unanswerable
from bayplan.services.web.api import Api
from bayplan.services.web.board import Board
from bayplan.services.web.limits import LARGEST_MANIFEST, LONGEST_QUERY, RateLimit

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SCREENS = (
    "/",
    "/node/{node}",
    "/why",
    "/why/{namespace}/{kind}/{name}",
    "/gangs",
    "/gang/{namespace}/{name}",
    "/what-if",
    "/simulation",
)
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Server": "bayplan",
}
WHAT_IF_COST = 10.0
# Addresses are refused in our own words (`LONGEST_QUERY`) up to here, and by aiohttp beyond.
LONGEST_LINE = 64 << 10
# A page has twenty files, which are in memory: a reader who reloads it must not run into the limit.
FILE_COST = 0.05


def is_loopback(host: str | None) -> bool:
    """Whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return host is not None and ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


@asynccontextmanager
async def serve_web(address: str, board: Board, access: Access, *, tls: ServingTls | None = None) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port."""
    host, _ = host_and_port(address)
    runner = web.AppRunner(
        web_application(board, access, local=is_loopback(host)),
        shutdown_timeout=0.5,
        access_log=None,
        max_line_size=LONGEST_LINE,
    )
    async with listening(runner, address, tls.context if tls else None) as port:
        yield port


def web_application(board: Board, access: Access, *, local: bool) -> web.Application:
    """The page and its API; a `local` one answers only to names of the loopback."""
    api = Api(board, access)
    guard = _guard(RateLimit(), _static("index.html"), local=local)
    application = web.Application(client_max_size=LARGEST_MANIFEST, middlewares=[guard])
    application.add_routes(api.routes())
    application.add_routes([web.get("/livez", _alive), web.get("/readyz", _ready_when(board))])
    for name, body in _static_files().items():
        application.router.add_get(f"/static/{name}", _file(body, TYPES[name.rpartition(".")[2]]))
    page = _file(_static("index.html"), "text/html")
    for path in SCREENS:
        application.router.add_get(path, page)

    async def close(_application: web.Application) -> None:
        api.close()

    application.on_cleanup.append(close)
    return application


def _static(name: str) -> bytes:
    return (files("bayplan.services.web") / "static" / name).read_bytes()


def _static_files() -> dict[str, bytes]:
    """The modules and style sheets of the page; colours are those of every other picture."""
    folder = files("bayplan.services.web") / "static"
    found = {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "index.html"}
    colours = (
        f":root{{{css_variables(LIGHT)}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{css_variables(DARK)}}}}}\n"
        f":root[data-theme=dark]{{{css_variables(DARK)}}}\n"
    )
    return found | {"colours.css": colours.encode()}


def _file(body: bytes, media: str) -> Handler:
    async def send(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=media, charset="utf-8", headers={"Cache-Control": "no-cache"})

    return send


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def _ready_when(board: Board) -> Handler:
    async def ready(_request: web.Request) -> web.Response:
        if board.answers is None:
            return web.Response(text="the cluster is being read", status=HTTPStatus.SERVICE_UNAVAILABLE)
        return web.Response(text="ok")

    return ready


def _guard(limit: RateLimit, page: bytes, *, local: bool) -> Middleware:
    """Limits before, headers after, and one sentence for everything that goes wrong; a browser gets it on the page."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await answered(request, handler)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def answered(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            _check(request, limit, local=local)
            return await handler(request)
        except Unanswerable as error:
            return _refused(error.status, error.text)
        except web.HTTPRequestEntityTooLarge:
            return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the manifest exceeds {LARGEST_MANIFEST} bytes")
        except web.HTTPMethodNotAllowed as error:
            refused = _refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not allowed here")
            refused.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
            return refused
        except web.HTTPNotFound:
            if _is_browsed(request):
                return web.Response(body=page, content_type="text/html", charset="utf-8", status=HTTPStatus.NOT_FOUND)
            return _refused(HTTPStatus.NOT_FOUND, "no such page; see /api/v1/openapi.json")
        except web.HTTPException as error:
            return _refused(HTTPStatus(error.status), error.reason)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            # A bug triggered by one request must not affect others.
            logger.exception("request failed on an internal error", extra={"path": request.path})
            return _refused(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the log of bayplan web")

    return guard


def _is_browsed(request: web.Request) -> bool:
    """Whether a browser asks for a page, rather than a program for an answer."""
    wanted = "text/html" in request.headers.get("Accept", "") and request.method == "GET"
    return wanted and not request.path.startswith(("/api/", "/static/"))


def _check(request: web.Request, limit: RateLimit, *, local: bool) -> None:
    """Refuse what no page of ours sends; raises `Unanswerable`."""
    if len(request.raw_path) > LONGEST_QUERY:
        raise Unanswerable(HTTPStatus.REQUEST_URI_TOO_LONG, f"the address is longer than {LONGEST_QUERY} characters")
    # Another site whose name resolves to this machine (DNS rebinding) must not read a page without a token.
    if local and not is_loopback(request.url.host):
        raise Unanswerable(HTTPStatus.MISDIRECTED_REQUEST, "this page is for the loopback; use http://127.0.0.1")
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != request.host:
        raise Unanswerable(HTTPStatus.FORBIDDEN, "requests of other sites are not answered")
    cost = WHAT_IF_COST if request.method == "POST" else 1.0 if request.path.startswith("/api/") else FILE_COST
    wait = limit.seconds_to_wait(request.remote or "", cost)
    if wait:
        raise Unanswerable(HTTPStatus.TOO_MANY_REQUESTS, f"too many requests; try again in {ceil(wait)} s")


def _refused(status: HTTPStatus, text: str) -> web.Response:
    document: dict[str, Any] = {"error": visible(text)[:2000]}
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    headers |= {"Cache-Control": "no-store"} | ({"Retry-After": "1"} if status == HTTPStatus.TOO_MANY_REQUESTS else {})
    return web.json_response(document, status=status, headers=headers)
