"""Kubernetes' own gangs as its Job controller makes them: with the gate `WorkloadWithJob` it writes a Workload and a
PodGroup for a Job, and its pods name the PodGroup. No annotation says that these pods belong together. In 1.36 each
Indexed Job is a gang; from 1.37 on, a Job asks for it in `spec.scheduling`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders.bodies import BLOCK, RACK
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.controllers.bodies import REQUIRED, TOPOLOGY, job
from tests.kubernetes.controllers.catalogue import MANAGER
from tests.kubernetes.controllers.cluster import Cluster, Json, Space, running_cluster
from tests.kubernetes.controllers.conftest import new_space
from tests.kubernetes.scheduling_api import SchedulingApi, needed_scheduling_api

# Twelve nodes take three pods of 2 CPUs each.
ROOM = 36


@pytest.fixture(scope="module")
def served() -> SchedulingApi:
    """What the API server has of it; tests are skipped where it has nothing."""
    return needed_scheduling_api()


@pytest.fixture(scope="module")
def gangs(served: SchedulingApi) -> Iterator[Cluster]:
    """A cluster whose Job controller makes gangs."""
    with (
        ControlPlane(
            apiserver_arguments=served.arguments_with_jobs,
            manager_program=MANAGER.find(),
            manager_arguments=served.manager_arguments,
        ) as plane,
        running_cluster(plane) as cluster,
    ):
        yield cluster


@pytest.fixture
def space(gangs: Cluster) -> Iterator[Space]:
    """A new namespace; afterwards no kubelet has refused a pod."""
    gangs.refusals()
    with new_space(gangs) as made:
        yield made
        assert gangs.refusals() == []


def gang_job(served: SchedulingApi, name: str, pods: int, **asked: Json) -> Json:
    """A Job without annotations that is a gang in this version of Kubernetes."""
    how: Json = {"scheduling": {"schedulingPolicy": {"gang": {}}, **asked}} if served.jobs_say_how else {}
    return job(name, pods, annotations={}, **how)


def listed(space: Space, served: SchedulingApi, plural: str) -> list[Json]:
    items: list[Json] = space.get(f"{served.api_version}/{plural}")["items"]
    return items


def verdict(group: Json) -> dict[str, str]:
    return {each["type"]: each["status"] for each in (group.get("status") or {}).get("conditions", [])}


def test_a_job_becomes_a_gang_without_a_word_of_its_own(space: Space, served: SchedulingApi) -> None:
    space.apply(gang_job(served, "train", 8))
    pods = space.wait_for_pods(8)
    (group,) = listed(space, served, "podgroups")
    (workload,) = listed(space, served, "workloads")
    assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 8
    assert workload["spec"]["controllerRef"]["name"] == "train"
    assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {group["metadata"]["name"]}
    assert space.pod_groups() == []  # of bayplan's own none is needed
    space.wait(
        lambda: verdict(listed(space, served, "podgroups")[0]).get(served.condition) == "True",
        "the PodGroup says that it is scheduled",
    )
    space.kubectl("delete", "job/train")
    space.wait(
        lambda: not space.pods() and not listed(space, served, "podgroups") and not listed(space, served, "workloads"),
        "nothing is left of it",
    )


def test_a_job_that_does_not_fit_binds_nothing(space: Space, served: SchedulingApi) -> None:
    space.apply(gang_job(served, "large", ROOM + 1))
    space.wait(
        lambda: len(list(filter(None, space.why_waiting().values()))) == ROOM + 1, "all pods are told why they wait"
    )
    space.wait(
        lambda: verdict(listed(space, served, "podgroups")[0]).get(served.condition) == "False",
        "the PodGroup says that it is not scheduled",
    )
    space.apply(gang_job(served, "small", ROOM))
    space.wait_for_pods(ROOM, "job-name=small")
    assert not [pod for pod in space.alive("job-name=large") if pod["spec"].get("nodeName")]


def test_topology_annotations_of_the_job_count_as_well(space: Space, served: SchedulingApi) -> None:
    space.apply(job("train", 8))
    pods = space.wait_for_pods(8)
    assert len(space.racks_of(pods)) == 1
    assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {
        each["metadata"]["name"] for each in listed(space, served, "podgroups")
    }


def test_a_job_that_asks_for_a_rack_gets_one(space: Space, served: SchedulingApi) -> None:
    if not served.jobs_say_how:
        pytest.skip(f"with {served.api_version}, a Job cannot ask for a level")
    space.apply(gang_job(served, "train", 8, schedulingConstraints={"topology": [{"key": RACK}]}))
    assert len(space.racks_of(space.wait_for_pods(8))) == 1
    (group,) = listed(space, served, "podgroups")
    assert group["spec"]["schedulingConstraints"] == {"topology": [{"key": RACK}]}


def test_a_job_that_asks_for_nothing_runs_pod_by_pod(space: Space, served: SchedulingApi) -> None:
    if not served.jobs_say_how:
        pytest.skip(f"with {served.api_version}, each Indexed Job is a gang")
    space.apply(job("large", ROOM + 1, annotations={}))
    space.wait(
        lambda: sum(bool(pod["spec"].get("nodeName")) for pod in space.alive("job-name=large")) == ROOM,
        "all pods run that find room",
    )


@pytest.mark.parametrize("by_workload, by_annotation", [(RACK, BLOCK), (BLOCK, RACK)])
def test_of_two_levels_for_one_job_the_narrower_one_counts(
    space: Space, served: SchedulingApi, by_workload: str, by_annotation: str
) -> None:
    template = {
        "name": "workers",
        "schedulingPolicy": {"gang": {"minCount": 8}},
        "schedulingConstraints": {"topology": [{"key": by_workload}]},
    }
    controller = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    spec = {"controllerRef": controller, "podGroupTemplates": [template]}
    space.apply({"apiVersion": served.api_version, "kind": "Workload", "metadata": {"name": "train"}, "spec": spec})
    space.apply(job("train", 8, annotations={TOPOLOGY: "network", REQUIRED: by_annotation}))
    assert len(space.racks_of(space.wait_for_pods(8))) == 1


def test_a_level_that_no_node_has_is_told_and_places_nothing(space: Space, served: SchedulingApi) -> None:
    space.apply(job("train", 4, annotations={TOPOLOGY: "network", REQUIRED: "example.com/rak"}))
    space.wait(lambda: len(list(filter(None, space.why_waiting().values()))) == 4, "all pods are told why they wait")
    space.wait(lambda: bool(space.events("train", "InvalidGroup")), "the Job is told what is wrong")
    assert "example.com/rak" in space.events("train", "InvalidGroup")[0]
    assert not [pod for pod in space.alive() if pod["spec"].get("nodeName")]
