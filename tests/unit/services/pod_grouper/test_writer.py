"""Writes about one gang follow each other, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from bayplan.grouping.group import GroupingSettings
from bayplan.kube.client.client import KubeClient
from bayplan.services.pod_grouper.cache import GrouperCache
from bayplan.services.pod_grouper.writer import PodGroupWriter
from tests.builders.bodies import Json

GANG = "ml/train"


class SlowClient:
    """Counts how many patches are on their way at the same time."""

    def __init__(self) -> None:
        self.under_way = 0
        self.most_at_once = 0
        self.patches = 0

    async def patch(self, *_: Any, **__: Any) -> bytes:
        self.under_way += 1
        self.patches += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.under_way -= 1
        return b"{}"


def manifest(size: int) -> Json:
    return {"metadata": {"name": "train", "namespace": "ml"}, "spec": {"size": size}}


def test_a_gang_that_is_forgotten_during_a_write_is_still_written_by_one_at_a_time() -> None:
    client = SlowClient()
    cache = GrouperCache(GroupingSettings(), ["bayplan"])
    writer = PodGroupWriter(cast("KubeClient", client), cache)

    async def told() -> None:
        writes = [asyncio.create_task(writer.ensure(manifest(size))) for size in (1, 2)]
        await asyncio.sleep(0)
        cache.wanted.forget(GANG)
        writes.append(asyncio.create_task(writer.ensure(manifest(3))))
        await asyncio.gather(*writes)

    asyncio.run(told())
    assert (client.patches, client.most_at_once) == (3, 1)
