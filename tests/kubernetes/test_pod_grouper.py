"""The pod grouper on a real API server: workloads as users have them become gangs, whatever happens in between.

The controllers of these kinds do not run here. Each test creates a workload from `examples/`, and then the pods that
its controller would create, with its labels and owner references (`controllers.py`); the definitions of the kinds are
as small as an API server takes them (`foreign_kinds/`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.bodies import BLOCK, RACK, Json, node_body, topology_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.played_controllers import create_workload, play_controller
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.workloads import CRDS, GPU, ROOT, create_all, groups_in, pods_in

WORKLOADS = ROOT / "examples" / "workloads"
VOLCANO_JOB = ROOT / "examples" / "dialects" / "volcano-job.yaml"
RULES = ("--grouping-rules", str(WORKLOADS / "grouping-rules.yaml"))
FOREIGN_KINDS = sorted((Path(__file__).parent / "foreign_kinds").glob("*.yaml"))


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One of our own: it gets definitions that other tests must not find."""
    with ControlPlane() as plane:
        for file in CRDS:
            plane.apply(file)
        yield plane


@pytest.fixture(scope="module")
def foreign_kinds(control_plane: ControlPlane) -> None:
    for file in FOREIGN_KINDS:
        control_plane.apply(file)


@pytest.fixture
def nodes(control_plane: ControlPlane, namespace: str) -> dict[str, Json]:
    """Two blocks of two racks of four nodes with 8 GPUs each; labels by name."""
    control_plane.apply(topology_body())
    amounts: dict[str, str | int] = {"cpu": 96, "memory": "960Gi", GPU: 8}
    made = [
        node_body(f"n{number}", amounts, **{BLOCK: f"b{number // 8}", RACK: f"r{number // 4}"}) for number in range(16)
    ]
    create_all(control_plane.kubeconfig, made)
    return {node["metadata"]["name"]: node["metadata"]["labels"] for node in made}


def wait_until_placed(plane: ControlPlane, namespace: str, count: int) -> list[Json]:
    def placed() -> bool:
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods_in(plane, namespace)) == count

    wait_until(placed, f"{count} pods have nodes")
    return pods_in(plane, namespace)


def domains(pods: list[Json], nodes: dict[str, Json], level: str) -> set[str]:
    return {nodes[pod["spec"]["nodeName"]][level] for pod in pods}


def rank(pod: Json) -> int:
    return int(pod["metadata"]["annotations"]["bayplan.io/rank"])


def is_told(group: Json) -> bool:
    """Whether both have written into the status: the scheduler and the grouper."""
    status = group.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions", [])}
    return status.get("phase") == "Scheduled" and conditions == dict.fromkeys(
        ("Grouped", "Scheduled", "Started"), "True"
    )


