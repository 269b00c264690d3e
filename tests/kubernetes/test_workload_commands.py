"""`why KIND/NAME` and `place` on a real API server: kinds and short names by its own discovery, with pods of
controllers played by the test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.cli.program import run
from tests.builders.bodies import node_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.played_controllers import Json, create_workload, owned_by, play_controller, pod_from
from tests.kubernetes.workloads import GPU, create_all

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "workloads"
NO_REPORTS = "warning: the cluster has no NodeResourceTopology: NUMA zones are unknown on every node\n"
ROOM = {"cpu": "96", "memory": "960Gi", GPU: "8"}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "trainingruns.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "TrainingRun", "plural": "trainingruns", "singular": "trainingrun", "shortNames": ["trun"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def asked(plane: ControlPlane, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["bayplan", *arguments, "--kubeconfig", str(plane.kubeconfig)])
    told = capsys.readouterr()
    return code, told.out.partition("\n")[0], told.err


def deployment(namespace: str) -> Json:
    resources = {"limits": {"cpu": "2", "memory": "4Gi"}}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "none", "resources": resources}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def test_why_and_place_follow_workloads_of_a_live_cluster(
    plane: ControlPlane, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"example.com/block": "b1", "example.com/rack": "r1"}
    create_all(plane.kubeconfig, [node_body(f"w{number}", ROOM, **labels) for number in range(4)])
    plane.apply(DEFINITION)
    (web,) = plane.apply(deployment(namespace))

    # Nothing is created yet: the pods are those that the controller would make.
    code, answer, err = asked(plane, capsys, "why", "deploy/web", "-n", namespace)
    assert (code, err) == (0, NO_REPORTS)
    assert answer.startswith(f"{namespace}/web: all 3 replicas fit: w")

    # One replica exists, through its ReplicaSet.
    body: Json = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {**web["spec"]}}
    for key in ("strategy", "progressDeadlineSeconds", "revisionHistoryLimit"):
        body["spec"].pop(key, None)
    body["metadata"] = {"name": "web-6d4cf56db6", "namespace": namespace, "ownerReferences": [owned_by(web)]}
    (replica_set,) = plane.apply(body)
    pod = pod_from(web["spec"]["template"], "web-6d4cf56db6-x7k2p", replica_set, {"pod-template-hash": "6d4cf56db6"})
    pod["spec"]["nodeName"] = "w1"
    create_all(plane.kubeconfig, [pod])
    code, answer, _ = asked(plane, capsys, "why", "deployments.apps/web")
    assert code == 0
    assert answer.startswith(f"{namespace}/web: 1 of 3 replicas runs, the other 2 fit: ")

    # A Job of the batch API: two of its pods exist and wait.
    job = create_workload(plane, EXAMPLES / "job.yaml", namespace)
    play_controller(plane, {**job, "spec": {**job["spec"], "parallelism": 2}})
    code, answer, err = asked(plane, capsys, "why", "job/train", "-n", namespace)
    assert answer.startswith(f"Job {namespace}/train ")
    assert "rack r1, 4 nodes" in answer
    # Its pods are in the same gang, though no pod grouper has labelled them: their owner is fetched.
    waiting = asked(plane, capsys, "why", "-n", namespace, "-l", "job-name=train", "-o", "name")[1]
    assert f"its gang Job {namespace}/train " in asked(plane, capsys, "why", waiting, "-n", namespace)[1]

    # A kind that only the API server knows, by its short name.
    create_workload(plane, EXAMPLES / "own-kind.yaml", namespace)
    code, _, err = asked(plane, capsys, "why", "trun/night", "-n", namespace)
    assert code == 2
    assert f"TrainingRun {namespace}/night: pods are made of " in err
    rules = str(EXAMPLES / "grouping-rules.yaml")
    code, answer, _ = asked(plane, capsys, "why", "trun/night", "-n", namespace, "--grouping-rules", rules)
    assert answer.startswith(f"TrainingRun {namespace}/night ")

    # The same manifest again by file: what exists is not made twice.
    file = EXAMPLES / "job.yaml"
    assert asked(plane, capsys, "place", "-f", str(file))[0] in (0, 1)
    code, _, err = asked(plane, capsys, "why", "deploy/nothing", "-n", namespace)
    assert (code, err) == (
        2,
        f"{NO_REPORTS}error: there is no Deployment '{namespace}/nothing' in the cluster, nor a pod that it owns\n",
    )
