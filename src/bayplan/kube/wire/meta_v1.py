"""What all kinds have in common on the wire: the head of a list, a Status (the API server's answer to what it refuses),
watch lines.

Client and watch decode with these; `core_v1.Metadata` is the head of a single object.
"""

from __future__ import annotations

from typing import Generic, Literal, Protocol, TypeVar

from msgspec import Raw, Struct, field

from bayplan.kube.wire.core_v1 import Metadata, WireStruct

JSON = "application/json"


class WireObject(Protocol):
    """Any object of the API, reduced to a wire struct."""

    @property
    def metadata(self) -> Metadata:
        """Name, namespace, resource version and the like."""
        ...


T = TypeVar("T", bound=WireObject)


class ListMeta(WireStruct, frozen=True):
    """Head of a list: the version it shows, and the ticket for its next page if there is one."""

    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class Page(Struct, Generic[T], gc=False):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class RawPage(Struct):
    """The same page, its items not looked into."""

    metadata: ListMeta = ListMeta()
    items: list[Raw] | None = None


class StatusCause(WireStruct, frozen=True):
    """One of the causes of a refusal, such as `DisruptionBudget`, and the field that is invalid."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(WireStruct, frozen=True):
    """Which object a Status is about, and what caused it."""

    name: str = ""
    kind: str = ""
    retry_after_seconds: int = 0
    causes: list[StatusCause] | None = None


class Status(WireStruct, frozen=True):
    """The API server's sentence about a request that it refused, or about a watch that it ends."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class Change(Struct, Generic[T], gc=False):
    """One thing that happened to one object; exactly a line of a watch that is neither a bookmark nor an error."""

    kind: Literal["ADDED", "MODIFIED", "DELETED"] = field(name="type")
    object: T


class WatchLine(Struct):
    """Any line of a watch, its object not looked into."""

    type: str
    object: Raw
