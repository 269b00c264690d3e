"""Kueue admits, bayplan places: the real Kueue manager keeps quotas, and pods find their places here.

How much Kueue decides about places depends on the ResourceFlavor: nothing but its labels, a block, or a node for each
pod. docs/kueue.md describes all three.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.builders.bodies import BLOCK, RACK, topology_body
from tests.kubernetes.control_plane.process import Process
from tests.kubernetes.controllers.bodies import IN_ONE_RACK, PREFERRED, TOPOLOGY, job
from tests.kubernetes.controllers.cluster import Json, Space
from tests.kubernetes.running_scheduler import PROGRAM

API = "kueue.x-k8s.io/v1beta2"
QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
HOST = "kubernetes.io/hostname"
EVERY_NODE = {"kubernetes.io/os": "linux"}  # Kueue wants a label on a flavor with a Topology
Queue = Callable[..., None]


@pytest.fixture
def queue(space: Space, kueue: Process) -> Iterator[Queue]:
    """A function that makes the queue `team` of the namespace, over nodes with some labels, with a quota of CPUs."""
    del kueue
    name = space.namespace

    def make(cpu: int, nodes: Mapping[str, str], levels: tuple[str, ...] = ()) -> None:
        if levels:
            space.plane.apply(topology_body(name, *levels))
        spec = {"nodeLabels": dict(nodes), **({"topologyName": name} if levels else {})}
        space.plane.apply({"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec})
        quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "100Gi"}]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": name, "resources": quotas}]}
        of_queue = {"namespaceSelector": {}, "resourceGroups": [group]}
        space.plane.apply({"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": of_queue})
        local = {"apiVersion": API, "kind": "LocalQueue", "metadata": {"name": "team"}}
        space.apply({**local, "spec": {"clusterQueue": name}})

    yield make
    space.kubectl("delete", "jobs", "--all", "--wait=false")
    space.wait(lambda: not space.pods(), "the Jobs are gone")
    for plural in ("clusterqueues", "resourceflavors", "topologies"):
        path = f"/apis/{API}/{plural}/{name}"
        if space.plane.api.exists(path):
            space.plane.delete(path)


def queued(name: str, pods: int, annotations: Mapping[str, str], template: Mapping[str, str] | None = None) -> Json:
    """A Job of the queue."""
    pod = {"annotations": dict(template)} if template else None
    return job(name, pods, annotations=annotations, labels={QUEUE: "team"}, suspend=True, pod=pod)


def assignments_of(space: Space) -> dict[str, Json]:
    """What Kueue assigned to the pods of each Job's Workload, by Job; empty where it has not admitted it."""
    found = {}
    for workload in space.get(f"{API}/workloads")["items"]:
        (owner,) = workload["metadata"]["ownerReferences"]
        (assigned,) = workload.get("status", {}).get("admission", {}).get("podSetAssignments", [{}])
        found[owner["name"]] = assigned
    return found


def label(space: Space, pod: Json, key: str) -> str:
    nodes = {each["metadata"]["name"]: each["metadata"]["labels"] for each in space.cluster.node_list()}
    return str(nodes[pod["spec"]["nodeName"]][key])


def a_block(space: Space) -> str:
    return str(min(each["metadata"]["labels"][BLOCK] for each in space.cluster.node_list()))


def pinning_flavors(space: Space) -> list[Json]:
    """What the doctor says about flavors."""
    command = [sys.executable, "-c", PROGRAM, "doctor", "-o", "json", "--kubeconfig", str(space.plane.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    findings = [each for check in json.loads(done.stdout)["checks"] for each in check["findings"]]
    return [each for each in findings if "Kueue pins pods" in each["problem"]]


def test_quota_stays_with_kueue_and_places_inside_the_flavor_are_free(space: Space, queue: Queue) -> None:
    block = a_block(space)
    queue(16, {BLOCK: block})
    space.apply(queued("first", 8, IN_ONE_RACK), queued("second", 6, IN_ONE_RACK))
    pods = space.wait_for_pods(8, "job-name=first")
    assert {label(space, pod, BLOCK) for pod in pods} == {block}
    assert len(space.racks_of(pods)) == 1
    assert all(pod["spec"]["nodeSelector"] == {BLOCK: block} for pod in pods)
    # 16 CPUs are in use: the other Job has no pods, although the block has room.
    space.wait(lambda: "second" in assignments_of(space), "Kueue has heard of the second Job")
    assert not assignments_of(space)["second"]
    assert not space.pods("job-name=second")
    space.kubectl("delete", "job/first")
    pods = space.wait_for_pods(6)
    assert len(space.racks_of(pods)) == 1
    assert {label(space, pod, BLOCK) for pod in pods} == {block}


def test_every_pod_goes_to_the_node_that_kueue_assigned(space: Space, queue: Queue) -> None:
    queue(64, EVERY_NODE, (BLOCK, RACK, HOST))
    # Two Topologies have these levels, so the Job says which one its gang is placed by.
    space.apply(queued("train", 6, {"bayplan.io/topology": "network"}, {KUEUE_REQUIRED: RACK}))
    pods = space.wait_for_pods(6)
    assert assignments_of(space)["train"]["topologyAssignment"]["levels"] == [HOST]
    assert {pod["spec"]["nodeSelector"][HOST] == pod["spec"]["nodeName"] for pod in pods} == {True}
    assert len(space.racks_of(pods)) == 1
    assert not any(pod["spec"].get("schedulingGates") for pod in pods)
    (group,) = space.pod_groups()
    assert group["spec"]["required"] == RACK


def test_the_doctor_warns_of_flavors_by_which_kueue_pins_pods_to_nodes(space: Space, queue: Queue) -> None:
    queue(64, EVERY_NODE, (BLOCK, RACK, HOST))
    found = pinning_flavors(space)
    assert [each["objects"] for each in found] == [[f"resourceflavor/{space.namespace}"]]
    assert "knows no NUMA zones" in found[0]["problem"]


def test_the_doctor_does_not_mind_a_flavor_whose_topology_ends_at_the_block(space: Space, queue: Queue) -> None:
    queue(64, EVERY_NODE, (BLOCK,))
    assert not pinning_flavors(space)


def test_kueue_chooses_the_block_and_bayplan_the_racks_in_it(space: Space, queue: Queue) -> None:
    queue(64, EVERY_NODE, (BLOCK,))
    few_racks = {TOPOLOGY: "network", PREFERRED: RACK}
    space.apply(queued("train", 9, few_racks, {KUEUE_REQUIRED: BLOCK}))
    pods = space.wait_for_pods(9)
    assert assignments_of(space)["train"]["topologyAssignment"]["levels"] == [BLOCK]
    (chosen,) = {pod["spec"]["nodeSelector"][BLOCK] for pod in pods}
    assert {label(space, pod, BLOCK) for pod in pods} == {chosen}
    assert len(space.racks_of(pods)) == 1  # nine pods of 2 CPUs fill one rack


def test_a_job_that_kueue_stops_and_admits_again_is_placed_again(space: Space, queue: Queue) -> None:
    queue(16, {})
    space.apply(queued("train", 6, IN_ONE_RACK))
    space.wait_for_pods(6)
    stopped = {"spec": {"stopPolicy": "HoldAndDrain"}}
    path = f"/apis/{API}/clusterqueues/{space.namespace}"
    space.plane.api.patch(path, stopped)
    space.wait(lambda: not space.pods(), "Kueue has taken the pods back")
    space.plane.api.patch(path, {"spec": {"stopPolicy": "None"}})
    assert len(space.racks_of(space.wait_for_pods(6))) == 1
