"""The doctor on a dump: checks that need only objects run, and the others are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.bodies import BLOCK, RACK, Json, list_body, node_body, pod_body, report_body, topology_body
from tests.builders.objects import zone
from tests.unit.cli.conftest import Bayplan

NEVER = ["kinds", "rights", "leader", "clocks"]
MADE_AT = 1_700_000_000


def node(name: str, **labels: str) -> Json:
    return node_body(name, {"cpu": 8}, **{BLOCK: "b1", RACK: "r1", **labels})


def report(name: str, age: int = 0) -> Json:
    return report_body(name, zone(0, {"cpu": 8}), **{"bayplan.io/made-at": str(MADE_AT - age)})


def deployment(namespace: str, ready: int) -> Json:
    labels = {"app.kubernetes.io/name": "bayplan"}
    template = {"spec": {"containers": [{"name": "scheduler", "image": "bayplan:1", "command": ["bayplan"]}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "bayplan-scheduler", "namespace": namespace, "labels": labels},
        "spec": {"replicas": 2, "template": template},
        "status": {"readyReplicas": ready},
    }


def flavor(topology: str) -> Json:
    metadata = {"name": "gpu"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ResourceFlavor",
        "metadata": metadata,
        "spec": {"topologyName": topology},
    }


def two_schedulers() -> list[Json]:
    return [
        pod_body(name, "ml", scheduler=name, phase="Running", nodeName="n1")
        for name in ("bayplan", "default-scheduler")
    ]


SOUND = [node("n1"), report("n1"), topology_body(), pod_body("p", "ml", phase="Running", nodeName="n1")]


def examined(bayplan: Bayplan, folder: Path, *objects: Json) -> tuple[int, Json]:
    file = folder / "dump.json"
    file.write_text(json.dumps(list_body(objects)))
    result = bayplan("doctor", "-o", "json", cluster=file)
    return result.code, json.loads(result.out)


def test_a_sound_dump_passes_the_checks_that_it_has_objects_for(bayplan: Bayplan, tmp_path: Path) -> None:
    code, document = examined(bayplan, tmp_path, *SOUND)
    assert (code, document["answer"], document["notChecked"]) == (
        0,
        "9 checks passed",
        [*NEVER[:2], "programs", *NEVER[2:]],
    )
    assert "not checked: kinds, rights, programs, leader, clocks; the dump does not show them" in (
        bayplan("doctor", cluster=tmp_path / "dump.json").out
    )


@pytest.mark.parametrize(
    "objects, check, problem",
    [
        ([*SOUND, node("n2")], "missing-reports", "1 of 2 nodes have no report"),
        ([*SOUND, node("n2"), report("n2", age=7200)], "stale-reports", "for up to 2h"),
        ([*SOUND[1:], node("n1") | {"status": {"allocatable": {"cpu": 16}}}], "report-contents", "cpu 16 allocatable"),
        ([*SOUND, node_body("n2", {}, **{BLOCK: "b1"}), report("n2")], "tree", f"nodes lack {RACK}"),
        ([*SOUND, flavor("network")], "tree", "Kueue pins pods to nodes"),
        ([*SOUND, *two_schedulers()], "shared-nodes", "of bayplan and of default-scheduler"),
        ([*SOUND, deployment("bayplan-system", 0)], "programs", "0 of 2 pods ready"),
        (
            [*SOUND, pod_body("q", "ml", phase="Failed", reason="OutOfcpu", nodeName="n1")],
            "kubelet-policies",
            "with OutOfcpu",
        ),
    ],
)
def test_a_fault_in_a_dump_is_found(
    bayplan: Bayplan, tmp_path: Path, objects: list[Json], check: str, problem: str
) -> None:
    code, document = examined(bayplan, tmp_path, *objects)
    found = {each["name"]: each["findings"] for each in document["checks"] if each["findings"]}
    assert (code, list(found)) == (1, [check])
    assert problem in found[check][0]["problem"]


@pytest.mark.parametrize(
    "objects, not_checked",
    [
        ([deployment("bayplan-system", 2), *SOUND], []),
        ([deployment("elsewhere", 2), *SOUND], ["programs"]),
        (SOUND[:1] + SOUND[2:], ["missing-reports", "stale-reports", "report-contents", "fingerprints", "agents"]),
        ([*SOUND[:2], SOUND[3]], ["tree"]),
        (SOUND[:3], ["kubelet-policies", "shared-nodes"]),
    ],
    ids=["complete", "programs of others", "no reports", "no Topology", "no pods"],
)
def test_what_a_dump_does_not_show_is_not_checked(
    bayplan: Bayplan, tmp_path: Path, objects: list[Json], not_checked: list[str]
) -> None:
    code, document = examined(bayplan, tmp_path, *objects)
    assert code == 0
    assert set(not_checked) <= set(document["notChecked"])
    assert set(document["notChecked"]) <= {*NEVER, "programs", *not_checked}


def test_a_dump_that_cannot_be_read_is_an_error(bayplan: Bayplan, tmp_path: Path) -> None:
    result = bayplan("doctor", cluster=tmp_path / "none.json")
    assert (result.code, result.out) == (2, "")
    assert "none.json" in result.err
