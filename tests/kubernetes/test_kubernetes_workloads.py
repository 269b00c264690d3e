"""Kubernetes' own Workloads and PodGroups on the API server that serves them: whose word counts, and where a user reads
what is wrong.

No controllers run here: the Job's pods are created as its controller would (`controllers.py`). Kubernetes' Job
controller leaves a Job alone whose Workload a user wrote, so its pods name no PodGroup and the pod grouper makes the
gang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from tests.builders.bodies import BLOCK, RACK, Json, node_body, pod_body, topology_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.played_controllers import play_controller
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.scheduling_api import needed_scheduling_api, plane_with_gangs
from tests.kubernetes.workloads import CRDS, GPU, ROOT, create_all, pods_in, wait_until_told

EXAMPLE = ROOT / "examples" / "workloads" / "job-with-workload.yaml"
GPUS: dict[str, str | int] = {"cpu": 96, "memory": "960Gi", GPU: 8}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One that serves Workloads."""
    needed_scheduling_api()
    for plane in plane_with_gangs():
        for crd in CRDS:
            plane.apply(crd)
        yield plane


@pytest.fixture
def racks(control_plane: ControlPlane, namespace: str) -> dict[str, str]:
    """Four racks of four nodes with 8 GPUs each, without any Topology; the rack of each node."""
    made = [
        node_body(f"n{number}", GPUS, **{BLOCK: f"b{number // 8}", RACK: f"r{number // 4}"}) for number in range(16)
    ]
    create_all(control_plane.kubeconfig, made)
    return {node["metadata"]["name"]: node["metadata"]["labels"][RACK] for node in made}


@pytest.fixture(params=[True, False], ids=["a level of a Topology", "a label of no Topology"])
def topology(control_plane: ControlPlane, namespace: str, request: pytest.FixtureRequest) -> None:
    """With the Topology `network`, and without any."""
    if request.param:
        control_plane.apply(topology_body())


def documents(namespace: str, **template: Any) -> tuple[Json, Json]:
    """The example's Workload and Job, with other fields of its template."""
    workload, job = yaml.safe_load_all(EXAMPLE.read_text())
    for each in (workload, job):
        each["metadata"]["namespace"] = namespace
    workload["spec"]["podGroupTemplates"][0] |= template
    return needed_scheduling_api().in_this_version(workload), job


def create_job(plane: ControlPlane, job: Json) -> None:
    """The Job and its pods."""
    (created,) = plane.apply(job)
    play_controller(plane, created)


def wait_until_placed(plane: ControlPlane, namespace: str) -> list[Json]:
    wait_until(lambda: all(pod["spec"].get("nodeName") for pod in pods_in(plane, namespace)), "all pods have nodes")
    return pods_in(plane, namespace)


def ranks(pods: list[Json]) -> list[int]:
    return sorted(int(pod["metadata"]["annotations"]["bayplan.io/rank"]) for pod in pods)


def notes(plane: ControlPlane, namespace: str, kind: str, reason: str) -> list[str]:
    """What events on objects of a kind say."""
    events = plane.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return [each["note"] for each in events if (each["regarding"]["kind"], each["reason"]) == (kind, reason)]


def group_made(plane: ControlPlane, namespace: str) -> Json:
    """The one PodGroup of bayplan's own."""
    (made,) = plane.get(f"/apis/bayplan.io/v1alpha1/namespaces/{namespace}/podgroups")["items"]
    found: Json = made
    return found


@pytest.mark.usefixtures("topology")
def test_a_job_with_a_workload_is_a_gang_in_the_domain_that_is_asked_for(
    control_plane: ControlPlane, namespace: str, racks: dict[str, str]
) -> None:
    workload, job = documents(namespace)
    with running_scheduler(control_plane):
        control_plane.apply(workload)
        create_job(control_plane, job)
        pods = wait_until_placed(control_plane, namespace)
        made = group_made(control_plane, namespace)
    assert (made["spec"]["size"], made["spec"]["required"]) == (4, RACK)
    assert made["metadata"]["annotations"] == {"bayplan.io/workload": "rehearsal"}
    assert len({racks[pod["spec"]["nodeName"]] for pod in pods}) == 1
    assert ranks(pods) == [0, 1, 2, 3]


def test_a_workload_that_comes_late_is_followed_by_pods_that_wait(control_plane: ControlPlane, namespace: str) -> None:
    workload, job = documents(namespace)
    with running_scheduler(control_plane):
        create_job(control_plane, job)
        wait_until_told(control_plane, namespace, "rehearsal-0", "no nodes")
        control_plane.apply(workload)
        wait_until(
            lambda: all(
                "bayplan.io/pod-group" in pod["metadata"]["labels"] for pod in pods_in(control_plane, namespace)
            ),
            "all pods are in the gang",
        )


