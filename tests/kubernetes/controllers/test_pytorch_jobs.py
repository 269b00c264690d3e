"""PyTorchJobs with the real training operator: a master and workers are one gang, with segments where they are asked
for. The operator adds a small init container to every worker, which makes its pod Burstable.
"""

from __future__ import annotations

import json

import pytest

from tests.builders.bodies import BLOCK, RACK
from tests.kubernetes.controllers.bodies import REQUIRED, TOPOLOGY, pytorch_job
from tests.kubernetes.controllers.cluster import Json, Space, label_of, rank_of
from tests.kubernetes.controllers.test_jobs import fail

pytestmark = pytest.mark.usefixtures("training_operator")
INDEX = "training.kubeflow.org/replica-index"
MASTER, WORKERS = "training.kubeflow.org/replica-type=master", "training.kubeflow.org/replica-type=worker"
# Three pods of 2 CPUs fit a node, nine a rack.
FULL_RACK = 9


def patch(space: Space, name: str, spec: Json) -> None:
    space.kubectl("patch", f"pytorchjob/{name}", "--type=merge", "--patch", json.dumps({"spec": spec}))


def workers_by_index(space: Space) -> dict[int, Json]:
    return {int(label_of(pod, INDEX)): pod for pod in space.running(WORKERS)}


def ranks_of_workers(space: Space) -> dict[int, int]:
    return {index: rank_of(pod) for index, pod in workers_by_index(space).items()}


def conditions_of(space: Space, name: str) -> dict[str, str]:
    status = space.get(f"kubeflow.org/v1/pytorchjobs/{name}").get("status", {})
    found = status.get("conditions") or []
    return {each["type"]: each.get("reason", "") for each in found if each["status"] == "True"}


def test_master_and_workers_fill_a_rack_and_leave_nothing_behind(space: Space) -> None:
    space.apply(pytorch_job("train", FULL_RACK - 1))
    pods = space.wait_for_pods(FULL_RACK)
    assert len(space.racks_of(pods)) == 1
    assert [rank_of(pod) for pod in space.running(MASTER)] == [0]
    assert ranks_of_workers(space) == {index: index + 1 for index in range(FULL_RACK - 1)}
    assert all(pod["spec"]["initContainers"] for pod in space.running(WORKERS))
    assert len(space.pod_groups()) == 1
    space.kubectl("delete", "pytorchjob/train")
    space.wait_until_empty()


def test_a_job_that_does_not_fit_binds_nothing(space: Space) -> None:
    space.apply(pytorch_job("large", FULL_RACK))
    space.wait(lambda: len(list(filter(None, space.why_waiting().values()))) == FULL_RACK + 1, "all are told why")
    assert not [pod for pod in space.alive() if pod["spec"].get("nodeName")]


def test_segments_of_workers_have_a_rack_each_inside_the_block(space: Space) -> None:
    segments = {"kai.scheduler/segment-size": "6", "kai.scheduler/segment-topology-required-placement": RACK}
    in_one_block = {TOPOLOGY: "network", REQUIRED: BLOCK}
    space.apply(pytorch_job("train", 12, annotations=in_one_block, of_workers=segments))
    pods = space.wait_for_pods(13)
    blocks = {each["metadata"]["name"]: each["metadata"]["labels"][BLOCK] for each in space.cluster.node_list()}
    assert len({blocks[pod["spec"]["nodeName"]] for pod in pods}) == 1
    workers = workers_by_index(space)
    halves = [[workers[index] for index in half] for half in (range(6), range(6, 12))]
    assert [len(space.racks_of(half)) for half in halves] == [1, 1]
    assert ranks_of_workers(space) == {index: index + 1 for index in range(12)}


def test_workers_are_added_in_the_rack_and_removed(space: Space) -> None:
    space.apply(pytorch_job("elastic", 3))
    rack = space.racks_of(space.wait_for_pods(4))
    for workers in (7, 2, 5):
        patch(space, "elastic", {"pytorchReplicaSpecs": {"Worker": {"replicas": workers}}})
        pods = space.wait_for_pods(workers + 1)
        assert space.racks_of(pods) == rack
        assert ranks_of_workers(space) == {index: index + 1 for index in range(workers)}
        assert not space.half_bound()


def test_a_suspended_job_starts_as_a_gang_when_it_resumes(space: Space) -> None:
    space.apply(pytorch_job("train", 5, runPolicy={"suspend": True}))
    space.wait(lambda: "Suspended" in conditions_of(space, "train"), "the PyTorchJob is suspended")
    assert not space.pods()
    for suspend, pods in ((False, 6), (True, 0), (False, 6)):
        patch(space, "train", {"runPolicy": {"suspend": suspend}})
        space.wait_for_pods(pods)
    assert len(space.racks_of(space.running())) == 1
    assert ranks_of_workers(space) == {index: index + 1 for index in range(5)}


@pytest.mark.parametrize("how", ["fails", "is deleted"])
def test_a_worker_that_ends_comes_back_in_the_rack_with_its_rank(space: Space, how: str) -> None:
    space.apply(pytorch_job("train", 5))
    rack = space.racks_of(space.wait_for_pods(6))
    victim = workers_by_index(space)[2]
    if how == "fails":
        fail(space, victim)
    else:
        space.kubectl("delete", "pod", victim["metadata"]["name"], "--wait=false")
    uid = victim["metadata"]["uid"]
    space.wait(lambda: all(pod["metadata"]["uid"] != uid for pod in space.pods()), "the worker is gone")
    assert space.racks_of(space.wait_for_pods(6)) == rack
    assert ranks_of_workers(space) == {index: index + 1 for index in range(5)}
    assert not space.half_bound()


def test_a_job_ends_and_leaves_no_pod_group_behind(space: Space) -> None:
    body = pytorch_job("short", 4, runPolicy={"cleanPodPolicy": "None"})
    for role in body["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["metadata"]["annotations"]["bayplan.io/runs-for"] = "2s"
    space.apply(body)
    space.wait(lambda: "Succeeded" in conditions_of(space, "short"), "the PyTorchJob has succeeded")
    assert len(space.racks_of(space.pods())) == 1
    space.kubectl("delete", "pytorchjob/short")
    space.wait_until_empty()
