"""Claims, volumes and classes of a dump that make no sense: each is left out with a warning, and the rest counts."""

from __future__ import annotations

import pytest

from bayplan.cluster.loading import load_state
from bayplan.kube.object_set import ObjectSet
from tests.builders.storage import Json, claim, storage_class, struct, volume

NOWHERE: Json = {"required": {"nodeSelectorTerms": []}}
ODD: Json = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Blah"}]}]}}


@pytest.mark.parametrize(
    "body, remark",
    [
        (claim(size="lots"), 'PersistentVolumeClaim default/data: spec.resources.requests.storage: invalid'),
        (claim(size="-1Gi"), 'spec.resources.requests.storage: "-1Gi" is not allowed: must be more than 0'),
        (claim(modes=["RWX"]), 'spec.accessModes[0]: "RWX" is not allowed: write ReadWriteMany'),
        (volume("other", "-5Gi"), 'PersistentVolume other: spec.capacity.storage: "-5Gi" is not allowed'),
        (volume("other", nodeAffinity=NOWHERE), "nodeSelectorTerms: is missing: there has to be at least one term"),
        (volume("other", nodeAffinity=ODD), 'matchExpressions[0].operator: "Blah" is not allowed: must be In'),
        (storage_class("odd", mode="Foo"), 'StorageClass odd: volumeBindingMode: "Foo" is not allowed'),
    ],
)  # fmt: skip
def test_an_object_that_cannot_be_used_is_left_out_and_named(body: Json, remark: str) -> None:
    state = load_state(ObjectSet(storage=[struct(each) for each in (volume("pv", on="n1"), storage_class(), body)]))
    (found,) = map(str, state.remarks)
    assert remark in found
    assert found.endswith(" is left out")
    assert state.volumes.claim("default/data") is None
    first = state.volumes.static.get("pv")
    assert first is not None
    assert "n1" in str(first.spec.node_affinity)
    assert state.volumes.static.get("other") is None


@pytest.mark.parametrize(
    "body", [claim(), claim(volume="pv", size="1"), volume("other"), storage_class("b", mode="Immediate")]
)
def test_objects_of_an_api_server_are_taken(body: Json) -> None:
    state = load_state(ObjectSet(storage=[struct(each) for each in (volume("pv"), body)]))
    assert list(state.remarks) == []
