"""A cluster's state from nodes, reports and pods, one scheduling cycle on it, and what is left afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.cluster.state import ClusterState
from bayplan.kube.quantity import parse
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import Profile, default_profile
from tests.builders.objects import Quantity, node


def cluster(*topologies: NodeResourceTopology, nodes: Iterable[Node] = (), pods: Iterable[Pod] = ()) -> ClusterState:
    """A state with `nodes`, and a node for every other report whose allocatable is the sum over its zones."""
    state = ClusterState()
    given = list(nodes)
    known = {each.metadata.name for each in given}
    for each in given:
        state.set_node(each)
    for report in topologies:
        if report.metadata.name not in known:
            state.set_node(node(report.metadata.name, summed(report)))
        state.set_topology(report)
    for each_pod in pods:
        state.set_pod(each_pod)
    return state


def summed(report: NodeResourceTopology) -> dict[str, Quantity]:
    """What the zones of a report can give to pods in sum."""
    total: dict[str, Any] = {}
    for each in report.zones if isinstance(report.zones, list) else []:
        for resource in each.resources if isinstance(each.resources, list) else []:
            found = parse(resource.allocatable or 0)
            total[resource.name] = total[resource.name] + found if resource.name in total else found
    return {resource_name: str(amount) for resource_name, amount in total.items()}


def decide(state: ClusterState, waiting: Pod, profile: Profile | None = None) -> Decision:
    """One scheduling cycle from scratch."""
    return schedule_one(state, waiting, profile or default_profile(), ClassAnswers(state))


def place(state: ClusterState, waiting: Pod, profile: Profile | None = None) -> Decision:
    """One scheduling cycle whose outcome is assumed at once."""
    decision = decide(state, waiting, profile)
    assert decision.placed, decision
    assume(state, decision, waiting)
    return decision


def free_in_zones(state: ClusterState, name: str, resource: str) -> list[int]:
    """What is left of a resource in each zone of a node, lowest zone first."""
    row = state.rows[name]
    column = state.columns.zone_available[state.columns.resource_index[resource], :, row]
    return [int(amount) for amount in column[: state.columns.zone_count[row]]]


def free_on(state: ClusterState, name: str, resource: str) -> int:
    """What is left of a resource on a node in sum."""
    return int(state.columns.free[state.columns.index_of(resource), state.rows[name]])
