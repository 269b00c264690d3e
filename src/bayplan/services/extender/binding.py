"""`bind`: take the pod's zones, then bind it through the API server. Only known outcomes are reported.

Zones are taken before anything is sent, so that the next `filter` sees them. A node that would refuse the pod by now is
an error: kube-scheduler then looks for another one.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from bayplan.cluster.state import pod_key
from bayplan.dispatch.actions import Assignment
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.errors import InvalidObject
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.extender_v1 import ExtenderBindingArgs
from bayplan.scheduling.decision import Decision
from bayplan.services.edges.metrics import BindMetrics
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.extender.cluster import ExtenderCluster
from bayplan.services.extender.in_flight import PodsInFlight
from bayplan.services.scheduler.binding.annotations import annotations_of
from bayplan.services.scheduler.binding.binder import Binder, BindResult, Ending


class ExtenderBinder:
    """Binds pods to the nodes that kube-scheduler chose."""

    def __init__(
        self,
        client: KubeClient,
        cluster: ExtenderCluster,
        in_flight: PodsInFlight,
        side_thread: SideThread,
        metrics: BindMetrics,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._in_flight = in_flight
        self._side_thread = side_thread
        self._metrics = metrics
        self._binder = Binder(client, still_wanted=self._is_taken)
        # Binds with an unknown outcome, by uid, with their node.
        self._binding: dict[str, tuple[str, asyncio.Task[str]]] = {}

    async def bind(self, asked: ExtenderBindingArgs, patience: float) -> str:
        """An empty text once the pod is bound, else why it is not. A bind that takes longer goes on by itself."""
        node, task = self._binding.get(asked.pod_uid, ("", None))
        if task is None:
            task = asyncio.create_task(self._bind(asked))
            self._binding[asked.pod_uid] = asked.node, task
            task.add_done_callback(lambda _: self._binding.pop(asked.pod_uid, None))
        elif node != asked.node:
            return f"a bind of {asked.pod_namespace}/{asked.pod_name} to {node} is still in progress"
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(task)
        except TimeoutError:
            return f"the API server has not answered within {patience:g} s; the bind is retried"

    async def finish(self, seconds: float) -> None:
        """Let binds in progress finish."""
        tasks = [task for _, task in self._binding.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def _bind(self, asked: ExtenderBindingArgs) -> str:
        began = time.perf_counter()
        pod = self._cluster.remembered.get(asked.pod_uid) or await self._read(asked)
        if isinstance(pod, str):
            return pod
        await self._side_thread.idle()
        state, key = self._cluster.state, pod_key(pod)
        if key in state.pods:
            # The watch was faster, or the scheduler asks again after a bind whose answer it did not get.
            here = state.names[state.pods[key].row]
            return "" if here == asked.node else f"it already occupies {here}"
        try:
            taken = self._cluster.take(pod, asked.node)
        except InvalidObject as error:
            taken = str(error)
        self._in_flight.settled(asked.pod_uid)
        if isinstance(taken, str):
            self._metrics.bind(Ending.REFUSED.value, time.perf_counter() - began)
            return taken
        return await self._send(pod, asked.node, taken, began)

    async def _send(self, pod: Pod, node: str, decision: Decision, began: float) -> str:
        result = BindResult(Ending.BUG)
        try:
            annotations = annotations_of(Assignment(pod, decision), self._cluster.state)
            result = await self._binder.bind(pod, node, annotations)
        finally:
            await self._side_thread.idle()
            if result.ending is Ending.BOUND:
                self._cluster.reports.bound(node, pod)
            else:
                self._cluster.give_back(pod, node)
            self._metrics.bind(result.ending.value, time.perf_counter() - began)
        return "" if result.ending is Ending.BOUND else result.message or "the pod is gone"

    async def _read(self, asked: ExtenderBindingArgs) -> Pod | str:
        """The pod itself, for a replica that was not asked about it before."""
        name = f"{asked.pod_namespace}/{asked.pod_name}"
        try:
            pod = await self._client.get(PODS, asked.pod_name, asked.pod_namespace)
        except (ApiError, Unreachable, msgspec.ValidationError) as error:
            return f"cannot read pod {name}: {error}"
        if pod.metadata.uid != asked.pod_uid:
            return f"pod {name} has another uid by now"
        if pod.spec.node_name:
            return "" if pod.spec.node_name == asked.node else f"it already occupies {pod.spec.node_name}"
        return pod

    def _is_taken(self, pod: Pod, node: str) -> bool:
        """Whether the pod's zones are still taken: it was not deleted, and its node still exists."""
        state = self._cluster.state
        placed = state.pods.get(pod_key(pod))
        return placed is not None and state.names[placed.row] == node
