"""`bayplan snapshot` and `bayplan replay`: what is kept, what never gets in, and that decisions come out the same."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bayplan import __version__
from tests.builders.bodies import list_body, node_body, pod_body
from tests.unit.cli.conftest import EXAMPLES, Bayplan
from tests.unit.cli.gang_files import CLUSTER, GANGS, gang_file

SECRET = "hunter2"
RACK = "example.com/rack"


def run(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    """The program as a process of its own: a snapshot is bytes on standard output."""
    command = [sys.executable, "-c", "from bayplan.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False)


def written_to(folder: Path, *arguments: object) -> Path:
    """The snapshot that a command writes, as a file."""
    written = run(*arguments)
    assert (written.returncode, written.stderr) == (0, b"")
    file = folder / "s.json.gz"
    file.write_bytes(written.stdout)
    return file


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example cluster and its example pods."""
    folder = tmp_path_factory.mktemp("snapshot")
    return written_to(folder, "snapshot", "--cluster", EXAMPLES / "cluster", "-f", EXAMPLES / "pods")


def changed(snapshot: Path, to: Path, change: dict[str, Any]) -> Path:
    """A copy of a snapshot whose first decision says something else."""
    document = json.loads(gzip.decompress(snapshot.read_bytes()))
    document["bayplan"]["decisions"][0] |= change
    to.write_bytes(gzip.compress(json.dumps(document).encode()))
    return to


def test_every_decision_is_made_again_and_equal(bayplan: Bayplan, snapshot: Path) -> None:
    result = bayplan("replay", snapshot, cluster=None)
    assert (result.code, result.out) == (0, f"5 decisions, all equal (recorded by bayplan {__version__})\n")


class TestGangs:
    def test_a_gang_is_decided_as_a_gang(self, bayplan: Bayplan, tmp_path: Path) -> None:
        file = written_to(tmp_path, "snapshot", "--cluster", CLUSTER)
        document = json.loads(bayplan("replay", file, "-o", "json", cluster=None).out)
        assert document["answer"] == f"1 decision, all equal (recorded by bayplan {__version__})"
        assert [item["answer"] for item in document["items"]] == [
            "ml/finetune does not fit: the gang needs 9 slots in one rack, but can get at most 8."
        ]
        assert bayplan("why", "ml/finetune", cluster=file).out == bayplan("why", "ml/finetune", cluster=CLUSTER).out

    def test_gangs_of_files_are_decided_too_each_seeing_what_the_earlier_ones_took(
        self, bayplan: Bayplan, tmp_path: Path
    ) -> None:
        files = ("-f", GANGS / "pretrain.yaml", "-f", EXAMPLES / "dialects" / "kueue-pods.yaml")
        file = written_to(tmp_path, "snapshot", "--cluster", CLUSTER, *files)
        document = json.loads(bayplan("replay", file, "-o", "json", cluster=None).out)
        assert document["differences"] == []
        fits = {item["gang"]: item["fits"] for item in document["items"]}
        assert fits["ml/finetune"] is False
        assert fits["ml/pretrain"] is True
        assert len(fits) == 3

    def test_one_that_is_wrong_in_itself_is_a_decision_too(self, bayplan: Bayplan, tmp_path: Path) -> None:
        wrong = gang_file(tmp_path, "size: 2", "required: example.com/rak")
        file = written_to(tmp_path, "snapshot", "--cluster", CLUSTER, "-f", wrong)
        document = json.loads(bayplan("replay", file, "-o", "json", cluster=None).out)
        (answer,) = (item["answer"] for item in document["items"] if item["gang"] == "ml/g")
        assert answer.startswith('ml/g is not placed: PodGroup ml/g: spec.required: "example.com/rak" is not a level')
        assert document["differences"] == []

    def test_the_moment_is_recorded_where_a_gang_has_patience(self, bayplan: Bayplan, tmp_path: Path) -> None:
        patient = gang_file(tmp_path, "size: 16", f"preferred: {RACK}", "patience: {domains: 1, seconds: 300}")
        patient.write_text(
            patient.read_text().replace("{name: g,", '{name: g, creationTimestamp: "2026-01-31T12:00:00Z",')
        )
        at = ("-f", patient, "--now", "2026-01-31T12:01:00Z")
        file = written_to(tmp_path, "snapshot", "--cluster", CLUSTER, *at)
        document = json.loads(bayplan("replay", file, "-o", "json", cluster=None).out)
        assert [item["patienceLeftSeconds"] for item in document["items"]] == [None, 240.0]
        assert document["differences"] == []

    def test_one_that_is_not_there_is_named(self, bayplan: Bayplan, tmp_path: Path) -> None:
        file = tmp_path / "odd.yaml"
        file.write_text("kind: List\nitems: []\nbayplan: {version: '1', decisions: [{gang: a/b}]}\n")
        result = bayplan("replay", file, cluster=None)
        assert (result.code, 'gang "a/b" is not among the objects' in result.err) == (2, True)


