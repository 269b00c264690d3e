"""What a pod asks of a node, in exact integers: the form in which every later stage sees a pod.

In comes the wire pod (`kube/wire/core_v1.py`). Out goes a `PodRequest`: the containers in the order in which the
kubelet handles them, each with its amounts, the QoS class and the pod's total. CPU is counted in milli-CPUs, everything
else in whole units (bytes, devices). `cluster/pods/pod_class.py` then groups pods that every node must answer alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache

from bayplan.cluster.pods.resizing import OF_POD, Running, resize_is_infeasible, running_amounts
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.quantity import QuantityError, parse
from bayplan.kube.wire.core_v1 import Container, Pod, ResourceRequirements

Amounts = Mapping[str, int]

CPU = "cpu"
MEMORY = "memory"
HUGEPAGES_PREFIX = "hugepages-"
PODS = "pods"

# Above this a float64 column no longer holds every integer, so larger amounts are refused where they enter.
LARGEST_AMOUNT = 2**53 - 1
# What kube-scheduler's scores count for a container that requests none: 100m and 200 MiB.
UNREQUESTED: Amounts = {CPU: 100, MEMORY: 200 << 20}
# Characters of a name or an amount that are worth keeping.
LONGEST_KEPT = 320


class QoS(Enum):
    """Kubernetes' quality-of-service class."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class Role(Enum):
    """When a container runs: to completion before the others, beside them from early on, or as the application."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """One container's amounts. A name with amount 0 is kept: some scores look at the names alone."""

    name: str
    role: Role
    requests: Amounts
    limits: Amounts


@dataclass(frozen=True)
class PodRequest:
    """A pod as arithmetic: containers in kubelet order (init and sidecar as listed, then application)."""

    containers: tuple[ContainerRequest, ...]
    qos: QoS
    overhead: Amounts
    pod_level: Amounts | None = None

    @property
    def guaranteed(self) -> bool:
        """True for the class of pods that may own CPUs and memory exclusively."""
        return self.qos is QoS.GUARANTEED

    def exclusive_cpus(self, container: ContainerRequest) -> int:
        """Whole CPUs the static CPU Manager would pin for this container; 0 if it would share the pool."""
        milli = container.requests.get(CPU, 0)
        if not self.guaranteed or self.pod_level is not None or milli % 1000:
            return 0
        return milli // 1000

    @cached_property
    def total(self) -> dict[str, int]:
        """What the node must have in sum: what the scheduler and the kubelet's own predicate count."""
        return self._with_pod_level(self.containers)

    @cached_property
    def unrequested(self) -> dict[str, int]:
        """CPU and memory that kube-scheduler's scores count beyond `total`, for containers that request none."""
        if all(name in container.requests for container in self.containers for name in UNREQUESTED):
            return {}
        scored = self._with_pod_level(self._assumed())
        return {name: scored[name] - self.total.get(name, 0) for name in UNREQUESTED if name in scored}

    @cached_property
    def scored(self) -> dict[str, int]:
        """What NodeResourcesFit's score counts for a pod that waits. As in kube-scheduler,
        not its pod-level resources.
        """
        return _plus(sidecar_aware_sum(self._assumed()), self.overhead)

    def _assumed(self) -> list[ContainerRequest]:
        return [replace(each, requests={**UNREQUESTED, **each.requests}) for each in self.containers]

    def _with_pod_level(self, containers: Iterable[ContainerRequest]) -> dict[str, int]:
        amounts = sidecar_aware_sum(containers)
        for name, amount in (self.pod_level or {}).items():
            amounts[name] = amount
        return _plus(amounts, self.overhead)

    @cached_property
    def largest_or_sum(self) -> dict[str, int]:
        """Per resource: the largest init container or the sum of application containers, plus overhead.

        This is how scheduler-plugins counts a pod at pod scope. It counts a sidecar like any init container.
        """
        running: dict[str, int] = {}
        largest: dict[str, int] = {}
        for container in self.containers:
            if container.role is Role.APP:
                running = _plus(running, container.requests)
            else:
                largest = _larger(largest, container.requests)
        return _plus(_larger(running, largest), self.overhead)


