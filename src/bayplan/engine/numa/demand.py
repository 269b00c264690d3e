"""What a pod asks of NUMA zones, step by step, as the kubelet's managers would ask.

In comes a `PodRequest`, out goes a `Demand`: one step per container (container scope) or one for the pod (pod scope),
each with the amounts that need alignment. CPUs appear only where the static CPU Manager pins whole CPUs, memory only
for Guaranteed pods, devices always. Whether a node cares about a resource at all is the node's matter
(`engine/numa/admission.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import Columns
from bayplan.cluster.pods.pod_class import PodClass, kept_with_class
from bayplan.cluster.pods.request import (
    CPU,
    PODS,
    ContainerRequest,
    PodRequest,
    Role,
    is_memory,
    sidecar_aware_sum,
)
from bayplan.engine.numa.rows import Rows, count

HOST_RESOURCES = frozenset({"ephemeral-storage", "storage", PODS})


@dataclass(frozen=True, slots=True)
class Step:
    """One merge of hints: what must come out of one set of zones. `container` is empty at pod scope."""

    container: str
    role: Role
    wants: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Demand:
    """The steps at either scope, and what the zones must hold in sum whatever the policy."""

    container_steps: tuple[Step, ...]
    pod_step: Step
    in_sum: tuple[tuple[str, int], ...]

    @cached_property
    def nothing_to_align(self) -> bool:
        """True if no manager would refuse this pod: it can go anywhere it fits.

        Zero devices of one kind always find a zone, of two kinds not.
        """
        return not self.in_sum and all(len(step.wants) < 2 for step in (*self.container_steps, self.pod_step))

    @cached_property
    def zero_devices(self) -> tuple[tuple[str, str], ...]:
        """Devices of which a container asks for none by name, as many charts do, with that container."""
        return tuple(
            (name, step.container)
            for step in self.container_steps
            for name, want in step.wants
            if not want and name != CPU and not is_memory(name)
        )

    @cached_property
    def needs_report(self) -> bool:
        """True if a static CPU Manager pins CPUs of the pod, or it requests devices: only a report shows where."""
        return any(want and (name == CPU or not is_memory(name)) for name, want in self.in_sum)

    @cached_property
    def scope_matters(self) -> bool:
        """True if container scope and pod scope ask different questions."""
        return len(self.container_steps) != 1 or self.container_steps[0].wants != self.pod_step.wants

    @cached_property
    def has_init_containers(self) -> bool:
        """True if an init container asks for something, which later containers take over."""
        return any(step.role is Role.INIT for step in self.container_steps)

    @cached_property
    def hidden_at_pod_scope(self) -> bool:
        """True if the pod asks for something that a merge at pod scope does not look at."""
        return len(self.in_sum) > sum(1 for _, want in self.pod_step.wants if want)

    @cached_property
    def hands_over_at_pod_scope(self) -> bool:
        """True if the pod's running containers reuse everything that its init containers held, in the zone they share.

        Devices and memory are always reused. Which CPUs are depends on more than amounts.
        """
        running: dict[str, int] = {}
        for step in self.container_steps:
            if step.role is Role.INIT:
                if dict(step.wants).get(CPU):
                    return False
                continue
            for name, want in step.wants:
                running[name] = running.get(name, 0) + want
        return all(running.get(name, 0) == want for name, want in self.in_sum)

    @cached_property
    def starting_step(self) -> Step:
        """The merge at pod scope with the memory that its zone must have free while containers start one after another.

        The Memory Manager asks for room for each container before it counts what the container can reuse.
        """
        at_start = dict(self._memory_at_start)
        wants = tuple((name, at_start.get(name, want)) for name, want in self.pod_step.wants)
        return Step(self.pod_step.container, self.pod_step.role, wants)

    @cached_property
    def _memory_at_start(self) -> tuple[tuple[str, int], ...]:
        free_needed: dict[str, int] = {}
        charged: dict[str, int] = {}
        reusable: dict[str, int] = {}
        for step in self.container_steps:
            for name, want in step.wants:
                if not is_memory(name):
                    continue
                before, left = charged.get(name, 0), reusable.get(name, 0)
                free_needed[name] = max(free_needed.get(name, 0), before + want)
                charged[name] = before + max(0, want - left)
                reusable[name] = max(left, want) if step.role is Role.INIT else max(0, left - want)
        return tuple(free_needed.items())

    def steps_by_amounts(self, *, by_pod: bool) -> tuple[Step, ...] | None:
        """The merges in turn, if amounts per zone tell how they end; None if the admission must be replayed.

        Amounts are not enough after init containers, unless they hand over what they held, and for memory that a merge
        at pod scope does not see.
        """
        if by_pod:
            hands_over = not self.has_init_containers or self.hands_over_at_pod_scope
            return (self.pod_step,) if hands_over and not self.hidden_at_pod_scope else None
        return None if self.has_init_containers else self.container_steps


@kept_with_class
def demand(pod: PodClass) -> Demand:
    """What a class of pods asks of zones; worked out once per class."""
    return demand_of(pod.request)


def demand_of(request: PodRequest) -> Demand:
    """Split a request into the questions the kubelet's managers would ask about zones."""
    asking = [_aligned_part(request, container) for container in request.containers]
    totals = sidecar_aware_sum(asking)
    seen_at_pod_scope = _seen_at_pod_scope(asking)
    return Demand(
        container_steps=tuple(
            Step(container.name, container.role, tuple(container.requests.items()))
            for container in asking
            if container.requests
        ),
        pod_step=Step("", Role.APP, tuple((name, want) for name, want in totals.items() if name in seen_at_pod_scope)),
        in_sum=tuple((name, want) for name, want in totals.items() if want),
    )


