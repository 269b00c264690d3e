"""Nodes whose reports have amounts alone, as NFD's topology updater writes them: which pod is in which zone follows
from arithmetic, or is not known.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import Json, list_body, node_body, pod_body, report_body
from tests.builders.objects import GPU, zone
from tests.unit.cli.conftest import Bayplan

GPUS_OF_A_ZONE = 4


def running(name: str, gpus: int, **more: Any) -> Json:
    amounts: Json = {"cpu": 8 * gpus, "memory": "1Gi", GPU: gpus}
    return pod_body(name, "ml", amounts, phase="Running", nodeName="n1", **{"priority": 10, **more})


def cluster_of(folder: Path, used: tuple[int, ...], pods: list[Json], gpus: int, policy: str = "restricted") -> Path:
    """A node with so many GPUs in use by zone, 8 CPUs with each, and a pod that waits."""
    total, cpus = GPUS_OF_A_ZONE, 8 * GPUS_OF_A_ZONE
    zones = [
        zone(at, {"cpu": (cpus, cpus, cpus - 8 * each), GPU: (total, total, total - each)})
        for at, each in enumerate(used)
    ]
    waiting = pod_body("solo", "ml", {"cpu": 8 * gpus, "memory": "1Gi", GPU: gpus}, phase="Pending", priority=100)
    everything: Json = {"cpu": cpus * len(used), "memory": "64Gi", GPU: total * len(used)}
    items = [node_body("n1", everything), report_body("n1", *zones, policy=policy), *pods, waiting]
    file = folder / "cluster.json"
    file.write_text(json.dumps(list_body(items)))
    return file


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
@pytest.mark.parametrize(
    "used, pods, gpus, victims",
    [
        # Whichever of two equal pods goes, its zone is free.
        ((1, 1), {"a": 1, "b": 1}, 4, ["a"]),
        # Only one zone has room for the larger pod: the other is in the other zone.
        ((1, 3), {"a": 1, "b": 3}, 4, ["a"]),
        # One in each zone, or two in one: only all three are sure to free a zone.
        ((2, 2), {"a": 2, "b": 1, "c": 1}, 4, ["a"]),
        ((2, 2), {"a": 1, "b": 1, "c": 1, "d": 1}, 4, ["a", "b", "c"]),
        # Uneven, and four zones.
        ((3, 4), {"a": 3, "b": 2, "c": 2}, 2, ["a"]),
        ((4, 4, 4, 4), {"a": 4, "b": 4, "c": 4, "d": 4}, 4, ["a"]),
        ((4, 4, 4, 4), {f"p{number:02}": 1 for number in range(16)}, 1, ["p00"]),
    ],
)
def test_pods_are_evicted_that_make_room_wherever_they_are(
    bayplan: Bayplan,
    tmp_path: Path,
    used: tuple[int, ...],
    pods: dict[str, int],
    gpus: int,
    victims: list[str],
    policy: str,
) -> None:
    cluster = cluster_of(tmp_path, used, [running(*each) for each in pods.items()], gpus, policy)
    plan = json.loads(bayplan("why", "ml/solo", "--preempt", "-o", "json", cluster=cluster).out)["preemption"]
    assert ([each["pod"] for each in plan["victims"]], plan["proven"]) == ([f"ml/{each}" for each in victims], True)


def test_a_plan_says_that_the_zones_of_its_victims_are_not_known(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path, (1, 1), [running("a", 1), running("b", 1)], 4)
    out = bayplan("why", "ml/solo", "--preempt", cluster=cluster).out
    assert f"ml/a (priority 10): frees in a zone that is not reported: cpu 8, {GPU} 1; on the node: memory 1Gi\n" in out
    assert "for a place on n1, whichever zones its victims are in; no cheaper set would do\n" in out


@pytest.mark.parametrize(
    "used, pods, gpus, cause",
    [
        # More is in use than the pods hold: another pod may be in either zone.
        ((1, 1), [("a", 1, 10)], 4, "zonesUnknown"),
        # The large pod must stay, and may share its zone with either of the small ones.
        ((3, 3), [("a", 2, 500), ("b", 1, 500), ("c", 1, 10), ("d", 2, 10)], 4, "zonesUnknown"),
        ((1, 1), [("a", 1, 500), ("b", 1, 500)], 4, "priority"),
        ((1, 1), [("a", 1, 10), ("b", 1, 10)], 5, "noRoom"),
        ((1, 1), [("a", 1, 10), ("b", 1, 10)], 9, "noRoom"),
    ],
)
def test_why_no_pods_are_evicted_for_it(
    bayplan: Bayplan, tmp_path: Path, used: tuple[int, ...], pods: list[tuple[str, int, int]], gpus: int, cause: str
) -> None:
    running_pods = [running(name, held, priority=priority) for name, held, priority in pods]
    cluster = cluster_of(tmp_path, used, running_pods, gpus, "single-numa-node")
    found = json.loads(bayplan("why", "ml/solo", "--preempt", "-o", "json", cluster=cluster).out)["preemption"]
    assert [each["cause"] for each in found["causes"]] == [cause]
    text = "1 node whose pods' zones are not reported, so that no set of them is sure to make room: n1"
    assert (text in bayplan("why", "ml/solo", "--preempt", cluster=cluster).out) is (cause == "zonesUnknown")


def test_the_holder_of_what_is_missing_is_named_where_amounts_tell_its_zone(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path, (1, 3), [running("a", 1), running("b", 3)], 4)
    out = bayplan("why", "ml/solo", cluster=cluster).out
    assert f"zone 0 has {GPU} 3 of 4  (ml/a holds 1 there)" in out


@pytest.mark.parametrize(
    "used, pods, zones",
    [
        ((1, 3), {"a": 1, "b": 3}, {"a": [0], "b": [1]}),
        ((0, 2), {"a": 1, "b": 1}, {"a": [1], "b": [1]}),
        ((4, 4), {"a": 8}, {"a": [0, 1]}),
        ((1, 1), {"a": 1, "b": 1}, {}),
        # A report that is older than a pod, or younger than the end of one, tells nothing.
        ((1, 3), {"a": 1}, {}),
        ((0, 1), {"a": 1, "b": 2}, {}),
    ],
)
def test_a_map_has_the_pods_whose_zones_amounts_tell(
    bayplan: Bayplan, tmp_path: Path, used: tuple[int, ...], pods: dict[str, int], zones: dict[str, list[int]]
) -> None:
    cluster = cluster_of(tmp_path, used, [running(*each) for each in pods.items()], 4)
    drawn = json.loads(bayplan("numa", "n1", "-o", "json", cluster=cluster).out)
    found = {pod["pod"][3:]: pod["zones"] for zone in drawn["zones"] for pod in zone["pods"]}
    assert found == zones
    assert drawn["podsWithoutReportedZone"] == [f"ml/{name}" for name in pods if name not in zones]
    hidden = [int(zone["ownersNotReported"].get(GPU, 0)) for zone in drawn["zones"]]
    known = [sum(pods[name] for name, there in zones.items() if at in there) for at in range(len(used))]
    assert hidden == [max(each - of_pods, 0) for each, of_pods in zip(used, known, strict=True)]


def test_a_zone_in_use_is_never_drawn_without_owner(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path, (1, 1), [running("a", 1), running("b", 1)], 4)
    out = bayplan("numa", "n1", cluster=cluster).out
    assert out.count("• owner not reported") == 2
    assert "owner not reported" in bayplan("numa", "n1", "-o", "svg", cluster=cluster).out
