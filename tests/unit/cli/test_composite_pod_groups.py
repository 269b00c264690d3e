"""`bayplan place`, `why` and `snapshot` with Kubernetes' CompositePodGroups.

The groups inside are one gang, as in the scheduler.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Bayplan
from tests.unit.cli.gang_files import CLUSTER

BLOCK, RACK = "example.com/block", "example.com/rack"
NAMES = ("prefill", "decode")
WAITS = "waits for groups: 1 of 2 in CompositePodGroup serve"
FITS = "ml/serve fits: block b2, rack r1, 4 nodes (optimal)"


def within(label: str) -> dict[str, object]:
    return {"topology": [{"key": label}]}


def composite(least: int = 2) -> dict[str, object]:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": least}}, "schedulingConstraints": within(BLOCK)}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": "serve", "namespace": "ml"},
        "spec": spec,
    }


def group(name: str) -> dict[str, object]:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": within(RACK),
        "parentCompositePodGroupName": "serve",
    }
    metadata = {"name": name, "namespace": "ml"}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def pods(name: str) -> list[dict[str, object]]:
    limits = {"cpu": "16", "memory": "160Gi", "nvidia.com/gpu": "8"}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{number}", "namespace": "ml"},
            "spec": {"schedulingGroup": {"podGroupName": name}, "containers": [container]},
        }
        for number in range(2)
    ]


def groups_with_pods() -> list[dict[str, object]]:
    return [each for name in NAMES for each in (group(name), *pods(name))]


def write(file: Path, *documents: dict[str, object]) -> Path:
    file.write_text(yaml.safe_dump_all(documents))
    return file


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """The example cluster, with the gang in it."""
    objects = list(yaml.safe_load_all(CLUSTER.read_text()))
    return write(tmp_path / "dump.yaml", *objects, composite(), *groups_with_pods())


def test_groups_in_a_file_are_placed_as_one_gang(bayplan: Bayplan, tmp_path: Path) -> None:
    file = write(tmp_path / "gang.yaml", composite(), *groups_with_pods())
    result = bayplan("place", "-f", file, cluster=CLUSTER)
    assert (result.code, result.answer, result.err) == (0, FITS, "")
    assert "prefill" in result.out
    assert "decode" in result.out


def test_the_order_of_documents_does_not_matter(bayplan: Bayplan, tmp_path: Path) -> None:
    file = write(tmp_path / "gang.yaml", *groups_with_pods(), composite())
    assert bayplan("place", "-f", file, cluster=CLUSTER).answer == FITS


def test_groups_join_a_composite_of_the_cluster(bayplan: Bayplan, tmp_path: Path) -> None:
    objects = list(yaml.safe_load_all(CLUSTER.read_text()))
    cluster = write(tmp_path / "cluster.yaml", *objects, composite())
    file = write(tmp_path / "gang.yaml", *groups_with_pods())
    assert bayplan("place", "-f", file, cluster=cluster).answer == FITS


@pytest.mark.parametrize(
    "documents, reason",
    [
        (
            [composite(), group("prefill"), *pods("prefill"), group("decode")],
            f"{WAITS} have all pods that they need; waits for pods: 0 of 2 in PodGroup decode have arrived",
        ),
        (groups_with_pods(), "waits for CompositePodGroup ml/serve (kubernetes-composite), which does not exist"),
    ],
)
def test_what_is_missing_is_said(
    bayplan: Bayplan, tmp_path: Path, documents: list[dict[str, object]], reason: str
) -> None:
    result = bayplan("place", "-f", write(tmp_path / "gang.yaml", *documents), cluster=CLUSTER)
    assert (result.code, result.answer) == (1, f"ml/serve is not placed: {reason}.")


@pytest.mark.parametrize("name", ["podgroup/ml/serve", "podgroup/ml/decode"])
def test_why_tells_about_the_whole_gang(bayplan: Bayplan, dump: Path, name: str) -> None:
    result = bayplan("why", name, cluster=dump)
    assert (result.code, result.answer) == (0, "ml/serve is Pending: it fits now: block b2, rack r1, 4 nodes (optimal)")


def test_why_of_a_member_tells_about_the_whole_gang(bayplan: Bayplan, dump: Path) -> None:
    result = bayplan("why", "ml/decode-1", cluster=dump)
    assert result.answer == f"ml/decode-1 is Pending: its gang {FITS}"


def test_everything_that_waits_counts_the_gang_once(bayplan: Bayplan, dump: Path) -> None:
    (line,) = [line for line in bayplan("why", "-A", cluster=dump).out.splitlines() if "ml/serve" in line]
    assert line.split()[:2] == ["4", "1"]