def sidecar_aware_sum(containers: Iterable[ContainerRequest], *, of_limits: bool = False) -> dict[str, int]:
    """The most that runs at any one time: all sidecars and applications, or an init container
    beside earlier sidecars.
    """
    sidecars: dict[str, int] = {}
    running: dict[str, int] = {}
    largest_start: dict[str, int] = {}
    for container in containers:
        amounts = container.limits if of_limits else container.requests
        if container.role is Role.INIT:
            largest_start = _larger(largest_start, _plus(sidecars, amounts))
        elif container.role is Role.SIDECAR:
            sidecars = _plus(sidecars, amounts)
            largest_start = _larger(largest_start, sidecars)
        else:
            running = _plus(running, amounts)
    return _larger(_plus(running, sidecars), largest_start)


def effective_request(pod: Pod) -> PodRequest:
    """Turn a wire pod into exact amounts; wrong or absurd quantities raise `InvalidObject` naming the field."""
    at = ObjectPath.of(pod)
    listed = [
        (container, Role.SIDECAR if container.restart_policy == "Always" else Role.INIT, "initContainers", index)
        for index, container in enumerate(pod.spec.init_containers or [])
    ]
    listed += [(container, Role.APP, "containers", index) for index, container in enumerate(pod.spec.containers or [])]
    # The API server demands names that differ; in a manifest that never met one, the position tells containers apart.
    first_of_name = {container.name: index for index, (container, *_) in reversed(list(enumerate(listed)))}
    containers = tuple(
        _container_request(
            container,
            container.name if container.name and first_of_name[container.name] == position else f"{field}[{index}]",
            role,
            at.child("spec").child(field).item(index),
        )
        for position, (container, role, field, index) in enumerate(listed)
    )
    running = running_amounts(pod)
    spec_counts = not running or not resize_is_infeasible(pod)
    if running:
        containers = tuple(_as_it_runs(each, running, at, spec_counts=spec_counts) for each in containers)
    overhead = amounts_of(pod.spec.overhead, at.child("spec").child("overhead"))
    pod_level = _pod_level_requests(pod.spec.resources, containers, at.child("spec").child("resources"))
    if pod_level is not None and OF_POD in running:
        in_effect = _largest(pod_level if spec_counts else {}, running[OF_POD], at)
        pod_level = {name: in_effect.get(name, 0) for name in pod_level}
    return PodRequest(
        containers=containers,
        qos=_reported_qos(pod) or _computed_qos(pod, containers, at),
        overhead=overhead,
        pod_level=pod_level,
    )


def _as_it_runs(
    container: ContainerRequest, running: Mapping[str, Running], at: ObjectPath, *, spec_counts: bool
) -> ContainerRequest:
    """A container with the amounts that count while it is resized; init containers run once and are not."""
    if container.role is Role.INIT or container.name not in running:
        return container
    return replace(container, requests=_largest(container.requests if spec_counts else {}, running[container.name], at))


def _largest(spec: Amounts, running: Running, at: ObjectPath) -> dict[str, int]:
    amounts = dict(spec)
    for written in running:
        try:
            amounts = _larger(amounts, amounts_of(written, at.child("status")))
        except InvalidObject:
            # Malformed amounts in a status must not hide a pod that runs: its spec counts.
            continue
    return amounts


class AmountError(ValueError):
    """A text that cannot be an amount of a resource; says what is allowed, not where it stands."""


def amount_of(resource: str, text: str | int | float) -> int:
    """An amount in the unit of its column: milli-CPUs for cpu, whole units for everything else, rounded up."""
    is_long = len(resource) > LONGEST_KEPT or (isinstance(text, str) and len(text) > LONGEST_KEPT)
    return _amount_of.__wrapped__(resource, text) if is_long else _amount_of(resource, text)


