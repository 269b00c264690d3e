"""`--preempt` of `why` and `place`: who would be evicted for a pod or gang without a place."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import Json, gang_body, list_body, node_body, pod_body, report_body
from tests.builders.objects import cpu_zones
from tests.builders.storage import claim, storage_class, uses, volume
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


def budget(allowed: int, selector: Any, name: str = "logs") -> Json:
    metadata, status = {"name": name, "namespace": "a"}, {"disruptionsAllowed": allowed}
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
        ((pod("upf", 100),), "a/log (priority 1): frees in zone 1: cpu 4, memory 8Gi"),
        ((pod("upf", 100), budget(1, LOGS)), "a/log (priority 1): frees in zone 1: cpu 4, memory 8Gi"),
        ((pod("upf", 100), budget(0, LOGS)), "a/web (priority 5): frees in zone 0: cpu 4, memory 8Gi"),
        (
            (pod("upf", 1),),
            "no pod: 1 node where only pods of equal or higher priority would make room: a/log on n1 (priority 1)",
        ),
    ],
)
def test_the_cheapest_victim_is_named(bayplan: Bayplan, tmp_path: Path, objects: tuple[Json, ...], victim: str) -> None:
    result = bayplan("why", "a/upf", "--preempt", cluster=cluster_of(tmp_path / "cluster.json", *objects))
    assert (result.code, result.err) == (1, "")
    assert f"Would evict:  {victim}" in result.out.splitlines()


@pytest.mark.parametrize(
    "priorities, victim, counted",
    [
        (
            (9, 0),
            "no pod: 1 node where only pods of equal or higher priority would make room: a/log on n1 (priority 1)",
            0,
        ),
        ((9, 3), "a/log (priority 1): frees in zone 1: cpu 4, memory 8Gi", 3),
        ((9, 9), "a/log (priority 1): frees in zone 1: cpu 4, memory 8Gi", None),
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


def holder(name: str, node: str, priority: int = 0, **more: Any) -> list[Json]:
    """A node of 4 CPUs and the pod that holds them."""
    return [node_body(node, {"cpu": 4, "memory": "32Gi"}), pod(name, priority, node, **more)]


def stuck(node: Json, held: Json) -> list[Json]:
    """The same, with the pod deleted long ago."""
    return [node, {**held, "metadata": {**held["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}]


def kai_group(name: str) -> Json:
    metadata = {"name": name, "namespace": "a"}
    spec = {"minMember": 1, "preemptibility": "non-preemptible"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


PROTECTED, NO_PREEMPTION = "where a protected pod would have to go", "kai.scheduler/preemptibility"
CAUSES: list[tuple[list[Json], str, Json]] = [
    (
        [*holder("web", "n1", labels={NO_PREEMPTION: "non-preemptible"})],
        f"1 node {PROTECTED}: a/web on n1 (label kai.scheduler/preemptibility: non-preemptible)",
        {"cause": "protected", "nodes": 1},
    ),
    (
        [*holder("web", "n1", annotations={"volcano.sh/preemptable": "false"}), *holder("db", "n2", 100)],
        f'1 node {PROTECTED}: a/web on n1 (annotation volcano.sh/preemptable: "false")',
        {"cause": "protected", "nodes": 1},
    ),
    (
        [*holder("web", "n1", annotations={"pod-group-name": "kept"}), kai_group("kept")],
        f"1 node {PROTECTED}: a/web on n1 (PodGroup a/kept forbids it)",
        {"cause": "protected", "nodes": 1},
    ),
    (
        [*holder("proxy", "n1", annotations={"kubernetes.io/config.mirror": "3f2a"})],
        "1 node where a static pod would have to go, which its kubelet would create again: a/proxy on n1",
        {"cause": "staticPod", "nodes": 1},
    ),
    (
        [*holder("log", "n1", labels={"app": "log"}), budget(1, LOGS), budget(1, {}, "all")],
        (
            "1 node where a pod under several budgets would have to go, which the eviction API refuses: "
            "a/log on n1 (a/all and a/logs)"
        ),
        {"cause": "severalBudgets", "nodes": 1},
    ),
    (
        [*stuck(*holder("web", "n1"))],
        "1 node where a terminating pod does not end: a/web on n1 (should have ended at 2026-01-01T00:00:00Z)",
        {"cause": "terminating", "nodes": 1},
    ),
    (
        [*holder("g-0", "n1", gang="g"), *holder("g-1", "n2", 100, gang="g"), gang_body("g", "a", 2)],
        (
            "1 node where a gang would fall below its minimum: "
            "a/g-0 on n1 (gang a/g, of which a/g-1 must stay: priority 100)"
        ),
        {"cause": "gang", "nodes": 1},
    ),
    (
        [*holder("web", "n1", 60), *holder("db", "n2", 50)],
        "2 nodes where only pods of equal or higher priority would make room: a/web on n1 (priority 60)",
        {"cause": "priority", "nodes": 2},
    ),
    (
        [node_body("n1", {"cpu": 2, "memory": "32Gi"}), pod("web", 0, "n1")],
        "1 node without enough room for it even if all pods there left: n1",
        {"cause": "noRoom", "nodes": 1, "example": {"pod": None, "node": "n1", "detail": None}},
    ),
    (
        [{**node_body("n2", {"cpu": 8, "memory": "32Gi"}), "spec": {"unschedulable": True}}, *holder("db", "n3", 60)],
        "1 node closed to it by filters that no eviction changes: n2",
        {"cause": "closed", "nodes": 1},
    ),
]


@pytest.mark.parametrize("objects, said, cause", CAUSES)
def test_a_refusal_names_its_cause_and_an_example(
    bayplan: Bayplan, tmp_path: Path, objects: list[Json], said: str, cause: Json
) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(list_body([*objects, pod("upf", 50)])))
    result = bayplan("why", "a/upf", "--preempt", cluster=cluster)
    assert said in result.out
    plan = json.loads(bayplan("why", "a/upf", "--preempt", "-o", "json", cluster=cluster).out)["preemption"]
    assert said in plan["reason"].split("; ")
    assert cause in [{key: each[key] for key in cause} for each in plan["causes"]]


NEAR_WEB: Json = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
NEAR = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR_WEB]}}}
WITH_DATA = {"volumes": uses("data")}
ONCE = ["ReadWriteOncePod"]
FOR_ONE_POD = [claim(namespace="a", volume="pv", modes=ONCE), volume(claim="a/data", modes=ONCE)]


@pytest.mark.parametrize(
    "objects, more, said",
    [
        (
            [*holder("web", "n1", labels={"app": "web"}), *holder("db", "n2")],
            NEAR,
            ["no pod: 2 nodes that would refuse it even without their pods (InterPodAffinity), such as n1"],
        ),
        (
            [*holder("db", "n1"), storage_class(), claim(namespace="a")],
            WITH_DATA,
            ["no pod: 1 node that would refuse it even without its pods (VolumeBinding): n1"],
        ),
        (
            [*holder("db", "n1"), *holder("run", "n2", 50, **WITH_DATA), *FOR_ONE_POD],
            WITH_DATA,
            [
                (
                    "no pod: 1 node where only pods of equal or higher priority would make room: "
                    "a/run on n2 (priority 50)"
                ),
                "1 node that would refuse it even without its pods (VolumeRestrictions): n1",
            ],
        ),
        (
            [*holder("db", "n1"), *holder("run", "n2", 5, **WITH_DATA), *FOR_ONE_POD],
            WITH_DATA,
            ["a/run (priority 5): frees cpu 4, memory 8Gi", "for a place on n2; no cheaper set would do"],
        ),
        (
            [node_body("n1", {"cpu": 2, "memory": "32Gi"}), *holder("db", "n2"), storage_class(), claim(namespace="a")],
            WITH_DATA,
            [
                "no pod: 1 node without enough room for it even if all pods there left: n1",
                "1 node that would refuse it even without its pods (VolumeBinding): n2",
            ],
        ),
    ],
)
def test_filters_that_are_not_about_amounts_are_named(
    bayplan: Bayplan, tmp_path: Path, objects: list[Json], more: Json, said: list[str]
) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(list_body([*objects, pod("upf", 50, **more)])))
    lines = bayplan("why", "a/upf", "--preempt", cluster=cluster).out.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("Would evict:"))
    found = [line.removeprefix("Would evict:").strip() for line in lines[first : first + len(said)]]
    assert found == said


def test_nodes_closed_to_a_gang_are_told_apart_from_those_without_room(bayplan: Bayplan, tmp_path: Path) -> None:
    cordoned = {**node_body("n2", {"cpu": 8, "memory": "32Gi"}), "spec": {"unschedulable": True}}
    members = [pod(f"train-{number}", 50, gang="train") for number in range(3)]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(list_body([*holder("db", "n1"), cordoned, gang_body("train", "a", 3), *members])))
    said = bayplan("why", "podgroup/train", "-n", "a", "--preempt", cluster=cluster).out
    assert "1 node closed to it by filters that no eviction changes: n2\n" in said
    assert "1 node without enough room for it even if all pods there left\n" in said


def in_one_rack(name: str) -> Json:
    labels = {"rack": "r1", "kubernetes.io/hostname": name}
    return {**node_body(name, {"cpu": 8, "memory": "32Gi"}), "metadata": {"name": name, "labels": labels}}


AWAY_FROM_DB: Json = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "db"}}}
APART: Json = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [AWAY_FROM_DB]}}}


@pytest.mark.parametrize(
    "others, said",
    [
        (
            [pod("web", 2, "n2")],
            ["a/db (priority 1): frees cpu 4, memory 8Gi", "the cheapest set found; a cheaper one is not ruled out"],
        ),
        (
            [pod("own", 50, "n2"), pod("log", 50, "n1")],
            ["no pod: 2 nodes closed to it by affinity, anti-affinity or spread with pods that may run on"],
        ),
    ],
    ids=["a pod beside the one that closes the rack is spared", "it is told what closes the rack"],
)
def test_a_gang_that_pods_on_other_nodes_keep_away(
    bayplan: Bayplan, tmp_path: Path, others: list[Json], said: list[str]
) -> None:
    group = gang_body("train", "a", 2, required="kubernetes.io/hostname")
    members = [pod(f"train-{number}", 50, gang="train", **APART) for number in range(2)]
    cluster = tmp_path / "cluster.json"
    racks = [in_one_rack("n1"), in_one_rack("n2"), pod("db", 1, "n2", labels={"app": "db"})]
    cluster.write_text(json.dumps(list_body([*racks, *others, group, *members])))
    out = bayplan("why", "podgroup/train", "-n", "a", "--preempt", cluster=cluster).out
    assert all(each in out for each in said), out
    assert "a/web" not in out


def test_a_gang_with_a_pod_that_never_preempts_is_told_which_one(bayplan: Bayplan, tmp_path: Path) -> None:
    members = [pod("train-0", 50, gang="train"), pod("train-1", 50, gang="train", preemptionPolicy="Never")]
    cluster = cluster_of(tmp_path / "cluster.json", gang_body("train", "a", 2), *members)
    result = bayplan("why", "podgroup/train", "-n", "a", "--preempt", cluster=cluster)
    assert "Would evict:  no pod: not eligible: preemptionPolicy of pod a/train-1 is Never" in result.out.splitlines()


def test_a_budget_with_an_outdated_status_is_said_to_have_one(bayplan: Bayplan, tmp_path: Path) -> None:
    changed = budget(1, {})
    changed["metadata"] |= {"generation": 2, "managedFields": []}
    changed["status"]["observedGeneration"] = 1
    result = bayplan(
        "why", "a/upf", "--preempt", cluster=cluster_of(tmp_path / "cluster.json", pod("upf", 100), changed)
    )
    forbids = "              PodDisruptionBudget a/logs forbids that: the plan is not carried out"
    until = "              until its controller has counted again, nothing may go: the status of a/logs is outdated"
    assert [line for line in result.out.splitlines() if "a/logs" in line] == [forbids, until]
    assert result.err == ""


def test_a_refusal_of_a_gang_names_its_cause_and_an_example(bayplan: Bayplan, tmp_path: Path) -> None:
    protected = [*holder("web", "n1", labels={NO_PREEMPTION: "non-preemptible"}), *holder("db", "n2", 1)]
    members = [pod(f"train-{number}", 50, gang="train") for number in range(3)]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(list_body([*protected, gang_body("train", "a", 2), *members])))
    result = bayplan("why", "podgroup/train", "-n", "a", "--preempt", cluster=cluster)
    assert f"no pod: 1 node {PROTECTED}: a/web on n1 (label {NO_PREEMPTION}: non-preemptible)" in result.out


def test_pods_that_are_passed_over_are_named_beside_the_plan(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path / "cluster.json", pod("upf", 100), budget(1, LOGS), budget(1, LOGS, "more"))
    lines = bayplan("why", "a/upf", "--preempt", cluster=cluster).out.splitlines()
    refused = "because the eviction API refuses pods under several budgets (a/logs and a/more)"
    assert f"              not evictable: a/log, {refused}" in lines
    assert "No change to the pod alone would let it in." in lines
    plan = json.loads(bayplan("why", "a/upf", "--preempt", "-o", "json", cluster=cluster).out)["preemption"]
    assert plan["notEvictable"] == [{"pod": "a/log", "budgets": ["a/logs", "a/more"]}]
    assert [each["pod"] for each in plan["victims"]] == ["a/web"]


@pytest.mark.parametrize(
    "selector, told",
    [
        (
            {"matchLabel": {"app": "log"}},
            (
                "spec.selector.matchLabel: unknown field; did you mean matchLabels?; "
                "the selector is empty without it and covers every pod of the namespace"
            ),
        ),
        (
            {"matchExpressions": [{"key": "app", "operator": "In"}]},
            'spec.selector: operator "In" of key "app" needs values; the budget covers no pod, as in the eviction API',
        ),
        (
            "app=log",
            (
                "spec.selector: must be a mapping, not a string; "
                "assumed: the budget covers every pod of the namespace and allows no disruption"
            ),
        ),
    ],
)
def test_warnings_say_what_is_wrong_with_a_budget_and_what_counts(
    bayplan: Bayplan, tmp_path: Path, selector: Any, told: str
) -> None:
    cluster = cluster_of(tmp_path / "cluster.json", pod("upf", 100), budget(1, selector))
    assert bayplan("why", "a/upf", "--preempt", cluster=cluster).err == f"warning: PodDisruptionBudget a/logs: {told}\n"


def test_the_first_budget_of_a_name_counts(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path / "cluster.json", pod("upf", 100), budget(0, LOGS), budget(5, LOGS))
    result = bayplan("why", "a/upf", "--preempt", cluster=cluster)
    assert result.err.startswith(f"warning: PodDisruptionBudget a/logs ({cluster}:")
    assert result.err.endswith("): appears twice: the first one counts\n")
    assert "a/web (priority 5): frees in zone 0: cpu 4" in result.out


@pytest.mark.parametrize(
    "version, said",
    [
        ("policy/v1beta1", "policy/v1beta1, of which bayplan reads v1"),
        ("policies.example.com/v1", "policies.example.com/v1"),
    ],
)
def test_a_budget_of_a_version_that_is_not_read_is_named(
    bayplan: Bayplan, tmp_path: Path, version: str, said: str
) -> None:
    old = {**budget(0, LOGS), "apiVersion": version}
    cluster = cluster_of(tmp_path / "cluster.json", pod("upf", 100), old)
    told = f"warning: not used: PodDisruptionBudget of {said} (1)\n"
    assert bayplan("why", "a/upf", "--preempt", cluster=cluster).err == told


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


def file_of(file: Path, *objects: Json) -> Path:
    file.write_text(json.dumps(list_body(objects)))
    return file


def test_place_plans_as_why_does(bayplan: Bayplan, tmp_path: Path) -> None:
    waiting = pod("upf", 100)
    asked = bayplan("why", "a/upf", "--preempt", cluster=cluster_of(tmp_path / "waiting.json", waiting))
    cluster, file = cluster_of(tmp_path / "cluster.json"), file_of(tmp_path / "pod.json", waiting)
    placed = bayplan("place", "-f", file, "--preempt", cluster=cluster)
    _, plan, text = placed.out.partition("Would evict:  ")
    assert placed.code == 1
    assert plan + text == "Would evict:  " + asked.out.partition("Would evict:  ")[2]
    assert "Would evict" not in bayplan("place", "-f", file, cluster=cluster).out
    document = json.loads(bayplan("place", "-f", file, "--preempt", "-o", "json", cluster=cluster).out)
    in_dump = bayplan("why", "a/upf", "--preempt", "-o", "json", cluster=tmp_path / "waiting.json")
    assert document["preemption"] == {"a/upf": json.loads(in_dump.out)["preemption"]}


def test_place_plans_for_each_gang_and_pod_by_itself_and_for_equal_pods_once(bayplan: Bayplan, tmp_path: Path) -> None:
    shape = {"spec": pod("x", 100)["spec"]}
    file = file_of(
        tmp_path / "work.json",
        gang_body("pair", "a", 2, pod=shape),
        pod("upf-0", 100),
        pod("upf-1", 100),
        pod("least", 0),
    )
    result = bayplan("place", "-f", file, "--preempt", cluster=cluster_of(tmp_path / "cluster.json"))
    plans = result.out[result.out.index("\na/pair\nWould evict:") :].strip().split("\n\n")
    assert [plan.partition("\n")[0] for plan in plans] == [
        "a/pair",
        "a/upf-0; the same for 1 equal pod, each by itself",
        "a/least",
    ]
    assert ["a/web" in plan.partition("for a place on")[0] for plan in plans] == [True, False, False]
    answer = bayplan("place", "-f", file, "--preempt", "-o", "json", cluster=tmp_path / "cluster.json")
    document = json.loads(answer.out)["preemption"]
    assert {name: [each["pod"] for each in plan["victims"]] for name, plan in document.items()} == {
        "a/pair": ["a/web", "a/log"],
        "a/upf-0": ["a/log"],
        "a/upf-1": ["a/log"],
        "a/least": [],
    }


def test_place_plans_nothing_for_what_is_held_back(bayplan: Bayplan, tmp_path: Path) -> None:
    file = file_of(tmp_path / "pod.json", pod("upf", 100, schedulingGates=[{"name": "example.com/wait"}]))
    result = bayplan("place", "-f", file, "--preempt", cluster=cluster_of(tmp_path / "cluster.json"))
    assert (result.code, "Would evict" in result.out) == (1, False)


@pytest.mark.parametrize("output", ["name", "svg"])
def test_a_plan_has_no_place_among_names_or_in_a_picture(bayplan: Bayplan, tmp_path: Path, output: str) -> None:
    file = file_of(tmp_path / "pod.json", pod("upf", 100))
    result = bayplan("place", "-f", file, "--preempt", "-o", output, cluster=cluster_of(tmp_path / "cluster.json"))
    assert (result.code, f"--preempt and -o {output} exclude each other" in result.err) == (2, True)
