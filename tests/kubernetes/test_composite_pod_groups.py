"""Kubernetes' CompositePodGroups on the API server that serves them: their PodGroups are one gang, and each object is
told what became of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.bodies import BLOCK, RACK, Json, node_body, pod_body, topology_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.scheduling_api import needed_scheduling_api, plane_with_gangs
from tests.kubernetes.workloads import CRDS, GPU, create_all, wait_until_told

GPUS: dict[str, str | int] = {"cpu": 96, "memory": "960Gi", GPU: 8}
COMPOSITES, GROUPS = "scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One that serves CompositePodGroups."""
    needed_scheduling_api(composites=True)
    for plane in plane_with_gangs():
        for crd in CRDS:
            plane.apply(crd)
        yield plane


def in_namespace(namespace: str, api_version: str, kind: str, name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def within(label: str) -> Json:
    return {"topology": [{"key": label}]}


def documents(namespace: str, least: int) -> list[Json]:
    """Two PodGroups of two pods in one rack each, together in one block; and the Workload that they come from."""
    of_pods: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": within(RACK)}
    of_groups: Json = {
        "schedulingPolicy": {"gang": {"minGroupCount": least}},
        "schedulingConstraints": within(BLOCK),
    }
    names = ("prefill", "decode")
    templates = [{"name": name, **of_pods} for name in names]
    whole = {"name": "whole", **of_groups, "podGroupTemplates": templates}
    parts = [
        in_namespace(
            namespace,
            GROUPS,
            "PodGroup",
            name,
            {
                **of_pods,
                "parentCompositePodGroupName": "serve",
                "workloadRef": {"workloadName": "serve", "templateName": name},
            },
        )
        for name in names
    ]
    reference = {"workloadName": "serve", "templateName": "whole"}
    return [
        in_namespace(namespace, COMPOSITES, "Workload", "serve", {"compositePodGroupTemplates": [whole]}),
        in_namespace(namespace, COMPOSITES, "CompositePodGroup", "serve", {**of_groups, "workloadRef": reference}),
        *parts,
    ]


def pods_of(namespace: str, group: str) -> list[Json]:
    asked: dict[str, str | int] = {"cpu": 8, GPU: 8}
    in_group: Any = {"podGroupName": group}
    return [pod_body(f"{group}-{index}", namespace, asked, schedulingGroup=in_group) for index in range(2)]


def domains(plane: ControlPlane, namespace: str, label: str) -> dict[str, set[str]]:
    """By PodGroup, the values of a node label where its pods are."""
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in plane.get("/api/v1/nodes")["items"]}
    found: dict[str, set[str]] = {}
    for pod in plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
        group = pod["spec"]["schedulingGroup"]["podGroupName"]
        if pod["spec"].get("nodeName"):
            found.setdefault(group, set()).add(labels[pod["spec"]["nodeName"]][label])
    return found


def condition(plane: ControlPlane, api_version: str, plural: str, namespace: str, name: str) -> str:
    """`PodGroupInitiallyScheduled=True`; empty if there is none yet."""
    found = plane.get(f"/apis/{api_version}/namespaces/{namespace}/{plural}/{name}").get("status") or {}
    return " ".join(f"{each['type']}={each['status']}" for each in found.get("conditions", []))


def test_groups_of_a_composite_start_together_each_in_its_rack(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(topology_body())
    # Block b0 has one rack of two free nodes only, b1 has two.
    racks = ["b0/r0", "b0/r0", "b0/r1", "b1/r2", "b1/r2", "b1/r3", "b1/r3"]
    labels = [dict(zip((BLOCK, RACK), rack.split("/"), strict=True)) for rack in racks]
    made = [node_body(f"n{number}", GPUS, **each) for number, each in enumerate(labels)]
    with running_scheduler(control_plane) as scheduler:
        create_all(control_plane.kubeconfig, made)
        for each in documents(namespace, 2):
            control_plane.apply(each)
        create_all(control_plane.kubeconfig, pods_of(namespace, "prefill"))
        missing = (
            "1 of 2 in CompositePodGroup serve have all pods that they need; waits for pods: 0 of 2 in PodGroup decode"
        )
        wait_until_told(control_plane, namespace, "prefill-0", missing)
        assert domains(control_plane, namespace, RACK) == {}
        create_all(control_plane.kubeconfig, pods_of(namespace, "decode"))
        wait_until(lambda: len(domains(control_plane, namespace, RACK)) == 2, "both groups have nodes")
        wait_until(
            lambda: (
                condition(control_plane, COMPOSITES, "compositepodgroups", namespace, "serve")
                == "CompositePodGroupInitiallyScheduled=True"
            ),
            "the CompositePodGroup says so",
        )
        for group in ("prefill", "decode"):
            wait_until(
                lambda group=group: (
                    condition(control_plane, GROUPS, "podgroups", namespace, group)  # type: ignore[misc]
                    == "PodGroupInitiallyScheduled=True"
                ),
                "the PodGroup says so",
            )
        failed = [line for line in scheduler.log.splitlines() if "failed to write gang status" in line]
    assert failed == []
    assert domains(control_plane, namespace, BLOCK) == {"prefill": {"b1"}, "decode": {"b1"}}
    found = domains(control_plane, namespace, RACK)
    assert sorted(len(racks) for racks in found.values()) == [1, 1]


def test_one_group_can_start_without_the_other_if_one_suffices(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(topology_body())
    labels = {BLOCK: "b0", RACK: "r0"}
    with running_scheduler(control_plane):
        create_all(control_plane.kubeconfig, [node_body(f"n{number}", GPUS, **labels) for number in range(2)])
        for each in documents(namespace, 1):
            control_plane.apply(each)
        create_all(control_plane.kubeconfig, pods_of(namespace, "decode"))
        wait_until(lambda: list(domains(control_plane, namespace, RACK)) == ["decode"], "one group has nodes")
