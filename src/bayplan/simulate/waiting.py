"""Pods that wait for a node: first come, first served, and nobody asks twice while nothing has changed.

Pods of one class get the same answer from every node. So when one of them finds no place, its whole class is parked; `wake`
(something became free, or a report came) lets the first of each parked class try again, and the others follow while it succeeds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from bayplan.cluster.pod_class import PodClass

_Pod = TypeVar("_Pod")


class WaitingPods(Generic[_Pod]):
    """New pods in the order of arrival, and parked ones by class."""

    def __init__(self) -> None:
        self._new: deque[tuple[PodClass, _Pod]] = deque()
        self._parked: dict[PodClass, deque[_Pod]] = {}
        self._to_retry: deque[PodClass] = deque()

    def add(self, pod_class: PodClass, pod: _Pod) -> None:
        """A pod that has just come."""
        self._new.append((pod_class, pod))

    def wake(self) -> None:
        """Something changed that may help anybody."""
        if len(self._to_retry) != len(self._parked):
            self._to_retry = deque(self._parked)

    def next(self) -> tuple[PodClass, _Pod] | None:
        """The pod to decide about now; None if nobody has anything to hope for. It stays until `placed` or `park`."""
        if self._to_retry:
            pod_class = self._to_retry[0]
            return pod_class, self._parked[pod_class][0]
        while self._new:
            pod_class, pod = self._new[0]
            if pod_class not in self._parked:
                return pod_class, pod
            self._new.popleft()
            self._parked[pod_class].append(pod)
        return None

    def placed(self) -> None:
        """The pod that `next` named has a node."""
        if not self._to_retry:
            self._new.popleft()
            return
        pods = self._parked[self._to_retry[0]]
        pods.popleft()
        if not pods:
            del self._parked[self._to_retry.popleft()]

    def park(self) -> None:
        """The pod that `next` named finds no node, and neither would others of its class."""
        if self._to_retry:
            self._to_retry.popleft()
            return
        pod_class, pod = self._new.popleft()
        self._parked[pod_class] = deque([pod])

    def __iter__(self) -> Iterator[_Pod]:
        for pods in self._parked.values():
            yield from pods
        for _, pod in self._new:
            yield pod
