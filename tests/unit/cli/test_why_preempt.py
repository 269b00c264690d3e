"""`bayplan why --preempt`: who would be evicted for a pod or gang without a place."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Bayplan

Json = dict[str, Any]


def pod(name: str, priority: int, node: str | None = None, **metadata: Any) -> Json:
    amounts = {"cpu": 4, "memory": "8Gi"}
    spec: Json = {"priority": priority, "containers": [{"name": "main", "resources": {"limits": amounts}}]}
    if node is not None:
        spec["nodeName"] = node
    phase = "Running" if node else "Pending"
    named = {"name": name, "namespace": "a", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec, "status": {"phase": phase}}


def cluster_of(file: Path, *objects: Json) -> Path:
    zones = [
        {"name": f"node-{zone}", "type": "Node", "resources": [_zone("cpu", "4", "0"), _zone("memory", "16Gi", "8Gi")]}
        for zone in range(2)
    ]
    policy = [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]
    report = {"metadata": {"name": "n1"}, "attributes": policy, "zones": zones}
    allocatable = {"cpu": 8, "memory": "32Gi", "pods": 110}
    items = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": allocatable}},
        {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", **report},
        pod("web", 5, "n1", labels={"app": "web"}, annotations={"bayplan.io/numa-zones": '{"main":[0]}'}),
        pod("log", 1, "n1", labels={"app": "log"}, annotations={"bayplan.io/numa-zones": '{"main":[1]}'}),
        *objects,
    ]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


def _zone(name: str, total: str, free: str) -> Json:
    return {"name": name, "capacity": total, "allocatable": total, "available": free}


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
    group = {
        "apiVersion": "bayplan.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "a"},
        "spec": {"size": 2},
    }
    members = [pod(f"train-{number}", 100, labels={"bayplan.io/pod-group": "train"}) for number in range(2)]
    cluster = cluster_of(tmp_path / "cluster.json", group, *members)
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
