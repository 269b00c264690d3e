"""`bayplan place -f`: claims of the files, and those that controllers would create for the pods."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import list_body, node_body
from tests.builders.storage import csi_node, volume
from tests.unit.cli.conftest import Bayplan

Json = dict[str, Any]
ASKED = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CONTAINER = {"name": "main", "image": "example.com/db", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
STATEFUL_SET: Json = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "db"},
    "spec": {
        "replicas": 2,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [CONTAINER]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": ASKED}],
    },
}
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "own"}, "spec": ASKED}


def pod(**source: Any) -> Json:
    spec = {"containers": [CONTAINER], "volumes": [{"name": "data", **source}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


EPHEMERAL = pod(ephemeral={"volumeClaimTemplate": {"spec": ASKED}})
CLASSLESS = {key: value for key, value in ASKED.items() if key != "storageClassName"}
DEFAULT = {**CLASS, "metadata": {"name": "std", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}
CLASSLESS_SET = {
    **STATEFUL_SET,
    "spec": {**STATEFUL_SET["spec"], "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLASSLESS}]},
}
CLAIMED = pod(persistentVolumeClaim={"claimName": "own"})


@pytest.mark.parametrize(
    "objects, code",
    [
        ((CLASS, STATEFUL_SET), 0),
        ((CLASS, EPHEMERAL), 0),
        ((CLASS, CLAIM, CLAIMED), 0),
        ((STATEFUL_SET,), 1),
        ((EPHEMERAL,), 1),
        ((CLASS, CLAIMED), 1),
        ((DEFAULT, CLASSLESS_SET), 0),
        ((DEFAULT, pod(ephemeral={"volumeClaimTemplate": {"spec": CLASSLESS}})), 0),
        (({**CLAIM, "spec": CLASSLESS}, CLAIMED, DEFAULT), 0),
        (({**CLAIM, "spec": {**CLASSLESS, "storageClassName": ""}}, CLAIMED, DEFAULT), 1),
        ((CLASS, CLASSLESS_SET), 1),
    ],
    ids=[
        "claim templates",
        "ephemeral",
        "claim of the file",
        "no class",
        "no class, ephemeral",
        "no claim",
        "the default class for templates",
        "the default class, ephemeral",
        "the default class for a claim of the file",
        "a claim that wants no class",
        "no default class",
    ],
)
def test_pods_get_the_claims_that_would_be_there(
    bayplan: Bayplan, tmp_path: Path, objects: tuple[Json, ...], code: int
) -> None:
    file = tmp_path / "objects.json"
    file.write_text(json.dumps(list_body(objects)))
    result = bayplan("place", "-f", str(file), cluster=Path("examples/cluster"))
    assert (result.code, result.err) == (code, "")


def test_a_gang_is_told_what_is_in_the_way_of_its_claims(bayplan: Bayplan, tmp_path: Path) -> None:
    metadata = {"name": "db", "annotations": {"bayplan.io/gang": "true"}}
    spec = {**STATEFUL_SET["spec"], "podManagementPolicy": "Parallel"}
    parallel = {**STATEFUL_SET, "metadata": metadata, "spec": spec}
    file = tmp_path / "objects.json"
    file.write_text(json.dumps(list_body((parallel, {**CLASS, "provisioner": "kubernetes.io/no-provisioner"}))))
    result = bayplan("place", "-f", str(file), cluster=Path("examples/cluster"))
    assert result.code == 1
    line = 'Volumes:  1Gi of class "fast": it has no provisioner; no free volume is of the class'
    assert line in result.out.splitlines()


def local_volume(name: str, node: str) -> Json:
    return volume(name, on=node, cls="fast", size="1Gi")


@pytest.mark.parametrize(
    "limits, told",
    [
        (
            [CLASS, csi_node("n1", "csi.example.com", 1)],
            "1 of 1 node can attach those of at most 1 more such pod (csi.example.com)",
        ),
        (
            [{**CLASS, "provisioner": "kubernetes.io/no-provisioner"}, local_volume("pv", "n1")],
            "1 of 1 node can reach free ones for at most 1 more such pod",
        ),
    ],
    ids=["attach limits", "free volumes"],
)
def test_a_gang_is_told_which_volumes_limit_it(bayplan: Bayplan, tmp_path: Path, limits: list[Json], told: str) -> None:
    metadata = {"name": "db", "annotations": {"bayplan.io/gang": "true"}}
    spec = {**STATEFUL_SET["spec"], "podManagementPolicy": "Parallel"}
    file, cluster = tmp_path / "objects.json", tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body(({**STATEFUL_SET, "metadata": metadata, "spec": spec},))))
    node = node_body("n1", {"cpu": 8, "memory": "32Gi"}, **{"kubernetes.io/hostname": "n1"})
    cluster.write_text(json.dumps(list_body([node, *limits])))
    result = bayplan("place", "-f", str(file), cluster=cluster)
    assert f"Volumes:  {told}" in result.out.splitlines(), result.out
