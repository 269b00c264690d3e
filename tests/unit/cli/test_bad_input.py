"""Whatever is in the files: a clear line that names object and field, or a documented neutral answer.

Never a traceback.
"""

import gzip
import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import EXAMPLES, Bayplan

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: "
ZONES = "apiVersion: topology.node.k8s.io/v1alpha2\nkind: NodeResourceTopology\nmetadata: {name: n1}\nzones: "
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: "
DUMPED = "kubectl get nodes,pods,noderesourcetopologies -A -o json"
DEEP = "{name: g, groups: [" * 33 + "]}" * 33


def container(resources: str) -> str:
    return f"{{containers: [{{name: c, image: i, resources: {{requests: {resources}}}}}]}}"


@pytest.mark.parametrize(
    "text, message",
    [
        ("kind: Pod\nmetadata: [\n", "pod.yaml:3:1: is not valid YAML: expected a value here"),
        ('{"kind": "Pod", ', "pod.yaml:1:17: is not valid JSON: it ends too early"),
        ("just a text\n", "pod.yaml:1:1: must be a mapping, not a string; expected a Kubernetes object"),
        ("- a\n- b\n", "pod.yaml:1:1: must be a mapping, not a list"),
        ("metadata: {name: x}\n", "kind: is missing"),
        ("- " * 5000, "is nested too deeply"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "is nested too deeply"),
        ("a: &a [*a]\n", "is nested too deeply"),
        (POD.replace("{name: p}", "{}") + container("{}") + "\n", "metadata.name: is missing"),
        (
            POD.replace("{name: p}", "{name: 5}") + "{}\n",
            "pod.yaml:3:12: metadata.name: must be a string, not a whole number",
        ),
        (POD + "{containers: {name: c}}\n", "spec.containers: a mapping is not allowed: must be a list"),
        (
            POD + container("[1]") + "\n",
            "spec.containers[0].resources.requests: a list is not allowed: must be a mapping",
        ),
        (
            POD + container('{cpu: "-1"}') + "\n",
            'pod.yaml:4:64): spec.containers[0].resources.requests.cpu: "-1" is negative',
        ),
        (POD + container("{cpu: 1.5x}") + "\n", 'requests.cpu: invalid quantity "1.5x"'),
        (
            POD + container("{example.com/nic: 10P}, limits: {example.com/nic: 10P}") + "\n",
            'limits["example.com/nic"]: "10P" is too large',
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n",
            "-f holds no pod: not used: Service (1); pods are made of ",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
            "): spec.template.spec: is missing: a pod template needs a spec",
        ),
        ("apiVersion: v1\nkind: List\nitems: []\n", "-f holds no pod"),
        ("\n", "-f holds no pod"),
        ("", "pod.yaml: is empty: did the command that wrote it fail?"),
        (POD + "{}\n", "Pod p ("),
        (POD + "{}\n", "pod.yaml:4:1): spec.containers: is missing: a pod needs at least one container"),
        (
            POD + "{containers: [{name: c, image: i, resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}}]}\n",
            'spec.containers[0].resources.requests.cpu: "2" is above the limit of "1500m"',
        ),
        (
            f"apiVersion: bayplan.io/v1alpha1\nkind: PodGroup\nmetadata: {{name: deep}}\nspec: {{groups: [{DEEP}]}}\n",
            "pod.yaml:4:1): spec: groups are nested more than 32 deep, the limit",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_wrong_pods(bayplan: Bayplan, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(text)
    result = bayplan("place", "-f", file)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert message in result.err


@pytest.mark.parametrize(
    "text, message",
    [
        (NODE + '{allocatable: {cpu: "-4"}}\n', 'cluster.yaml:4:24): status.allocatable.cpu: "-4" is negative'),
        (
            NODE + "{allocatable: 4}\n",
            "Node n1 ({file}:4:10): status.allocatable: must be a mapping, not a whole number",
        ),
        (NODE + "{}\n---\n" + NODE + "{}\n", "cluster.yaml:6:1): appears twice: the first one counts"),
        (ZONES + "3\n", "cluster.yaml:4:1): zones: must be a mapping or a list, not a whole number"),
        (
            ZONES + "[{name: node-0, type: Node, resources: [{name: cpu, available: 1q}]}]\n",
            'cluster.yaml:4:60): zones[0].resources[0].available: invalid quantity "1q"',
        ),
        (
            ZONES + "[{name: node-0, type: Node, resources: [{name: cpu}]}]\n",
            'zones[0].resources[0]: resource "cpu" has none of capacity, allocatable, available',
        ),
        (ZONES.replace("v1alpha2", "v9") + "[]\n", 'apiVersion: "topology.node.k8s.io/v9" is not understood'),
    ],
)
def test_a_bad_object_of_a_cluster_is_left_out_and_named_and_the_rest_answers(
    bayplan: Bayplan, pods: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "good.yaml").write_text((EXAMPLES / "cluster" / "nodes.yaml").read_text())
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    result = bayplan("place", "-f", pods / "web.yaml", cluster=tmp_path)
    assert result.code == 0
    told = message.format(file=file) if "{file}" in message else message
    assert any(told in line and line.startswith("warning: ") for line in result.err.splitlines())
    document = bayplan("place", "-f", pods / "web.yaml", "-o", "json", cluster=tmp_path)
    assert any(told in warning for warning in json.loads(document.out)["warnings"])


@pytest.mark.parametrize(
    "content",
    [b"\x1f\x8b\x08\x00garbage-garbage-garbage", gzip.compress(b"kind: Pod")[:-4], b'{"kind": "\xff"}', b"\x00\x01"],
    ids=["not gzip", "cut gzip", "not UTF-8", "binary"],
)
def test_files_that_are_no_text_at_all(bayplan: Bayplan, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "pod.json"
    file.write_bytes(content)
    result = bayplan("place", "-f", file)
    assert result.code == 2
    assert str(file) in result.err


@pytest.mark.parametrize("path", ["no-such-file.yaml", "no/such/folder"])
def test_missing_files_are_named(bayplan: Bayplan, pods: Path, path: str) -> None:
    assert bayplan("place", "-f", path).err == f"error: file {path}: does not exist\n"
    assert bayplan("place", "-f", pods, cluster=path).err == f"error: file {path}: does not exist\n"


def test_a_folder_without_objects_is_named(bayplan: Bayplan, tmp_path: Path) -> None:
    assert "holds no object file" in bayplan("place", "-f", tmp_path).err


def test_a_cluster_file_without_a_byte_is_no_cluster(bayplan: Bayplan, pods: Path, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.touch()
    result = bayplan("place", "-f", pods / "upf.yaml", cluster=file)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: file {file}: is empty: did the command that wrote it fail?\n"


def test_standard_input_is_read_only_once(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", "-", cluster="-")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: '-' is standard input, which can be read only once: give it to one option. "
        "See 'bayplan place --help'.\n"
    )


def test_an_empty_cluster_is_a_no(bayplan: Bayplan, pods: Path, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("apiVersion: v1\nkind: List\nitems: []\n")
    result = bayplan("place", "-f", pods / "upf.yaml", cluster=file)
    assert (result.code, result.answer) == (1, "telco/upf-0 does not fit: the cluster has no nodes.")


def test_what_is_odd_but_usable_is_a_warning_on_stderr(bayplan: Bayplan, pods: Path, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        ZONES
        + (
            "[{name: node-0, type: Node, costs: [], resources: [{name: cpu, capacity: 1, allocatable: 1, "
            "available: 1}]}]\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
        )
    )
    result = bayplan("place", "-f", pods / "web.yaml", cluster=file)
    assert result.err.splitlines() == [
        f"warning: the dump has no Node; {DUMPED} writes one that has",
        'warning: NodeResourceTopology n1: "n1" is not a known Node: the topology data is ignored',
    ]
    assert "warning" not in result.out


def test_many_warnings_are_counted(bayplan: Bayplan, pods: Path, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "---\n".join(
            ZONES.replace("n1", f"n{number}")
            + (
                "[{name: node-0, type: Node, costs: [], resources: [{name: cpu, capacity: 1, "
                "allocatable: 1, available: 1}]}]\n"
            )
            for number in range(30)
        )
    )
    lines = bayplan("place", "-f", pods / "web.yaml", cluster=file).err.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "warning: and 21 more"


@pytest.mark.parametrize("command", [("nodes",), ("why", "-A")])
def test_a_dump_without_nodes_says_so(bayplan: Bayplan, tmp_path: Path, command: tuple[str, ...]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: ml}\n")
    result = bayplan(*command, cluster=file)
    assert result.err.startswith(f"warning: the dump has no Node; {DUMPED} writes one that has\n")
    assert (result.code, result.out) == (0, "")


@pytest.mark.parametrize(
    "status, said",
    [
        ({"message": "nodes is forbidden", "reason": "Forbidden", "code": 403}, "nodes is forbidden (403 Forbidden)"),
        ({"status": "Failure"}, "Failure"),
    ],
)
def test_an_answer_of_the_api_server_is_no_dump(
    bayplan: Bayplan, tmp_path: Path, status: dict[str, object], said: str
) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Status", **status}))
    result = bayplan("nodes", cluster=file)
    assert (result.code, result.out) == (2, "")
    told = f"error: file {file}:1:1: the API server answered with a Status instead of objects: {said}\n"
    assert result.err == told


def test_objects_on_lines_of_their_own_are_a_dump(bayplan: Bayplan, tmp_path: Path) -> None:
    """`kubectl get -o json | jq -c .items[]` writes them, and kubectl takes them."""
    file = tmp_path / "cluster.json"
    first, second, third = (
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2", "n3")
    )
    wrong = {**second, "status": {"allocatable": {"cpu": "x"}}}
    file.write_text(f"{json.dumps(first)}\n{json.dumps(wrong)}{json.dumps(third, indent=1)}\n")
    result = bayplan("nodes", "-o", "name", cluster=file)
    assert (result.code, result.out) == (0, "node/n1\nnode/n3\n")
    assert f"Node n2 ({file}:2:" in result.err


def test_a_pod_that_is_there_already_is_not_placed_twice(bayplan: Bayplan, pods: Path) -> None:
    running = bayplan("place", "-f", EXAMPLES / "cluster" / "pods.yaml")
    twice = bayplan("place", "-f", pods / "upf.yaml", "-f", pods / "upf.yaml")
    assert (running.code, twice.code) == (2, 2)
    assert "Pod telco/amf-0: is already on node telco-1" in running.err
    assert "Pod telco/upf-0: metadata.name: is the name of two pods of -f" in twice.err


def test_a_bug_of_ours_is_no_answer(bayplan: Bayplan, pods: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would end with code 1, which means "no"."""

    def broken(*_: object, **__: object) -> None:
        raise IndexError("index 8 is\nout of bounds")

    monkeypatch.setattr("bayplan.cluster.loading.load_state", broken)
    result = bayplan("place", "-f", pods / "web.yaml")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: internal error: IndexError: index 8 is out of bounds"
        " (please report; set BAYPLAN_DEBUG=1 for the traceback)\n"
    )
    monkeypatch.setenv("BAYPLAN_DEBUG", "1")
    result = bayplan("place", "-f", pods / "web.yaml")
    assert result.code == 2
    assert result.err.startswith("Traceback (most recent call last):")
    assert "error: internal error: IndexError" in result.err.splitlines()[-1]
