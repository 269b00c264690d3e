"""JobSets with their real controller: gangs of Jobs, in order, exclusive, restarted, suspended."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.builders.bodies import RACK
from tests.kubernetes.controllers.bodies import IN_ONE_RACK, job_set, replicated_job
from tests.kubernetes.controllers.cluster import Json, Space, label_of, rank_of

pytestmark = pytest.mark.usefixtures("job_set")
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOB_INDEX, COMPLETION = "jobset.sigs.k8s.io/job-index", "batch.kubernetes.io/job-completion-index"


def by_job(pods: list[Json]) -> dict[str, list[Json]]:
    """Pods by the index of their Job."""
    found: dict[str, list[Json]] = defaultdict(list)
    for pod in pods:
        found[label_of(pod, JOB_INDEX)].append(pod)
    return found


def test_all_jobs_start_together_in_one_rack_with_their_ranks(space: Space) -> None:
    # KubeRay and JobSets with set-up steps have small init containers: three pods fit a node all the same.
    workers = replicated_job("workers", 2, 4, init_cpu="200m")
    space.apply(job_set("train", workers, annotations=IN_ONE_RACK))
    pods = space.wait_for_pods(8)
    assert len(space.racks_of(pods)) == 1
    ranks = {int(label_of(pod, JOB_INDEX)) * 4 + int(label_of(pod, COMPLETION)): rank_of(pod) for pod in pods}
    assert ranks == {rank: rank for rank in range(8)}
    space.kubectl("delete", "jobset", "train")
    space.wait_until_empty()


def test_a_set_that_does_not_fit_binds_nothing(space: Space) -> None:
    space.apply(job_set("large", replicated_job("workers", 2, 5), annotations=IN_ONE_RACK))
    space.wait(lambda: len(list(filter(None, space.why_waiting().values()))) == 10, "all are told why they wait")
    assert not [pod for pod in space.alive() if pod["spec"].get("nodeName")]


# A rack holds nine such pods, so one set of five; there are four racks.
@pytest.mark.parametrize("sets", [1, 2, 4])
def test_jobs_that_start_in_order_share_a_rack(space: Space, sets: int) -> None:
    # The second job is created when the first one is ready.
    jobs, in_order = (replicated_job("first", 1, 1), replicated_job("second", 1, 4)), {"startupPolicyOrder": "InOrder"}
    for number in range(sets):
        space.apply(job_set(f"train-{number}", *jobs, annotations=IN_ONE_RACK, startupPolicy=in_order))
    pods = space.wait_for_pods(5 * sets)
    members = [[pod for pod in pods if pod["metadata"]["name"].startswith(f"train-{each}-")] for each in range(sets)]
    assert [(len(each), len(space.racks_of(each))) for each in members] == [(5, 1)] * sets
    assert not space.half_bound()


def test_exclusive_jobs_have_a_rack_each(space: Space) -> None:
    space.apply(job_set("train", replicated_job("workers", 3, 5), annotations={EXCLUSIVE: RACK}))
    pods = space.wait_for_pods(15)
    racks = {index: space.racks_of(members) for index, members in by_job(pods).items()}
    assert all(len(each) == 1 for each in racks.values())
    assert len(set().union(*racks.values())) == 3


def test_more_exclusive_jobs_than_racks_start_none(space: Space) -> None:
    space.apply(job_set("large", replicated_job("workers", 5, 2), annotations={EXCLUSIVE: RACK}))
    space.wait(lambda: any(space.why_waiting().values()), "they are told why they wait")
    assert not [pod for pod in space.alive() if pod["spec"].get("nodeName")]


def test_a_restarted_set_starts_again_as_a_gang(space: Space) -> None:
    policy = {"failurePolicy": {"maxRestarts": 3}}
    space.apply(job_set("train", replicated_job("workers", 2, 3), annotations=IN_ONE_RACK, **policy))
    before = {pod["metadata"]["uid"] for pod in space.wait_for_pods(6)}
    victim = space.running()[0]["metadata"]["name"]
    path = f"/api/v1/namespaces/{space.namespace}/pods/{victim}/status"
    space.plane.api.patch(path, {"status": {"phase": "Failed", "reason": "Broken"}})
    space.wait(
        lambda: len(space.running()) == 6 and not before & {pod["metadata"]["uid"] for pod in space.running()},
        "all pods are new",
        timeout=180,
    )
    assert len(space.racks_of(space.running())) == 1
    assert not space.half_bound()


def test_a_suspended_set_starts_as_a_gang_when_it_resumes(space: Space) -> None:
    space.apply(job_set("train", replicated_job("workers", 2, 3), annotations=IN_ONE_RACK, suspend=True))
    space.wait(lambda: space.exists("jobset.x-k8s.io/v1alpha2/jobsets/train"), "the JobSet is there")
    assert not space.alive()
    for suspend, pods in (("false", 6), ("true", 0), ("false", 6)):
        space.kubectl("patch", "jobset/train", "--type=merge", "--patch", f'{{"spec": {{"suspend": {suspend}}}}}')
        space.wait_for_pods(pods)
    assert len(space.racks_of(space.running())) == 1
