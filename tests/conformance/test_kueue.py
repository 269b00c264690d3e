"""Kueue's Topology Aware Scheduling as recorded: clusters and pod sets, with the assignments or reasons that Kueue
gave.

Each check builds the snapshot from the recorded leaves and their nodes, places the pod sets and compares every field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bayplan.compat.kueue.tas import (
    Assignment,
    AssignmentResult,
    Host,
    Leaf,
    PodSet,
    Profile,
    RunningWorkload,
    Settings,
    SliceLayer,
    Snapshot,
    TopologyRequest,
    place,
    snapshot_of,
)
from bayplan.kube.wire.core_v1 import NodeAffinity, Taint, Toleration

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

HOSTNAME = "kubernetes.io/hostname"
GROUP_WORKLOAD = "kueue.x-k8s.io/is-group-workload"


@pytest.mark.fixture_files("kueue/find_topology_assignments", "kueue/multilayer_node_replacement")
def test_assignments(conformance: Conformance) -> None:
    conformance.check_each(assignment_problem)


def assignment_problem(case: Case) -> str | None:
    pod_sets = [pod_set_of(each) for each in case["podSets"]]
    outcomes = place(snapshot_in(case), pod_sets, settings_of(case["gates"]["effective"]), running_of(case))
    found = {name: recorded_form(outcome) for name, outcome in outcomes.items()}
    expected = {name: normal_form(outcome) for name, outcome in case["expected"].items() if outcome}
    return None if found == expected else f"found {found}, expected {expected}"


# -- what was recorded, as our own data ----------------------------------------------------------------------------


def snapshot_in(case: Case) -> Snapshot:
    hosts: dict[str, Host] = {}
    for node in case["nodes"]:
        if node.get("ready", "True") != "True":
            continue
        labels = node.get("labels") or {}
        taints = tuple(msgspec.convert(node.get("taints") or [], list[Taint]))
        hosts.setdefault(labels.get(HOSTNAME, ""), Host(node["name"], labels, taints))
    leaves = [
        Leaf(tuple(leaf["levelValues"]), leaf["remaining"], hosts.get(leaf["levelValues"][-1]))
        for leaf in case["leaves"]
    ]
    tolerations = msgspec.convert(case["flavor"].get("tolerations") or [], list[Toleration])
    return snapshot_of(case["topology"]["name"], case["topology"]["levels"], leaves, tolerations)


def settings_of(gates: dict[str, bool]) -> Settings:
    return Settings(
        profile=Profile.MIXED if gates["TASProfileMixed"] else Profile.BEST_FIT,
        balanced=gates["TASBalancedPlacement"],
        preferred_affinity=gates["TASRespectNodeAffinityPreferred"],
        elastic=gates["ElasticJobsViaWorkloadSlicesWithTAS"],
        single_pods_stay=gates["SkipReassignmentForPodOwnedWorkloads"],
    )


def pod_set_of(recorded: dict[str, Any]) -> PodSet:
    affinity = recorded.get("nodeAffinity")
    return PodSet(
        name=recorded["name"],
        count=recorded["count"],
        requests=recorded["requests"],
        topology=request_of(recorded.get("topologyRequest")),
        implied=recorded["implied"],
        group=recorded.get("podSetGroupName"),
        tolerations=tuple(msgspec.convert(recorded.get("tolerations") or [], list[Toleration])),
        node_selector=recorded.get("nodeSelector") or {},
        node_affinity=msgspec.convert(affinity, NodeAffinity) if affinity else None,
        previous=assignment_of(recorded.get("previousAssignment")),
    )


def request_of(recorded: dict[str, Any] | None) -> TopologyRequest | None:
    if recorded is None:
        return None
    layers = recorded.get("podsetSliceRequiredTopologyConstraints") or []
    if not layers and recorded.get("podSetSliceRequiredTopology"):
        layers = [{"topology": recorded["podSetSliceRequiredTopology"], "size": recorded.get("podSetSliceSize") or 0}]
    return TopologyRequest(
        required=recorded.get("required"),
        preferred=recorded.get("preferred"),
        unconstrained=bool(recorded.get("unconstrained")),
        slices=tuple(SliceLayer(layer["topology"], layer["size"]) for layer in layers),
    )


def running_of(case: Case) -> RunningWorkload | None:
    workload = case.get("workload")
    if not workload:
        return None
    owners = workload.get("owners") or []
    is_group = (workload.get("annotations") or {}).get(GROUP_WORKLOAD) == "true"
    assignments = {
        each["podSet"]: assignment_of(each.get("topologyAssignment")) for each in workload.get("admission") or []
    }
    return RunningWorkload(
        assignments={name: assignment for name, assignment in assignments.items() if assignment is not None},
        unhealthy_nodes=tuple(workload.get("unhealthyNodes") or ()),
        owned_by_single_pod=len(owners) == 1 and owners[0]["kind"] == "Pod" and not is_group,
    )


def assignment_of(recorded: dict[str, Any] | None) -> Assignment | None:
    if recorded is None:
        return None
    domains = tuple((tuple(domain["values"]), domain["count"]) for domain in recorded.get("domains") or [])
    return Assignment(tuple(recorded["levels"]), domains)


# -- what was found, as it would have been recorded ----------------------------------------------------------------


def recorded_form(outcome: AssignmentResult) -> dict[str, Any]:
    if outcome.assignment is None:
        return {"reason": outcome.reason}
    domains = [{"values": list(values), "count": count} for values, count in outcome.assignment.domains]
    return {"assignment": {"levels": list(outcome.assignment.levels), "domains": domains}}


def normal_form(recorded: dict[str, Any]) -> dict[str, Any]:
    """An assignment without domains may have been written as null."""
    if "assignment" not in recorded:
        return recorded
    return {"assignment": {**recorded["assignment"], "domains": recorded["assignment"].get("domains") or []}}
