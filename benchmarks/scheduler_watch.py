"""When pods were bound, as a bystander sees it: a watch of its own, in a thread of its own.

The clock is the system's monotonic one, which all processes share, so that these times can be compared with those at
which pods were created (`scheduler_load.py`). Times on the objects themselves have whole seconds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import aclosing
from pathlib import Path
from typing import Self

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import Absent, Listed, follow
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod
from tests.kubernetes.control_plane.waiting import wait_until


class BindWatch:
    """`with BindWatch(kubeconfig, namespace) as binds`: from then on `binds.times` says when each pod was first seen
    with a node.
    """

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.times: dict[str, float] = {}
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._listed = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listed.wait(60), "the watch of pods does not begin"
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()
        self._loop.close()

    def wait_for(self, count: int, *, timeout: float = 300.0) -> None:
        """Until so many pods have been bound."""
        wait_until(lambda: len(self.times) >= count, f"{count} pods are bound", timeout=timeout)

    def _run(self) -> None:
        self._task = self._loop.create_task(self._follow())
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            return

    async def _follow(self) -> None:
        async with (
            KubeClient(find_access(str(self._kubeconfig))) as client,
            aclosing(follow(client, PODS, namespace=self._namespace)) as news,
        ):
            async for each in news:
                now = time.monotonic()
                if isinstance(each, Listed):
                    self._see(each.items, now)
                    self._listed.set()
                elif not isinstance(each, Absent):
                    self._see([change.object for change in each.changes], now)

    def _see(self, pods: list[Pod], now: float) -> None:
        for pod in pods:
            if pod.spec.node_name:
                self.times.setdefault(pod.metadata.name, now)
