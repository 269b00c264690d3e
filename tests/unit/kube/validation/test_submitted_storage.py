"""Mistakes that people make in claims, volumes and classes, each with the field and the sentence that names it.

The rules are those of Kubernetes' validation; each valid object is changed in one place.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.kube.errors import InvalidObjects
from bayplan.kube.files import Strictness, read_objects
from tests.builders.storage import Json, claim, storage_class, volume


def without_nulls(body: Json) -> Json:
    """What a user would submit: a builder's body without server-side fields."""
    metadata = {key: value for key, value in body["metadata"].items() if key in ("name", "namespace")}
    return {key: value for key, value in {**body, "metadata": metadata}.items() if key != "status"}


CLAIM = without_nulls(claim())
VOLUME = without_nulls(volume(on="n1"))
CLASS = without_nulls(storage_class())


def changed(body: Json, path: str, value: Any) -> Json:
    """A body with another value in one place, or without it if that is None."""
    first, _, rest = path.partition(".")
    if rest:
        return {**body, first: changed(body.get(first) or {}, rest, value)}
    return {**{key: each for key, each in body.items() if key != first}, **({} if value is None else {first: value})}


def told(body: Json, folder: Path) -> list[str]:
    """What is wrong with an object, without its name and file."""
    file = folder / "object.json"
    file.write_text(json.dumps(body))
    try:
        read_objects(file, Strictness.STRICT)
    except InvalidObjects as error:
        return [f"{fault.at.field}: {fault.problem}" for fault in error.faults]
    return []


@pytest.mark.parametrize("body", [CLAIM, VOLUME, CLASS], ids=["claim", "volume", "class"])
def test_a_valid_object_passes(body: Json, tmp_path: Path) -> None:
    assert told(body, tmp_path) == []


MODES = "must be ReadOnlyMany, ReadWriteMany, ReadWriteOnce, ReadWriteOncePod"
TERMS = "spec.nodeAffinity.required.nodeSelectorTerms"
ZONE = {"key": "zone", "values": ["a"]}


@pytest.mark.parametrize(
    "body, path, value, message",
    [
        (CLAIM, "spec.storageClass", "fast", "spec.storageClass: unknown field; did you mean storageClassName?"),
        (CLAIM, "spec.accessModes", ["RWX"], 'spec.accessModes[0]: "RWX" is not allowed: write ReadWriteMany'),
        (CLAIM, "spec.accessModes", ["ReadWriteTwice"], f'"ReadWriteTwice" is not allowed: {MODES}; did you mean'),
        (CLAIM, "spec.accessModes", [], "spec.accessModes: is missing"),
        (CLAIM, "spec.accessModes", ["ReadWriteOncePod", "ReadOnlyMany"], "spec.accessModes: ReadWriteOncePod is not"),
        (CLAIM, "spec.resources.requests.storage", "lots", 'spec.resources.requests.storage: invalid quantity "lots"'),
        (CLAIM, "spec.resources.requests.storage", -1, '"-1" is not allowed: must be more than 0'),
        (CLAIM, "spec.resources.requests.storage", 0, '"0" is not allowed: must be more than 0'),
        (CLAIM, "spec.resources.requests", None, "spec.resources.requests.storage: is missing"),
        (CLAIM, "spec.volumeMode", "Files", 'spec.volumeMode: "Files" is not allowed: must be Block, Filesystem'),
        (CLAIM, "spec.storageClassName", "Fast_1", 'spec.storageClassName: "Fast_1" is not allowed'),
        (CLAIM, "metadata.name", "C_2", 'metadata.name: "C_2" is not allowed'),
        (VOLUME, "spec.capacity.storage", "-5Gi", 'spec.capacity.storage: "-5Gi" is not allowed: must be more than 0'),
        (VOLUME, "spec.capacity", None, "spec.capacity.storage: is missing"),
        (VOLUME, "spec.capacity.cpu", 1, "spec.capacity.cpu: is not allowed: a volume has storage alone"),
        (VOLUME, "spec.accessModes", None, "spec.accessModes: is missing"),
        (VOLUME, "spec.local", None, "spec: is missing: must have one type of volume, such as csi, local or nfs"),
        (VOLUME, "spec.nfs", {"server": "s", "path": "/x"}, "spec.local: is not allowed beside nfs"),
        (VOLUME, "spec.local.path", "", "spec.local.path: is missing"),
        (VOLUME, "spec.nodeAffinity", None, "spec.nodeAffinity: is missing: a local volume is on some nodes only"),
        (VOLUME, TERMS, [], f"{TERMS}: is missing: there has to be at least one term"),
        (VOLUME, TERMS, [{"matchExpressions": [{"key": "a", "operator": "Is"}]}],
         f'{TERMS}[0].matchExpressions[0].operator: "Is" is not allowed: must be In'),
        (VOLUME, "spec.persistentVolumeReclaimPolicy", "Keep", '"Keep" is not allowed: must be'),
        (VOLUME, "spec.volumeAttributesClassName", "gold", "spec.csi: is missing: a volumeAttributesClassName is of"),
        (CLASS, "provisioner", None, "provisioner: is missing"),
        (CLASS, "provisioner", "a b", 'provisioner: "a b" is not allowed'),
        (CLASS, "volumeBindingMode", "Late", '"Late" is not allowed: must be Immediate, WaitForFirstConsumer'),
        (CLASS, "reclaimPolicy", "Recycle", 'reclaimPolicy: "Recycle" is not allowed: must be'),
        (CLASS, "allowedTopologies", [{"matchLabelExpressions": [{"key": "zone"}]}],
         "allowedTopologies[0].matchLabelExpressions[0].values: is missing"),
        (CLASS, "allowedTopologies", [{"matchLabelExpressions": [ZONE, ZONE]}], '[1].key: "zone" appears twice'),
        (CLASS, "allowedTopologies", [{"matchLabelExpressions": [ZONE]}] * 2, "[1].matchLabelExpressions: appear"),
        (CLASS, "apiVersion", "storage.k8s.io/v1beta1", "is not served; expected storage.k8s.io/v1"),
        (CLASS, "bindingMode", "Immediate", "bindingMode: unknown field; did you mean volumeBindingMode?"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_field(body: Json, path: str, value: Any, message: str, tmp_path: Path) -> None:
    found = told(changed(body, path, value), tmp_path)
    assert len(found) == 1
    assert message in found[0]


def test_the_claim_templates_of_a_stateful_set_are_claims(tmp_path: Path) -> None:
    container = {"name": "main", "image": "example.com/db"}
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}}
    wrong = {"metadata": {"name": "data"}, "spec": {**CLAIM["spec"], "accessModes": ["RWO"]}}
    spec = {"serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}}
    assert told({**body, "spec": {**spec, "volumeClaimTemplates": [wrong]}}, tmp_path) == [
        'spec.volumeClaimTemplates[0].spec.accessModes[0]: "RWO" is not allowed: write ReadWriteOnce'
    ]
