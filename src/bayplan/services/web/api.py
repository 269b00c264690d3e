"""`/api/v1`: questions about the cluster as JSON, cached per state of the board, with ETags and pages of lists.

    request -> viewer -> Question -> Answers.answer (one at a time, in a thread) -> redacted -> encoded once -> response

Nothing here can change the cluster: all routes are GET but the what-if, whose manifest is judged in memory.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import NamedTuple

import msgspec
from aiohttp import web

from bayplan.services.edges.bounded_dict import SizedCache
from bayplan.services.web.access import Access, Viewer
from bayplan.services.web.answers import Answers, Document, Names, Question, Unanswerable
from bayplan.services.web.board import Board
from bayplan.services.web.limits import LARGEST_MANIFEST, MOST_STREAMS
from bayplan.services.web.openapi import ROUTES, Route, openapi_document
from bayplan.services.web.redaction import redacted

DEFAULT_LIMIT, MOST_ITEMS = 500, 1000
# Encoded answers: how many, and how many bytes together.
MOST_ANSWERS, MOST_BYTES = 512, 64 << 20
GZIP_FROM = 1024
# Seconds until an answer can be had that is about the present state.
BEHIND = "Bayplan-Newer-In"
HEARTBEAT = 15.0  # seconds between signs of life on an event stream
# An answer that took a second is given again for four: pages about a busy cluster must not keep a core busy.
GIVEN_AGAIN = 4.0
NOT_YET = "the cluster is being read; try again in a moment"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Encoded(NamedTuple):
    """An answer as it is sent."""

    etag: str
    body: bytes
    zipped: bytes | None


class GivenAnswer(NamedTuple):
    """An answer, the state that it is about, and until when later states get the same."""

    encoded: Encoded
    generation: int
    until: float


class Shown(NamedTuple):
    """One state of the board."""

    answers: Answers
    generation: int


class Api:
    """The handlers of `/api/v1`."""

    def __init__(self, board: Board, access: Access) -> None:
        self._board = board
        self._access = access
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="answers")
        # A large what-if holds up other what-ifs, and no screen.
        self._what_ifs = ThreadPoolExecutor(max_workers=1, thread_name_prefix="what-if")
        self._kept: SizedCache[Question, GivenAnswer] = SizedCache(MOST_ANSWERS, MOST_BYTES)
        self._streams = 0

    def routes(self) -> list[web.RouteDef]:
        """Everything below `/api/v1`."""
        found = [web.get("/api/v1/openapi.json", self._openapi), web.get("/api/v1/events", self._events)]
        for route in ROUTES:
            add = web.post if route.method == "post" else web.get
            found.append(add(route.path, self._handler(route)))
        return found

    def close(self) -> None:
        """End the threads."""
        for thread in (self._thread, self._what_ifs):
            thread.shutdown(wait=False, cancel_futures=True)

    def _handler(self, route: Route) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            shown, viewer = await self._viewed(request)
            given = dict(request.match_info) | dict(request.query)
            unknown = [name for name in request.query if name not in route.parameters]
            if unknown:
                known = ", ".join(route.parameters) or "none"
                raise Unanswerable(HTTPStatus.BAD_REQUEST, f"unknown parameter {unknown[0]!r}; known: {known}")
            namespace = given.get("namespace", "")
            if namespace and viewer.visible is not None and namespace not in viewer.visible:
                raise Unanswerable(HTTPStatus.NOT_FOUND, f"no namespace {namespace!r} that {viewer.name} may read")
            manifest = await _manifest(request) if route.method == "post" else b""
            question = Question(route.answers, tuple(sorted(given.items())), manifest, viewer.visible)
            encoded, behind = await self._encoded(shown, question, route)
            response = _response(request, encoded, route)
            if behind:
                response.headers[BEHIND] = f"{behind:.1f}"
            return response

        return handle

    async def _viewed(self, request: web.Request) -> tuple[Shown, Viewer]:
        # Both before anything is awaited: a new state may be published meanwhile.
        answers, generation = self._board.answers, self._board.notice.generation
        namespaces = answers.names.namespaces if answers is not None else ()
        viewer = await self._access.viewer(request.headers.get("Authorization", ""), namespaces)
        if answers is None:
            raise Unanswerable(HTTPStatus.SERVICE_UNAVAILABLE, self._board.notice.trouble or NOT_YET)
        return Shown(answers, generation), viewer

    async def _encoded(self, shown: Shown, question: Question, route: Route) -> tuple[Encoded, float]:
        """The answer, and in how many seconds a newer one can be had; 0: it is about the state that is shown.

        It is computed once per state, and less often if that takes long; equal questions that wait share it.
        """
        answers, clock = shown.answers, asyncio.get_running_loop().time

        def answered() -> GivenAnswer:
            known = self._kept.get(question)
            if known is not None and (known.generation >= shown.generation or clock() < known.until):
                return known
            began = clock()
            document = redacted(answers.answer(question), answers.names, question.visible)
            encoded = _encode(_page(document, question) if route.pages else document)
            known = GivenAnswer(encoded, shown.generation, clock() + GIVEN_AGAIN * (clock() - began))
            self._kept.put(question, known, len(encoded.body) + len(encoded.zipped or b""))
            return known

        try:
            thread = self._thread if route.method == "get" else self._what_ifs
            kept = await asyncio.get_running_loop().run_in_executor(thread, answered)
        except Unanswerable as error:
            raise _without_names(error, answers.names, question.visible) from None
        return kept.encoded, 0.0 if kept.generation >= shown.generation else max(0.1, kept.until - clock())

    async def _openapi(self, request: web.Request) -> web.StreamResponse:
        return _response(request, _encode(openapi_document()), None)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Server-Sent Events: one `change` whenever there is something new to fetch, or trouble to show."""
        await self._access.viewer(request.headers.get("Authorization", ""), ())
        if self._streams >= MOST_STREAMS:
            raise Unanswerable(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open; close some")
        self._streams += 1
        try:
            stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
            await stream.prepare(request)
            seen = None
            while True:
                notice = await self._board.next_notice(seen, HEARTBEAT)
                if notice is None:
                    await stream.write(b": alive\n\n")
                    continue
                seen = notice
                answers = self._board.answers
                shown = {"source": answers.source, "standing": answers.standing} if answers else {"source": ""}
                told = {"generation": notice.generation, "trouble": notice.trouble, "takenAt": notice.taken_at}
                news = {**told, **shown}
                await stream.write(b"event: change\ndata: " + msgspec.json.encode(news) + b"\n\n")
        except ConnectionError:
            return web.Response()
        finally:
            self._streams -= 1


async def _manifest(request: web.Request) -> bytes:
    """The body of a what-if. Its content type keeps forms of other sites from sending one."""
    if request.content_type not in ("application/yaml", "application/json"):
        raise Unanswerable(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the manifest as application/yaml or application/json"
        )
    body = await request.read()
    if len(body) > LARGEST_MANIFEST:
        raise Unanswerable(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the manifest is larger than {LARGEST_MANIFEST} bytes")
    return body


def _page(document: Document, question: Question) -> Document:
    """A part of `items`, with Kubernetes' fields for asking for the next one."""
    limit = _number(question, "limit", DEFAULT_LIMIT, MOST_ITEMS)
    first = _number(question, "continue", 0, 10**9)
    items = document["items"]
    rest = max(0, len(items) - first - limit)
    metadata = {"continue": str(first + limit) if rest else None, "remainingItemCount": rest}
    return {**document, "metadata": metadata, "items": items[first : first + limit]}


def _number(question: Question, name: str, default: int, most: int) -> int:
    text = question.get(name)
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9 or (name == "limit" and not 0 < int(text) <= most):
        raise Unanswerable(HTTPStatus.BAD_REQUEST, f"{name}: expected a number up to {most}")
    return int(text)


def _encode(document: Document) -> Encoded:
    body = msgspec.json.encode(document)
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return Encoded(etag, body, gzip.compress(body, 5, mtime=0) if len(body) >= GZIP_FROM else None)


def _response(request: web.Request, encoded: Encoded, route: Route | None) -> web.Response:
    headers = {"ETag": encoded.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding, Authorization"}
    given = {each.strip().removeprefix("W/") for each in request.headers.get("If-None-Match", "").split(",")}
    if encoded.etag in given and (route is None or route.method == "get"):
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    body = encoded.body
    if encoded.zipped is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
        body = encoded.zipped
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, content_type="application/json", headers=headers)


def _without_names(error: Unanswerable, names: Names, visible: frozenset[str] | None) -> Unanswerable:
    if error.names_are_the_viewers:
        return error
    return Unanswerable(error.status, redacted({"text": error.text}, names, visible)["text"])
