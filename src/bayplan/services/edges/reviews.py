"""Ask the API server about a client: who is behind a token (TokenReview),
what that user may do (SubjectAccessReview).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.kube.client.client import KubeClient

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
BEARER = "bearer "
LONGEST_TOKEN = 16_384

User = dict[str, Any]


def bearer_token(authorization: str) -> str:
    """The token of an `Authorization` header; empty if it has none, or one that no API server issues."""
    token = authorization[len(BEARER) :].strip() if authorization.lower().startswith(BEARER) else ""
    return token if len(token) <= LONGEST_TOKEN else ""


async def user_of(client: KubeClient, token: str) -> User | None:
    """The user behind a token; None if the token is not valid."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    review = msgspec.json.decode(await client.request("POST", TOKEN_REVIEWS, body=body))["status"]
    return review["user"] if review.get("authenticated") else None


async def may(client: KubeClient, user: User, attributes: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a user may do what `resourceAttributes` or `nonResourceAttributes` describe."""
    spec: User = {key: user[key] for key in ("groups", "extra", "uid") if key in user}
    spec |= {"user": user.get("username", ""), **attributes}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    status = msgspec.json.decode(await client.request("POST", ACCESS_REVIEWS, body=body))["status"]
    return bool(status.get("allowed"))
