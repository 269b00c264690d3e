"""Elastic workloads: what runs stays, more pods are added, fewer are cut from the end."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.compat.kueue.tas import Assignment, SliceLayer
from bayplan.compat.kueue.tas.running import truncated
from tests.unit.compat.kueue.tas.builders import HOST, placed, pods, racks

CLUSTER = racks({"b1/r1/x1": 2, "b1/r1/x2": 4, "b1/r1/x3": 6})


def on(**hosts: int) -> Assignment:
    return Assignment((HOST,), tuple(((host,), count) for host, count in hosts.items()))


@pytest.mark.parametrize(
    "count, previous, settings, expected",
    [
        pytest.param(3, on(x3=3), {"elastic": True}, {"x3": 3}, id="as many as before"),
        pytest.param(2, on(x1=1, x3=2), {"elastic": True}, {"x1": 1, "x3": 1}, id="fewer"),
        pytest.param(4, on(x3=2), {"elastic": True}, {"x1": 2, "x3": 2}, id="more: only the new ones are placed"),
        pytest.param(6, on(x1=1, x3=2), {"elastic": True}, {"x1": 1, "x2": 3, "x3": 2}, id="the old ones take room"),
        pytest.param(3, on(x9=3), {"elastic": True}, {"x2": 3}, id="the old place is gone: placed afresh"),
        pytest.param(3, on(x3=3), {}, {"x2": 3}, id="the gate is off"),
        pytest.param(0, on(x3=3), {"elastic": True}, {}, id="down to none"),
    ],
)
def test_workers(count: int, previous: Assignment, settings: dict[str, bool], expected: dict[str, int]) -> None:
    assert placed(CLUSTER, pods(count, unconstrained=True, previous=previous), **settings) == expected


def test_the_additional_pods_do_not_fit() -> None:
    found = placed(CLUSTER, pods(14, unconstrained=True, previous=on(x3=6)), elastic=True)
    assert found.startswith('topology "default" allows to fit only 6 out of 8 pod(s)')


@pytest.mark.parametrize(
    "before, expected",
    [
        pytest.param(on(x3=4), {"x2": 2, "x3": 4}, id="whole slices are added"),
        pytest.param(on(x3=3), {"x2": 4, "x3": 2}, id="a torn slice: placed afresh"),
    ],
)
def test_slices(before: Assignment, expected: dict[str, int]) -> None:
    cluster = racks({"b1/r1/x2": 4, "b1/r1/x3": 8})
    assert placed(cluster, pods(6, slices=(SliceLayer(HOST, 2),), previous=before), elastic=True) == expected


@pytest.mark.parametrize(
    "count, leader_before, expected",
    [
        pytest.param(2, on(x2=1), {"leader": {"x2": 1}, "workers": {"x3": 2}}, id="the leader stays"),
        pytest.param(4, on(x2=1), {"leader": {"x2": 1}, "workers": {"x1": 2, "x3": 2}}, id="and takes room"),
        pytest.param(4, None, {"leader": {"x2": 1}, "workers": {"x2": 2, "x3": 2}}, id="a leader is new"),
        pytest.param(4, on(x9=1), {"leader": {"x3": 1}, "workers": {"x3": 4}}, id="its place is gone: all afresh"),
        pytest.param(2, None, {"leader": {"x2": 1}, "workers": {"x2": 2}}, id="unknown place: all afresh"),
    ],
)
def test_leaders(count: int, leader_before: Assignment | None, expected: dict[str, Any]) -> None:
    leader = pods(1, name="leader", group="g", unconstrained=True, previous=leader_before)
    workers = pods(count, name="workers", group="g", unconstrained=True, previous=on(x3=2))
    assert placed(CLUSTER, leader, workers, elastic=True) == expected


def test_kept_pods_take_room_from_later_pod_sets() -> None:
    kept = pods(4, name="kept", unconstrained=True, previous=on(x2=4))
    found = placed(CLUSTER, kept, pods(4, name="new", unconstrained=True), elastic=True)
    assert found == {"kept": {"x2": 4}, "new": {"x3": 4}}


@pytest.mark.parametrize(
    "count, expected", [(5, on(x1=2, x2=3)), (2, on(x1=2)), (1, on(x1=1)), (0, on()), (9, on(x1=2, x2=4))]
)
def test_truncated(count: int, expected: Assignment) -> None:
    assert truncated(on(x1=2, x2=4), count) == expected
