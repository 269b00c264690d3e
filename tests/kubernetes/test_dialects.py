"""Gangs as other systems write them, on a real API server: each example becomes one gang in the domain it asks for, and
says so in its own words.

The controllers of those systems are not here; what they would create is in the examples. Kubernetes' own PodGroup is
served by the API server itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.builders.bodies import BLOCK, RACK, Json, node_body, topology_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.scheduling_api import GROUP, needed_scheduling_api, plane_with_gangs
from tests.kubernetes.workloads import CRDS, GPU, ROOT, create_all, pods_in

EXAMPLES = ROOT / "examples" / "dialects"
GROUPS = {
    "scheduling.volcano.sh": "v1beta1",
    "scheduling.x-k8s.io": "v1alpha1",
    "scheduling.run.ai": "v2alpha2",
}


def fields(text: str = "", numbers: str = "", **more: Json) -> Json:
    """The schema of an object with these fields and no others; an API server refuses to apply one that is not there."""
    words = {name: {"type": "string"} for name in text.split()}
    return {
        "type": "object",
        "properties": {**words, **{name: {"type": "integer"} for name in numbers.split()}, **more},
    }


def many(schema: Json) -> Json:
    return {"type": "array", "items": schema}


CONDITIONS = many(fields("type status transitionID lastTransitionTime reason message"))
COUNTS = "running succeeded failed"
# What the status of each system's PodGroup may hold. KAI's had a phase and counts once; it has none any more.
STATUS = {
    "scheduling.volcano.sh": fields("phase", COUNTS, conditions=CONDITIONS),
    "scheduling.x-k8s.io": fields("phase occupiedBy scheduleStartTime", COUNTS),
    "scheduling.run.ai": fields(
        conditions=CONDITIONS,
        schedulingConditions=many(
            fields(
                "type status transitionID lastTransitionTime reason message nodePool",
                reasons=many(fields("reason message")),
            )
        ),
    ),
}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One that serves Kubernetes' PodGroups, if its version has them."""
    for plane in plane_with_gangs():
        for crd in CRDS:
            plane.apply(crd)
        for group, version in GROUPS.items():
            plane.apply(any_kind(group, version, status=STATUS[group]))
        plane.apply(any_kind("batch.volcano.sh", "v1alpha1", "Job"))
        yield plane


