"""Decode requests, and say in one line what is wrong with one."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

from bayplan.kube.client.decoding import NOT_JSON, decoder_of
from bayplan.kube.errors import field_and_problem
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.extender_v1 import ABSENT

Arguments = TypeVar("Arguments", bound=msgspec.Struct)


class BadRequest(ValueError):
    """A request that kube-scheduler would not send; the message is one line."""


def decoded(decoder: msgspec.json.Decoder[Arguments], body: bytes) -> Arguments:
    """The body of a request."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise bad_request(error) from None
    except NOT_JSON as error:
        raise BadRequest(f"the body is not JSON: {error}") from None


def pod_in(raw: Raw) -> Pod:
    """The pod of a request; raises `BadRequest` if there is none or it is malformed."""
    if raw == ABSENT:
        raise BadRequest("Pod: is missing")
    try:
        pod: Pod = decoder_of(PODS).one(raw)
    except msgspec.ValidationError as error:
        raise bad_request(error, "Pod") from None
    except NOT_JSON as error:
        raise BadRequest(f"Pod: is not JSON: {error}") from None
    return pod


def bad_request(error: msgspec.ValidationError, at: str = "") -> BadRequest:
    """The field of a part of a request (`at`), and what is wrong with it."""
    field, problem = field_and_problem(error)
    field = ".".join(filter(None, (at, field)))
    return BadRequest(f"{field}: {problem}" if field else problem)
