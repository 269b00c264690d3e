"""Wishes that make no sense get a reason, whatever they are; nothing ever raises."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.compat.kueue.tas import Leaf, SliceLayer, place, snapshot_of
from tests.unit.compat.kueue.tas.builders import BLOCK, HOST, RACK, placed, pods, racks

CLUSTER = racks({"b1/r1/x1": 4, "b1/r2/x2": 4})


def layers(*pairs: tuple[str, int]) -> tuple[SliceLayer, ...]:
    return tuple(SliceLayer(level, size) for level, size in pairs)


@pytest.mark.parametrize(
    "count, wish, reason",
    [
        (1, {}, "topology level not specified"),
        (1, {"required": "room"}, "no requested topology level: room"),
        (1, {"preferred": ""}, "no requested topology level: "),
        (2, {"slices": layers((RACK, 0))}, "slice topology requested, but slice size not provided"),
        (2, {"slices": layers(("room", 2))}, "no requested topology level for slices: room"),
        (
            2,
            {"required": HOST, "slices": layers((RACK, 2))},
            "podset slice topology example.com/rack is above the podset topology kubernetes.io/hostname",
        ),
        (
            4,
            {"slices": layers((RACK, 4), ("room", 2))},
            "no requested topology level for additional slice layer: room",
        ),
        (
            4,
            {"slices": layers((RACK, 4), (BLOCK, 2))},
            "additional slice layer topology example.com/block must be at a lower level than example.com/rack",
        ),
        (
            4,
            {"slices": layers((RACK, 4), (HOST, 3))},
            "additional slice layer size 3 must evenly divide parent layer size 4",
        ),
        (
            4,
            {"slices": layers((RACK, 4), (HOST, 0))},
            "additional slice layer size 0 must evenly divide parent layer size 4",
        ),
        (3, {"slices": layers((RACK, 2))}, "pod count 3 is not a multiple of the slice size 2"),
        (-1, {"required": RACK}, "pod count -1 is below zero"),
    ],
)
def test_wishes(count: int, wish: dict[str, Any], reason: str) -> None:
    assert placed(CLUSTER, pods(count, **wish)) == reason


def test_no_pods_need_no_place() -> None:
    assert placed(CLUSTER, pods(0, required=RACK)) == {}
    assert placed(CLUSTER, pods(0, preferred=RACK), balanced=True) == {}


@pytest.mark.parametrize("wish", [{"required": RACK}, {"preferred": RACK}, {"unconstrained": True}, {"implied": True}])
def test_no_leaves(wish: dict[str, Any]) -> None:
    empty = snapshot_of("default", (RACK, HOST), [])
    level = RACK if RACK in wish.values() else HOST
    assert placed(empty, pods(1, **wish)) == f"no topology domains at level: {level}"
    assert placed(empty, pods(1, **wish), balanced=True) == f"no topology domains at level: {level}"


@pytest.mark.parametrize("wish", [{"required": RACK}, {"unconstrained": True}, {"implied": True}, {}])
def test_no_levels(wish: dict[str, Any]) -> None:
    found = placed(snapshot_of("default", (), []), pods(1, **wish))
    assert found in ("no requested topology level: example.com/rack", "topology level not specified")


def test_nodes_that_lack_a_level_are_no_part_of_the_topology() -> None:
    cluster = snapshot_of(
        "default", (RACK, HOST), [Leaf(("x1",), {"cpu": 9, "pods": 9}), Leaf(("r1", "x2"), {"cpu": 1, "pods": 9})]
    )
    assert placed(cluster, pods(2, required=RACK)) == 'topology "default" allows to fit only 1 out of 2 pod(s)'


def test_no_pod_sets() -> None:
    assert place(CLUSTER, []) == {}


def test_requests_of_nothing_are_limited_by_the_number_of_pods() -> None:
    found = placed(CLUSTER, pods(201, preferred=BLOCK, requests={"cpu": 0}))
    assert found == 'topology "default" allows to fit only 200 out of 201 pod(s)'