def test_a_decision_that_comes_out_otherwise_is_named(bayplan: Bayplan, snapshot: Path, tmp_path: Path) -> None:
    odd = changed(snapshot, tmp_path / "odd.json.gz", {"answer": "telco/upf-large fits: moon-1"})
    result = bayplan("replay", odd, cluster=None)
    assert result.code == 1
    assert result.answer == f"5 decisions, 1 differ (recorded by bayplan {__version__})"
    assert "telco/upf-large: answer was telco/upf-large fits: moon-1, is telco/upf-large does not fit" in result.out


def test_json_has_the_decisions(bayplan: Bayplan, snapshot: Path) -> None:
    document = json.loads(bayplan("replay", snapshot, "-o", "json", cluster=None).out)
    assert (document["kind"], document["decisions"], document["equal"]) == ("Replay", 5, 5)
    assert {item["pod"] for item in document["items"]} >= {"telco/upf-0", "telco/upf-large"}


def test_the_configuration_is_kept_and_used(tmp_path: Path, bayplan: Bayplan) -> None:
    config = EXAMPLES / "scheduler-config.yaml"
    written = run("snapshot", "--cluster", EXAMPLES / "cluster", "-f", EXAMPLES / "pods", "--config", config)
    file = tmp_path / "s.json.gz"
    file.write_bytes(written.stdout)
    assert json.loads(gzip.decompress(written.stdout))["bayplan"]["configuration"]["profiles"]
    assert bayplan("replay", file, cluster=None).answer.startswith("5 decisions, all equal")


def test_two_snapshots_of_a_cluster_are_equal_byte_for_byte(snapshot: Path) -> None:
    again = run("snapshot", "--cluster", EXAMPLES / "cluster", "-f", EXAMPLES / "pods")
    assert again.stdout == snapshot.read_bytes()


def test_a_snapshot_is_a_cluster_for_every_command(bayplan: Bayplan, snapshot: Path) -> None:
    assert bayplan("why", "telco/upf-large", cluster=snapshot).answer == (bayplan("why", "telco/upf-large").answer)


def test_a_pod_that_cannot_be_read_is_left_out_with_a_warning(bayplan: Bayplan, tmp_path: Path) -> None:
    objects = [
        node_body("n1", {"cpu": 8, "memory": "64Gi"}),
        pod_body("sound", "a", {"cpu": 1, "memory": "1Gi"}),
        pod_body("amount", "b", {"cpu": "9e18"}),
    ]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(list_body(objects)))
    done = run("snapshot", "--cluster", cluster)
    assert b"Pod b/amount: spec.containers[0].resources.limits.cpu" in done.stderr
    written = tmp_path / "s.json.gz"
    written.write_bytes(done.stdout)
    assert bayplan("replay", written, cluster=None).answer.startswith("1 decision, all equal")


def test_secrets_never_get_in(tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": SECRET,
                "bayplan.io/numa-zones": '{"c": [0]}',
            },
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": SECRET,
                    "args": [SECRET],
                    "env": [{"name": "PASSWORD", "value": SECRET}],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                }
            ],
            "volumes": [{"name": "v", "secret": {"secretName": SECRET}}],
            "imagePullSecrets": [{"name": SECRET}],
        },
    }
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    written = run("snapshot", "--cluster", EXAMPLES / "cluster", "--cluster", tmp_path / "pod.json")
    text = gzip.decompress(written.stdout).decode()
    assert SECRET not in text
    assert "bayplan.io/numa-zones" in text


@pytest.mark.parametrize(
    "content, problem",
    [
        ("kind: List\nitems: []\n", "is not a snapshot; 'bayplan snapshot --cluster PATH > s.json.gz' writes one"),
        ("bayplan: {version: 1}\n", "bayplan.version: must be a string, not a whole number"),
        ("[1, 2]\n", "must be a mapping, not a list"),
        (
            "kind: List\nitems: []\nbayplan: {version: '1', decisions: [{pod: a/b}]}\n",
            'bayplan.decisions: pod "a/b" is not among the objects of the snapshot',
        ),
    ],
)
def test_what_is_no_snapshot_is_refused(bayplan: Bayplan, tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(content)
    result = bayplan("replay", file, cluster=None)
    assert (result.code, result.out) == (2, "")
    assert f"error: file {file}" in result.err
    assert problem in result.err
