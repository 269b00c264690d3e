"""What the domains of a topology have free for some tasks: how many of them fit, and which domain they would fill most.

`fill` counts one domain and everything below it, from what the books say of nodes now. KAI counts in one of two ways. Tasks are
*alike* if all or none of them use GPUs and every other device is used by all: then each is taken to be as large as the largest in
every resource, and a domain is as good as the number of such pods that its nodes hold. Otherwise only sums are compared.

Either way domains are ordered by `fill_ratio`: the share of what is free that the tasks would take, of the resource where it is
largest. The fullest domain comes first, so gangs are packed; a domain that cannot hold the tasks comes before all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.compat.kai.scheduler.model import CPU, GPU, PODS, Amounts, Task, fits, total
from bayplan.compat.kai.scheduler.tree import Domain

MISSING_RESOURCE_RATIO = 1000.0
HOST_RESOURCES = (CPU, "memory", GPU, PODS)

FreeOf = Callable[[str], Amounts]


@dataclass(slots=True)
class Capacity:
    """Free amounts, and how many pods fit, of the domains that were counted.

    A domain that was not counted has nothing free and no number of pods, which makes KAI compare sums for it: a domain above the
    one that was counted never fits.
    """

    wanted: Amounts
    tasks: int
    free: dict[Domain, dict[str, float]] = field(default_factory=dict)
    pods: dict[Domain, int] = field(default_factory=dict)

    def holds_all(self, domain: Domain) -> bool:
        """Whether KAI would try this domain for the tasks."""
        if domain in self.pods:
            return self.pods[domain] >= self.tasks
        return self.ratio(domain) <= 1

    def ratio(self, domain: Domain) -> float:
        """How full the tasks would make this domain; above 1 they do not fit."""
        return fill_ratio(self.wanted, self.free.get(domain, {}))


def fill(domain: Domain, tasks: Sequence[Task], free_of: FreeOf) -> Capacity:
    """Count a domain and all below it. `free_of(node)` is what is idle or being released there."""
    capacity = Capacity(total([task.requests for task in tasks]), len(tasks))
    largest = _largest_request(tasks)
    _fill(domain, capacity, free_of, largest if are_alike(tasks) else None)
    return capacity


def _fill(domain: Domain, capacity: Capacity, free_of: FreeOf, largest: Amounts | None) -> None:
    for child in domain.children.values():
        _fill(child, capacity, free_of, largest)
    nodes = [free_of(name) for name in domain.nodes] if not domain.children else []
    capacity.free[domain] = total([*nodes, *(capacity.free[child] for child in domain.children.values())])
    if largest is not None:
        here = sum(pods_that_fit(largest, free, capacity.tasks) for free in nodes)
        capacity.pods[domain] = here + sum(capacity.pods[child] for child in domain.children.values())


def are_alike(tasks: Sequence[Task]) -> bool:
    """Whether counting pods makes sense: all or none use GPUs, and every device that one asks for, all ask for."""
    with_gpus = sum(1 for task in tasks if task.requests.get(GPU, 0) > 0)
    devices = {
        name for task in tasks for name, amount in task.requests.items() if amount and name not in HOST_RESOURCES
    }
    return with_gpus in (0, len(tasks)) and all(task.requests.get(name, 0) for task in tasks for name in devices)


def pods_that_fit(request: Amounts, free: Amounts, wanted: int) -> int:
    """How many pods of this size a node holds; pods that ask for nothing always fit, all that are wanted."""
    if not any(amount for resource, amount in request.items() if resource != PODS):
        return wanted
    if not fits(request, free):
        return 0
    return int(min(free.get(resource, 0) // amount for resource, amount in request.items() if amount > 0))


def fill_ratio(wanted: Amounts, free: Amounts) -> float:
    """The largest share over all resources of what is wanted in what is free.

    CPU is compared in whole cores, rounded up on both sides; the number of pods is not compared. Of GPUs that are not there any
    wish is infinitely much, of other resources a thousand times too much.
    """
    ratios = [0.0]
    for resource, amount in wanted.items():
        if amount <= 0 or resource == PODS:
            continue
        available = free.get(resource, 0)
        if not available:
            ratios.append(math.inf if resource == GPU else MISSING_RESOURCE_RATIO)
        elif resource == CPU:
            ratios.append(math.ceil(amount / 1000) / math.ceil(available / 1000))
        else:
            ratios.append(amount / available)
    return max(ratios)


def fullest_first(domain: Domain, capacity: Capacity, deepest_level: str) -> dict[Domain, list[Domain]]:
    """Children in KAI's order, for a domain and all below it down to the children of `deepest_level`; ties by id."""
    if not deepest_level:
        return {}
    ordered = sorted(domain.children.values(), key=lambda child: (-capacity.ratio(child), child.id))
    orders: dict[Domain, list[Domain]] = {domain: ordered}
    if domain.level != deepest_level:
        for child in ordered:
            orders |= fullest_first(child, capacity, deepest_level)
    return orders


def _largest_request(tasks: Sequence[Task]) -> Mapping[str, float]:
    largest: dict[str, float] = {}
    for task in tasks:
        for resource, amount in task.requests.items():
            largest[resource] = max(largest.get(resource, 0), amount)
    return largest
