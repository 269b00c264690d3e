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
from bayplan.kube.meta_v1 import T
from bayplan.kube.resources import (
    ALL_POD_GROUPS,
    HYPER_NODES,
    KAI_TOPOLOGIES,
    KUBERNETES_WORKLOADS,
    KUEUE_TOPOLOGIES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    NUMATOPOLOGIES,
    POD_GROUPS,
    PODS,
    Resource,
)
from bayplan.kube.versions import cannot_read, list_served

OTHER_POD_GROUPS = tuple(resource for resource in ALL_POD_GROUPS.values() if resource is not POD_GROUPS)
READ: tuple[Resource[Any], ...] = (
    NAMESPACES,
    NODES,
    PODS,
    NODE_RESOURCE_TOPOLOGIES,
    NUMATOPOLOGIES,
    POD_GROUPS,
    *OTHER_POD_GROUPS,
    KAI_TOPOLOGIES,
    KUEUE_TOPOLOGIES,
    HYPER_NODES,
)


async def read_cluster(access: Access) -> tuple[ObjectSet, list[str]]:
    """Everything that decisions depend on, and sentences about what could not be read."""
    async with KubeClient(access) as client:
        answers = await asyncio.gather(*(list_served(client, each) for each in READ))
        workloads, forbidden = await _unless_forbidden(client, KUBERNETES_WORKLOADS)
    listed = {resource: answer for resource, (answer, _) in zip(READ, answers, strict=True)}
    unreadable = {resource: found.unreadable for resource, (_, found) in zip(READ, answers, strict=True)}
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
        other_gangs=[group for each in OTHER_POD_GROUPS for group in listed[each].items],
        kubernetes_workloads=workloads.items,
    )
    problems = [
        f"{resource.kind} {f'{broken.namespace}/' if broken.namespace else ''}{broken.name}: {broken.problem}"
        for resource, each in listed.items()
        for broken in each.broken
    ]
    problems += [cannot_read(resource, versions) for resource, versions in unreadable.items() if versions]
    return found, problems + forbidden


async def _unless_forbidden(client: KubeClient, resource: Resource[T]) -> tuple[Listed[T], list[str]]:
    """Objects of a kind that few users may read, and few clusters have; a sentence if these must not be read."""
    try:
        listed, _ = await list_served(client, resource)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return Listed([], "", []), [f"{resource}: reading is forbidden"]
    return listed, []
