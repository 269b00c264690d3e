"""Of several objects of one kind and name in a dump the first counts; the others are left out and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.kube.errors import left_out
from bayplan.kube.files import read_objects
from bayplan.kube.object_set import MOST_SEARCHES, ObjectSet
from bayplan.kube.repeated_objects import leave_out_repeated

Json = dict[str, Any]
POD = {"containers": [{"name": "c", "image": "i"}]}
HYPER_NODE = "topology.volcano.sh/v1alpha1"


def an_object(version: str, kind: str, *, namespace: str | None = "a", name: str = "x", **fields: Any) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def read(folder: Path, *things: Json) -> ObjectSet:
    file = folder / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": things}, indent=1))
    found = read_objects(file)
    leave_out_repeated(found)
    return found


@pytest.mark.parametrize(
    "thing, shown",
    [
        (an_object("v1", "Node", namespace=None), "Node x"),
        (an_object("v1", "Namespace", namespace=None), "Namespace x"),
        (an_object("v1", "Pod", spec=POD), "Pod a/x"),
        (an_object("v1", "PersistentVolumeClaim"), "PersistentVolumeClaim a/x"),
        (an_object("bayplan.io/v1alpha1", "PodGroup", spec={}), "PodGroup a/x"),
        (an_object(HYPER_NODE, "HyperNode", namespace=None, spec={"tier": 1}), "HyperNode x"),
        (an_object("policy/v1", "PodDisruptionBudget", spec={}), "PodDisruptionBudget a/x"),
        (an_object("batch/v1", "Job", spec={}), "Job a/x"),
    ],
)
def test_the_first_of_a_name_counts(tmp_path: Path, thing: Json, shown: str) -> None:
    second = {**thing, "metadata": {**thing["metadata"], "labels": {"second": "yes"}}}
    found = read(tmp_path, thing, second)
    gangs_and_others = [*found.gangs, *found.hyper_nodes, *found.others]
    kept: list[Any] = [*found.nodes, *found.namespaces, *found.pods, *found.storage, *gangs_and_others]
    (first,) = kept
    assert not first.metadata.labels
    (problem,) = map(left_out, found.left_out)
    assert problem.startswith(f"{shown} ({tmp_path / 'dump.json'}:")
    assert problem.endswith("): appears twice: the first one counts")


@pytest.mark.parametrize(
    "one, other",
    [
        (an_object("v1", "Pod", spec=POD), an_object("v1", "Pod", namespace="b", spec=POD)),
        (an_object("batch/v1", "Job", spec={}), an_object("batch.volcano.sh/v1alpha1", "Job", spec={})),
        (an_object("v1", "ConfigMap"), an_object("v1", "Secret")),
    ],
)
def test_objects_of_other_namespaces_groups_and_kinds_count(tmp_path: Path, one: Json, other: Json) -> None:
    found = read(tmp_path, one, other)
    assert len([*found.pods, *found.volcano_jobs, *found.others]) == 2
    assert not found.left_out


def test_a_pod_without_a_namespace_is_in_the_default_one(tmp_path: Path) -> None:
    pods = [an_object("v1", "Pod", namespace=namespace, spec=POD) for namespace in (None, "default")]
    assert len(read(tmp_path, *pods).pods) == 1


def test_only_the_first_of_thousands_are_searched_in_the_file(tmp_path: Path) -> None:
    found = read(tmp_path, *[an_object("v1", "Pod", spec=POD)] * 2_000)
    assert len(found.left_out) == 1_999
    assert str(found.left_out[MOST_SEARCHES - 1]).startswith(f"Pod a/x ({tmp_path}")
    assert str(found.left_out[MOST_SEARCHES]) == "Pod a/x: appears twice: the first one counts"
