"""The smallest change that would let a pod in: asked of the real filters, not estimated.

For each amount a container requests, the largest amount that some node would take is found by bisection over the profile's
filters, everything else unchanged. For each other cause (a taint, a selector, the zone rule) the number of nodes is counted that
would take the pod if that one filter were satisfied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.pod_request import CPU, ContainerRequest, PodRequest
from bayplan.cluster.state import ClusterState
from bayplan.engine.rows import Mask
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.scheduling.answers import NO_NODE, ClassAnswer
from bayplan.scheduling.profile import CODES_PER_FILTER, PASSES, Profile

MEBI = 1024 * 1024
MOST_REPLAYS = 8


@dataclass(frozen=True, slots=True)
class SmallerRequest:
    """A container would fit on `nodes` nodes if it asked for `amount` instead of `instead_of`."""

    container: str
    resource: str
    amount: int
    instead_of: int
    nodes: int


@dataclass(frozen=True, slots=True)
class WithoutFilter:
    """`nodes` nodes would take the pod if this plugin's demand were met or dropped."""

    plugin: str
    cause: str
    nodes: int


@dataclass(frozen=True, slots=True)
class ZonesCombined:
    """`nodes` nodes would take the pod if their policy let a container span zones."""

    nodes: int


Remedy = SmallerRequest | ZonesCombined | WithoutFilter


def remedies(state: ClusterState, pod: PodClass, profile: Profile, answer: ClassAnswer) -> tuple[Remedy, ...]:
    """Changes that would help, smallest request changes first."""
    found: list[Remedy] = list(_smaller_requests(state, pod, profile))
    found += _zones_combined(profile, answer)
    found += _without_filters(state, pod, profile, answer)
    return tuple(found)


def _smaller_requests(state: ClusterState, pod: PodClass, profile: Profile) -> Iterator[SmallerRequest]:
    for position, container in enumerate(pod.request.containers):
        for resource, amount in container.requests.items():
            unit = _unit(pod.request, container, resource)
            steps = -(-amount // unit)
            # Invariant: `fits` steps fit somewhere, `fails` steps fit nowhere.
            fits, fails, nodes = 0, steps, 0
            if steps <= 1:
                continue
            while fails - fits > 1:
                middle = (fits + fails) // 2
                count = _nodes_that_take(state, _asking(pod, position, resource, middle * unit), profile)
                fits, fails, nodes = (middle, fails, count) if count else (fits, middle, nodes)
            if nodes:
                yield SmallerRequest(container.name, resource, fits * unit, amount, nodes)


def _unit(request: PodRequest, container: ContainerRequest, resource: str) -> int:
    """Whole CPUs where CPUs are pinned, tenths of a CPU else; mebibytes for large amounts; single devices."""
    if resource == CPU:
        return 1000 if request.exclusive_cpus(container) else 100
    return MEBI if container.requests[resource] >= MEBI else 1


def _asking(pod: PodClass, position: int, resource: str, amount: int) -> PodClass:
    """The same pod with one amount changed; a Guaranteed pod stays Guaranteed."""
    containers = list(pod.request.containers)
    old = containers[position]
    limits = {**old.limits, resource: amount} if resource in old.limits else old.limits
    containers[position] = replace(old, requests={**old.requests, resource: amount}, limits=limits)
    return replace(pod, request=replace(pod.request, containers=tuple(containers)))


def _nodes_that_take(state: ClusterState, pod: PodClass, profile: Profile) -> int:
    """How many nodes pass all filters; 0 if the kubelet's replay refuses every one of the first few."""
    answer = ClassAnswer(state, pod, profile).refresh()
    passing = np.nonzero(answer.blocked == PASSES)[0]
    for row in passing[:MOST_REPLAYS]:
        if profile.topology is None or profile.topology.place(state, pod, int(row)).refusal is None:
            return len(passing)
    return 0


def _zones_combined(profile: Profile, answer: ClassAnswer) -> list[ZonesCombined]:
    """Nodes refused only by the rule that everything must come from one zone (or one smallest set)."""
    nodes = 0
    for position, plugin in enumerate(profile.filters):
        if isinstance(plugin, NodeResourceTopologyMatch):
            for code in plugin.zone_rules:
                nodes += int((answer.blocked == position * CODES_PER_FILTER + code).sum())
    return [ZonesCombined(nodes)] if nodes else []


def _without_filters(
    state: ClusterState, pod: PodClass, profile: Profile, answer: ClassAnswer
) -> Iterator[WithoutFilter]:
    for position, plugin in enumerate(profile.filters):
        refused_first: Mask = (answer.blocked // CODES_PER_FILTER == position) & (answer.blocked != NO_NODE)
        refused_first &= answer.blocked != PASSES
        if plugin.reads_usage or not refused_first.any():
            continue
        others = Profile(profile.name, tuple(other for other in profile.filters if other is not plugin), ())
        nodes = _nodes_that_take(state, pod, others)
        if nodes:
            first = int(answer.blocked[refused_first][0])
            yield WithoutFilter(plugin.name, profile.cause(pod, first)[1], nodes)
