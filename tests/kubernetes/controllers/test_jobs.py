"""Indexed Jobs with topology annotations and the real Job controller: ranks, suspension, failing pods, elastic growth,
completion.
"""

from __future__ import annotations

from tests.kubernetes.controllers.bodies import IN_ONE_RACK, RUNS_FOR, deployment, job
from tests.kubernetes.controllers.cluster import Json, Space, label_of, rank_of

INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Json) -> int:
    return int(label_of(pod, INDEX))


def conditions_of(space: Space, name: str) -> dict[str, str]:
    status = space.get(f"batch/v1/jobs/{name}")["status"]
    return {each["type"]: each.get("reason", "") for each in status.get("conditions", []) if each["status"] == "True"}


def test_an_indexed_job_runs_in_one_rack_with_its_indexes_as_ranks(space: Space) -> None:
    space.apply(job("train", 8))
    pods = space.wait_for_pods(8)
    assert len(space.racks_of(pods)) == 1
    assert {index_of(pod): rank_of(pod) for pod in pods} == {index: index for index in range(8)}
    (group,) = space.pod_groups()
    assert group["spec"]["size"] == 8
    space.kubectl("delete", "job/train")
    space.wait_until_empty()


def test_a_job_completes_and_leaves_no_pod_group_behind(space: Space) -> None:
    space.apply(job("train", 6, runs_for="2s", ttlSecondsAfterFinished=0))
    space.wait(lambda: len(space.running()) == 6, "all run at once")
    space.wait(lambda: not space.exists("batch/v1/jobs/train"), "the Job is complete and gone")
    space.wait_until_empty()


def test_a_job_that_does_not_fit_binds_nothing(space: Space) -> None:
    # A rack takes nine pods of 2 CPUs: three on each node.
    space.apply(job("large", 10))
    space.wait(lambda: len(list(filter(None, space.why_waiting().values()))) == 10, "all are told why they wait")
    assert not space.running()
    space.apply(job("small", 9))
    pods = space.wait_for_pods(9, "job-name=small")
    assert len(space.racks_of(pods)) == 1
    assert not [pod for pod in space.alive("job-name=large") if pod["spec"].get("nodeName")]


def test_small_init_containers_cost_no_place(space: Space) -> None:
    # KubeRay adds such a container to every worker. Three pods fit a node, as without it.
    space.apply(job("train", 8, init_cpu="200m"))
    assert len(space.racks_of(space.wait_for_pods(8))) == 1


def test_a_suspended_job_starts_as_a_gang_when_it_resumes(space: Space) -> None:
    space.apply(job("train", 6, suspend=True))
    space.wait(lambda: "Suspended" in conditions_of(space, "train"), "the Job is suspended")
    assert not space.pods()
    space.kubectl("patch", "job/train", "--patch", '{"spec": {"suspend": false}}')
    assert len(space.racks_of(space.wait_for_pods(6))) == 1
    space.kubectl("patch", "job/train", "--patch", '{"spec": {"suspend": true}}')
    space.wait(lambda: not space.pods(), "the pods of the suspended Job are gone")
    space.kubectl("patch", "job/train", "--patch", '{"spec": {"suspend": false}}')
    pods = space.wait_for_pods(6)
    assert len(space.racks_of(pods)) == 1
    assert {index_of(pod): rank_of(pod) for pod in pods} == {index: index for index in range(6)}


def test_a_pod_that_fails_is_replaced_in_the_rack_with_its_rank(space: Space) -> None:
    space.apply(job("train", 6, backoffLimit=20))
    pods = space.wait_for_pods(6)
    rack = space.racks_of(pods)
    victims = [pod for pod in pods if index_of(pod) in (1, 4)]
    for pod in victims:
        fail(space, pod)
    names = {pod["metadata"]["name"] for pod in victims}
    space.wait(
        lambda: len(space.running()) == 6 and not names & {pod["metadata"]["name"] for pod in space.running()},
        "replacements run",
    )
    after = space.running()
    assert space.racks_of(after) == rack
    assert {index_of(pod): rank_of(pod) for pod in after} == {index: index for index in range(6)}
    assert not space.half_bound()


