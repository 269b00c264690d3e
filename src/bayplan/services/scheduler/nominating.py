"""`status.nominatedNodeName` of pods whose victims leave: other schedulers, autoscalers and the next leader read it.

Writes are best effort: the room itself is kept by the dispatcher.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.kube.client.client import KubeClient
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.edges.outbox import Outbox, OutboxWriter


@dataclass(frozen=True, slots=True)
class _Nominee:
    pod: Pod
    node: str | None


class NominationWriter(OutboxWriter[_Nominee]):
    """`async with NominationWriter(client) as nominees`, then `nominees.nominate(pod, node)`."""

    def __init__(self, client: KubeClient, *, rate: float = 50.0) -> None:
        super().__init__(Outbox(self._send, rate=rate))
        self._client = client

    def nominate(self, pod: Pod, node: str | None) -> None:
        """Write the node that is kept for a pod; None if there is none any more."""
        self.outbox.put(pod.metadata.uid, _Nominee(pod, node), urgent=True)

    def withdraw(self, pod: Pod) -> None:
        """A pod is being bound: a nomination that was not sent yet would be refused, and cost the server a request."""
        self.outbox.cancel(pod.metadata.uid)

    async def _send(self, nominee: _Nominee) -> None:
        metadata = nominee.pod.metadata
        body = {"metadata": {"uid": metadata.uid}, "status": {"nominatedNodeName": nominee.node}}
        await self._client.patch(PODS, metadata.name, body, metadata.namespace, subresource="status")
