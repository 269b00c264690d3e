"""Clusters of a few nodes for tests, written the way one would say it."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.state import ClusterState
from bayplan.explain.placement import PodOutcome
from bayplan.explain.ranking import ranked
from bayplan.explain.refusal import refusal_of
from bayplan.kube.wire.core_v1 import (
    Container,
    Metadata,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
    Taint,
)
from bayplan.kube.wire.node_resource_topology_v1alpha2 import Attribute, Cost, NodeResourceTopology, Zone, ZoneResource
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.profile import default_profile
from bayplan.scheduling.remedies import remedies


def node(name: str, cpu: int, *, cordoned: bool = False, taint: Taint | None = None) -> Node:
    """A node with so many CPUs, 8Gi of memory for each, and room for 110 pods."""
    allocatable: dict[str, str | int | float] = {"cpu": cpu, "memory": f"{8 * cpu}Gi", "pods": 110}
    spec = NodeSpec(unschedulable=cordoned, taints=[taint] if taint else None)
    return Node(metadata=Metadata(name=name), spec=spec, status=NodeStatus(allocatable=allocatable))


def zones(
    name: str,
    free_cpus: Sequence[int],
    *,
    of: int,
    policy: str = "single-numa-node",
    scope: str = "pod",
    distances: Sequence[Sequence[int]] | None = None,
) -> NodeResourceTopology:
    """The report of a node: in each zone so many CPUs free of `of`, and memory in plenty."""
    attributes = [
        Attribute(name="topologyManagerPolicy", value=policy),
        Attribute(name="topologyManagerScope", value=scope),
    ]
    listed = [
        Zone(
            name=f"node-{number}",
            type="Node",
            costs=[Cost(name=f"node-{to}", value=value) for to, value in enumerate(distances[number])]
            if distances
            else None,
            resources=[
                ZoneResource(name="cpu", capacity=of, allocatable=of, available=free),
                ZoneResource(name="memory", capacity=f"{8 * of}Gi", allocatable=f"{8 * of}Gi", available=f"{8 * of}Gi"),
            ],
        )
        for number, free in enumerate(free_cpus)
    ]
    return NodeResourceTopology(metadata=Metadata(name=name), attributes=attributes, zones=listed)


def guaranteed(
    name: str, cpu: int, *, memory: str = "1Gi", on: str | None = None, in_zones: str | None = None, **containers: int
) -> Pod:
    """A Guaranteed pod of one container, or of the containers given by name with their CPUs."""
    listed = [
        Container(
            name=container,
            resources=ResourceRequirements(
                requests={"cpu": number, "memory": memory}, limits={"cpu": number, "memory": memory}
            ),
        )
        for container, number in (containers or {"app": cpu}).items()
    ]
    annotations = {"bayplan.io/numa-zones": in_zones} if in_zones else None
    metadata = Metadata(name=name, namespace="telco", annotations=annotations)
    return Pod(metadata=metadata, spec=PodSpec(containers=listed, node_name=on))


def cluster(*objects: Node | NodeResourceTopology | Pod) -> ClusterState:
    """The state of a cluster that consists of these objects."""
    state = ClusterState()
    for thing in objects:
        match thing:
            case Node():
                state.set_node(thing)
            case NodeResourceTopology():
                state.set_topology(thing)
            case Pod():
                state.set_pod(thing)
    return state


def outcome_of(state: ClusterState, pod: Pod) -> PodOutcome:
    """What becomes of a pod, with everything there is to say about it."""
    profile, answers = default_profile(), ClassAnswers(state)
    decision = schedule_one(state, pod, profile, answers)
    pod_class = state.classes.of(pod)
    if decision.held_back:
        return PodOutcome(decision)
    answer = answers.for_class(pod_class, profile)
    if decision.placed:
        return PodOutcome(decision, ranking=ranked(state, pod_class, profile, answer, 5))
    found = remedies(state, pod_class, profile, answer)
    return PodOutcome(decision, refusal=refusal_of(state, pod_class, profile, decision, found))
