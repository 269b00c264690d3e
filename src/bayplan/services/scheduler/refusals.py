"""Count pods of this scheduler that kubelets refuse: the figure that is expected to stay 0.

The scheduler's own watch leaves ended pods out, so the leader watches Failed ones here. Those that were there before
are not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import aclosing

from prometheus_client import Counter

from bayplan.engine.kubelet.verdict import TOPOLOGY_AFFINITY_ERROR, UNEXPECTED_ADMISSION_ERROR
from bayplan.explain.overview.nodes import OUT_OF, refusal_reason
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.client.watch import follow
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod

FAILED = "status.phase=Failed"
# A rate needs a series that begins at 0.
USUAL = (TOPOLOGY_AFFINITY_ERROR, UNEXPECTED_ADMISSION_ERROR, OUT_OF)


class RefusalCount:
    """Counts each refused pod once, by its kubelet's reason, without the resource in OutOfcpu and the like."""

    def __init__(self, schedulers: Collection[str], counter: Counter) -> None:
        self._schedulers = schedulers
        self._counter = counter
        self._known: set[str] | None = None  # uids; None before the first list
        for reason in USUAL:
            counter.labels(reason)

    def take(self, news: Listed[Pod] | Changes[Pod]) -> None:
        """Count the refused pods that are new."""
        if isinstance(news, Listed):
            before, self._known = self._known, {pod.metadata.uid for pod in news.items}
            if before is not None:
                self._count(pod for pod in news.items if pod.metadata.uid not in before)
            return
        known = self._known if self._known is not None else set()
        for change in news.changes:
            uid = change.object.metadata.uid
            if change.kind == "DELETED":
                known.discard(uid)
            elif uid not in known:
                known.add(uid)
                self._count([change.object])

    def _count(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            reason = refusal_reason(pod)
            if reason and pod.spec.scheduler_name in self._schedulers:
                self._counter.labels(OUT_OF if reason.startswith(OUT_OF) else reason).inc()


async def keep_counting(client: KubeClient, schedulers: Collection[str], counter: Counter) -> None:
    """Count until cancelled."""
    count = RefusalCount(schedulers, counter)
    async with aclosing(follow(client, PODS, field_selector=FAILED)) as batches:
        async for news in batches:
            if isinstance(news, Listed | Changes):
                count.take(news)
