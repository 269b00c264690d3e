"""Nodes like one of the cluster, on which nothing runs yet."""

from typing import Any

import msgspec
import pytest

from bayplan.cluster.loading import load_state
from bayplan.cluster.topology.hyper_nodes import hierarchy_of
from bayplan.cluster.what_if.empty_node import copies_of
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.wire.core_v1 import OwnerReference, Taint
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.bodies import Json
from tests.builders.clusters import free_in_zones
from tests.builders.hyper_nodes import hyper_node, inside, named, pattern, with_labels
from tests.builders.numatopologies import machine, numatopology
from tests.builders.objects import bound, cpu_pod, cpu_zones, node, topology
from tests.builders.storage import csi_node, struct

HOST, RACK = "kubernetes.io/hostname", "example.com/rack"


@pytest.mark.parametrize(
    "like, taken, names",
    [
        ("gpu-1", [], ["gpu-1-added-1", "gpu-1-added-2"]),
        ("gpu-1", ["gpu-1-added-1"], ["gpu-1-added-2", "gpu-1-added-3"]),
        ("gpu-1", ["gpu-1-added-2"], ["gpu-1-added-1", "gpu-1-added-3"]),
        ("ip-1.eu.example.internal", [], ["ip-1-added-1.eu.example.internal", "ip-1-added-2.eu.example.internal"]),
    ],
)
def test_copies_have_names_of_their_own(like: str, taken: list[str], names: list[str]) -> None:
    found = copies_of(ObjectSet(nodes=[node(name) for name in (like, *taken)]), like, 2)
    assert [each.metadata.name for each in found.nodes] == [like, *taken, *names]


def test_a_copy_has_the_labels_of_its_model_and_its_own_name_in_them() -> None:
    model = node("n1", labels={HOST: "host-1", "example.com/host": "n1", RACK: "r1"})
    copy = copies_of(ObjectSet(nodes=[model]), "n1", 1).nodes[1]
    assert copy.metadata.labels == {HOST: "n1-added-1", "example.com/host": "n1-added-1", RACK: "r1"}


def test_a_copy_is_healthy_but_is_for_what_its_model_is_for() -> None:
    kept = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    of_the_moment = [
        {"key": key, "effect": "NoSchedule"}
        for key in (
            "node.kubernetes.io/unschedulable",
            "node.kubernetes.io/unreachable",
            "node.cloudprovider.kubernetes.io/uninitialized",
            "ToBeDeletedByClusterAutoscaler",
        )
    ]
    model = node("n1", {"cpu": 8}, taints=[*of_the_moment, kept], unschedulable=True)
    copy = copies_of(ObjectSet(nodes=[model]), "n1", 1).nodes[1]
    assert not copy.spec.unschedulable
    assert copy.spec.taints == [msgspec.convert(kept, Taint)]
    assert copy.status.allocatable == model.status.allocatable


def in_map_form(report: NodeResourceTopology) -> NodeResourceTopology:
    zones = {
        zone["name"]: {**zone, "resources": {each["name"]: each for each in zone["resources"]}, "costs": {}}
        for zone in msgspec.to_builtins(report)["zones"]
    }
    return msgspec.convert({"metadata": {"name": "n1"}, "zones": zones}, NodeResourceTopology)


def without_available(report: NodeResourceTopology) -> NodeResourceTopology:
    body: dict[str, Any] = msgspec.to_builtins(report)
    for zone in body["zones"]:
        for resource in zone["resources"]:
            resource["allocatable"] = resource.pop("available")
    return msgspec.convert(body, NodeResourceTopology)


@pytest.mark.parametrize("form", [lambda report: report, in_map_form, without_available])
def test_all_of_a_copy_s_zones_is_free(form: Any) -> None:
    objects = ObjectSet(nodes=[node("n1", {"cpu": 16})], topologies=[form(topology(*cpu_zones(1, 0)))])
    state = load_state(copies_of(objects, "n1", 1))
    assert free_in_zones(state, "n1", "cpu") == [1000, 0]
    assert free_in_zones(state, "n1-added-1", "cpu") == [8000, 8000]


