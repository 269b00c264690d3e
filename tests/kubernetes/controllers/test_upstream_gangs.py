"""Kubernetes' own gangs as its Job controller makes them: with the gate `WorkloadWithJob` it writes a Workload and a
PodGroup for an Indexed Job, and its pods name the PodGroup. No annotation says that these pods belong together. From
1.37 on, a Job has to ask for it in `spec.scheduling`, which these Jobs do not.
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
    found = needed_scheduling_api()
    if found.jobs_say_how:
        pytest.skip(f"with {found.api_version}, a Job is a gang only if it says so")
    return found


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


def listed(space: Space, served: SchedulingApi, plural: str) -> list[Json]:
    items: list[Json] = space.get(f"{served.api_version}/{plural}")["items"]
    return items


def verdict(group: Json) -> dict[str, str]:
    return {each["type"]: each["status"] for each in (group.get("status") or {}).get("conditions", [])}


def test_a_job_becomes_a_gang_without_a_word_of_its_own(space: Space, served: SchedulingApi) -> None:
    space.apply(job("train", 8, annotations={}))
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
    space.apply(job("large", ROOM + 1, annotations={}))
    space.wait(
        lambda: len(list(filter(None, space.why_waiting().values()))) == ROOM + 1, "all pods are told why they wait"
    )
    space.wait(
        lambda: verdict(listed(space, served, "podgroups")[0]).get(served.condition) == "False",
        "the PodGroup says that it is not scheduled",
    )
    space.apply(job("small", ROOM, annotations={}))
    space.wait_for_pods(ROOM, "job-name=small")
    assert not [pod for pod in space.alive("job-name=large") if pod["spec"].get("nodeName")]


def test_topology_annotations_of_the_job_count_as_well(space: Space, served: SchedulingApi) -> None:
    space.apply(job("train", 8))
    pods = space.wait_for_pods(8)
    assert len(space.racks_of(pods)) == 1
    assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {
        each["metadata"]["name"] for each in listed(space, served, "podgroups")
    }


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
