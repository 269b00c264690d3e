"""`bayplan why -A`: everything that waits or was refused, grouped by cause."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bayplan.explain.overview.causes import CauseKind, StuckPod, overview_of, overview_text
from bayplan.scheduling.cycle import schedule_one
from tests.builders.bodies import Json, list_body, node_body, pod_body
from tests.unit.cli.conftest import Bayplan
from tests.unit.cli.gang_files import CLUSTER


def pod(name: str, cpu: int, namespace: str = "a", **more: Any) -> Json:
    return pod_body(name, namespace, {"cpu": cpu, "memory": "1Gi"}, **more)


OBJECTS = [
    node_body("n1", {"cpu": 8, "memory": "64Gi"}),
    *(pod(f"big-{number}", 16, labels={"app": "big"}) for number in range(3)),
    *(pod(f"small-{number}", 3) for number in range(4)),
    pod("gated", 1, "b", schedulingGates=[{"name": "quota"}]),
    pod("refused", 1, "b", nodeName="n1", phase="Failed", reason="OutOfcpu"),
    pod("runs", 1, "c", nodeName="n1", phase="Running"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body(OBJECTS)))
    return file


def causes(bayplan: Bayplan, cluster: Path, *arguments: str) -> dict[str, list[str]]:
    document = json.loads(bayplan("why", "-o", "json", *arguments, cluster=cluster).out)
    found: dict[str, list[str]] = {}
    for cause in document["causes"]:
        found.setdefault(cause["type"], []).extend(cause["pods"])
    return found


def test_pods_are_grouped_by_what_keeps_them(bayplan: Bayplan, cluster: Path) -> None:
    result = bayplan("why", "-A", cluster=cluster)
    assert result.code == 1
    assert result.answer == "6 pods wait (3 causes), 1 was refused by kubelets; 2 more fit now"
    lines = [" ".join(line.split()) for line in result.out.splitlines()[3:8]]
    assert lines == [
        "3 larger than every node: cpu a/big-[0-2]",
        "2 no node has enough cpu free a/small-[2-3]",
        "1 refused by the kubelet: OutOfcpu b/refused on n1",
        "1 waits for scheduling gate quota b/gated",
        "2 fits now, waits for its turn a/small-[0-1]",
    ]


def test_each_pod_sees_what_the_earlier_ones_took(bayplan: Bayplan, cluster: Path) -> None:
    """Seven CPUs are free: two pods of three fit, not four."""
    assert causes(bayplan, cluster, "-A")["FitsNow"] == ["a/small-0", "a/small-1"]


def test_pods_that_cannot_be_read_are_causes_and_hide_no_other_pod(bayplan: Bayplan, tmp_path: Path) -> None:
    broken = [
        pod("zones", 1, "evil", annotations={"bayplan.io/max-numa-zones": "all\x1b"}),
        pod_body("amount", "evil", {"cpu": "9e18"}),
        pod("many", 1, "evil", containers=[{"name": f"c{number}", "image": "none"} for number in range(300)]),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body([*OBJECTS, *broken])))
    found = causes(bayplan, file, "-A")
    assert found["Unschedulable"] == ["a/big-0", "a/big-1", "a/big-2", "a/small-2", "a/small-3"]
    text = bayplan("why", "-A", cluster=file)
    assert text.answer == "9 pods wait (6 causes), 1 was refused by kubelets; 2 more fit now"
    assert 'bayplan.io/max-numa-zones"]: "all\\x1b" is not allowed' in text.out
    assert "300 containers are too many" in text.out
    assert "evil" not in bayplan("why", "-n", "a", cluster=file).out


def test_one_namespace(bayplan: Bayplan, cluster: Path) -> None:
    result = bayplan("why", "-n", "b", cluster=cluster)
    assert (result.code, result.answer) == (1, "1 pod waits (1 cause), 1 was refused by kubelets in namespace b")
    assert (
        bayplan("why", "-n", "c", cluster=cluster).answer == "no pod waits in namespace c, and no kubelet refused one"
    )
    assert bayplan("why", "-n", "c", cluster=cluster).code == 0


@pytest.mark.parametrize(
    "arguments, said",
    [(["-n", "nowhere"], "No resources found in nowhere namespace."), (["-A", "-l", "app=x"], "No resources found.")],
)
def test_where_there_is_no_pod_at_all_it_says_what_kubectl_says(
    bayplan: Bayplan, cluster: Path, arguments: list[str], said: str
) -> None:
    result = bayplan("why", *arguments, cluster=cluster)
    assert (result.code, result.out, result.err.splitlines()[-1]) == (0, "", said)


@pytest.mark.parametrize(
    "arguments, pods",
    [
        (["-l", "app=big"], {"a/big-0", "a/big-1", "a/big-2"}),
        (["--field-selector", "spec.nodeName=n1"], {"b/refused"}),
        (["--field-selector", "status.phase=Failed"], {"b/refused"}),
        (["--field-selector", "metadata.namespace=b,metadata.name!=gated"], {"b/refused"}),
    ],
)
def test_pods_are_chosen_as_with_kubectl(bayplan: Bayplan, cluster: Path, arguments: list[str], pods: set[str]) -> None:
    assert {pod for of_cause in causes(bayplan, cluster, "-A", *arguments).values() for pod in of_cause} == pods


def test_names_can_be_handed_to_why_again(bayplan: Bayplan, cluster: Path) -> None:
    for name in bayplan("why", "-A", "-o", "name", cluster=cluster).out.split():
        assert bayplan("why", name, cluster=cluster).code in (0, 1)
    assert "pod/refused" in bayplan("why", "-n", "b", "-o", "name", cluster=cluster).out.split()


def test_a_gang_waits_as_one(bayplan: Bayplan) -> None:
    result = bayplan("why", "-A", cluster=CLUSTER)
    assert result.answer == "9 pods wait (1 cause)"
    assert "the gang needs 9 slots in one rack, but can get at most 8  ml/finetune" in result.out


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ([], "which pod? Give POD or PODGROUP; or -A"),
        (["-A", "-n", "a"], "-A and -n exclude each other"),
        (["a/big-0", "-A"], "'a/big-0' is one"),
        (["a/big-0", "-l", "app=big"], "'a/big-0' is one"),
        (["-A", "--node", "n1"], "--node asks about one pod"),
        (["a/big-0", "-o", "wide"], "-o wide goes with -A or -n alone"),
        (["-A", "--field-selector", "spec.priority=1"], "fields are metadata.name, metadata.namespace, spec.nodeName"),
    ],
)
def test_options_that_do_not_go_together_are_told(
    bayplan: Bayplan, cluster: Path, arguments: list[str], problem: str
) -> None:
    result = bayplan("why", *arguments, cluster=cluster)
    assert (result.code, result.out) == (2, "")
    assert problem in result.err


def test_equal_pods_are_decided_once_so_many_of_them_cost_little(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def counting(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments[1])
        return schedule_one(*arguments, **options)

    monkeypatch.setattr("bayplan.cli.shared.waiting.schedule_one", counting)
    file = tmp_path / "many.json"
    pods = [pod(f"big-{number}", 16 + number % 2) for number in range(400)]
    file.write_text(json.dumps(list_body([node_body("n1", {"cpu": 8, "memory": "64Gi"}), *pods])))
    assert bayplan("why", "-A", cluster=file).answer == "400 pods wait (1 cause)"
    assert len(asked) == 2


def test_a_single_pod_is_named_beside_gangs_of_the_same_cause() -> None:
    fits = partial(StuckPod, kind=CauseKind.FITS, cause="fits now")
    overview = overview_of([fits("ml/a-0", gang="ml/a"), fits("ml/a-1", gang="ml/a"), fits("ml/solo")])
    assert overview_text(overview).splitlines()[-3].split() == ["3", "1", "fits", "now", "ml/a,", "ml/solo"]