@pytest.mark.usefixtures("foreign_kinds")
@pytest.mark.parametrize(
    "file, groups, level",
    [
        (WORKLOADS / "job.yaml", 1, RACK),
        (WORKLOADS / "mpijob.yaml", 1, BLOCK),
        (WORKLOADS / "pytorchjob.yaml", 1, BLOCK),
        (WORKLOADS / "leaderworkerset.yaml", 2, RACK),
        (WORKLOADS / "jobset.yaml", 1, BLOCK),
        (WORKLOADS / "raycluster.yaml", 1, BLOCK),
        (WORKLOADS / "own-kind.yaml", 1, RACK),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_a_workload_becomes_gangs_in_the_domain_it_asks_for(
    control_plane: ControlPlane, namespace: str, nodes: dict[str, Json], file: Path, groups: int, level: str
) -> None:
    with running_scheduler(control_plane, *RULES):
        workload = create_workload(control_plane, file, namespace)
        play_controller(control_plane, workload)
        pods = wait_until_placed(control_plane, namespace, len(pods_in(control_plane, namespace)))
        found = groups_in(control_plane, namespace)
        wait_until(
            lambda: all(is_told(each) for each in groups_in(control_plane, namespace)),
            "every gang is told which pods it is for and that it is scheduled",
        )
    assert len(found) == groups
    for group in found:
        assert [each["uid"] for each in group["metadata"]["ownerReferences"]] == [workload["metadata"]["uid"]]
        members = [
            pod for pod in pods if pod["metadata"]["labels"]["bayplan.io/pod-group"] == group["metadata"]["name"]
        ]
        assert len(domains(members, nodes, level)) == 1
        assert sorted(rank(pod) for pod in members) == list(range(len(pods) // groups))


@pytest.mark.usefixtures("foreign_kinds")
def test_segments_share_a_rack_and_ranks_follow_the_indices(
    control_plane: ControlPlane, namespace: str, nodes: dict[str, Json]
) -> None:
    with running_scheduler(control_plane):
        play_controller(control_plane, create_workload(control_plane, WORKLOADS / "pytorchjob.yaml", namespace))
        pods = {pod["metadata"]["name"]: pod for pod in wait_until_placed(control_plane, namespace, 9)}
    workers = [pods[f"pretrain-worker-{index}"] for index in range(8)]
    assert [rank(pod) for pod in (pods["pretrain-master-0"], *workers)] == list(range(9))
    for segment in (workers[:4], workers[4:]):
        assert len(domains(segment, nodes, RACK)) == 1
        assert len({pod["metadata"]["annotations"]["bayplan.io/segment"] for pod in segment}) == 1


@pytest.mark.usefixtures("foreign_kinds", "nodes")
def test_workers_of_a_job_set_do_not_wait_for_a_driver_that_has_ended(
    control_plane: ControlPlane, namespace: str
) -> None:
    """Played: the driver has done its work, and all workers were lost and come again."""
    jobs, pods = f"/apis/batch/v1/namespaces/{namespace}/jobs", f"/api/v1/namespaces/{namespace}/pods"
    with running_scheduler(control_plane):
        job_set = create_workload(control_plane, WORKLOADS / "jobset.yaml", namespace)
        driver, *workers = play_controller(control_plane, job_set)
        wait_until_placed(control_plane, namespace, 9)
        control_plane.api.patch(f"{pods}/{driver['metadata']['name']}/status", {"status": {"phase": "Succeeded"}})
        control_plane.api.patch(f"{jobs}/tune-driver-0/status", {"status": {"succeeded": 1}})
        for pod in workers:
            control_plane.api.delete(f"{pods}/{pod['metadata']['name']}")
        create_all(control_plane.kubeconfig, workers)
        again = {pod["metadata"]["name"] for pod in workers}
        wait_until(
            lambda: all(
                pod["spec"].get("nodeName")
                for pod in pods_in(control_plane, namespace)
                if pod["metadata"]["name"] in again
            ),
            "the workers have nodes again",
        )


@pytest.mark.usefixtures("foreign_kinds")
def test_a_volcano_job_has_volcanos_own_pod_group_and_no_second_one(
    control_plane: ControlPlane, namespace: str, nodes: dict[str, Json]
) -> None:
    with running_scheduler(control_plane):
        play_controller(control_plane, create_workload(control_plane, VOLCANO_JOB, namespace))
        pods = wait_until_placed(control_plane, namespace, 9)
    assert len(domains(pods, nodes, BLOCK)) == 1
    assert sorted(rank(pod) for pod in pods) == list(range(9))
    assert groups_in(control_plane, namespace) == []


@pytest.mark.usefixtures("foreign_kinds", "nodes")
def test_as_kai_does_it_a_job_has_a_group_of_kais_for_each_pod(control_plane: ControlPlane, namespace: str) -> None:
    with running_scheduler(control_plane, "--grouping", "kai"):
        job = create_workload(control_plane, WORKLOADS / "job.yaml", namespace)
        play_controller(control_plane, job)
        pods = wait_until_placed(control_plane, namespace, 4)
    found = control_plane.get(f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups")["items"]
    assert {pod["metadata"]["annotations"]["pod-group-name"] for pod in pods} == {
        f"pg-train-{index}-{job['metadata']['uid']}" for index in range(4)
    }
    assert [each["spec"]["minMember"] for each in found] == [1, 1, 1, 1]
    assert groups_in(control_plane, namespace) == []
