"""Which API version of a resource to read: the newest that both the API server and bayplan know, found by discovery.

A list of the newest version that answers 404 means: not installed, or served in other versions only. `served` tells the
two apart. It asks the API server for the versions of the group, its preferred one first, and for the resources of each
version, because a group may have other resources in other versions. `kube/client/watch.py` and `kube/client/live.py`
ask here.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.client.decoding import Listed
from bayplan.kube.resources import Resource
from bayplan.kube.wire.core_v1 import WireStruct
from bayplan.kube.wire.meta_v1 import T


class ServedResource(WireStruct, frozen=True):
    """One resource of an API version; a `/` in the name makes it a part of another one."""

    name: str = ""
    kind: str = ""
    namespaced: bool = False
    short_names: list[str] | None = None


class Served(Struct, frozen=True):
    """What an API server has of a resource: the best version that bayplan reads, and those that it cannot read."""

    readable: Resource[Any] | None = None
    unreadable: tuple[str, ...] = ()


class _ServedList(WireStruct, frozen=True):
    resources: list[ServedResource] | None = None


class _Version(WireStruct, frozen=True):
    version: str = ""


class _Group(WireStruct, frozen=True):
    versions: list[_Version] | None = None
    preferred_version: _Version = _Version()


async def served(client: KubeClient, resource: Resource[T]) -> Served:
    """Look a resource up in the API server's discovery; an empty answer if it is not installed.

    Raises what the client raises.
    """
    group, _, _ = resource.api_version.rpartition("/")
    try:
        found = msgspec.json.decode(await client.request("GET", f"/apis/{quote(group)}"), type=_Group)
    except ApiError as error:
        if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            return Served()
        raise
    names = dict.fromkeys([found.preferred_version.version, *(each.version for each in found.versions or ())])
    readable: Resource[Any] | None = None
    unreadable: list[str] = []
    for version in filter(None, names):
        if all(each.name != resource.plural for each in await resources_of(client, f"{group}/{version}")):
            continue
        if f"{group}/{version}" not in resource.api_versions:
            unreadable.append(version)
        elif readable is None:
            same = f"{group}/{version}" == resource.api_version
            readable = resource if same else resource.at(f"{group}/{version}")
    return Served(readable, () if readable is not None else tuple(unreadable))


async def is_installed(client: KubeClient, resource: Resource[T]) -> bool:
    """Whether the API server has a kind in any version.

    RBAC answers "forbidden" for kinds that do not exist, too; discovery tells the two apart.
    """
    if "/" not in resource.api_version:
        return True
    found = await served(client, resource)
    return found.readable is not None or bool(found.unreadable)


async def list_served(client: KubeClient, resource: Resource[T], *, page: int = 500) -> tuple[Listed[T], Served]:
    """All objects, in the newest version that is served and readable, and which that is.

    None without such a version.
    """
    try:
        return await client.list(resource, page=page), Served(resource)
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN and not await is_installed(client, resource):
            return Listed([], "", []), Served()
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        found = await served(client, resource)
        if found.readable is None:
            return Listed([], "", []), found
        return await client.list(found.readable, page=page), found


async def resources_of(client: KubeClient, api_version: str) -> list[ServedResource]:
    """The resources of one API version; none if it is not served."""
    root = "apis" if "/" in api_version else "api"
    path = "/".join(quote(part, safe="") for part in api_version.split("/"))
    try:
        answer = await client.request("GET", f"/{root}/{path}")
    except ApiError as error:
        if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            return []
        raise
    return msgspec.json.decode(answer, type=_ServedList).resources or []


def cannot_read(resource: Resource[Any], versions: tuple[str, ...]) -> str:
    """The sentence for users whose API server has a resource only in versions that bayplan cannot read."""
    known = ", ".join(each.rpartition("/")[2] for each in resource.api_versions)
    return (
        f"{resource}: the API server serves {', '.join(versions)}; bayplan reads {known}, so it sees no {resource.kind}"
    )
