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
    """New pods in the order of arrival, and parked ones by class. Both get their turn: a class that is parked, then a new pod."""

    def __init__(self) -> None:
        self._new: deque[tuple[PodClass, _Pod]] = deque()
        self._parked: dict[PodClass, deque[_Pod]] = {}
        # Classes that may try again, each at most once, in the order in which they became so.
        self._to_retry: dict[PodClass, None] = {}
        self._retried_last = False
        self._asked: PodClass | None = None

    def add(self, pod_class: PodClass, pod: _Pod) -> None:
        """A pod that has just come."""
        self._new.append((pod_class, pod))

    def wake(self) -> None:
        """Something changed that may help anybody; who is about to try again anyway keeps its turn."""
        for pod_class in self._parked:
            self._to_retry.setdefault(pod_class)

    def next(self) -> tuple[PodClass, _Pod] | None:
        """The pod to decide about now; None if nobody has anything to hope for. It stays until `placed` or `park`."""
        while self._new and self._new[0][0] in self._parked:
            pod_class, pod = self._new.popleft()
            self._parked[pod_class].append(pod)
        if self._to_retry and not (self._new and self._retried_last):
            self._asked = next(iter(self._to_retry))
            return self._asked, self._parked[self._asked][0]
        self._asked = None
        return self._new[0] if self._new else None

    def placed(self) -> None:
        """The pod that `next` named has a node."""
        self._retried_last = self._asked is not None
        if self._asked is None:
            self._new.popleft()
            return
        pods = self._parked[self._asked]
        pods.popleft()
        if not pods:
            del self._parked[self._asked], self._to_retry[self._asked]

    def park(self) -> None:
        """The pod that `next` named finds no node, and neither would others of its class."""
        self._retried_last = self._asked is not None
        if self._asked is not None:
            del self._to_retry[self._asked]
            return
        pod_class, pod = self._new.popleft()
        self._parked[pod_class] = deque([pod])

    def __iter__(self) -> Iterator[_Pod]:
        for pods in self._parked.values():
            yield from pods
        for _, pod in self._new:
            yield pod