@pytest.mark.usefixtures("racks")
def test_what_is_wrong_and_what_has_no_effect_is_an_event_on_the_workload(
    control_plane: ControlPlane, namespace: str
) -> None:
    wrong, job = documents(namespace, schedulingPolicy={"gang": {"minCount": 9}})
    served = needed_scheduling_api()
    right, _ = documents(namespace, disruptionMode=served.disrupted_together())
    at = f"/apis/{served.api_version}/namespaces/{namespace}/workloads/rehearsal"
    told = (
        f"Workload {namespace}/rehearsal: "
        "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: 9 is more than the pods"
        f" of Job {namespace}/rehearsal; there are 4"
    )
    with running_scheduler(control_plane):
        control_plane.apply(wrong)
        create_job(control_plane, job)
        wait_until_told(control_plane, namespace, "rehearsal-0", told)
        wait_until(
            lambda: notes(control_plane, namespace, "Workload", "InvalidGroup") == [told], "the Workload has an event"
        )
        # A template's policy cannot be replaced: a user deletes the Workload and creates another one.
        control_plane.delete(at)
        control_plane.apply(right)
        wait_until_placed(control_plane, namespace)
        assert group_made(control_plane, namespace)["spec"]["size"] == 4
        wait_until(
            lambda: any(
                "disruptionMode: " in note and "has no effect" in note
                for note in notes(control_plane, namespace, "Workload", "NotSupported")
            ),
            "what has no effect is told",
        )


@pytest.mark.usefixtures("racks")
def test_a_pod_group_counts_as_it_is_and_says_in_what_it_is_unlike_its_template(
    control_plane: ControlPlane, namespace: str
) -> None:
    """Kubernetes' Job controller copies the policy of a template, and not its constraints."""
    workload, _ = documents(namespace)
    served = needed_scheduling_api()
    group = {
        "apiVersion": served.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {**served.reference("rehearsal", "workers"), "schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    pods = [
        pod_body(f"w-{index}", namespace, {"cpu": 1}, schedulingGroup={"podGroupName": "train"}) for index in range(2)
    ]
    with running_scheduler(control_plane):
        create_all(control_plane.kubeconfig, pods)
        wait_until_told(control_plane, namespace, "w-0", "waits for PodGroup")
        control_plane.apply(workload)
        control_plane.apply(group)
        wait_until_placed(control_plane, namespace)
        wait_until(
            lambda: len(notes(control_plane, namespace, "PodGroup", "UnlikeTemplate")) == 2, "both differences are told"
        )
    told = " ".join(notes(control_plane, namespace, "PodGroup", "UnlikeTemplate"))
    assert (
        f'schedulingConstraints.topology: is empty, but the template "workers" of Workload rehearsal says {RACK}'
        in told
    )
    assert "schedulingPolicy: is gang with minCount 2" in told


def test_bytes_that_are_not_utf_8_in_managed_fields_stop_no_other(control_plane: ControlPlane, namespace: str) -> None:
    """The API server serves them as they were written; the gang itself is read, and so is every other object."""
    create_all(control_plane.kubeconfig, [node_body("n0", GPUS)])
    asyncio.run(create_hostile_objects(control_plane, namespace))
    with running_scheduler(control_plane):
        create_all(control_plane.kubeconfig, [pod_body("good", namespace, {"cpu": 1})])
        wait_until(lambda: bool(pods_in(control_plane, namespace)[0]["spec"].get("nodeName")), "the pod has a node")


async def create_hostile_objects(plane: ControlPlane, namespace: str) -> None:
    """A Workload and a PodGroup whose lists no strict JSON parser reads."""
    served = needed_scheduling_api().api_version
    manager = (
        b'{"manager":"tenant","operation":"Update","apiVersion":"%s","time":"2026-01-01T00:00:00Z",'
        b'"fieldsType":"FieldsV1","fieldsV1":{"f:\xff":{}}}' % served.encode()
    )
    policy: Json = {"schedulingPolicy": {"basic": {}}}
    specs = {"workloads": {"podGroupTemplates": [{"name": "workers", **policy}]}, "podgroups": policy}
    async with KubeClient(find_access(str(plane.kubeconfig))) as client:
        for plural, spec in specs.items():
            kind = "Workload" if plural == "workloads" else "PodGroup"
            written = {"apiVersion": served, "kind": kind, "metadata": {"name": "hostile"}, "spec": spec}
            body = msgspec.json.encode(written).replace(b'"metadata":{', b'"metadata":{"managedFields":[%s],' % manager)
            path = f"/apis/{served}/namespaces/{namespace}/{plural}"
            await client.request("POST", path, body=body)
            listed = await client.request("GET", path)
            with pytest.raises(UnicodeDecodeError):
                listed.decode()
