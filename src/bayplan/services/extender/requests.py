"""Decode requests, and say in one line what is wrong with one."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

from bayplan.kube.client.decoding import NOT_JSON
from bayplan.kube.errors import field_and_problem
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.extender_v1 import ABSENT

Result = TypeVar("Result")

_pod = msgspec.json.Decoder(Pod)


class BadRequest(ValueError):
    """A request that kube-scheduler would not send; the message is one line."""


def decoded(decoder: msgspec.json.Decoder[Result], body: bytes | Raw, at: str = "") -> Result:
    """A request, or the part of it that is `at` a field; raises `BadRequest`. Raw parts may hold any bytes."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise bad_request(error, at) from None
    except NOT_JSON as error:
        raise BadRequest(f"{at or 'the body'} is not JSON: {error}") from None


def pod_in(raw: Raw) -> Pod:
    """The pod of a request; raises `BadRequest` if there is none or it is malformed."""
    if raw == ABSENT:
        raise BadRequest("Pod: is missing")
    return decoded(_pod, raw, "Pod")


def bad_request(error: msgspec.ValidationError, at: str = "") -> BadRequest:
    """The field of a part of a request (`at`), and what is wrong with it."""
    field, problem = field_and_problem(error)
    field = ".".join(filter(None, (at, field)))
    return BadRequest(f"{field}: {problem}" if field else problem)
