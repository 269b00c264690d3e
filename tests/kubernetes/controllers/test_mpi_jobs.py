"""MPIJobs with the real operator: a launcher, which is a Job of its own, and workers are one gang."""

from __future__ import annotations

import json

import pytest

from tests.kubernetes.controllers.bodies import mpi_job
from tests.kubernetes.controllers.cluster import Json, Space, label_of, rank_of
from tests.kubernetes.controllers.test_jobs import fail

pytestmark = pytest.mark.usefixtures("mpi_operator")
INDEX = "training.kubeflow.org/replica-index"
LAUNCHER, WORKERS = "training.kubeflow.org/job-role=launcher", "training.kubeflow.org/job-role=worker"
# Three pods of 2 CPUs fit a node, nine a rack.
FULL_RACK = 9


def patch(space: Space, name: str, spec: Json) -> None:
    space.kubectl("patch", f"mpijob/{name}", "--type=merge", "--patch", json.dumps({"spec": spec}))


def ranks_of_workers(space: Space) -> dict[int, int]:
    return {int(label_of(pod, INDEX)): rank_of(pod) for pod in space.running(WORKERS)}


def conditions_of(space: Space, name: str) -> dict[str, str]:
    status = space.get(f"kubeflow.org/v2beta1/mpijobs/{name}").get("status", {})
    return {each["type"]: each.get("reason", "") for each in status.get("conditions", []) if each["status"] == "True"}


def test_launcher_and_workers_fill_a_rack_and_leave_nothing_behind(space: Space) -> None:
    space.apply(mpi_job("allreduce", FULL_RACK - 1))
    pods = space.wait_for_pods(FULL_RACK)
    assert len(space.racks_of(pods)) == 1
    assert [rank_of(pod) for pod in space.running(LAUNCHER)] == [0]
    assert ranks_of_workers(space) == {index: index + 1 for index in range(FULL_RACK - 1)}
    assert len(space.pod_groups()) == 1
    space.wait(lambda: "Running" in conditions_of(space, "allreduce"), "the MPIJob runs")
    space.kubectl("delete", "mpijob/allreduce")
    space.wait_until_empty()


def test_a_job_that_does_not_fit_binds_nothing(space: Space) -> None:
    space.apply(mpi_job("large", FULL_RACK))
    space.wait(lambda: len(list(filter(None, space.why_waiting().values()))) == FULL_RACK + 1, "all are told why")
    assert not [pod for pod in space.alive() if pod["spec"].get("nodeName")]


def test_a_launcher_that_works_too_has_the_first_rank(space: Space) -> None:
    space.apply(mpi_job("allreduce", 4, runLauncherAsWorker=True))
    pods = space.wait_for_pods(5)
    assert len(space.racks_of(pods)) == 1
    assert [rank_of(pod) for pod in space.running(LAUNCHER)] == [0]
    assert ranks_of_workers(space) == {index: index for index in range(1, 5)}


# A rack holds nine such pods, so one job of a launcher and four workers; there are four racks.
@pytest.mark.parametrize("jobs", [1, 4])
def test_a_launcher_that_waits_for_its_workers_finds_room_in_their_rack(space: Space, jobs: int) -> None:
    for number in range(jobs):
        space.apply(mpi_job(f"late-{number}", 4, launcherCreationPolicy="WaitForWorkersReady"))
    space.wait_for_pods(5 * jobs)
    for number in range(jobs):
        members = space.running(f"training.kubeflow.org/job-name=late-{number}")
        assert (len(members), len(space.racks_of(members))) == (5, 1)
    assert not space.half_bound()


def test_workers_are_added_in_the_rack_and_removed(space: Space) -> None:
    space.apply(mpi_job("elastic", 3))
    rack = space.racks_of(space.wait_for_pods(4))
    for workers in (7, 2, 5):
        patch(space, "elastic", {"mpiReplicaSpecs": {"Worker": {"replicas": workers}}})
        pods = space.wait_for_pods(workers + 1)
        assert space.racks_of(pods) == rack
        assert ranks_of_workers(space) == {index: index + 1 for index in range(workers)}
        assert not space.half_bound()


def test_a_suspended_job_starts_as_a_gang_when_it_resumes(space: Space) -> None:
    space.apply(mpi_job("allreduce", 5, runPolicy={"suspend": True}))
    space.wait(lambda: "Suspended" in conditions_of(space, "allreduce"), "the MPIJob is suspended")
    assert not space.pods()
    for suspend, pods in ((False, 6), (True, 0), (False, 6)):
        patch(space, "allreduce", {"runPolicy": {"suspend": suspend}})
        space.wait_for_pods(pods)
    assert len(space.racks_of(space.running())) == 1
    assert ranks_of_workers(space) == {index: index + 1 for index in range(5)}


def test_a_deleted_worker_comes_back_in_the_rack_with_its_rank(space: Space) -> None:
    space.apply(mpi_job("allreduce", 5))
    rack = space.racks_of(space.wait_for_pods(6))
    (victim,) = [pod for pod in space.running(WORKERS) if label_of(pod, INDEX) == "2"]
    space.kubectl("delete", "pod", victim["metadata"]["name"], "--wait=false")
    uid = victim["metadata"]["uid"]
    space.wait(lambda: all(pod["metadata"]["uid"] != uid for pod in space.pods()), "the worker is gone")
    assert space.racks_of(space.wait_for_pods(6)) == rack
    assert ranks_of_workers(space) == {index: index + 1 for index in range(5)}
    assert not space.half_bound()


def test_a_launcher_that_fails_is_replaced_in_the_rack(space: Space) -> None:
    space.apply(mpi_job("allreduce", 4, runPolicy={"backoffLimit": 3}))
    rack = space.racks_of(space.wait_for_pods(5))
    (launcher,) = space.running(LAUNCHER)
    fail(space, launcher)
    uid = launcher["metadata"]["uid"]
    space.wait(
        lambda: [pod["metadata"]["uid"] != uid for pod in space.running(LAUNCHER)] == [True], "a new launcher runs"
    )
    assert space.racks_of(space.running()) == rack
    assert not space.half_bound()


def test_a_job_ends_with_its_launcher_and_leaves_no_pod_group_behind(space: Space) -> None:
    space.apply(mpi_job("short", 4, runs_for="2s", runPolicy={"cleanPodPolicy": "Running"}))
    space.wait(lambda: "Succeeded" in conditions_of(space, "short"), "the MPIJob has succeeded")
    space.wait(lambda: not space.alive(), "the operator has removed the workers")
    space.kubectl("delete", "mpijob/short")
    space.wait_until_empty()
