"""Pods that wait for a pod grouper: results of the embedded one, and pods that wait for an external one.

A scheduler without a grouper looks at no owners, so every owned pod waits for a grouper's result (`awaits_look`).
With --place-ungrouped, only pods that ask for a gang by their own annotations wait (`asks_for_group`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from bayplan.cluster.state import pod_key
from bayplan.dispatch.actions import Unschedulable
from bayplan.dispatch.units import PodUnit
from bayplan.grouping.group import asks_for_group, awaits_look
from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.resources import PODS, Resource
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.scheduler.announcing.announcer import Announcer
from bayplan.services.scheduler.intake import News
from bayplan.services.scheduler.service import SchedulerService

ExpectsGroup = Callable[[Pod], bool]

WHY_IT_WAITS: dict[ExpectsGroup, str] = {
    awaits_look: (
        "waits for a pod grouper to look at its owner: run `bayplan pod-grouper`, or the scheduler without"
        " --no-pod-grouper; to place pods without a grouper, start the scheduler with --place-ungrouped"
    ),
    asks_for_group: (
        "asks for a gang, and no pod grouper has put it into one yet: run `bayplan pod-grouper`, or the scheduler"
        " without --no-pod-grouper"
    ),
}


class EmbeddedGrouperResults:
    """Passes results of the embedded pod grouper to the scheduler."""

    def __init__(self, service: SchedulerService) -> None:
        self._service = service

    def ungrouped(self, pod: Pod) -> None:
        """Place a pod by itself: it is in no gang."""
        self._service.announcer.withdraw(PodUnit(pod_key(pod)))
        self._service.change(partial(self._service.dispatcher.ungrouped, pod_key(pod)))

    def is_held(self, pod: Pod, why: str) -> None:
        """Report that a pod waits because its gang cannot be determined."""
        self._service.announcer.refused(Unschedulable(PodUnit(pod_key(pod)), (pod,), why), self._service.now)
        self._service.wake()

    def gang_is_free(self, gang: str) -> None:
        """Decide about a gang again: its PodGroup now matches its owner."""
        self._service.change(partial(self._service.dispatcher.gangs.touch, gang))


class GroupedElsewhere:
    """Reports pods of these schedulers that wait for an external pod grouper.

    `expects_group` is `awaits_look` or `asks_for_group`.
    """

    def __init__(
        self,
        scheduler_names: Collection[str],
        expects_group: ExpectsGroup,
        announcer: Announcer,
        clock: Callable[[], float],
    ) -> None:
        self._scheduler_names = frozenset(scheduler_names)
        self._expects_group = expects_group
        self._announcer = announcer
        self._clock = clock
        self._held: set[str] = set()

    def take_in_steps(self, resource: Resource[Any], news: News) -> Iterator[None]:
        """Process watch events object by object; only pods matter."""
        if resource != PODS:
            return
        if isinstance(news, Changes):
            for change in news.changes:
                self._check(change.object, gone=change.kind == "DELETED")
                yield
            return
        pods = news.items if isinstance(news, Listed) else []
        for key in self._held - {pod_key(pod) for pod in pods}:
            self._free(key)
            yield
        for pod in pods:
            self._check(pod)
            yield

    def _check(self, pod: Pod, *, gone: bool = False) -> None:
        key = pod_key(pod)
        ours = pod.spec.scheduler_name in self._scheduler_names and not pod.spec.node_name
        if ours and not gone and self._expects_group(pod):
            self._held.add(key)
            refusal = Unschedulable(PodUnit(key), (pod,), WHY_IT_WAITS[self._expects_group])
            self._announcer.not_grouped(refusal, self._clock())
        else:
            self._free(key)

    def _free(self, key: str) -> None:
        if key in self._held:
            self._held.remove(key)
            self._announcer.withdraw(PodUnit(key))
