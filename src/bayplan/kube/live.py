"""The objects of a cluster that runs, as if they had been read from files.

In comes an `Access`, out goes the same `ObjectSet` that `kube/files.py` makes of a dump, so that every command that answers for a file answers for a
cluster too. Kinds that are not installed are simply not there; an object of a wrong shape is told and left out.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from bayplan.kube.access import Access
from bayplan.kube.client import ApiError, KubeClient
from bayplan.kube.decoding import Listed
from bayplan.kube.files import ObjectSet
from bayplan.kube.resources import (
    KAI_POD_GROUPS,
    KAI_TOPOLOGIES,
    KUEUE_TOPOLOGIES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    POD_GROUPS,
    PODS,
    Resource,
)

READ: tuple[Resource[Any], ...] = (
    NAMESPACES,
    NODES,
    PODS,
    NODE_RESOURCE_TOPOLOGIES,
    POD_GROUPS,
    KAI_POD_GROUPS,
    KAI_TOPOLOGIES,
    *KUEUE_TOPOLOGIES,
)


async def read_cluster(access: Access) -> tuple[ObjectSet, list[str]]:
    """Everything that decisions depend on, and sentences about what could not be read."""
    async with KubeClient(access) as client:
        namespaces, nodes, pods, reports, own, kai, *levels = await asyncio.gather(
            *(_listed(client, each) for each in READ)
        )
    found = ObjectSet(nodes.items, pods.items, reports.items, gangs=own.items, kai_gangs=kai.items)
    found.namespaces = namespaces.items
    # Kueue's Topologies are the same ones in every version that is served.
    kueue = next((each.items for each in levels[1:] if each.items), [])
    found.levels = [*kueue, *levels[0].items]
    problems = [
        f"{broken.namespace}/{broken.name}: {broken.problem}"
        for listed in (nodes, pods, reports, own, kai, *levels)
        for broken in listed.broken
    ]
    return found, problems


async def _listed(client: KubeClient, resource: Resource[Any]) -> Listed[Any]:
    try:
        return await client.list(resource)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return Listed([], "", [])
        raise
