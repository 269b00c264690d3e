"""RayClusters with the real KubeRay: head and workers are one gang. KubeRay adds an init container of 200m to every
worker, which costs no place on a node.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kubernetes.controllers.bodies import IN_ONE_RACK, ray_cluster, ray_cluster_spec
from tests.kubernetes.controllers.cluster import Json, Space, label_of, rank_of
from tests.kubernetes.controllers.test_jobs import fail

pytestmark = pytest.mark.usefixtures("ray_operator")
REPLICA, HOST = "ray.io/worker-group-replica-index", "ray.io/replica-host-index"
HEAD, WORKERS = "ray.io/node-type=head", "ray.io/node-type=worker"
# Three pods of 2 CPUs fit a node, nine a rack.
FULL_RACK = 9


def patch(space: Space, name: str, spec: Json) -> None:
    space.kubectl("patch", f"raycluster/{name}", "--type=merge", "--patch", json.dumps({"spec": spec}))


def scale(space: Space, name: str, workers: int) -> None:
    patch(space, name, {"workerGroupSpecs": ray_cluster_spec(workers)["workerGroupSpecs"]})


def ranks(pods: list[Json]) -> list[int]:
    return sorted(rank_of(pod) for pod in pods)


def ranks_by_replica(pods: list[Json]) -> dict[tuple[int, int], int]:
    """Ranks of workers by the indexes that KubeRay gave them."""
    return {(int(label_of(pod, REPLICA)), int(pod["metadata"]["labels"].get(HOST, "0"))): rank_of(pod) for pod in pods}


def uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def test_head_and_workers_fill_a_rack_and_leave_nothing_behind(space: Space) -> None:
    space.apply(ray_cluster("tune", FULL_RACK - 1))
    pods = space.wait_for_pods(FULL_RACK)
    assert len(space.racks_of(pods)) == 1
    workers = space.running(WORKERS)
    assert {each["name"] for pod in workers for each in pod["spec"]["initContainers"]} == {"wait-gcs-ready"}
    (head,) = space.running(HEAD)
    assert rank_of(head) == 0
    assert ranks_by_replica(workers) == {(index, 0): index + 1 for index in range(FULL_RACK - 1)}
    (group,) = space.pod_groups()
    assert {each["name"]: each["size"] for each in group["spec"]["groups"]} == {"headgroup": 1, "workers": 8}
    space.kubectl("delete", "raycluster/tune")
    space.wait_until_empty()


def test_a_cluster_that_does_not_fit_binds_nothing(space: Space) -> None:
    space.apply(ray_cluster("large", FULL_RACK))
    space.wait(lambda: len(list(filter(None, space.why_waiting().values()))) == FULL_RACK + 1, "all are told why")
    assert not [pod for pod in space.alive() if pod["spec"].get("nodeName")]
    scale(space, "large", FULL_RACK - 1)
    assert len(space.racks_of(space.wait_for_pods(FULL_RACK))) == 1


def test_workers_are_added_in_the_rack_and_removed(space: Space) -> None:
    space.apply(ray_cluster("tune", 3))
    rack = space.racks_of(space.wait_for_pods(4))
    for workers in (8, 2, 6):
        scale(space, "tune", workers)
        pods = space.wait_for_pods(workers + 1)
        assert space.racks_of(pods) == rack
        assert len(set(ranks(pods))) == workers + 1
        assert not space.half_bound()
    space.kubectl("delete", "raycluster/tune")
    space.wait_until_empty()


def test_a_suspended_cluster_starts_as_a_gang_when_it_resumes(space: Space) -> None:
    space.apply(ray_cluster("tune", 5, suspend=True))
    space.wait(lambda: state_of(space, "tune") == "suspended", "KubeRay has suspended it")
    assert not space.pods()
    for suspended, pods in ((False, 6), (True, 0), (False, 6)):
        patch(space, "tune", {"suspend": suspended})
        space.wait_for_pods(pods)
    assert len(space.racks_of(space.running())) == 1
    assert ranks(space.running()) == list(range(6))


@pytest.mark.parametrize("how", ["fails", "is deleted"])
def test_a_worker_that_ends_is_replaced_in_the_rack_with_its_rank(space: Space, how: str) -> None:
    space.apply(ray_cluster("tune", 5))
    before = space.wait_for_pods(6)
    victim = space.running(WORKERS)[2]
    if how == "fails":
        fail(space, victim)
    else:
        space.kubectl("delete", "pod", victim["metadata"]["name"], "--wait=false")
    gone = victim["metadata"]["uid"]
    space.wait(lambda: len(space.running()) == 6 and gone not in uids(space.running()), "a replacement runs")
    assert space.racks_of(space.running()) == space.racks_of(before)
    assert ranks_by_replica(space.running(WORKERS)) == {(index, 0): index + 1 for index in range(5)}
    assert not space.half_bound()


def test_a_head_that_is_deleted_comes_back_in_the_rack(space: Space) -> None:
    space.apply(ray_cluster("tune", 4))
    rack = space.racks_of(space.wait_for_pods(5))
    (head,) = space.running(HEAD)
    space.kubectl("delete", "pod", head["metadata"]["name"], "--wait=false")
    gone = head["metadata"]["uid"]
    space.wait(lambda: gone not in uids(space.pods()), "the head is gone")
    pods = space.wait_for_pods(5)
    assert space.racks_of(pods) == rack
    assert not space.half_bound()


def test_hosts_of_a_replica_have_ranks_beside_each_other(space: Space) -> None:
    space.apply(ray_cluster("slices", 3, hosts=2))
    pods = space.wait_for_pods(7)
    assert len(space.racks_of(pods)) == 1
    expected = {(replica, host): 1 + 2 * replica + host for replica in range(3) for host in range(2)}
    assert ranks_by_replica(space.running(WORKERS)) == expected


def test_annotations_of_a_ray_job_hold_for_its_cluster(space: Space) -> None:
    body: dict[str, Any] = {"apiVersion": "ray.io/v1", "kind": "RayJob"}
    metadata = {"name": "batch", "annotations": IN_ONE_RACK}
    submitter = {"spec": {"restartPolicy": "Never", "containers": [{"name": "submit", "image": "example.com/none"}]}}
    spec = {"entrypoint": "true", "rayClusterSpec": ray_cluster_spec(6), "submitterPodTemplate": submitter}
    space.apply({**body, "metadata": metadata, "spec": spec})
    selector = "ray.io/group"
    pods = space.wait_for_pods(7, selector)
    assert len(space.racks_of(pods)) == 1
    space.kubectl("delete", "rayjob/batch")
    space.wait(lambda: not space.pods(selector) and not space.pod_groups(), "its cluster and PodGroup are gone")


def state_of(space: Space, name: str) -> str:
    return str(space.get(f"ray.io/v1/rayclusters/{name}").get("status", {}).get("state", ""))
