"""What changes while jobs are placed: where each task stands, and what each node has left.

Every step can be taken back.

`Statement` is the only thing here that changes. A search marks its place with `checkpoint`, writes, and takes
everything back with `rollback` if it came to nothing; whatever is left at the end is the answer.

A node has amounts that are idle and amounts that are being released. A task that is *bound* takes from what is idle,
one that is *pipelined* takes in advance from what is being released; so `idle + releasing` is what can still be given
out, and `releasing` may be negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bayplan.compat.kai.scheduler.model import ACTIVE, Amounts, Cluster, Job, Status, Task, fits, total


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a task stands. One that was made to leave knows what it held before, so that it can be put back."""

    status: Status
    node: str = ""
    before: TaskPlace | None = None


class Statement:
    """Places of tasks and amounts of nodes, with a way back."""

    def __init__(self, cluster: Cluster) -> None:
        self.age = {job.name: number for number, job in enumerate(cluster.jobs)}
        self.job_of = {task.name: job for job in cluster.jobs for task in job.tasks}
        self.places = {task.name: TaskPlace(task.status, task.node) for job in cluster.jobs for task in job.tasks}
        self.idle = {node.name: dict(node.idle) for node in cluster.nodes}
        self.releasing = {node.name: dict(node.releasing) for node in cluster.nodes}
        self._before: list[tuple[Task, TaskPlace]] = []

    def checkpoint(self) -> int:
        """A mark to come back to."""
        return len(self._before)

    def rollback(self, mark: int) -> None:
        """Undo everything written since the mark."""
        while len(self._before) > mark:
            task, before = self._before.pop()
            self._move(task, before)

    def free(self, node: str) -> dict[str, float]:
        """What can still be given out on a node, now or once it is released."""
        return total([self.idle[node], self.releasing[node]])

    def free_amount(self, node: str, resource: str) -> float:
        """The same for one resource."""
        return self.idle[node].get(resource, 0) + self.releasing[node].get(resource, 0)

    def fits_now(self, task: Task, node: str) -> bool:
        """Whether what is idle suffices."""
        return fits(task.requests, self.idle[node])

    def bind(self, task: Task, node: str) -> None:
        """Give a task what is idle on a node."""
        self._write(task, TaskPlace(Status.BINDING, node))

    def pipeline(self, task: Task, node: str) -> None:
        """Promise a task what is being released on a node; one that was leaving that very node stays instead."""
        before = self.places[task.name].before
        if before is not None and before.node == node:
            self._write(task, before)
        else:
            self._write(task, TaskPlace(Status.PIPELINED, node, before))

    def evict(self, task: Task) -> None:
        """Make a task leave its node."""
        place = self.places[task.name]
        self._write(task, TaskPlace(Status.RELEASING, place.node, place))

    def status(self, task: Task) -> Status:
        """Where a task stands now."""
        return self.places[task.name].status

    def active(self, job: Job, pod_set: str) -> Iterator[Task]:
        """Tasks of a pod set that count towards its minimum."""
        return (task for task in job.tasks if task.pod_set == pod_set and self.status(task) in ACTIVE)

    def waiting(self, job: Job, *, evicted: bool) -> list[Task]:
        """Tasks that a job still wants placed; with `evicted`, also those that were made to
        leave and go nowhere yet.
        """
        return [task for task in job.tasks if self._waits(self.places[task.name], evicted=evicted)]

    @staticmethod
    def _waits(place: TaskPlace, *, evicted: bool) -> bool:
        made_to_leave = place.status is Status.RELEASING and place.before is not None
        return place.status is Status.PENDING or (evicted and made_to_leave)

    def _write(self, task: Task, place: TaskPlace) -> None:
        self._before.append((task, self.places[task.name]))
        self._move(task, place)

    def _move(self, task: Task, place: TaskPlace) -> None:
        self._take(task.requests, self.places[task.name], sign=1)
        self._take(task.requests, place, sign=-1)
        self.places[task.name] = place

    def _take(self, request: Amounts, place: TaskPlace, *, sign: int) -> None:
        """Take what a task in this place holds from its nodes, or (`sign` 1) give it back."""
        if place.before is not None:  # what it held before is still on its way out
            add(self.idle[place.before.node], request, sign)
            add(self.releasing[place.before.node], request, -sign)
        if place.status is Status.PIPELINED:
            add(self.releasing[place.node], request, sign)
        elif place.status in ACTIVE:
            add(self.idle[place.node], request, sign)


def add(amounts: dict[str, float], change: Amounts, sign: int) -> None:
    """Add `change` times `sign` to `amounts`, resource by resource."""
    for resource, amount in change.items():
        amounts[resource] = amounts.get(resource, 0) + sign * amount
