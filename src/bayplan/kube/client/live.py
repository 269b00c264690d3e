"""The objects of a cluster that runs, as if they had been read from files.

In comes an `Access`, out goes the same `ObjectSet` that `kube/files.py` makes of a dump, so that every command that
answers for a file answers for a cluster too; `follow_cluster` keeps it current for those that watch. Kinds that are not
installed are simply not there; an object of a wrong shape is told and left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from bayplan.kube.client.access import Access
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.client.decoding import Broken, Listed
from bayplan.kube.client.versions import cannot_read, list_served
from bayplan.kube.client.watch import Absent, Changes, follow
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.priority_classes import PriorityClass
from bayplan.kube.resources import (
    HYPER_NODES,
    KAI_TOPOLOGIES,
    KUBERNETES_WORKLOADS,
    KUEUE_TOPOLOGIES,
    LIMIT_RANGES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    NUMATOPOLOGIES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    STORAGE,
    Resource,
    pod_groups,
)
from bayplan.kube.wire.core_v1 import LimitRange, Metadata, ResourceQuota

SETTLE = 0.3  # seconds
_Name = tuple[str, str]
News = Listed[Any] | Changes[Any] | Absent


def followed() -> tuple[Resource[Any], ...]:
    """Everything that decisions depend on."""
    return (
        NAMESPACES,
        NODES,
        PODS,
        NODE_RESOURCE_TOPOLOGIES,
        NUMATOPOLOGIES,
        *pod_groups().values(),
        KAI_TOPOLOGIES,
        KUEUE_TOPOLOGIES,
        HYPER_NODES,
        KUBERNETES_WORKLOADS,
        *STORAGE,
    )


# Without these there is no answer; an account that must not read others gets one that says what was left out.
NEEDED = (NODES, PODS)


async def read_cluster(access: Access) -> tuple[ObjectSet, list[str]]:
    """Everything that decisions depend on, and sentences about what could not be read."""
    async with KubeClient(access) as client:
        answers = await asyncio.gather(*(_unless_forbidden(client, each) for each in followed()))
    found = dict(zip(followed(), answers, strict=True))
    listed: dict[Resource[Any], Listed[Any]] = {each: answer.listed for each, answer in found.items()}
    unreadable = {each: answer.unreadable for each, answer in found.items()}
    objects, problems = _together(listed, unreadable)
    forbidden = ", ".join(str(each) for each, answer in found.items() if answer.forbidden)
    return objects, problems + ([f"no right to list {forbidden}"] if forbidden else [])


async def read_some(access: Access, resources: Sequence[Resource[Any]]) -> ObjectSet:
    """The objects of a few resources, as far as they may be read."""
    async with KubeClient(access) as client:
        answers = await asyncio.gather(*(_unless_forbidden(client, each) for each in resources))
    listed: dict[Resource[Any], Listed[Any]] = {each: Listed([], "", []) for each in followed()}
    listed.update({each: answer.listed for each, answer in zip(resources, answers, strict=True)})
    return _together(listed, {})[0]


async def read_priority_classes(access: Access) -> list[PriorityClass]:
    """The PriorityClasses; none if they cannot be read."""
    async with KubeClient(access) as client:
        try:
            return (await client.list(PRIORITY_CLASSES)).items
        except ApiError:
            return []


async def read_namespace_limits(
    access: Access, namespaces: Sequence[str]
) -> tuple[list[LimitRange], list[ResourceQuota], list[str]]:
    """The LimitRanges and ResourceQuotas of some namespaces, and sentences about what could not be read."""
    ranges: list[LimitRange] = []
    quotas: list[ResourceQuota] = []
    problems: list[str] = []
    async with KubeClient(access) as client:
        for namespace in namespaces:
            try:
                ranges += (await client.list(LIMIT_RANGES, namespace)).items
                quotas += (await client.list(RESOURCE_QUOTAS, namespace)).items
            except ApiError as error:
                problems.append(f"limits and quotas of namespace {namespace}: {error.message}")
    return ranges, quotas, problems


class Follower(Protocol):
    """Someone who keeps what watches bring."""

    def take(self, resource: Resource[Any], news: News) -> None:
        """News about one resource, on the event loop."""

    def show(self) -> None:
        """Everything is known, or has changed since the last call. Runs in a thread of its own."""


async def follow_cluster(
    access: Access,
    show: Callable[[ObjectSet, list[str]], None],
    *,
    settle: float = SETTLE,
    on_error: Callable[[str], None] = lambda _: None,
) -> None:
    """Call `show` with everything, first when all of it is known and again after changes, without end."""
    await follow_news(access, _Followed(show), settle=settle, on_error=on_error)


async def follow_news(
    access: Access,
    follower: Follower,
    *,
    settle: float = SETTLE,
    on_error: Callable[[str], None] = lambda _: None,
) -> None:
    """Give a follower all lists and changes, and let it show them, without end.

    Changes in quick succession are batched for `settle` seconds, and for as long as showing them took: a large cluster
    that changes all the time is not shown all the time.
    """
    changed, awaited = asyncio.Event(), set(followed())

    async def keep_current(client: KubeClient, resource: Resource[Any]) -> None:
        optional = resource not in NEEDED
        async for news in follow(client, resource, on_error=on_error, forbidden_is_absent=optional):
            follower.take(resource, news)
            awaited.discard(resource)
            changed.set()

    async with KubeClient(access) as client:
        tasks = [asyncio.create_task(keep_current(client, each)) for each in followed()]
        loop, pause = asyncio.get_running_loop(), settle
        try:
            for task in tasks:
                task.add_done_callback(lambda _: changed.set())
            while True:
                await changed.wait()
                for task in tasks:
                    if task.done():
                        task.result()  # it only ends with an error
                await asyncio.sleep(pause)
                changed.clear()
                if not awaited:
                    began = loop.time()
                    await asyncio.to_thread(follower.show)
                    pause = max(settle, loop.time() - began)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class _Followed:
    """What watches have brought so far, shown as one set of objects."""

    def __init__(self, show: Callable[[ObjectSet, list[str]], None]) -> None:
        self._show = show
        self._items: dict[Resource[Any], dict[_Name, Any]] = {each: {} for each in followed()}
        self._broken: dict[Resource[Any], dict[_Name, Broken]] = {each: {} for each in followed()}
        self._unreadable: dict[Resource[Any], tuple[str, ...]] = {}

    def take(self, resource: Resource[Any], news: News) -> None:
        """Keep one resource current."""
        items, broken = self._items[resource], self._broken[resource]
        if not isinstance(news, Changes):
            items.clear()
            broken.clear()
        self._unreadable[resource] = news.unreadable if isinstance(news, Absent) else ()
        match news:
            case Listed():
                items.update((_name(each.metadata), each) for each in news.items)
            case Changes():
                for change in news.changes:
                    broken.pop(_name(change.object.metadata), None)
                    if change.kind == "DELETED":
                        items.pop(_name(change.object.metadata), None)
                    else:
                        items[_name(change.object.metadata)] = change.object
        for each in news.broken if not isinstance(news, Absent) else ():
            items.pop((each.namespace, each.name), None)
            broken.pop((each.namespace, each.name), None)
            if not each.deleted:
                broken[each.namespace, each.name] = each

    def show(self) -> None:
        """Show everything as of now."""
        listed: dict[Resource[Any], Listed[Any]] = {
            each: Listed(list(self._items[each].values()), "", list(self._broken[each].values())) for each in followed()
        }
        self._show(*_together(listed, self._unreadable))


def _name(metadata: Metadata) -> _Name:
    return metadata.namespace or "", metadata.name


def _together(
    listed: Mapping[Resource[Any], Listed[Any]], unreadable: Mapping[Resource[Any], tuple[str, ...]]
) -> tuple[ObjectSet, list[str]]:
    """What was listed as one set, and sentences about what is not in it."""
    found = ObjectSet(
        nodes=listed[NODES].items,
        pods=listed[PODS].items,
        namespaces=listed[NAMESPACES].items,
        topologies=listed[NODE_RESOURCE_TOPOLOGIES].items,
        numatopologies=listed[NUMATOPOLOGIES].items,
        unreadable_topologies=[broken.name for broken in listed[NODE_RESOURCE_TOPOLOGIES].broken],
        levels=[*listed[KUEUE_TOPOLOGIES].items, *listed[KAI_TOPOLOGIES].items],
        hyper_nodes=listed[HYPER_NODES].items,
        gangs=listed[POD_GROUPS].items,
        other_gangs=[group for each in pod_groups().values() if each is not POD_GROUPS for group in listed[each].items],
        kubernetes_workloads=listed[KUBERNETES_WORKLOADS].items,
        storage=[thing for each in STORAGE for thing in listed[each].items],
    )
    problems = [
        f"{resource.kind} {f'{broken.namespace}/' if broken.namespace else ''}{broken.name}: {broken.problem}"
        for resource, each in listed.items()
        for broken in each.broken
    ]
    problems += [cannot_read(resource, versions) for resource, versions in unreadable.items() if versions]
    return found, problems


class _Answer(NamedTuple):
    """What listing a resource brought."""

    listed: Listed[Any]
    unreadable: tuple[str, ...] = ()
    forbidden: bool = False


async def _unless_forbidden(client: KubeClient, resource: Resource[Any]) -> _Answer:
    """All objects of a resource; none if they must not be read and are not needed."""
    try:
        listed, found = await list_served(client, resource)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN or resource in NEEDED:
            raise
        return _Answer(Listed([], "", []), forbidden=True)
    return _Answer(listed, found.unreadable)
