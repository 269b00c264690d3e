"""Pods that name a PriorityClass in dumps, in `-f` and in templates: they count with its priority."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import Json, list_body, node_body, pod_body
from tests.builders.storage import csi_node
from tests.unit.cli.conftest import Bayplan

HIGH: Json = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 100,
}
AMOUNTS: Json = {"cpu": 4, "memory": "1Gi"}


def waiting(**spec: Any) -> Json:
    return pod_body("db", "ml", AMOUNTS, phase="Pending", **spec)


def written(folder: Path, *objects: Json, name: str = "cluster.json") -> Path:
    file = folder / name
    file.write_text(json.dumps(list_body(objects)))
    return file


def full_node(folder: Path, *objects: Json) -> Path:
    """A node that a pod of priority 5 fills."""
    running = pod_body("web", "ml", AMOUNTS, phase="Running", nodeName="n1", priority=5)
    return written(folder, node_body("n1", {"cpu": 4, "memory": "32Gi"}), running, *objects)


@pytest.mark.parametrize(
    "objects, evicted",
    [
        ([waiting(priorityClassName="high"), HIGH], ["ml/web"]),
        ([waiting(priorityClassName="system-cluster-critical")], ["ml/web"]),
        ([waiting(), {**HIGH, "globalDefault": True}], ["ml/web"]),
        ([waiting(), HIGH], []),
        ([waiting(priorityClassName="high"), {**HIGH, "preemptionPolicy": "Never"}], []),
    ],
)
def test_a_waiting_pod_of_a_dump_has_the_priority_of_its_class(
    bayplan: Bayplan, tmp_path: Path, objects: list[Json], evicted: list[str]
) -> None:
    cluster = full_node(tmp_path, *objects)
    result = bayplan("why", "ml/db", "--preempt", "-o", "json", cluster=cluster)
    assert [each["pod"] for each in json.loads(result.out)["preemption"]["victims"]] == evicted
    assert "PriorityClass" not in result.err


def test_a_class_that_a_dump_does_not_have_is_a_warning(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = full_node(tmp_path, waiting(priorityClassName="hihg"), HIGH)
    told = bayplan("why", "ml/db", cluster=cluster).err
    assert 'warning: PriorityClass "hihg" is not in the dump: priority 0 counts for ml/db' in told.splitlines()


def deployment(**spec: Any) -> Json:
    """A Deployment of one pod."""
    labels = {"app": "db"}
    template = pod_body("", "", AMOUNTS, **spec)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "db", "namespace": "ml"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


@pytest.mark.parametrize(
    "make, field",
    [(waiting, "spec.priorityClassName"), (deployment, "spec.template.spec.priorityClassName")],
)
def test_a_class_that_does_not_exist_is_an_error_in_a_submitted_file(
    bayplan: Bayplan, tmp_path: Path, make: Any, field: str
) -> None:
    file = written(tmp_path, make(priorityClassName="hihg"), name="pods.json")
    result = bayplan("place", "-f", file, cluster=full_node(tmp_path, HIGH))
    assert result.code == 2
    assert f'): {field}: there is no PriorityClass "hihg"; did you mean high?' in result.err


@pytest.mark.parametrize("make", [waiting, deployment])
def test_without_any_priority_class_in_the_dump_it_is_a_warning(bayplan: Bayplan, tmp_path: Path, make: Any) -> None:
    file = written(tmp_path, make(priorityClassName="high"), name="pods.json")
    result = bayplan("place", "-f", file, cluster=full_node(tmp_path))
    assert result.code == 1
    assert 'PriorityClass "high" is not in the dump: priority 0 counts for ml/db' in result.err


@pytest.mark.parametrize("make", [waiting, deployment])
def test_a_submitted_pod_gets_the_priority_of_a_class_in_the_files(bayplan: Bayplan, tmp_path: Path, make: Any) -> None:
    file = written(tmp_path, make(priorityClassName="high"), HIGH, name="pods.json")
    assert "PriorityClass" not in bayplan("place", "-f", file, cluster=full_node(tmp_path)).err


def test_a_misspelt_field_of_a_class_is_a_warning(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = full_node(tmp_path, waiting(), {**HIGH, "globaldefault": True})
    assert "globaldefault: unknown field; did you mean globalDefault?" in bayplan("why", "ml/db", cluster=cluster).err


@pytest.mark.parametrize(
    "second, told",
    [
        ({**HIGH, "value": 1}, "appears twice: the first one counts"),
        (
            {**HIGH, "metadata": {"name": "huge"}, "value": 2**31},
            "value: must be a whole number <= 2147483647; the PriorityClass is left out",
        ),
        (
            {**HIGH, "metadata": {"name": "tiny"}, "value": -(2**31) - 1},
            "value: must be a whole number >= -2147483648; the PriorityClass is left out",
        ),
    ],
)
def test_a_class_that_no_api_server_has_is_left_out(bayplan: Bayplan, tmp_path: Path, second: Json, told: str) -> None:
    cluster = full_node(tmp_path, waiting(priorityClassName="high"), HIGH, second)
    result = bayplan("why", "ml/db", "--preempt", "-o", "json", cluster=cluster)
    (warning,) = [line for line in result.err.splitlines() if "PriorityClass" in line]
    assert warning.startswith(f"warning: PriorityClass {second['metadata']['name']} ({cluster}:")
    assert warning.endswith(f": {told}")
    assert [each["pod"] for each in json.loads(result.out)["preemption"]["victims"]] == ["ml/web"]


def test_a_pod_whose_priority_no_api_server_takes_is_left_out(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = full_node(tmp_path, waiting(priority=99_999_999_999_999))
    told = "spec.priority: must be a whole number <= 2147483647; the Pod is left out"
    assert told in bayplan("why", "ml/db", cluster=cluster).err


def test_a_snapshot_keeps_classes(tmp_path: Path) -> None:
    cluster = full_node(tmp_path, waiting(priorityClassName="high"), HIGH)
    command = [sys.executable, "-c", "from bayplan.cli.main import main; main()", "snapshot", "--cluster", str(cluster)]
    document = json.loads(gzip.decompress(subprocess.run(command, capture_output=True, check=True).stdout))
    kept = [each for each in document["items"] if each["kind"] == "PriorityClass"]
    assert [(each["metadata"]["name"], each["value"]) for each in kept] == [("high", 100)]


@pytest.mark.parametrize(
    "limit, told",
    [
        (10**30, "must be a whole number <= 2147483647"),
        (-1, "must be a whole number >= 0"),
    ],
)
def test_a_limit_of_volumes_that_no_api_server_takes_is_left_out(
    bayplan: Bayplan, tmp_path: Path, limit: int, told: str
) -> None:
    cluster = full_node(tmp_path, waiting(), csi_node("n1", "csi.example.com", limit))
    assert (
        f"spec.drivers[0].allocatable.count: {told}; the CSINode is left out"
        in bayplan("why", "ml/db", cluster=cluster).err
    )
