"""Kept room on a node with two zones: its kubelet knows nothing of nominated pods and takes the zone that it likes
best.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.kept.kept_room import _all_find_zones
from bayplan.dispatch.preemption import LOOKS_EVERY
from bayplan.dispatch.units import PodUnit
from bayplan.scheduling.profile import PreemptionMode, default_profile
from tests.builders.objects import GI, topology, zone
from tests.builders.units import add_node, on_node, places, pod, reason

# Only zones are tight: beside a leaving victim, the node as a whole has room for the nominated pod.
CPUS, ALL_CPUS = 6, 20


def cluster_with(held: dict[str, tuple[int, int]]) -> Dispatcher:
    """A node whose pods hold so many CPUs in a zone each. The first one is unimportant, the others stay."""
    made = Dispatcher({"bayplan": replace(default_profile(), preemption=PreemptionMode.ON)})
    add_node(made, "n1", ALL_CPUS)
    publish(made, held, 0.0)
    for number, (name, (cpus, _)) in enumerate(held.items()):
        made.set_pod(on_node(pod(name, cpus, priority=1000 if number else 0), "n1"), 0.0)
    return made


def publish(scheduler: Dispatcher, held: dict[str, tuple[int, int]], now: float) -> None:
    zones = []
    for number in range(2):
        pods = [cpus for cpus, where in held.values() if where == number]
        memory = 32 * GI, 32 * GI, (32 - len(pods)) * GI
        zones.append(zone(number, {"cpu": (CPUS, CPUS, CPUS - sum(pods)), "memory": memory}))
    listed = {
        f"ml/{name}": {"cpu": {where: cpus * 1000}, "memory": {where: GI}} for name, (cpus, where) in held.items()
    }
    scheduler.reports.topology(topology(*zones, attributes={"bayplan.io/pods": json.dumps(listed)}), now)


def nominate(scheduler: Dispatcher) -> None:
    """`db` gets the room of `web`, which is all of zone 0 but one CPU."""
    scheduler.set_pod(pod("db", 5, priority=100), 1.0)
    scheduler.decide(1.0)
    assert scheduler.preempting.nominations.get(PodUnit("ml/db")) is not None


def test_a_pod_that_could_get_the_kept_zone_waits_until_the_nominated_one_runs() -> None:
    scheduler = cluster_with({"web": (5, 0), "log": (3, 1)})
    nominate(scheduler)
    scheduler.set_pod(pod("late", 3, priority=10), 2.0)
    assert reason(scheduler.decide(2.0)).startswith("waits until ml/db runs: the kubelet of n1")
    scheduler.remove_pod("ml/web", 3.0)
    assert places(scheduler.decide(3.0)) == {"ml/db": "n1"}
    scheduler.set_pod(on_node(pod("db", 5, priority=100), "n1"), 3.0)
    publish(scheduler, {"db": (5, 0), "log": (3, 1)}, 4.0)
    assert places(scheduler.decide(2.0 + LOOKS_EVERY)) == {"ml/late": "n1"}


def test_a_pod_that_leaves_enough_in_any_zone_is_bound_beside_kept_room() -> None:
    scheduler = cluster_with({"web": (5, 0), "log": (3, 1)})
    nominate(scheduler)
    scheduler.set_pod(pod("small", 1, priority=10), 2.0)
    assert places(scheduler.decide(2.0)) == {"ml/small": "n1"}


@pytest.mark.parametrize(
    "zones, pods, all_fit",
    [
        ([6, 3], [5], True),
        ([6, 3], [5, 3], False),  # 3 in the first zone leaves 3 and 3
        ([6, 3], [5, 1], True),
        ([5, 5], [5, 5], True),
        ([4, 4, 4], [2, 4, 4], True),
        ([4, 4], [2, 2, 4], False),  # one 2 in each zone
        ([4, 4, 4], [1, 1, 1, 2], True),
        ([4, 4], [5], False),
    ],
)
def test_pods_are_safe_if_each_finds_a_zone_in_any_order(zones: list[int], pods: list[int], all_fit: bool) -> None:
    left = np.array([zones], dtype=np.float64)
    assert _all_find_zones(left, [((0, cpus),) for cpus in pods]) is all_fit