def any_kind(group: str, version: str, kind: str = "PodGroup", status: Json | None = None) -> Json:
    """A definition that takes whatever the objects ask for, and in their status what there is in that system."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": status or anything}}
    plural = f"{kind.lower()}s"
    approved = "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": approved}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


@pytest.fixture
def namespace(control_plane: ControlPlane, namespace: str) -> str:
    """A namespace in a cluster with the Topology `network`."""
    control_plane.apply(topology_body())
    return namespace


@pytest.fixture
def nodes(control_plane: ControlPlane, namespace: str) -> list[Json]:
    """Two blocks of two racks of four nodes with 8 GPUs each."""
    amounts: dict[str, str | int] = {"cpu": 96, "memory": "960Gi", GPU: 8}
    made = [
        node_body(f"n{number}", amounts, **{BLOCK: f"b{number // 8}", RACK: f"r{number // 4}"}) for number in range(16)
    ]
    create_all(control_plane.kubeconfig, made)
    return made


def apply(plane: ControlPlane, file: str, namespace: str) -> None:
    """The objects of an example, in the namespace of the test and in the version that is served."""
    served = needed_scheduling_api() if file.startswith("kubernetes") else None
    for document in yaml.safe_load_all((EXAMPLES / file).read_text()):
        document["metadata"]["namespace"] = namespace
        plane.apply(served.in_this_version(document) if served else document)


def values(plane: ControlPlane, namespace: str, nodes: list[Json], label: str) -> set[str]:
    """The values of a node label where the pods of a namespace stand."""
    by_name = {node["metadata"]["name"]: node["metadata"]["labels"][label] for node in nodes}
    return {by_name[pod["spec"]["nodeName"]] for pod in pods_in(plane, namespace)}


def group(plane: ControlPlane, api_version: str, namespace: str) -> Json:
    if api_version == GROUP:
        api_version = needed_scheduling_api().api_version
    found: Json = plane.get(f"/apis/{api_version}/namespaces/{namespace}/podgroups/train")
    return found


@pytest.mark.parametrize(
    "file, level",
    [
        ("coscheduling-podgroup.yaml", None),
        ("kai-podgroup.yaml", BLOCK),
        ("kubernetes-podgroup.yaml", RACK),
        ("kueue-pods.yaml", BLOCK),
        ("volcano-podgroup.yaml", RACK),
    ],
)
def test_every_example_becomes_one_gang(
    control_plane: ControlPlane, namespace: str, nodes: list[Json], file: str, level: str | None
) -> None:
    with running_scheduler(control_plane):
        apply(control_plane, file, namespace)
        wait_until(
            lambda: all(pod["spec"].get("nodeName") for pod in pods_in(control_plane, namespace)), "all pods have nodes"
        )
    if level is not None:
        assert len(values(control_plane, namespace, nodes, level)) == 1
    ranks = [int(pod["metadata"]["annotations"]["bayplan.io/rank"]) for pod in pods_in(control_plane, namespace)]
    assert ranks == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "file, api_version, told",
    [
        ("coscheduling-podgroup.yaml", "scheduling.x-k8s.io/v1alpha1", {"phase": "Scheduled"}),
        ("kai-podgroup.yaml", "scheduling.run.ai/v2alpha2", {"schedulingConditions": []}),
        ("volcano-podgroup.yaml", "scheduling.volcano.sh/v1beta1", {"phase": "Running"}),
        ("kubernetes-podgroup.yaml", GROUP, {}),
    ],
)
def test_a_gang_is_told_how_far_it_has_come(
    control_plane: ControlPlane, namespace: str, file: str, api_version: str, told: Json
) -> None:
    def status() -> Json:
        found: Json = group(control_plane, api_version, namespace).get("status") or {}
        return found

    def words() -> str:
        conditions = [*status().get("conditions", []), *status().get("schedulingConditions", [])]
        return " ".join(each["message"] for each in conditions)

    amounts: dict[str, str | int] = {"cpu": 96, "memory": "960Gi", GPU: 8}
    with running_scheduler(control_plane):
        apply(control_plane, file, namespace)
        if not file.startswith("coscheduling"):
            wait_until(lambda: "no node" in words(), "the PodGroup says why it waits")
        labels = {BLOCK: "b0", RACK: "r0"}
        create_all(control_plane.kubeconfig, [node_body(f"n{number}", amounts, **labels) for number in range(2)])
        wait_until(
            lambda: all(pod["spec"].get("nodeName") for pod in pods_in(control_plane, namespace)), "all pods have nodes"
        )
        wait_until(lambda: told.items() <= status().items(), f"the status says {told}")
        if file.startswith(("kubernetes", "kai")):
            wait_until(lambda: [each["status"] for each in status()["conditions"]] == ["True"], "the condition holds")
        if api_version == GROUP:
            assert [each["type"] for each in status()["conditions"]] == [needed_scheduling_api().condition]


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize(
    "file, api_version, told",
    [
        # It needs three of its four pods.
        ("coscheduling-podgroup.yaml", "scheduling.x-k8s.io/v1alpha1", {"phase": "Scheduled", "running": 3}),
        ("kai-podgroup.yaml", "scheduling.run.ai/v2alpha2", {}),
        ("volcano-podgroup.yaml", "scheduling.volcano.sh/v1beta1", {"phase": "Unknown", "running": 3}),
        ("kubernetes-podgroup.yaml", GROUP, {}),
    ],
)
def test_a_gang_that_was_complete_is_told_why_a_replacement_waits(
    control_plane: ControlPlane, namespace: str, file: str, api_version: str, told: Json
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    lost = [each for each in yaml.safe_load_all((EXAMPLES / file).read_text()) if each["kind"] == "Pod"][-1]
    metadata = {**lost["metadata"], "name": "replacement", "namespace": namespace}
    replacement = {**lost, "metadata": metadata, "spec": {**lost["spec"], "nodeSelector": {"example.com/none": "such"}}}

    def status() -> Json:
        found: Json = group(control_plane, api_version, namespace).get("status") or {}
        return found

    def message() -> str:
        return " ".join(each["message"] for each in status().get("conditions", []))

    with running_scheduler(control_plane) as scheduler:
        apply(control_plane, file, namespace)
        wait_until(
            lambda: all(pod["spec"].get("nodeName") for pod in pods_in(control_plane, namespace)), "all pods have nodes"
        )
        for pod in pods_in(control_plane, namespace):
            control_plane.api.patch(f"{pods}/{pod['metadata']['name']}/status", {"status": {"phase": "Running"}})
        wait_until(lambda: status().get("running") == 4 or "4 run" in message(), "all of them run")
        control_plane.api.delete(f"{pods}/{lost['metadata']['name']}")
        create_all(control_plane.kubeconfig, [replacement])
        wait_until(lambda: told.items() <= status().items(), f"the status says {told}")
        if not file.startswith("coscheduling"):
            wait_until(lambda: "3 of 4 pods have nodes: " in message(), "the PodGroup says why it waits")
        if file.startswith(("kubernetes", "kai")):
            assert [each["status"] for each in status()["conditions"]] == ["True"]
        failed = [
            line for line in scheduler.log.splitlines() if "failed to write gang status" in line and namespace in line
        ]
        assert failed == []


def test_words_that_have_no_effect_are_told_to_the_group_and_to_the_pod(
    control_plane: ControlPlane, namespace: str, nodes: list[Json]
) -> None:
    """The constraint under its name in KAI's design document and with short names of levels counts; misspelt fields and
    labels do not.
    """

    def told(kind: str) -> list[str]:
        events = control_plane.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
        return [
            each["note"] for each in events if each["reason"] == "NotSupported" and each["regarding"]["kind"] == kind
        ]

    written, *pods = yaml.safe_load_all((EXAMPLES / "kai-podgroup.yaml").read_text())
    written["spec"] = {
        "minMember": 4,
        "minMembr": 3,
        "topologyConstraints": {"requiredTopologyLevel": "rack", "toplogy": "x"},
    }
    for pod in pods:
        pod["metadata"]["labels"] = {"bayplan.io/pod-grup": "train"}
    with running_scheduler(control_plane):
        for document in (written, *pods):
            document["metadata"]["namespace"] = namespace
            control_plane.apply(document)
        wait_until(
            lambda: all(pod["spec"].get("nodeName") for pod in pods_in(control_plane, namespace)), "all pods have nodes"
        )
        wait_until(lambda: len(told("PodGroup")) == 2 and bool(told("Pod")), "the events are there")
    assert len(values(control_plane, namespace, nodes, RACK)) == 1
    assert sorted(told("PodGroup")) == [
        "spec.minMembr: unknown field; did you mean minMember?",
        "spec.topologyConstraints.toplogy: unknown field; did you mean topology?",
    ]
    at = 'metadata.labels["bayplan.io/pod-grup"]: "train" is not known; did you mean bayplan.io/pod-group?'
    assert set(told("Pod")) == {at}


def test_a_volcano_job_is_let_in_so_that_its_pods_are_created(control_plane: ControlPlane, namespace: str) -> None:
    job = yaml.safe_load((EXAMPLES / "volcano-job.yaml").read_text())
    job["metadata"]["namespace"] = namespace
    control_plane.apply(job)
    path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/train"
    owner = {"apiVersion": job["apiVersion"], "kind": "Job", "name": "train", "controller": True}
    owner["uid"] = control_plane.get(path)["metadata"]["uid"]
    written: Json = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": namespace, "ownerReferences": [owner]},
        "spec": {"minMember": 9},
    }
    with running_scheduler(control_plane):
        control_plane.apply(written)
        wait_until(
            lambda: group(control_plane, written["apiVersion"], namespace).get("status", {}).get("phase") == "Inqueue",
            "the PodGroup is let in",
        )
