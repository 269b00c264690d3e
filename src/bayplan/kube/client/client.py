"""The Kubernetes client: resources and verbs on top of `kube/client/transport.py`.

The client takes an `Access` (the API server's address and credentials) and resources. Reads return wire structs,
reduced to the fields that bayplan needs; writes return the server's raw response. Reads are retried a few times after a
transient error. Writes are never retried: the caller checks the watch (`kube/client/watch.py`) and decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Literal

import msgspec

from bayplan.kube.client.backoff import Backoff
from bayplan.kube.client.decoding import (
    NOT_JSON,
    Changes,
    Listed,
    ResourceDecoder,
    beside_the_loop,
    decoder_of,
    next_ticket,
)
from bayplan.kube.client.transport import ApiError, Transport, Unreachable
from bayplan.kube.resources import PODS, Resource
from bayplan.kube.wire import policy_v1
from bayplan.kube.wire.meta_v1 import Change, T

# Re-exports the exceptions that the client raises.
__all__ = ["PAGE", "TIME_MAY_HEAL", "ApiError", "KubeClient", "PatchKind", "Unreachable", "selectors"]

READ_ATTEMPTS = 4
# Each page costs the API server a walk over its cache: 50,000 pods take it 2.4 to 4 s of CPU time in pages of 500,
# 1.5 s in pages of 5,000 and 1.2 s in one answer, which the client would have to hold and decode at once.
PAGE = 5_000
FIRST_WAIT = 0.1  # seconds, before the second attempt
LONGEST_RETRY_AFTER = 30.0  # seconds; a server that asks for more is left to the caller
TIME_MAY_HEAL = frozenset({429, 500, 502, 503, 504})

PatchKind = Literal["strategic", "merge", "json", "apply"]
_PATCH_TYPES: Mapping[PatchKind, str] = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class KubeClient(Transport):
    """`async with KubeClient(access) as client`.

    At most `connections` requests at once; watches have connections of their own.
    """

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        """One object. Raises msgspec.ValidationError if it is not of its kind's shape."""
        decoder: ResourceDecoder[T] = decoder_of(resource)
        path = resource.path(namespace, name)
        data = await _read(self, path, accept=resource.accept())
        try:
            return await beside_the_loop(decoder.one, data)
        except msgspec.ValidationError:
            raise
        except NOT_JSON as error:
            raise Unreachable(f"GET {path}: the answer is not an object: {error}: {data[:80]!r}") from None

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        page: int = PAGE,
    ) -> Listed[T]:
        """All objects at one version, asked for in pages of `page` (0: all at once) if the resource is paged."""
        query = selectors(label_selector, field_selector)
        async with aclosing(self.list_by_page(resource, namespace, query, page)) as pages:
            async for news in pages:
                if isinstance(news, Listed):
                    news.delivered = 0
                    return news
        raise AssertionError("the last page completes the list")

    async def list_by_page(
        self, resource: Resource[T], namespace: str | None, query: Mapping[str, str], page: int
    ) -> AsyncGenerator[Changes[T] | Listed[T], None]:
        """Each page as soon as it is decoded, and with the last one the whole list.

        Tickets to the next page expire after some minutes; then it starts over, the second time without pages.
        """
        path = resource.path(namespace)
        for limit in (page, page, 0) if resource.paged else (0,):
            try:
                async with aclosing(_pages(self, resource, path, query, limit)) as pages:
                    async for news in pages:
                        yield news
            except ApiError as error:
                if error.status != 410 or not limit:
                    raise
            else:
                return

    async def create(
        self,
        resource: Resource[T],
        body: object,
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """Create an object, or a subresource of the object `name`.

        `body` is anything that msgspec encodes, or bytes.
        """
        return await self.request("POST", resource.path(namespace, name, subresource), body=body)

    async def update(
        self,
        resource: Resource[T],
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> bytes:
        """Replace an object; a 409 if `body` carries a resource version that is no longer current."""
        return await self.request("PUT", resource.path(namespace, name, subresource), body=body)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        kind: PatchKind = "strategic",
        field_manager: str = "bayplan",
        force: bool = False,
    ) -> bytes:
        """Change parts of an object.

        Custom resources know no strategic patches; `apply` creates what does not exist.
        """
        query = {"fieldManager": field_manager}
        if force:
            query["force"] = "true"
        path = resource.path(namespace, name, subresource)
        return await self.request(
            "PATCH", path, body=body, query=query, content_type=_PATCH_TYPES[kind], accept=resource.accept()
        )

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace: int | None = None,
    ) -> None:
        """Delete an object; with `uid` only this very one and not a successor of the same name (409)."""
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self.request("DELETE", resource.path(namespace, name), body=options)

    async def bind(self, namespace: str, pod: str, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        """Put a pod on a node.

        The server writes the annotations onto the pod in the same step; labels only since 1.35, so there are none.
        409: it has a node, or another uid.
        """
        metadata: dict[str, object] = {"name": pod, "namespace": namespace, "uid": uid}
        if annotations:
            metadata["annotations"] = annotations
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self.request("POST", PODS.path(namespace, pod, "binding"), body=body)

    async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
        """Evict a pod through the eviction API.

        429: a PodDisruptionBudget forbids it (see the causes). 409: it has another uid.
        """
        body = {
            "apiVersion": policy_v1.API_VERSION,
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        query = {"dryRun": "All"} if dry_run else None
        await self.request("POST", PODS.path(namespace, pod, "eviction"), body=body, query=query)


def selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    """The query that narrows a list or a watch."""
    query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in query.items() if value}


async def _pages(
    client: KubeClient, resource: Resource[T], path: str, query: Mapping[str, str], limit: int
) -> AsyncGenerator[Changes[T] | Listed[T], None]:
    """All pages; each is decoded and delivered while the server makes the next one."""

    def ask(ticket: str) -> asyncio.Task[bytes]:
        asked = {**query, **({"limit": str(limit)} if limit else {}), **({"continue": ticket} if ticket else {})}
        return asyncio.create_task(_read(client, path, asked, accept=resource.accept(many=True), is_list=True))

    decoder: ResourceDecoder[T] = decoder_of(resource)
    listed: Listed[T] = Listed([], "", [])
    asking = ask("")
    try:
        while True:
            data = await asking
            next_page = next_ticket(data)
            if next_page:
                asking = ask(next_page)
            try:
                items, broken, head = await beside_the_loop(decoder.page, data)
            except NOT_JSON as error:
                raise Unreachable(f"GET {path}: the answer is not a list: {error}: {data[:80]!r}") from None
            listed.items += items
            listed.broken += broken
            listed.resource_version = listed.resource_version or head.resource_version
            if not head.continue_:
                yield listed
                return
            if head.continue_ != next_page:
                asking.cancel()
                asking = ask(head.continue_)
            yield Changes([Change("ADDED", item) for item in items], broken)
            listed.delivered += len(items)
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _read(
    client: KubeClient, path: str, query: Mapping[str, str] | None = None, *, accept: str, is_list: bool = False
) -> bytes:
    """Read, and try again a few times where time may heal the trouble."""
    backoff = Backoff(first=FIRST_WAIT, longest=2.0)
    for _ in range(READ_ATTEMPTS - 1):
        try:
            return await client.request("GET", path, query=query, accept=accept, is_list=is_list)
        except Unreachable:
            delay = backoff.after_failure()
        except ApiError as error:
            if error.status not in TIME_MAY_HEAL or (error.retry_after or 0) > LONGEST_RETRY_AFTER:
                raise
            delay = max(backoff.after_failure(), error.retry_after or 0)
        await asyncio.sleep(delay)
    return await client.request("GET", path, query=query, accept=accept, is_list=is_list)