def _aligned_part(request: PodRequest, container: ContainerRequest) -> ContainerRequest:
    amounts: dict[str, int] = {}
    cpus = request.exclusive_cpus(container)
    if cpus:
        amounts[CPU] = cpus * 1000
    for name, amount in container.requests.items():
        if name == CPU or name in HOST_RESOURCES:
            continue
        if not is_memory(name):
            # Zero devices, as many charts write it, still draw the container to zones that have such devices.
            amounts[name] = container.limits.get(name, amount)
        elif amount and request.guaranteed and request.pod_level is None:
            amounts[name] = amount
    return ContainerRequest(container.name, container.role, amounts, {})


def _seen_at_pod_scope(asking: list[ContainerRequest]) -> set[str]:
    """The kubelet's Memory Manager looks only at memory types that application containers request."""
    by_applications = {name for container in asking if container.role is Role.APP for name in container.requests}
    return {
        name for container in asking for name in container.requests if not is_memory(name) or name in by_applications
    }


Shares = NDArray[np.float64]


def missing_share_of_node(columns: Columns, asked: Sequence[tuple[str, int]], rows: Rows) -> Shares:
    """Per node: the largest share of any requested amount that the node's sums lack; 0 if nothing is missing."""
    worst = np.zeros(count(rows))
    for name, want in asked:
        index = columns.resource_index.get(name)
        free = np.zeros_like(worst) if index is None else columns.free[index][rows]
        np.maximum(worst, (want - free) / want, out=worst)
    return worst


def missing_share_of_best_zone(columns: Columns, step: Step, rows: Rows) -> Shares:
    """Per node: the same for the zone that comes closest to holding one step."""
    zones = columns.zone_available.shape[1]
    worst = np.zeros((zones, count(rows)))
    for name, want in step.wants:
        index = columns.resource_index.get(name)
        if index is None or not want:
            continue
        missing = (want - columns.zone_available[index][:, rows]) / want
        # Where no zone reports the resource it is not aligned, so it is not what is missing.
        missing[:, ~columns.zone_aligned[index][rows]] = 0.0
        np.maximum(worst, missing, out=worst)
    exists = np.arange(zones)[:, np.newaxis] < columns.zone_count[rows]
    worst[~exists] = np.inf
    closest: Shares = np.clip(worst.min(axis=0), 0.0, None)
    return closest
