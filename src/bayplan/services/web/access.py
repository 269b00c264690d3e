"""Who may look, and at which namespaces: the API server says, by TokenReview and SubjectAccessReview.

In comes the `Authorization` header of a request, out goes a `Viewer` or a refusal. A viewer must be allowed to list
nodes; the pods of a namespace are shown by name to viewers who may list them. Answers are kept for a few seconds, by
the token's hash, so that memory holds no tokens and a flood of wrong tokens is bounded.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.edges.reviews import User, bearer_token, may, user_of
from bayplan.services.extender.tls import Token
from bayplan.services.web.answers import Unanswerable

logger = logging.getLogger(__name__)

KEPT_FOR = 30.0  # seconds
MOST_KEPT = 256
# Namespaces asked about for one viewer; those beyond stay hidden. And how many questions are open at once.
MOST_NAMESPACES = 500
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Viewer:
    """Someone who may look. `visible` are the namespaces shown by name; None: all."""

    name: str = ""
    visible: frozenset[str] | None = None


EVERYTHING = Viewer()


class OpenAccess:
    """Every client sees everything: for the loopback."""

    async def viewer(self, _authorization: str, _namespaces: Collection[str]) -> Viewer:
        """Anyone."""
        return EVERYTHING


class TokenAccess:
    """One token, from a file, that opens everything: for pages about a dump, where no API server can be asked."""

    def __init__(self, token: Token) -> None:
        self.token = token

    async def viewer(self, authorization: str, _namespaces: Collection[str]) -> Viewer:
        """The bearer of the token."""
        if not bearer_token(authorization) or not self.token.accepts(authorization):
            raise Unanswerable(HTTPStatus.UNAUTHORIZED, "send the token: Authorization: Bearer TOKEN")
        return EVERYTHING


class ReviewedAccess:
    """Asks the API server about each new token. `clock` is monotonic."""

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        # Until when it holds, and the namespaces that were asked about.
        self._kept: BoundedDict[bytes, tuple[float, frozenset[str], Viewer | Unanswerable]] = BoundedDict(MOST_KEPT)

    async def viewer(self, authorization: str, namespaces: Collection[str]) -> Viewer:
        """The user behind a token; raises `Unanswerable` if there is none, or if the user lacks the right."""
        token = bearer_token(authorization)
        if not token:
            raise Unanswerable(HTTPStatus.UNAUTHORIZED, "send a token of this cluster: Authorization: Bearer TOKEN")
        key = hashlib.sha256(token.encode(errors="replace")).digest()
        until, asked, known = self._kept.get(key, (0.0, frozenset(), EVERYTHING))
        is_partial = isinstance(known, Viewer) and known.visible is not None
        if self._clock() >= until or (is_partial and not asked.issuperset(namespaces)):
            asked = frozenset(namespaces)
            known = await self._asked(token, sorted(asked))
            if not (isinstance(known, Unanswerable) and known.status == HTTPStatus.SERVICE_UNAVAILABLE):
                self._kept[key] = (self._clock() + KEPT_FOR, asked, known)
        if isinstance(known, Unanswerable):
            raise known
        return known

    async def _asked(self, token: str, namespaces: list[str]) -> Viewer | Unanswerable:
        try:
            user = await user_of(self._client, token)
            if user is None:
                return Unanswerable(HTTPStatus.UNAUTHORIZED, "the token is not valid, or has expired")
            return await self._rights(user, namespaces)
        except (ApiError, Unreachable, msgspec.DecodeError) as problem:
            logger.warning("cannot review a token", extra={"problem": str(problem)})
            return Unanswerable(HTTPStatus.SERVICE_UNAVAILABLE, "the API server cannot be asked who may look")

    async def _rights(self, user: User, namespaces: list[str]) -> Viewer | Unanswerable:
        name = str(user.get("username", ""))
        if not await self._may_list(user, "nodes"):
            return Unanswerable(HTTPStatus.FORBIDDEN, f"{name} must not list nodes")
        if await self._may_list(user, "pods"):
            return Viewer(name)
        at_once = asyncio.Semaphore(AT_ONCE)

        async def readable(namespace: str) -> bool:
            async with at_once:
                return await self._may_list(user, "pods", namespace)

        asked = namespaces[:MOST_NAMESPACES]
        allowed = await asyncio.gather(*map(readable, asked))
        return Viewer(name, frozenset(each for each, yes in zip(asked, allowed, strict=True) if yes))

    async def _may_list(self, user: User, resource: str, namespace: str = "") -> bool:
        attributes = {"verb": "list", "resource": resource, "namespace": namespace}
        return await may(self._client, user, {"resourceAttributes": attributes})


Access = OpenAccess | TokenAccess | ReviewedAccess