def test_an_index_that_failed_for_good_is_not_waited_for(space: Space) -> None:
    space.apply(job("train", 4, backoffLimitPerIndex=0, maxFailedIndexes=2))
    pods = space.wait_for_pods(4)
    fail(space, pods[2])
    space.wait(lambda: len(space.alive()) == 3, "one index is lost")
    space.kubectl("delete", "pod", pods[0]["metadata"]["name"], "--wait=false")
    after = space.wait_for_pods(2) if conditions_of(space, "train") else space.running()
    assert len(after) >= 2
    assert not space.half_bound()


def test_an_elastic_job_grows_into_its_rack_and_shrinks(space: Space) -> None:
    space.apply(job("elastic", 4))
    rack = space.racks_of(space.wait_for_pods(4))
    space.kubectl("patch", "job/elastic", "--patch", '{"spec": {"parallelism": 8, "completions": 8}}')
    pods = space.wait_for_pods(8)
    assert space.racks_of(pods) == rack
    assert {index_of(pod): rank_of(pod) for pod in pods} == {index: index for index in range(8)}
    space.kubectl("patch", "job/elastic", "--patch", '{"spec": {"parallelism": 3, "completions": 3}}')
    assert {index_of(pod) for pod in space.wait_for_pods(3)} == {0, 1, 2}
    space.kubectl("patch", "job/elastic", "--patch", '{"spec": {"parallelism": 9, "completions": 9}}')
    assert space.racks_of(space.wait_for_pods(9)) == rack


def test_a_job_that_was_scaled_down_keeps_no_room(space: Space) -> None:
    space.apply(job("elastic", 9))
    space.wait_for_pods(9)
    space.kubectl("patch", "job/elastic", "--patch", '{"spec": {"parallelism": 3, "completions": 3}}')
    space.wait_for_pods(3)
    space.apply(deployment("others", 33))  # with the Job's pods, all that the nodes hold
    space.wait_for_pods(36, timeout=60)
    (group,) = space.pod_groups()
    assert group["spec"]["size"] == 3


def test_more_completions_than_parallelism_run_in_waves(space: Space) -> None:
    space.apply(job("waves", 12, parallelism=4, runs_for="1s"))
    space.wait(lambda: "Complete" in conditions_of(space, "waves"), "all waves are complete")
    assert {index_of(pod) for pod in space.pods()} == set(range(12))
    assert not [pod for pod in space.pods() if pod["status"]["phase"] == "Failed"]


def test_many_jobs_share_the_cluster_without_half_bound_gangs(space: Space) -> None:
    for number in range(10):
        body = job(f"train-{number}", 5, runs_for="3s")
        space.apply(body)
    space.wait(
        lambda: all("Complete" in conditions_of(space, f"train-{number}") for number in range(10)),
        "all Jobs are complete",
        timeout=240,
    )
    space.kubectl("delete", "jobs", "--all")
    space.wait_until_empty()


def test_a_job_without_annotations_is_no_gang(space: Space) -> None:
    space.apply(job("plain", 40, annotations={}, runs_for="2s"))
    space.wait(lambda: "Complete" in conditions_of(space, "plain"), "the Job is complete though not all fit at once")
    assert not space.pod_groups()
    assert RUNS_FOR in IN_ONE_RACK or not space.half_bound()


def fail(space: Space, pod: Json) -> None:
    """End a pod as a kubelet reports a container that exited with 1."""
    terminated = {"exitCode": 1, "reason": "Error"}
    status = {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "main",
                "image": "x",
                "imageID": "x",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": terminated},
            }
        ],
    }
    path = f"/api/v1/namespaces/{space.namespace}/pods/{pod['metadata']['name']}/status"
    space.plane.api.patch(path, {"status": status})
