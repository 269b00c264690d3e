"""`bayplan slots` on the cluster of examples/gangs."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Bayplan
from tests.unit.cli.gang_files import CLUSTER

WORKER = ("--requests", "cpu=16,memory=160Gi,nvidia.com/gpu=4")


@pytest.mark.parametrize(
    "options, code, answer",
    [
        (["--pods", "8"], 0, "4 gangs of 8 pods fit, each in one rack"),
        (["--pods", "8", "--level", "block"], 0, "6 gangs of 8 pods fit, each in one block"),
        (["--pods", "9"], 0, "5 gangs of 9 pods fit, each in one block"),
        (["--pods", "2"], 0, "25 gangs of 2 pods fit, each on one node"),
        (["--pods", "32"], 0, "1 gang of 32 pods fits, each in one block"),
        (
            ["--pods", "9", "--level", "rack"],
            1,
            "no gang of 9 pods fits in one rack: at most 8 do; one fits in one block",
        ),
        (
            ["--pods", "40"],
            1,
            "no gang of 40 pods fits in one block: at most 32 do; one fits in several blocks together",
        ),
        (["--pods", "64"], 1, "no gang of 64 pods fits in one block: at most 32 do"),
    ],
)
def test_the_first_line_is_the_answer(bayplan: Bayplan, options: list[str], code: int, answer: str) -> None:
    result = bayplan("slots", *WORKER, *options, cluster=CLUSTER)
    assert (result.code, result.answer, result.err) == (code, answer, "")


def test_every_level_and_the_domains_of_the_one_asked_about(bayplan: Bayplan) -> None:
    lines = bayplan("slots", *WORKER, "--pods", "8", cluster=CLUSTER).out.splitlines()
    assert lines[1] == "  each pod asks for  cpu 16  memory 160Gi  nvidia.com/gpu 4  (Guaranteed); 52 slots in all"
    assert [line.split() for line in lines[3:7]] == [
        ["level", "domains", "hold", "one", "gangs", "largest", "gang", "in"],
        ["block", "2", "2", "6", "32", "b2"],
        ["rack", "8", "4", "4", "8", "b2/r1"],
        ["node", "40", "0", "0", "2", "b1-r1-n3"],
    ]
    assert lines[-3].split() == ["b2/r4", "5", "8", "1"]
    assert lines[-1] == "  1 node is cordoned: b1-r4-n5"


def test_a_pod_that_fits_nowhere_has_no_tables_of_zeros(bayplan: Bayplan) -> None:
    result = bayplan("slots", "--requests", "nvidia.com/gpu=9", "--pods", "1", cluster=CLUSTER)
    answer = "no such pod fits anywhere: no node has nvidia.com/gpu 9: the largest has 8"
    assert (result.code, result.answer) == (1, answer)
    assert "largest gang" not in result.out
    assert "with no slot" not in result.out


def test_a_no_tells_what_became_of_the_nodes(bayplan: Bayplan) -> None:
    out = bayplan("slots", "--requests", "nvidia.com/gpu=9", "--pods", "1", cluster=CLUSTER).out
    assert "    0 large enough    39 too small in nvidia.com/gpu: b1-r1-n[1-5]" in out


def test_the_shape_may_come_from_a_pod_with_its_selector(bayplan: Bayplan, tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {nodeSelector: {example.com/rack: r1}, containers: [{name: c, image: i, resources: {limits: "
        "{nvidia.com/gpu: 4}}}]}\n"
    )
    result = bayplan("slots", "-f", pod, "--pods", "5", cluster=CLUSTER)
    assert result.answer == "2 gangs of 5 pods fit, each in one rack"


def test_as_a_document(bayplan: Bayplan) -> None:
    document = json.loads(bayplan("slots", *WORKER, "--pods", "8", "-o", "json", cluster=CLUSTER).out)
    assert {key: document[key] for key in ("kind", "topology", "level", "pods", "slots", "gangs")} == {
        "kind": "SlotCount",
        "topology": "network",
        "level": "example.com/rack",
        "pods": 8,
        "slots": 52,
        "gangs": 4,
    }
    assert [level["gangs"] for level in document["levels"]] == [6, 4, 0]
    assert document["domains"][4] == {"path": ["b2", "r1"], "nodes": 5, "slots": 8, "gangs": 1}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--pods", "0"], "Invalid value for '--pods'"),
        (["--pods", "8"], "one of --requests and -f is needed"),
        ([*WORKER, "--pods", "8", "--level", "row"], '--level: "row" is not a level'),
        (
            [*WORKER, "--pods", "8", "--topology", "torus"],
            "there is no Topology 'torus' in the dump; known: network",
        ),
    ],
)
def test_what_cannot_be_answered(bayplan: Bayplan, options: list[str], message: str) -> None:
    result = bayplan("slots", *options, cluster=CLUSTER)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


@pytest.mark.parametrize(
    "requests, rest",
    [
        ("cpu=16,memory=160Gi,nvidia.com/gpu=4", "and 13 more with no slot"),
        ("cpu=1,memory=1Gi", "and 4 more with no more than 64 each"),
    ],
)
def test_domains_that_are_not_listed_are_told_apart_by_their_room(
    bayplan: Bayplan, monkeypatch: pytest.MonkeyPatch, requests: str, rest: str
) -> None:
    monkeypatch.setattr("bayplan.explain.topology.slots_text.MOST_LINES", 36)
    out = bayplan("slots", "--requests", requests, "--pods", "1", "--level", "node", cluster=CLUSTER).out
    assert rest in map(str.strip, out.splitlines())


def test_gangs_in_one_numa_zone(bayplan: Bayplan) -> None:
    asked = ("--requests", "cpu=2,memory=2Gi", "--level", "numa")
    result = bayplan("slots", *asked, "--pods", "4", cluster=CLUSTER)
    assert (result.code, result.answer.partition(", ")[2]) == (0, "each in one NUMA zone")
    result = bayplan("slots", *asked, "--pods", "30", cluster=CLUSTER)
    assert (result.code, result.answer) == (1, "no gang of 30 pods fits in one NUMA zone")
