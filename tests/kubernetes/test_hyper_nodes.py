"""Volcano's HyperNodes on a real API server: a gang asks for tiers, HyperNodes come, are wrong, and are fixed while
the scheduler runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.bodies import Json, node_body, pod_body
from tests.builders.hyper_nodes import inside, named
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.workloads import CRDS, create_all, wait_until_told

KINDS_OF_VOLCANO = sorted((Path(__file__).parent / "foreign_kinds").glob("*.volcano.sh.yaml"))
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One of our own: it gets definitions that other tests must not find."""
    with ControlPlane() as plane:
        for file in (*CRDS, *KINDS_OF_VOLCANO):
            plane.apply(file)
        yield plane


def hyper_node(name: str, tier: int, *members: Json) -> Json:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": list(members)},
    }


def gang(name: str, namespace: str, tier: int) -> list[Json]:
    """Two pods, each of which fills a node, and their PodGroup."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": tier}},
    }
    pods = [pod_body(f"{name}-{number}", namespace, {"cpu": 4}) for number in range(2)]
    for pod in pods:
        pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
    return [group, *pods]


def nodes_of(plane: ControlPlane, namespace: str, *pods: str) -> set[str]:
    """Where pods are; an empty name for those that wait."""
    return {str(plane.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["spec"].get("nodeName", "")) for pod in pods}


def test_tiers_are_those_of_the_hyper_nodes_as_they_come_and_change(
    control_plane: ControlPlane, namespace: str
) -> None:
    create_all(control_plane.kubeconfig, [node_body(f"n{number}", {"cpu": 4}) for number in range(5)])
    for body in (
        hyper_node("s0", 1, named("n0"), named("n1")),
        hyper_node("spine", 2, inside("s0")),
        hyper_node("zoo", 2, inside("s0")),
    ):
        control_plane.apply(body)

    def wait_for(nodes: set[str], *pods: str) -> None:
        wait_until(lambda: nodes_of(control_plane, namespace, *pods) == nodes, f"{pods} are on {nodes}")

    with running_scheduler(control_plane):
        for body in gang("train", namespace, 1):
            control_plane.apply(body)
        wait_until_told(control_plane, namespace, "train-0", '"s0" is a member of spine already')
        control_plane.apply(pod_body("alone", namespace, {"cpu": 1}, nodeSelector={"kubernetes.io/hostname": "n4"}))
        wait_for({"n4"}, "alone")
        assert nodes_of(control_plane, namespace, "train-0", "train-1") == {""}
        control_plane.delete(f"{HYPER_NODES}/zoo")
        wait_for({"n0", "n1"}, "train-0", "train-1")
        # Two nodes are free, but they are no tier 1 before a HyperNode says so.
        for body in gang("late", namespace, 1):
            control_plane.apply(body)
        wait_until_told(control_plane, namespace, "late-0", "tier-1")
        control_plane.apply(hyper_node("s1", 1, named("n2"), named("n3")))
        wait_for({"n2", "n3"}, "late-0", "late-1")
