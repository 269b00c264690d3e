"""Gangs with claims: volumes are counted like devices, and all of a gang find theirs before any is taken."""

from __future__ import annotations

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import gang_scheduler
from tests.builders.objects import node, simple_pod
from tests.builders.storage import HOSTNAME, capacity, claim, csi_driver, storage_class, struct, uses, volume

CSI = "csi.example.com"


def racks(volumes: dict[str, int]) -> GangScheduler:
    """Two racks of two nodes with room for eight pods each, and so many free local volumes."""
    state = ClusterState()
    for number, rack in enumerate(("r1", "r1", "r2", "r2"), start=1):
        state.set_node(node(f"n{number}", {"cpu": 8}, labels={"rack": rack, HOSTNAME: f"n{number}"}))
    state.volumes.set(struct(storage_class()))
    for name, count in volumes.items():
        for number in range(count):
            state.volumes.set(struct(volume(f"{name}-{number}", on=name)))
    return gang_scheduler(state, "rack")


def members(scheduler: GangScheduler, number: int, cls: str = "local") -> tuple[Pod, ...]:
    """Pods with a claim each."""
    for rank in range(number):
        scheduler.state.volumes.set(struct(claim(f"data-{rank}", cls=cls)))
    return tuple(simple_pod({"cpu": 1}, f"p-{rank}", volumes=uses(f"data-{rank}")) for rank in range(number))


def gang(pods: tuple[Pod, ...]) -> Gang:
    return Gang("ml/gang", Group("", pods, required="rack"), "network", False)


@pytest.mark.parametrize(
    "volumes, rack",
    [
        ({"n1": 2, "n2": 1, "n3": 2, "n4": 2}, {"n3", "n4"}),
        ({"n1": 4, "n3": 2, "n4": 1}, {"n1"}),
    ],
    ids=["the rack with enough volumes", "one node has them all"],
)
def test_a_gang_goes_where_its_volumes_are(volumes: dict[str, int], rack: set[str]) -> None:
    scheduler = racks(volumes)
    asked = gang(members(scheduler, 4))
    decision = schedule_gang(scheduler, asked)
    assert {seat.node for seat in decision.seats} == rack
    taken = assume_gang(scheduler, asked, decision)
    assert taken is not None
    found = [name for each in taken for _, name in each.volumes.bindings]
    assert len(set(found)) == 4
    assert all(name.startswith(each.node or "-") for each in taken for _, name in each.volumes.bindings)


def test_a_gang_without_enough_volumes_in_a_rack_takes_none() -> None:
    scheduler = racks({"n1": 2, "n2": 1, "n3": 2, "n4": 1})
    decision = schedule_gang(scheduler, gang(members(scheduler, 4)))
    assert (decision.status, list(decision.seats)) == (Status.INFEASIBLE, [])


def test_members_with_bound_volumes_sit_where_these_are() -> None:
    scheduler = racks({})
    places = ["n3", "n4", "n4"]
    for rank, name in enumerate(places):
        scheduler.state.volumes.set(struct(volume(f"pv-{rank}", on=name, claim=f"data-{rank}")))
        scheduler.state.volumes.set(struct(claim(f"data-{rank}", volume=f"pv-{rank}")))
    pods = tuple(simple_pod({"cpu": 1}, f"p-{rank}", volumes=uses(f"data-{rank}")) for rank in range(3))
    decision = schedule_gang(scheduler, gang(pods))
    assert {seat.pod: seat.node for seat in decision.seats} == {
        f"default/p-{rank}": name for rank, name in enumerate(places)
    }


def test_what_a_driver_can_provision_on_a_node_is_divided_among_members() -> None:
    scheduler = racks({})
    volumes = scheduler.state.volumes
    volumes.set(struct(storage_class("fast", CSI)))
    volumes.set(struct(csi_driver(CSI)))
    for name, size in {"n1": "20Gi", "n2": "10Gi", "n3": "30Gi", "n4": "10Gi"}.items():
        volumes.set(struct(capacity(name, "fast", size, **{"kubernetes.io__hostname": name})))
    decision = schedule_gang(scheduler, gang(members(scheduler, 4, "fast")))
    assert sorted(seat.node for seat in decision.seats) == ["n3", "n3", "n3", "n4"]
