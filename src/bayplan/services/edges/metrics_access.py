"""Who may read metrics: the API server says, by TokenReview and SubjectAccessReview, as for kube-scheduler.

In comes the `Authorization` header of a request for `/metrics`; out goes None, or the status and the sentence to refuse
it with. Answers are kept for a few seconds, so a scraper costs two requests per interval at most, and a flood of wrong
tokens is bounded.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.edges.reviews import bearer_token, may, user_of

logger = logging.getLogger(__name__)

PATH = "/metrics"
KEPT_FOR = 10.0  # seconds, as kube-scheduler keeps its answers
MOST_KEPT = 256


class DeniedRequest(NamedTuple):
    """The HTTP status and the sentence of a refused request."""

    status: int
    text: str


class MetricsGuard:
    """Asks the API server about each new token. `clock` is monotonic."""

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        # By the token's hash, so that memory holds no tokens: until when the answer counts, and the answer.
        self._kept: BoundedDict[bytes, tuple[float, DeniedRequest | None]] = BoundedDict(MOST_KEPT)

    async def refusal(self, authorization: str) -> DeniedRequest | None:
        """Why a request with this header is refused; None if it is allowed."""
        token = bearer_token(authorization)
        if not token:
            return DeniedRequest(HTTPStatus.UNAUTHORIZED, "send a token: Authorization: Bearer TOKEN")
        key = hashlib.sha256(token.encode(errors="replace")).digest()
        until, kept = self._kept.get(key, (0.0, None))
        if self._clock() < until:
            return kept
        try:
            answer = await self._ask(token)
        except (ApiError, Unreachable, msgspec.DecodeError) as problem:
            logger.warning("cannot review a token for /metrics", extra={"problem": str(problem)})
            return DeniedRequest(
                HTTPStatus.SERVICE_UNAVAILABLE, "the API server cannot be asked who may read; see the log"
            )
        self._kept[key] = (self._clock() + KEPT_FOR, answer)
        return answer

    async def _ask(self, token: str) -> DeniedRequest | None:
        user = await user_of(self._client, token)
        if user is None:
            return DeniedRequest(HTTPStatus.UNAUTHORIZED, "the token is not valid")
        if not await may(self._client, user, {"nonResourceAttributes": {"path": PATH, "verb": "get"}}):
            return DeniedRequest(HTTPStatus.FORBIDDEN, f"{user.get('username', '')} must not get {PATH}")
        return None
