"""Paths in messages read as a user would write them."""

from __future__ import annotations

import pytest

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.core_v1 import Metadata, Node, Pod

POD = ObjectPath.of(Pod(metadata=Metadata(name="upf-0", namespace="telco")))


@pytest.mark.parametrize(
    "path, text",
    [
        (POD, "Pod telco/upf-0"),
        (ObjectPath.of(Node(metadata=Metadata(name="worker-3"))), "Node worker-3"),
        (ObjectPath.of(Node()), "Node (no name)"),
        (POD.child("spec").child("containers").item(0).child("name"), "Pod telco/upf-0: spec.containers[0].name"),
        (POD.child("requests").key("cpu"), "Pod telco/upf-0: requests.cpu"),
        (POD.child("requests").key("example.com/gpu"), 'Pod telco/upf-0: requests["example.com/gpu"]'),
    ],
    ids=str,
)
def test_path(path: ObjectPath, text: str) -> None:
    assert str(path) == text


def test_an_error_is_path_and_problem() -> None:
    error = InvalidObject(POD.child("spec.nodeName"), "is missing")
    assert str(error) == "Pod telco/upf-0: spec.nodeName: is missing"
    assert (error.at.field, error.problem) == ("spec.nodeName", "is missing")
