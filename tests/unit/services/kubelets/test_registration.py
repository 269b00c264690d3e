"""The end of a fleet: an API server that does not answer is given up soon."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import cast

from bayplan.kube.client.client import KubeClient
from bayplan.services.kubelets.registration import NO_ANSWER_AFTER, Registration
from tests.builders.services import in_virtual_time, now


class SilentClient:
    """An API server that takes requests and never answers."""

    async def delete(self, *what: object, **how: object) -> None:
        await asyncio.sleep(3600)


def test_the_end_does_not_wait_for_an_api_server_that_is_silent() -> None:
    troubles: Counter[str] = Counter()

    async def story() -> tuple[int, float]:
        client = cast("KubeClient", SilentClient())
        registration = Registration(client, (), {}, heartbeat=0.0, on_error=lambda problem: troubles.update([problem]))
        registration.uids = {f"virtual-{number}": "uid" for number in range(200)}
        return await registration.remove(lambda _done, _of: None), now()

    assert in_virtual_time(story()) == (0, NO_ANSWER_AFTER)
    assert list(troubles) == ["the API server has not answered for 10 s"]
