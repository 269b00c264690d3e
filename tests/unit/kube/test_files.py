"""Reading a cluster from files: whatever form kubectl gave it, the same objects come out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.kube.errors import InvalidObject
from bayplan.kube.files import Strictness, read_document, read_objects
from bayplan.kube.object_set import ObjectSet

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": {"a": "b"}}, "extra": [1, {}]}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p1", "namespace": "web"},
    "spec": {"nodeName": "n1", "containers": [{}]},
}
TOPOLOGY = {
    "apiVersion": "topology.node.k8s.io/v1alpha2",
    "kind": "NodeResourceTopology",
    "metadata": {"name": "n1"},
    "zones": [],
}
EVERYTHING: list[dict[str, Any]] = [NODE, POD, TOPOLOGY]


def as_list(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": objects}


def names(found: ObjectSet) -> tuple[list[str], list[str], list[str]]:
    return (
        [node.metadata.name for node in found.nodes],
        [pod.metadata.name for pod in found.pods],
        [topology.metadata.name for topology in found.topologies],
    )


@pytest.mark.parametrize(
    "file_name, write",
    [
        pytest.param("dump.json", lambda: json.dumps(as_list(EVERYTHING)).encode(), id="kubectl get -o json"),
        pytest.param("dump.yaml", lambda: yaml.dump(as_list(EVERYTHING)).encode(), id="kubectl get -o yaml"),
        pytest.param("dump.yml", lambda: yaml.dump_all(EVERYTHING).encode(), id="one YAML document per object"),
        pytest.param("dump.json.gz", lambda: gzip.compress(json.dumps(as_list(EVERYTHING)).encode()), id="gzip"),
        pytest.param("dump", lambda: gzip.compress(yaml.dump_all(EVERYTHING).encode()), id="gzip without a suffix"),
        pytest.param("dump.yaml", lambda: b"---\n---\n" + yaml.dump_all(EVERYTHING).encode(), id="empty documents"),
        pytest.param("dump.yaml", lambda: json.dumps(as_list(EVERYTHING)).encode(), id="JSON in a file called YAML"),
    ],
)
def test_every_form_gives_the_same_objects(tmp_path: Path, file_name: str, write: Callable[[], bytes]) -> None:
    file = tmp_path / file_name
    file.write_bytes(write())
    found = read_objects(file)
    assert names(found) == (["n1"], ["p1"], ["n1"])
    assert found.pods[0].spec.node_name == "n1"
    assert len(found) == 3


def test_a_folder_is_read_with_its_sub_folders_in_name_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for path, name in (("c.json", "third"), ("b/x.yaml", "second"), ("a.json", "first"), ("b/README.md", "ignored")):
        (tmp_path / path).write_text(json.dumps({"kind": "Node", "metadata": {"name": name}}))
    assert names(read_objects(tmp_path))[0] == ["first", "second", "third"]


def test_items_of_a_typed_list_need_no_kind(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n1"}}]}))
    assert names(read_objects(file)) == (["n1"], [], [])


def test_kinds_of_no_interest_are_counted(tmp_path: Path) -> None:
    knative = {"apiVersion": "example.com/v1", "kind": "Node", "metadata": {"name": "not a Kubernetes node"}}
    file = tmp_path / "dump.json"
    services = [{"kind": "Service", "metadata": {"name": name}} for name in ("web", "db")]
    file.write_text(json.dumps(as_list([NODE, *services, knative])))
    found = read_objects(file)
    assert names(found) == (["n1"], [], [])
    assert found.ignored_kinds == {"Service": 2, "Node": 1}


def test_a_kind_in_a_version_that_cannot_be_read_is_told_from_one_of_no_interest(tmp_path: Path) -> None:
    topology = {"apiVersion": "kueue.x-k8s.io/v9", "kind": "Topology", "metadata": {"name": "network"}}
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(as_list([NODE, topology])))
    told = "Topology of kueue.x-k8s.io/v9, of which bayplan reads v1beta2, v1beta1, v1alpha1"
    assert read_objects(file).ignored_kinds == {told: 1}


def test_one_file_may_hold_both_versions_of_topology(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    reports = [{**TOPOLOGY, "apiVersion": f"topology.node.k8s.io/{version}"} for version in ("v1alpha1", "v1alpha2")]
    file.write_text(json.dumps(as_list(reports)))
    assert names(read_objects(file))[2] == ["n1", "n1"]


def test_namespaces_are_read_with_their_labels(tmp_path: Path) -> None:
    labels = {"kubernetes.io/metadata.name": "shop", "team": "blue"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}}
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(as_list([namespace, NODE])))
    assert [each.metadata.labels for each in read_objects(file).namespaces] == [labels]


@pytest.mark.parametrize("version", ["topology.node.k8s.io/v1alpha1", "topology.node.k8s.io/v1alpha2"])
def test_both_versions_of_topology_are_read(tmp_path: Path, version: str) -> None:
    file = tmp_path / "nrt.json"
    file.write_text(json.dumps({**TOPOLOGY, "apiVersion": version}))
    assert names(read_objects(file))[2] == ["n1"]


def problem_in(file: Path) -> str:
    """What is wrong with the only object of a file, or with the file."""
    try:
        (left_out,) = read_objects(file).left_out
    except InvalidObject as error:
        return str(error)
    return str(left_out)


@pytest.mark.parametrize(
    "content, message",
    [
        pytest.param(
            {**TOPOLOGY, "apiVersion": "topology.node.k8s.io/v1"},
            'NodeResourceTopology n1 ({file}:1:2): apiVersion: "topology.node.k8s.io/v1" is not understood; '
            "expected topology.node.k8s.io/v1alpha2, topology.node.k8s.io/v1alpha1",
            id="a version of topology that does not exist yet",
        ),
        pytest.param(
            {**POD, "spec": {"nodeName": 5}},
            "Pod web/p1 ({file}:1:94): spec.nodeName: must be a string, not a whole number",
            id="a field of the wrong type",
        ),
        pytest.param(
            {**POD, "spec": {"containers": [{"resources": {"limits": {"cpu": [1]}}}]}},
            (
                "Pod web/p1 ({file}:1:135): spec.containers[0].resources.limits.cpu: must be a whole number or a "
                "number or a string, not a list"
            ),
            id="an amount of the wrong type",
        ),
        pytest.param(
            {"kind": "Node", "metadata": {}},
            "Node (no name) ({file}:1:18): metadata.name: is missing: every object needs a name",
            id="no name",
        ),
        pytest.param(
            {"metadata": {"name": "x"}},
            "object x ({file}:1:1): kind: is missing; is this a Kubernetes object?",
            id="no kind",
        ),
        pytest.param(
            [1, 2],
            "file {file}:1:1: must be a mapping, not a list; expected a Kubernetes object",
            id="no object at all",
        ),
    ],
)
def test_a_wrong_object_is_named_with_its_field(tmp_path: Path, content: object, message: str) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(content))
    assert problem_in(file) == message.format(file=file)


@pytest.mark.parametrize("number", ["1e400", "9" * 4301], ids=["exponent", "digits"])
@pytest.mark.parametrize("submitted", [None, Strictness.STRICT], ids=["cluster", "submitted"])
def test_a_number_that_nothing_can_hold_leaves_out_or_refuses_its_object_only(
    tmp_path: Path, number: str, submitted: Strictness | None
) -> None:
    file = tmp_path / "dump.json"
    wrong = POD | {"metadata": {"name": "big"}, "spec": {"priority": 7, "containers": [{"name": "a", "image": "b"}]}}
    file.write_text(json.dumps({"kind": "List", "items": [wrong, POD]}).replace(": 7", f": {number}"))
    if submitted:
        with pytest.raises(InvalidObject) as caught:
            read_objects(file, submitted)
        problem = str(caught.value)
    else:
        found = read_objects(file)
        (left_out,) = found.left_out
        problem = str(left_out)
        assert [pod.metadata.name for pod in found.pods] == ["p1"]
    place = problem.partition("(")[2].partition(")")[0]
    assert place.startswith(f"{file}:1:")
    assert problem == f"Pod big ({place}): spec.priority: is a number that is too large to be read"


@pytest.mark.parametrize("number", ["1e400", "9" * 4301], ids=["exponent", "digits"])
@pytest.mark.parametrize(
    "suffix, problem",
    [("json", ":1:2: a: is a number that is too large to be read"), ("yaml", None)],
)
def test_such_a_number_in_a_file_of_another_shape_has_its_place_and_is_text_in_yaml(
    tmp_path: Path, number: str, suffix: str, problem: str | None
) -> None:
    file = tmp_path / f"settings.{suffix}"
    file.write_text(f'{{"a": {number}}}' if suffix == "json" else f"a: {number}\n")
    if problem is None:
        assert read_document(file) == {"a": number}
        return
    with pytest.raises(InvalidObject) as caught:
        read_document(file)
    assert str(caught.value) == f"file {file}{problem}"


@pytest.mark.parametrize("uid, told", [("", 1), ("8f0c", 0)], ids=["by hand", "of an API server"])
@pytest.mark.parametrize("kind", ["Node", "Pod", "NodeResourceTopology"])
def test_a_field_that_stands_twice_in_a_dump_is_a_remark(tmp_path: Path, kind: str, uid: str, told: int) -> None:
    written = dict(zip(("Node", "Pod", "NodeResourceTopology"), EVERYTHING, strict=True))[kind]
    thing = {key: value for key, value in written.items() if key != "extra"}
    text = json.dumps({**thing, "metadata": {**written["metadata"], "uid": uid}})
    file = tmp_path / "dump.json"
    file.write_text(text.replace('"name": "', '"name": "x", "name": "', 1))
    remarks = [each for each in read_objects(file).remarks if each.endswith("metadata.name: appears twice")]
    assert len(remarks) == told


@pytest.mark.parametrize(
    "file_name, content, message",
    [
        pytest.param("x.json", b'{"kind": ', ":1:10: is not valid JSON: it ends too early", id="half a JSON file"),
        pytest.param(
            "x.json", b'{"kind": "Pod"}\n{} x', ":2:4: is not valid JSON: invalid character", id="text behind JSON"
        ),
        pytest.param("x.yaml", b"kind: [", ":2:1: is not valid YAML: expected a value here", id="half a YAML file"),
        pytest.param("x.yaml", b"\x00\x01\x02", ":1:1: is not a text file of YAML or JSON", id="a picture"),
        pytest.param(
            "x.json.gz",
            gzip.compress(b"{}" * 99)[:-9],
            ": cannot be read: the compressed data is damaged",
            id="half a gzip file",
        ),
        pytest.param(
            "x.json.gz",
            b"\x1f\x8b" + b"x" * 40,
            ": cannot be read: the compressed data is damaged",
            id="gzip in name only",
        ),
        pytest.param("x.yaml", b"a: &a [*a]", ":1:8: is nested too deeply", id="YAML that contains itself"),
        pytest.param(
            "x.json", b'{"kind":"Pod","metadata":{"name":"\xff"}}', ":1:35: is not UTF-8 text", id="not UTF-8"
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, file_name: str, content: bytes, message: str) -> None:
    file = tmp_path / file_name
    file.write_bytes(content)
    with pytest.raises(InvalidObject) as caught:
        read_objects(file)
    assert str(caught.value).startswith(f"file {file}{message}")


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text("\n")
    assert len(read_objects(file)) == 0


@pytest.mark.parametrize(
    "name, message",
    [
        ("nowhere.json", "file {path}: does not exist"),
        (
            ".",
            "folder {path}: holds no object file; expected .json, .yaml, .yml, .json.gz, .yaml.gz, .yml.gz",
        ),
    ],
)
def test_a_path_without_objects_is_an_error(tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / name
    with pytest.raises(InvalidObject) as caught:
        read_objects(path)
    assert str(caught.value) == message.format(path=path)
