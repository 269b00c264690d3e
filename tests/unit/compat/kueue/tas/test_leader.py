"""Two pod sets of one group: a leader of one pod beside its workers, in the same domain."""

from __future__ import annotations

import pytest

from bayplan.compat.kueue.tas import PodSet, SliceLayer
from tests.unit.compat.kueue.tas.builders import BLOCK, HOST, RACK, placed, pods, racks


def group(workers: int, leader_cpu: int = 1, **wishes: object) -> tuple[PodSet, PodSet]:
    leader = pods(1, name="leader", group="g", requests={"cpu": leader_cpu}, **wishes)
    return leader, pods(workers, name="workers", group="g", **wishes)


@pytest.mark.parametrize(
    "cpus, workers, leader_cpu, leader, expected",
    [
        pytest.param({"b1/r1/x1": 3, "b1/r2/x2": 4}, 2, 1, "x1", {"x1": 2}, id="room for both counts"),
        pytest.param({"b1/r1/x1": 3, "b1/r2/x2": 4}, 3, 1, "x2", {"x2": 3}, id="not for the workers alone"),
        pytest.param({"b1/r1/x1": 1, "b1/r1/x2": 2}, 2, 1, "x2", {"x1": 1, "x2": 1}, id="workers take what it leaves"),
        pytest.param({"b1/r1/x1": 2, "b1/r1/x2": 1}, 1, 2, "x1", {"x2": 1}, id="where it fits at all"),
        pytest.param({"b1/r1/x1": 5, "b1/r2/x2": 2, "b1/r2/x3": 2}, 3, 2, "x1", {"x1": 3}, id="one host for all"),
    ],
)
def test_required_rack(
    cpus: dict[str, int], workers: int, leader_cpu: int, leader: str, expected: dict[str, int]
) -> None:
    found = placed(racks(cpus), *group(workers, leader_cpu, required=RACK))
    assert found == {"leader": {leader: 1}, "workers": expected}


def test_both_get_the_reason() -> None:
    found = placed(racks({"b1/r1/x1": 3, "b1/r2/x2": 3}), *group(3, required=RACK))
    reason = 'topology "default" allows to fit only 3 out of 3 pod(s)'
    assert found == {"workers": reason, "leader": reason}


def test_preferred_workers_may_leave_the_leaders_block() -> None:
    cluster = racks({"b1/r1/x1": 3, "b2/r1/x2": 3})
    assert placed(cluster, *group(5, preferred=BLOCK)) == {"leader": {"x1": 1}, "workers": {"x1": 2, "x2": 3}}


def test_without_a_place_for_the_leader_nothing_fits() -> None:
    cluster = racks({"b1/r1/x1": 3, "b2/r1/x2": 3})
    reason = 'topology "default" doesn\'t allow to fit any of 4 pod(s)'
    assert placed(cluster, *group(4, 4, preferred=BLOCK)) == {"leader": reason, "workers": reason}


def test_a_leader_goes_where_it_costs_no_slice_if_none_is_to_spare() -> None:
    cluster = racks({"b1/r1/x1": 4, "b1/r1/x2": 4, "b1/r1/x3": 3})
    found = placed(cluster, *group(10, required=BLOCK, slices=(SliceLayer(HOST, 2),)))
    assert found == {"leader": {"x3": 1}, "workers": {"x1": 4, "x2": 4, "x3": 2}}


def test_of_equal_pod_sets_the_second_leads() -> None:
    first, second = (pods(1, name=name, group="g", required=HOST) for name in ("first", "second"))
    assert placed(racks({"b1/r1/x1": 2}), first, second) == {"first": {"x1": 1}, "second": {"x1": 1}}


@pytest.mark.parametrize(
    "counts, reason",
    [
        ((2, 4), 'pod set group "g" has a leader of 2 pods; one is allowed'),
        ((1, 1, 1), 'pod set group "g" has 3 pod sets; a leader and its workers are allowed'),
    ],
)
def test_other_groups_are_refused(counts: tuple[int, ...], reason: str) -> None:
    pod_sets = [pods(count, name=str(index), group="g", required=RACK) for index, count in enumerate(counts)]
    assert set(placed(racks({"b1/r1/x1": 9}), *pod_sets).values()) == {reason}
