"""filter and prioritize over HTTP: names and whole objects, reasons, scores, and recorded
requests of kube-scheduler.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.extender.service import ExtenderSettings
from tests.builders.extenders import Extender, asking, asking_with_objects, running_extender
from tests.builders.objects import GPU, container, cpu_zones, node, pod, simple_pod, topology, zone

RECORDED = Path(__file__).parent / "recorded"
CPUS: dict[str, Any] = {"cpu": 8, "memory": "32Gi"}


def two_zones(name: str, *free: int, **more: Any) -> Any:
    """A node with 8 CPUs in each of two zones, of which so many are free."""
    return topology(*cpu_zones(*free, memory="32Gi"), name=name, **more)


def during(story: Callable[[Extender], Awaitable[Any]], *reports: Any, **options: Any) -> Any:
    async def run() -> Any:
        async with running_extender(*reports, **options) as extender:
            return await story(extender)

    return asyncio.run(run())


def asked(verb: str, body: object, *reports: Any, **options: Any) -> Any:
    return during(lambda extender: extender.ask(verb, body), *reports, **options)


def six_cpus(name: str = "a") -> Pod:
    return simple_pod({"cpu": 6, "memory": "1Gi"}, name, schedulerName="default-scheduler")


@pytest.mark.parametrize("others", [(), ("new",)])
def test_filter_returns_names_that_fit_and_reasons_for_the_others(others: tuple[str, ...]) -> None:
    answer = asked(
        "filter",
        asking(six_cpus(), "n3", "n1", "n2", *others),
        two_zones("n1", 8, 8),
        two_zones("n2", 4, 4),
        two_zones("n3", 2, 7),
    )
    assert set(answer["NodeNames"]) == {"n3", "n1"}
    assert answer["Nodes"] is None
    assert answer["FailedNodes"] == {"n2": "no single NUMA zone holds the request"}
    assert (answer["FailedAndUnresolvableNodes"].keys(), answer["Error"]) == (set(others), "")


def test_filter_returns_whole_nodes_as_they_came() -> None:
    objects = [
        {"metadata": {"name": name, "labels": {"odd": "Ünïcode"}}, "extra": [1.5, None]} for name in ("n1", "n2")
    ]
    answer = asked("filter", asking_with_objects(six_cpus(), *objects), two_zones("n1", 4, 4), two_zones("n2", 8, 8))
    assert answer["Nodes"]["items"] == objects[1:]
    assert answer["NodeNames"] is None


def test_the_nearest_misses_are_named_if_no_node_is_left() -> None:
    waiting = pod(container({"cpu": 1, "memory": "1Gi"}, "side"), container({"cpu": 6, "memory": "1Gi"}, "upf"))
    answer = asked("filter", asking(waiting, "n1"), two_zones("n1", 5, 4))
    assert answer["FailedNodes"] == {
        "n1": "no single NUMA zone holds the request: container upf: zone 0 has cpu 4 of 6"
    }


@pytest.mark.parametrize(
    "report, amounts, resolvable",
    [
        (two_zones("n1", 4, 4), {"cpu": 8, "memory": "1Gi"}, True),
        (two_zones("n1", 8, 8), {"cpu": 9, "memory": "1Gi"}, False),
        (two_zones("n1", 8, 8, scope="pod"), {"cpu": 9, "memory": "1Gi"}, False),
        (topology(zone(0, {**CPUS, GPU: (2, 2, 0)}), name="n1"), {"cpu": 1, "memory": "1Gi", GPU: 1}, True),
        (topology(zone(0, {**CPUS, GPU: (2, 2, 2)}), name="n1"), {"cpu": 1, "memory": "1Gi", GPU: 3}, False),
    ],
)
def test_nodes_that_no_eviction_helps_are_unresolvable(report: Any, amounts: Any, resolvable: bool) -> None:
    answer = asked("filter", asking(simple_pod(amounts), "n1"), report)
    found = ("n1" in answer["FailedNodes"], "n1" in answer["FailedAndUnresolvableNodes"])
    assert found == (resolvable, not resolvable)


def test_an_unknown_node_is_refused_and_named() -> None:
    answer = asked("filter", asking(six_cpus(), "n1", "new"), two_zones("n1", 8, 8))
    assert answer["NodeNames"] == ["n1"]
    assert answer["FailedAndUnresolvableNodes"] == {"new": "the node is not known to the extender yet"}


def test_pods_without_anything_to_align_pass_everywhere() -> None:
    best_effort = pod(container({}))
    answer = asked("filter", asking(best_effort, "n1", "n2"), two_zones("n1", 0, 0), nodes=[node("n2")])
    assert answer["NodeNames"] == ["n1", "n2"]


def test_a_node_that_only_a_replay_refuses_does_not_pass() -> None:
    # Each init container fits, but what it held is not where the next container needs it.
    waiting = pod(
        container({"cpu": 4, "memory": "1Gi"}, "app"),
        container({"cpu": 4, "memory": "1Gi"}, "second"),
        init=[container({"cpu": 6, "memory": "1Gi"}, "init")],
    )
    answer = asked("filter", asking(waiting, "n1", "n2"), two_zones("n1", 6, 3), two_zones("n2", 8, 8))
    assert answer["NodeNames"] == ["n2"]


@pytest.mark.parametrize(
    "spread, scores", [(False, {"n1": 9, "n2": 9, "gone": 0}), (True, {"n1": 10, "n2": 0, "gone": 0})]
)
def test_prioritize_scores_every_node_from_0_to_10(spread: bool, scores: dict[str, int]) -> None:
    two = simple_pod({"cpu": 2, "memory": "1Gi"})
    answer = asked(
        "prioritize",
        asking(two, "n1", "n2", "gone"),
        two_zones("n1", 8, 8),
        two_zones("n2", 3, 3),
        settings=ExtenderSettings(spread_scores=spread),
    )
    assert {each["Host"]: each["Score"] for each in answer} == scores


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_a_recorded_request_of_kube_scheduler_is_answered_for_every_node(verb: str) -> None:
    body = (RECORDED / f"nodeCacheCapable-true.{verb}.request.json").read_bytes()
    nodes = [node(f"node-{number:05d}", {"cpu": 8, "memory": "32Gi"}) for number in range(1000)]
    answer = asked(verb, body, nodes=nodes)
    names = answer["NodeNames"] if verb == "filter" else [each["Host"] for each in answer]
    assert sorted(names) == sorted(json.loads(body)["NodeNames"])
    assert len(names) == 420