def test_a_copy_has_every_cpu_and_device_that_is_not_reserved_or_unhealthy() -> None:
    report = topology(
        *cpu_zones(1, of=3),
        attributes={
            "bayplan.io/cpus": '{"core":[0,1,2,3,-1],"socket":[0,0,0,0,-1],"zone":[0,0,0,0,-1],"cache":[0,0,0,0,-1]}',
            "bayplan.io/free-cpus": "3",
            "bayplan.io/reserved-cpus": "0",
            "bayplan.io/devices": '{"x/gpu":[["a",[0],"used"],["b",[0],"free"],["c",[0],"unhealthy"]]}',
            "bayplan.io/pods": '{"a/b":{"cpu":{"0":2000}}}',
            "bayplan.io/made-at": "1760000000",
            "nodeTopologyPodsFingerprint": "pfp0v0010123456789abcdef",
        },
    )
    state = load_state(copies_of(ObjectSet(nodes=[node("n1")], topologies=[report]), "n1", 1))
    copy = state.reports[state.rows["n1-added-1"]]
    assert copy is not None
    assert copy.inventory is not None
    assert copy.inventory.free_cpus == 0b01110
    assert [each.state for each in copy.inventory.devices["x/gpu"]] == ["free", "free", "unhealthy"]
    assert (copy.pods, copy.made_at, copy.fingerprint, copy.remarks) == (None, None, "", [])


def test_an_inventory_that_cannot_be_read_is_a_remark_about_model_and_copy() -> None:
    report = topology(*cpu_zones(1), attributes={"bayplan.io/cpus": "?", "bayplan.io/free-cpus": "0"})
    state = load_state(copies_of(ObjectSet(nodes=[node("n1")], topologies=[report]), "n1", 1))
    assert [each.at.subject for each in state.remarks] == [
        "NodeResourceTopology n1",
        "NodeResourceTopology n1-added-1",
    ]


def test_of_volcano_s_reports_all_cpus_are_free_too() -> None:
    report = numatopology("n1", machine(2, 4), free="0-1", pods={"a/b": "2-7"})
    objects = ObjectSet(nodes=[node("n1", {"cpu": 8})], numatopologies=[report])
    state = load_state(copies_of(objects, "n1", 1))
    assert free_in_zones(state, "n1-added-1", "cpu") == [4000, 4000]


def test_a_copy_has_drivers_and_daemons_of_its_model_and_no_other_pods() -> None:
    daemon = bound(cpu_pod(1, "exporter"), phase="Running")
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="exporter", controller=True)
    metadata = msgspec.structs.replace(daemon.metadata, owner_references=[owner])
    daemon = msgspec.structs.replace(daemon, metadata=metadata)
    ended = msgspec.structs.replace(daemon, status=bound(cpu_pod(1), phase="Failed").status)
    pods = [daemon, ended, bound(cpu_pod(1, "web"), phase="Running")]
    objects = ObjectSet(nodes=[node("n1")], pods=pods, storage=[struct(csi_node("n1", "d", 4))])
    found = copies_of(objects, "n1", 2)
    assert [(pod.metadata.name, pod.spec.node_name) for pod in found.pods[3:]] == [
        ("exporter-n1-added-1", "n1-added-1"),
        ("exporter-n1-added-2", "n1-added-2"),
    ]
    assert [each.metadata.name for each in found.storage] == ["n1", "n1-added-1", "n1-added-2"]


@pytest.mark.parametrize("member", [named("n1"), pattern("^n1$"), with_labels(rack="r1")])
def test_a_copy_is_in_the_hyper_node_of_its_model(member: Json) -> None:
    hyper_nodes = [hyper_node("s1", 1, member), hyper_node("s2", 1, named("n2")), hyper_node("s3", 2, inside("s1"))]
    model = node("n1", labels={"rack": "r1"})
    found = copies_of(ObjectSet(nodes=[model, node("n2")], hyper_nodes=hyper_nodes), "n1", 1)
    positions = hierarchy_of(found.hyper_nodes).positions(found.nodes)
    assert [position.path for position in positions] == [("s3", "s1"), ("s2", "s2"), ("s3", "s1")]


def test_hyper_nodes_that_are_no_tree_stay_as_they_are() -> None:
    hyper_nodes = [hyper_node("s1", 1, {"type": "Node", "selector": {}})]
    assert copies_of(ObjectSet(nodes=[node("n1")], hyper_nodes=hyper_nodes), "n1", 1).hyper_nodes == hyper_nodes
