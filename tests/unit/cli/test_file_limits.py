"""No file crashes a command or fills the memory: limits on nesting, on what aliases stand for, and on size."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path

import pytest

from bayplan.kube.documents import LARGEST_FILE, read_documents
from bayplan.kube.errors import InvalidObject
from bayplan.kube.files import Strictness, read_objects
from bayplan.kube.json_text import DEEPEST
from tests.unit.cli.conftest import Bayplan

ALIAS_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 10)}]}}\n" for level in range(1, 10)
)
LETTER_BOMB = f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 1_000)}]\n"
ATTACKS = {
    "60,000 YAML lists in each other": ("[" * 60_000 + "]" * 60_000, "is nested too deeply"),
    "60,000 YAML mappings in each other": ("{a: " * 60_000 + "}" * 60_000, "is nested too deeply"),
    "60,000 dashes": ("- " * 60_000 + "a", "is nested too deeply"),
    "60,000 keys that are lists": ("? " * 60_000 + "a", "is nested too deeply"),
    "100,000 JSON objects in each other": ('{"a":' * 100_000 + "1" + "}" * 100_000, "is nested too deeply"),
    "100,000 JSON lists without an end": ("[" * 100_000, "is nested too deeply"),
    "a billion values through aliases": (ALIAS_BOMB, "repeats itself too often"),
    "a billion values through merges": (MERGE_BOMB, "repeats itself too often"),
    "ten million letters through aliases": (LETTER_BOMB, "repeats itself too often"),
    "an alias inside of itself": ("a: &a {b: [*a]}\n", "is nested too deeply: *a stands inside of itself"),
    "depth through aliases": (
        "a0: &a0 [x]\n" + "".join(f"a{level}: &a{level} [*a{level - 1}]\n" for level in range(1, DEEPEST + 5)),
        "is nested too deeply",
    ),
}
COMMANDS = {
    "topology --cluster": ("topology", "--cluster", "{file}"),
    "place -f": ("place", "-f", "{file}", "--cluster", "{cluster}"),
    "--config": ("why", "p", "--cluster", "{cluster}", "--config", "{file}"),
    "--grouping-rules": ("why", "p", "--cluster", "{cluster}", "--grouping-rules", "{file}"),
    "--kubeconfig": ("topology", "--kubeconfig", "{file}"),
    "replay": ("replay", "{file}"),
    "simulate": ("simulate", "{file}"),
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}


def pod(name: str) -> dict[str, object]:
    spec = {"containers": [{"name": "c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ml"}, "spec": spec}


def too_deep(document: str) -> str:
    """The pod as a tenant can make it: the API server keeps what is written in its managed fields."""
    deep = '{"f":' * 2_000 + "{}" + "}" * 2_000
    return document.replace('"name": "bad"', f'"name": "bad",\n "managedFields": [{{"fieldsV1": {deep}}}]')


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_file_that_would_crash_or_never_end_is_one_error(tmp_path: Path, attack: str) -> None:
    text, message = ATTACKS[attack]
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(InvalidObject, match=r"^file ") as caught:
        read_objects(file)
    assert message in str(caught.value).replace("is not valid JSON: ", "")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "attack", ["60,000 dashes", "100,000 JSON objects in each other", "a billion values through aliases"]
)
def test_every_command_that_reads_files_says_so(tmp_path: Path, bayplan: Bayplan, command: str, attack: str) -> None:
    file, cluster = tmp_path / "file.yaml", tmp_path / "cluster.json"
    file.write_text(ATTACKS[attack][0])
    cluster.write_text(json.dumps({"kind": "List", "items": [NODE, pod("p")]}))
    result = bayplan(*(word.format(file=file, cluster=cluster) for word in COMMANDS[command]), cluster=None)
    assert result.code == 2
    assert ATTACKS[attack][1] in result.err
    assert "internal error" not in result.err


@pytest.mark.parametrize("shape", ["List", "PodList", "list in a list", "YAML list", "YAML documents"])
def test_one_object_that_is_nested_too_deeply_is_left_out_and_named(tmp_path: Path, shape: str) -> None:
    items = [pod("good"), pod("bad"), pod("late")]
    inner = {"kind": "List", "items": items}
    text = {
        "List": json.dumps(inner),
        "PodList": json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items}),
        "list in a list": json.dumps({"kind": "List", "items": [inner]}),
        "YAML list": "# a comment\n" + json.dumps(inner),
        "YAML documents": "\n---\n".join(["# a comment", *map(json.dumps, items)]),
    }[shape]
    file = tmp_path / "dump"
    file.write_text(too_deep(text))
    found = read_objects(file)
    assert [each.metadata.name for each in found.pods] == ["good", "late"]
    (left_out,) = found.left_out
    assert str(left_out).startswith(f"Pod ml/bad ({file}:")
    assert str(left_out).endswith("metadata.managedFields[0].fieldsV1.f.f.f.f...: is nested too deeply to be read")


def test_a_report_that_is_nested_too_deeply_makes_its_node_unreadable_not_unreported(tmp_path: Path) -> None:
    deep = '{"f":' * 2_000 + "{}" + "}" * 2_000
    metadata = f'{{"name": "n1", "managedFields": [{deep}]}}'
    file = tmp_path / "dump.json"
    file.write_text(
        f'{{"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {metadata}}}'
    )
    assert read_objects(file).unreadable_topologies == ["n1"]


def test_a_submitted_object_that_is_nested_too_deeply_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "pod.json"
    file.write_text(too_deep(json.dumps(pod("bad"))))
    with pytest.raises(InvalidObject, match=r"Pod ml/bad .*is nested too deeply to be read"):
        read_objects(file, Strictness.STRICT)


@pytest.mark.parametrize("levels", [300, 600, 900, 990])
def test_an_object_whose_depth_only_some_steps_can_take_is_left_out_or_read(tmp_path: Path, levels: int) -> None:
    file = tmp_path / "dump.json"
    deep = '{"f":' * levels + "{}" + "}" * levels
    file.write_text(
        json.dumps({"kind": "List", "items": [pod("good"), pod("bad")]}).replace('"bad"', f'"bad", "x": {deep}')
    )
    found = read_objects(file)
    assert found.pods[0].metadata.name == "good"
    assert len(found.pods) + len(found.left_out) == 2
    with contextlib.suppress(InvalidObject):
        read_objects(file, Strictness.IGNORE)


def test_what_stands_behind_deep_text_keeps_its_position(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text(too_deep(json.dumps({"kind": "List", "items": [pod("bad"), pod("x")]})).replace("}, {", "},\n{"))
    late = file.read_text().replace('"name": "x"', '"name": 5')
    file.write_text(late)
    told = str(read_objects(file).left_out[1])
    line = late[: late.index('"name": 5')].count("\n") + 1
    assert f"{file}:{line}:" in told
    assert told.endswith("metadata.name: must be a string, not a whole number")


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_that_is_too_large_is_an_error_before_it_fills_the_memory(tmp_path: Path, packed: bool) -> None:
    file = tmp_path / "big.json"
    content = b" " * 3 * 2**20
    file.write_bytes(gzip.compress(content) if packed else content)
    token = LARGEST_FILE.set(2 * 2**20)
    try:
        with pytest.raises(InvalidObject) as caught:
            list(read_documents(file))
    finally:
        LARGEST_FILE.reset(token)
    unpacked = " when it is unpacked" if packed else ""
    assert caught.value.problem == f"is larger than 2Mi{unpacked}; raise the limit with --max-file-size"


@pytest.mark.parametrize("limit, shown", [(2**20, "1Mi"), (10 * 2**10, "10Ki"), (1000, "1k")])
def test_a_device_without_an_end_is_too_large(limit: int, shown: str) -> None:
    token = LARGEST_FILE.set(limit)
    try:
        with pytest.raises(InvalidObject, match=f"is larger than {shown};"):
            list(read_documents(Path("/dev/zero")))
    finally:
        LARGEST_FILE.reset(token)


def test_the_flag_raises_and_lowers_the_limit(tmp_path: Path, bayplan: Bayplan) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [NODE]}))
    assert "larger than 50;" in bayplan("nodes", "--max-file-size", "50", cluster=file).err
    assert bayplan("nodes", "--max-file-size", "2Gi", cluster=file).code == 0
    assert "is no size; expected a number of bytes such as 2Gi" in bayplan("nodes", "--max-file-size", "big").err
    assert LARGEST_FILE.get() == 512 * 2**20


def test_anchors_that_people_write_are_read(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: &l {app: web}}\n"
        "spec: &s {containers: [{name: c, image: i}]}\n"
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: b, labels: &l {app: web}, annotations: {<<: *l, x: y}}\n"
        "spec: {containers: [&c {name: c, image: i}, {<<: *c, name: d}]}\n"
    )
    first, second = read_objects(file, Strictness.STRICT).pods
    assert second.metadata.annotations == {"app": "web", "x": "y"}
    assert [each.name for pod in (first, second) for each in pod.spec.containers or ()] == ["c", "c", "d"]
