"""`bayplan why --preempt`: who would be evicted for a pod or gang without a place."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import Json, gang_body, list_body, node_body, pod_body, report_body
from tests.builders.objects import cpu_zones
from tests.unit.cli.conftest import Bayplan


def pod(name: str, priority: int, node: str | None = None, **more: Any) -> Json:
    phase = "Running" if node else "Pending"
    amounts: Json = {"cpu": 4, "memory": "8Gi"}
    return pod_body(name, "a", amounts, phase=phase, priority=priority, nodeName=node, **more)


def cluster_of(file: Path, *objects: Json) -> Path:
    items = [
        node_body("n1", {"cpu": 8, "memory": "32Gi"}),
        report_body("n1", *cpu_zones(0, 0, of=4, memory=("16Gi", "16Gi", "8Gi"))),
        pod("web", 5, "n1", labels={"app": "web"}, annotations={"bayplan.io/numa-zones": '{"main":[0]}'}),
        pod("log", 1, "n1", labels={"app": "log"}, annotations={"bayplan.io/numa-zones": '{"main":[1]}'}),
        *objects,
    ]
    file.write_text(json.dumps(list_body(items)))
    return file


def budget(allowed: int, selector: Json) -> Json:
    metadata, status = {"name": "logs", "namespace": "a"}, {"disruptionsAllowed": allowed}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"selector": selector},
        "status": status,
    }


LOGS = {"matchLabels": {"app": "log"}}


@pytest.mark.parametrize(
    "objects, victim",
    [
        ((pod("upf", 100),), "a/log (priority 1): frees cpu 4 in zone 1, memory 8Gi in zone 1"),
        ((pod("upf", 100), budget(1, LOGS)), "a/log (priority 1): frees cpu 4 in zone 1, memory 8Gi in zone 1"),
        ((pod("upf", 100), budget(0, LOGS)), "a/web (priority 5): frees cpu 4 in zone 0, memory 8Gi in zone 0"),
        ((pod("upf", 1),), "no pod: 1 node without victims of lower priority that would make room"),
    ],
)
def test_the_cheapest_victim_is_named(bayplan: Bayplan, tmp_path: Path, objects: tuple[Json, ...], victim: str) -> None:
    result = bayplan("why", "a/upf", "--preempt", cluster=cluster_of(tmp_path / "cluster.json", *objects))
    assert (result.code, result.err) == (1, "")
    assert f"Would evict:  {victim}" in result.out.splitlines()


@pytest.mark.parametrize(
    "priorities, victim, counted",
    [
        ((9, 0), "no pod: 1 node without victims of lower priority that would make room", 0),
        ((9, 3), "a/log (priority 1): frees cpu 4 in zone 1, memory 8Gi in zone 1", 3),
        ((9, 9), "a/log (priority 1): frees cpu 4 in zone 1, memory 8Gi in zone 1", None),
    ],
)
def test_the_lowest_priority_in_a_gang_counts_and_is_told(
    bayplan: Bayplan, tmp_path: Path, priorities: tuple[int, int], victim: str, counted: int | None
) -> None:
    amounts: Json = {"cpu": 2, "memory": "4Gi"}
    members = [
        pod_body(f"g-{at}", "a", amounts, phase="Pending", priority=each, labels={"bayplan.io/pod-group": "g"})
        for at, each in enumerate(priorities)
    ]
    file = cluster_of(tmp_path / "cluster.json", gang_body("g", "a", 2), *members)
    result = bayplan("why", "podgroup/a/g", "--preempt", cluster=file)
    assert f"Would evict:  {victim}" in result.out.splitlines()
    told = f"the lowest priority in the gang counts, {counted} of pod a/g-1: only pods below it may go"
    assert (told in result.out) is (counted is not None)
    document = json.loads(bayplan("why", "podgroup/a/g", "--preempt", "-o", "json", cluster=file).out)
    assert document["preemption"].get("priority") == counted


def test_the_plan_is_data_too(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path / "cluster.json", pod("upf", 100))
    plan = json.loads(bayplan("why", "a/upf", "--preempt", "-o", "json", cluster=cluster).out)["preemption"]
    assert (plan["mode"], plan["nodes"], plan["violatedBudgets"], plan["proven"]) == ("Off", ["n1"], 0, True)
    assert [(each["pod"], each["priority"]) for each in plan["victims"]] == [("a/log", 1)]
    assert plan["victims"][0]["freed"] == [
        {"resource": "cpu", "zone": 1, "amount": "4"},
        {"resource": "memory", "zone": 1, "amount": "8Gi"},
    ]


def test_a_plan_against_a_budget_is_shown_and_said_to_be_one(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path / "cluster.json", pod("upf", 100), budget(0, {}))
    result = bayplan("why", "a/upf", "--preempt", cluster=cluster)
    assert (
        "              PodDisruptionBudget a/logs forbids that: the plan is not carried out" in result.out.splitlines()
    )


def test_a_gang_evicts_as_a_unit(bayplan: Bayplan, tmp_path: Path) -> None:
    members = [pod(f"train-{number}", 100, gang="train") for number in range(2)]
    cluster = cluster_of(tmp_path / "cluster.json", gang_body("train", "a", 2), *members)
    document = json.loads(bayplan("why", "podgroup/train", "--preempt", "-o", "json", cluster=cluster).out)
    assert [each["pod"] for each in document["preemption"]["victims"]] == ["a/web", "a/log"]
    member = json.loads(bayplan("why", "a/train-0", "--preempt", "-o", "json", cluster=cluster).out)
    assert member["preemption"] == document["preemption"]


def test_a_pod_that_fits_evicts_no_other(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path / "cluster.json", pod("upf", 100))
    fitting = json.loads(cluster.read_text())
    fitting["items"] = [each for each in fitting["items"] if each["metadata"]["name"] != "web"]
    fitting["items"][1]["zones"][0]["resources"][0]["available"] = "4"
    cluster.write_text(json.dumps(fitting))
    result = bayplan("why", "a/upf", "--preempt", cluster=cluster)
    assert (result.code, "Would evict" in result.out) == (0, False)


def test_it_asks_about_one_pod_or_gang(bayplan: Bayplan, tmp_path: Path) -> None:
    result = bayplan("why", "-A", "--preempt", cluster=cluster_of(tmp_path / "cluster.json"))
    assert (result.code, "--preempt asks about one pod or gang: name it" in result.err) == (2, True)