@lru_cache(maxsize=65_536, typed=True)
def _amount_of(resource: str, text: str | int | float) -> int:
    """Kept, because a cluster writes the same few texts a million times: 0.1 us instead of 3."""
    try:
        quantity = parse(text.strip() if isinstance(text, str) else text)
    except QuantityError as error:
        raise AmountError(str(error)) from None
    amount = quantity.milli() if resource == CPU else quantity.value()
    if amount < 0:
        raise AmountError(f'"{text}" is negative: must be 0 or more')
    if amount > LARGEST_AMOUNT:
        raise AmountError(f'"{text}" is too large: must be at most {LARGEST_AMOUNT} units')
    return amount


def amounts_of(raw: Mapping[str, str | int | float] | None, at: ObjectPath) -> dict[str, int]:
    """Parse a Kubernetes resource list, naming object, field and text of whatever is wrong with it."""
    amounts: dict[str, int] = {}
    for resource, text in (raw or {}).items():
        try:
            amounts[resource] = amount_of(resource, text)
        except AmountError as error:
            raise InvalidObject(at.key(resource), str(error)) from None
    return amounts


def is_memory(resource: str) -> bool:
    """True for what the Memory Manager handles: memory and huge pages of any size."""
    return resource == MEMORY or resource.startswith(HUGEPAGES_PREFIX)


def _container_request(container: Container, name: str, role: Role, at: ObjectPath) -> ContainerRequest:
    resources = container.resources or ResourceRequirements()
    limits = amounts_of(resources.limits, at.child("resources").child("limits"))
    requests = amounts_of(resources.requests, at.child("resources").child("requests"))
    # The API server copies a limit into a missing request; manifests that never met one must read the same.
    return ContainerRequest(name, role, {**limits, **requests}, limits)


def _pod_level_requests(
    resources: ResourceRequirements | None, containers: tuple[ContainerRequest, ...], at: ObjectPath
) -> dict[str, int] | None:
    if resources is None or not (resources.requests or resources.limits):
        return None
    requests = amounts_of(resources.requests, at.child("requests"))
    limits = amounts_of(resources.limits, at.child("limits"))
    for name, limit in limits.items():
        # As the API server defaults it: what the containers ask for if they ask, else the pod's limit.
        requests.setdefault(name, sidecar_aware_sum(containers).get(name, limit))
    return requests


def _reported_qos(pod: Pod) -> QoS | None:
    text = pod.status.qos_class if pod.status else None
    return next((qos for qos in QoS if qos.value == text), None)


def _computed_qos(pod: Pod, containers: tuple[ContainerRequest, ...], at: ObjectPath) -> QoS:
    """Kubernetes' rule: Guaranteed if every container limits cpu and memory and the sums of
    requests and limits agree.
    """
    if pod.spec.resources is not None:
        where = at.child("spec").child("resources")
        judged = [
            ContainerRequest(
                "",
                Role.APP,
                _pod_level_requests(pod.spec.resources, containers, where) or {},
                amounts_of(pod.spec.resources.limits, where.child("limits")),
            )
        ]
    else:
        judged = list(containers)
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    every_container_limited = True
    for container in judged:
        requests = _plus(requests, _cpu_and_memory(container.requests))
        own_limits = _cpu_and_memory(container.limits)
        limits = _plus(limits, own_limits)
        every_container_limited = every_container_limited and len(own_limits) == 2
    if not requests and not limits:
        return QoS.BEST_EFFORT
    return QoS.GUARANTEED if every_container_limited and requests == limits else QoS.BURSTABLE


def _cpu_and_memory(amounts: Amounts) -> dict[str, int]:
    return {name: amounts[name] for name in (CPU, MEMORY) if amounts.get(name, 0) > 0}


def _plus(left: Amounts, right: Amounts) -> dict[str, int]:
    total = dict(left)
    for name, amount_ in right.items():
        total[name] = total.get(name, 0) + amount_
    return total


def _larger(left: Amounts, right: Amounts) -> dict[str, int]:
    larger = dict(left)
    for name, amount_ in right.items():
        larger[name] = max(larger.get(name, 0), amount_)
    return larger
