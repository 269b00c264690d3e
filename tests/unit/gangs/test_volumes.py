"""Gangs with claims: volumes are counted like devices, and all of a gang find theirs before any is taken."""

from __future__ import annotations

from collections import Counter

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.relations.layouts import MOST_LAYOUTS
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.decision import Decision
from tests.builders.gangs import gang_scheduler
from tests.builders.objects import node, simple_pod
from tests.builders.storage import (
    HOSTNAME,
    Json,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    struct,
    uses,
    volume,
)

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


# -- claims that several members share --------------------------------------------------------------------------------


def sharing(number: int, *claims: str, name: str = "p", cpu: int = 1) -> tuple[Pod, ...]:
    """Pods that all use the same claims."""
    return tuple(simple_pod({"cpu": cpu}, f"{name}-{rank}", volumes=uses(*claims)) for rank in range(number))


def with_objects(scheduler: GangScheduler, *bodies: Json) -> GangScheduler:
    for body in bodies:
        scheduler.state.volumes.set(struct(body))
    return scheduler


def seated(scheduler: GangScheduler, *groups: tuple[Pod, ...]) -> list[Decision]:
    """Where the pods of a gang are once they have their seats; empty if there is no place."""
    inner = tuple(Group(f"g{number}", pods) for number, pods in enumerate(groups))
    asked = Gang("ml/gang", Group("", groups=inner) if len(inner) > 1 else Group("", groups[0]))
    decision = schedule_gang(scheduler, asked)
    taken = assume_gang(scheduler, asked, decision) if decision.placed else []
    assert taken is not None, "the search found seats that cannot be taken"
    return taken


def nodes_of(taken: list[Decision]) -> list[str]:
    return sorted(each.node or "" for each in taken)


RWX = ("ReadWriteMany",)
FAST = storage_class("fast", CSI)
ZONAL = storage_class(
    "fast", CSI, allowedTopologies=[{"matchLabelExpressions": [{"key": "rack", "values": ["r1", "r2"]}]}]
)


@pytest.mark.parametrize(
    "bodies, number, nodes",
    [
        ([claim(), volume(on="n2")], 8, {"n2"}),
        ([claim(), volume(on="n2")], 9, set()),
        ([claim(), volume("a", on="n1"), volume("b", on="n2")], 9, set()),
        ([claim(modes=RWX), volume(modes=RWX)], 32, {"n1", "n2", "n3", "n4"}),
        ([claim(modes=RWX), volume("a", "10Gi", modes=RWX, on="n1"), volume("b", "20Gi", modes=RWX)], 9, None),
        ([claim(cls="fast"), FAST], 32, {"n1", "n2", "n3", "n4"}),
        ([claim(cls="fast"), ZONAL], 16, {"n1", "n2"}),
        ([claim(cls="fast"), ZONAL], 17, set()),
        ([claim(cls="fast"), FAST, csi_node("n1", CSI, 9, topology=["rack"])], 17, set()),
        ([claim(cls="fast"), FAST, csi_node("n1", CSI, 9)], 17, None),
        ([claim(volume="pv"), volume(claim="data", csi={"driver": CSI}), csi_node("n1", CSI, 1)], 32, None),
    ],
    ids=[
        "a local volume holds them to its node",
        "its node is too small",
        "only one of two volumes is theirs",
        "a volume that every node reaches",
        "a smaller volume reaches too few nodes",
        "provisioned for any node",
        "provisioned for one rack",
        "a rack is too small",
        "the driver's labels make the segments",
        "a driver without labels",
        "one attachment for all of a node",
    ],
)
def test_members_that_share_a_claim_go_where_its_one_volume_can_be(
    bodies: list[Json], number: int, nodes: set[str] | None
) -> None:
    scheduler = with_objects(racks({}), *bodies)
    found = nodes_of(seated(scheduler, sharing(number, "data")))
    assert len(found) == (0 if nodes == set() else number)
    assert nodes is None or set(found) in (nodes, {"n3", "n4"} if nodes == {"n1", "n2"} else nodes)


def test_the_volume_of_a_shared_claim_is_one_choice_for_all() -> None:
    scheduler = with_objects(
        racks({}), claim(modes=RWX), volume("a", "10Gi", modes=RWX, on="n1"), volume("b", "20Gi", modes=RWX)
    )
    taken = seated(scheduler, sharing(9, "data"))
    assert {each.volumes.bindings for each in taken} == {(("default/data", "b"),)}


def test_a_shared_claim_is_provisioned_for_one_of_the_nodes_and_used_on_all() -> None:
    scheduler = with_objects(racks({}), claim(cls="fast"), FAST)
    taken = seated(scheduler, sharing(9, "data"))
    assert {each.volumes.provisions for each in taken} == {("default/data",)}
    assert scheduler.state.volumes.provisioned_for("default/data") == taken[0].node
    for each in taken[1:]:
        scheduler.state.forget(each.pod)
    assert scheduler.state.volumes.provisioned_for("default/data") == taken[0].node
    scheduler.state.forget(taken[0].pod)
    assert scheduler.state.volumes.provisioned_for("default/data") == ""


def test_two_groups_that_share_a_claim_go_where_its_volume_is() -> None:
    scheduler = with_objects(racks({}), claim(), volume(on="n3"))
    taken = seated(scheduler, sharing(2, "data", name="driver", cpu=2), sharing(4, "data", name="worker"))
    assert nodes_of(taken) == ["n3"] * 6


def test_two_shared_claims_take_two_volumes() -> None:
    bodies = (claim("a"), claim("b"), volume("pv-1", on="n1"), volume("pv-2", on="n2"))
    scheduler = with_objects(racks({}), *bodies)
    assert nodes_of(seated(scheduler, sharing(3, "a", name="x"), sharing(3, "b", name="y"))) == ["n1"] * 3 + ["n2"] * 3
    scheduler = with_objects(racks({}), *bodies[:3])
    assert seated(scheduler, sharing(3, "a", name="x"), sharing(3, "b", name="y")) == []


@pytest.mark.parametrize("volumes, fit", [({"n1": 4, "n2": 3}, True), ({"n1": 3, "n2": 3}, False)])
def test_own_claims_count_beside_a_shared_one(volumes: dict[str, int], *, fit: bool) -> None:
    scheduler = with_objects(racks(volumes), claim("all"))
    members(scheduler, 3)
    pods = tuple(simple_pod({"cpu": 1}, f"p-{rank}", volumes=uses(f"data-{rank}", "all")) for rank in range(3))
    assert nodes_of(seated(scheduler, pods)) == (["n1"] * 3 if fit else [])


def test_a_claim_for_one_pod_cannot_be_shared() -> None:
    once = claim(modes=("ReadWriteOncePod",))
    scheduler = with_objects(racks({}), once, volume(on="n1", modes=("ReadWriteOncePod",)))
    decision = schedule_gang(scheduler, Gang("ml/gang", Group("", sharing(2, "data"))))
    assert decision.problem == (
        "2 of its pods use claim default/data, whose access mode ReadWriteOncePod allows one; give each its own"
    )
    alone = Gang("ml/alone", Group("", sharing(2, "data"), minimum=1))
    assert len(schedule_gang(scheduler, alone).seats) == 1


def test_the_reason_names_the_claim_that_holds_members_together() -> None:
    scheduler = with_objects(racks({}), claim(), volume("a", on="n1"), volume("b", on="n2"))
    decision = schedule_gang(scheduler, Gang("ml/gang", Group("", sharing(9, "data"))))
    assert (decision.status, decision.bound) == (
        Status.INFEASIBLE,
        "no volume for claim default/data is where all pods that share it have room",
    )


# -- what nodes attach ------------------------------------------------------------------------------------------------


def limited(limits: dict[str, int], *bodies: Json, migrated: str = "") -> GangScheduler:
    """Two racks whose nodes attach so many volumes of a driver."""
    at_nodes = (csi_node(name, CSI, limit, migrated) for name, limit in limits.items())
    return with_objects(racks({}), storage_class("fast", CSI), *at_nodes, *bodies)


def bound(name: str) -> tuple[Json, Json]:
    """A claim with a volume that every node reaches."""
    return claim(name, cls="fast", volume=f"pv-{name}"), volume(f"pv-{name}", claim=name, csi={"driver": CSI})


EVERYWHERE = {"n1": 1, "n2": 1, "n3": 1, "n4": 1}


@pytest.mark.parametrize(
    "limits, bodies, nodes",
    [
        (EVERYWHERE, (claim("a", cls="fast"), claim("b", cls="fast")), 2),
        (EVERYWHERE, (*bound("a"), *bound("b")), 2),
        ({"n1": 2, "n2": 0, "n3": 0, "n4": 1}, (*bound("a"), *bound("b")), 1),
        ({"n1": 1, "n2": 0, "n3": 0, "n4": 0}, (*bound("a"), *bound("b")), 0),
    ],
    ids=["provisioned", "bound", "one node has room for both", "one slot for two claims"],
)
def test_groups_with_shared_claims_divide_what_nodes_attach(
    limits: dict[str, int], bodies: tuple[Json, ...], nodes: int
) -> None:
    scheduler = limited(limits, *bodies)
    groups = sharing(2, "a", name="x"), sharing(2, "b", name="y")
    assert len(set(nodes_of(seated(scheduler, *groups)))) == nodes
    if not nodes:
        asked = Gang("ml/gang", Group("", groups=(Group("x", groups[0]), Group("y", groups[1]))))
        assert schedule_gang(scheduler, asked).status is Status.INFEASIBLE


def test_a_claim_that_two_groups_share_is_attached_once() -> None:
    scheduler = limited({"n1": 1, "n2": 0, "n3": 0, "n4": 0}, *bound("a"))
    assert nodes_of(seated(scheduler, sharing(2, "a", name="x", cpu=2), sharing(2, "a", name="y"))) == ["n1"] * 4


@pytest.mark.parametrize("limit, fit", [(3, True), (2, False)])
def test_own_and_shared_claims_of_two_groups_count_together(limit: int, *, fit: bool) -> None:
    scheduler = limited({"n1": limit, "n2": 0, "n3": 1, "n4": 0}, *bound("all"))
    large = tuple(simple_pod({"cpu": 2}, f"p-{rank}", volumes=uses(f"data-{rank}", "all")) for rank in range(2))
    members(scheduler, 2, "fast")
    found = nodes_of(seated(scheduler, large, sharing(2, "all", name="y")))
    assert found == (["n1"] * 4 if fit else []), found


def test_own_claims_of_two_groups_count_together() -> None:
    scheduler = limited({"n1": 3, "n2": 2, "n3": 3, "n4": 0})
    small = members(scheduler, 8, "fast")
    large = tuple(simple_pod({"cpu": 2}, f"p-{rank}", volumes=uses(f"data-{rank}")) for rank in range(4, 8))
    at = Counter(nodes_of(seated(scheduler, small[:4], large)))
    assert at == {"n1": 3, "n2": 2, "n3": 3}


@pytest.mark.parametrize(
    "volumes, at", [({"n1": 3, "n2": 1}, {"n1": 3, "n2": 1}), ({"n1": 1, "n3": 2}, {})], ids=["enough", "too few"]
)
def test_two_groups_divide_free_volumes(volumes: dict[str, int], at: dict[str, int]) -> None:
    scheduler = racks(volumes)
    small = members(scheduler, 4)
    large = tuple(simple_pod({"cpu": 2}, f"p-{rank}", volumes=uses(f"data-{rank}")) for rank in (2, 3))
    assert Counter(nodes_of(seated(scheduler, small[:2], large))) == at


def test_the_reason_counts_the_volumes_of_all_groups() -> None:
    scheduler = racks({"n1": 2, "n2": 1})
    small = members(scheduler, 4)
    large = tuple(simple_pod({"cpu": 2}, f"p-{rank}", volumes=uses(f"data-{rank}")) for rank in (2, 3))
    decision = schedule_gang(scheduler, Gang("ml/gang", Group("", groups=(Group("a", small[:2]), Group("b", large)))))
    assert (decision.status, decision.bound) == (
        Status.INFEASIBLE,
        "the gang needs 4 volumes of class local, but can get at most 3",
    )


def test_two_groups_divide_what_a_driver_can_provision() -> None:
    scheduler = with_objects(racks({}), storage_class("fast", CSI), csi_driver(CSI))
    for name, size in {"n1": "20Gi", "n2": "0", "n3": "10Gi", "n4": "10Gi"}.items():
        scheduler.state.volumes.set(struct(capacity(name, "fast", size, **{"kubernetes.io__hostname": name})))
    small = members(scheduler, 4, "fast")
    large = tuple(simple_pod({"cpu": 2}, f"p-{rank}", volumes=uses(f"data-{rank}")) for rank in (2, 3))
    assert nodes_of(seated(scheduler, small[:2], large)) == ["n1", "n1", "n3", "n4"]


def test_the_place_of_a_shared_volume_is_the_best_for_the_whole_gang() -> None:
    """Rack r1 holds only those that share; r2 holds one more pod beside them."""
    scheduler = with_objects(racks({}), claim(cls="fast"), ZONAL)
    scheduler.state.set_pod(simple_pod({"cpu": 1}, "other", nodeName="n1"))
    scheduler.state.set_pod(simple_pod({"cpu": 7}, "another", nodeName="n2"))
    pods = (sharing(8, "data"), (simple_pod({"cpu": 1}, "chief"),))
    inner = tuple(Group(f"g{number}", each) for number, each in enumerate(pods))
    decision = schedule_gang(scheduler, Gang("ml/gang", Group("", groups=inner), "network"))
    assert decision.status is Status.OPTIMAL
    assert {seat.path[0] for seat in decision.seats} == {"r2"}


def test_a_place_is_not_called_the_best_before_all_of_them_were_searched() -> None:
    state = ClusterState()
    for number in range(MOST_LAYOUTS + 1):
        state.set_node(node(f"n{number}", {"cpu": 8}, labels={"rack": f"r{number}", HOSTNAME: f"n{number}"}))
    scheduler = with_objects(
        gang_scheduler(state, "rack"), claim(cls="fast"), FAST, csi_node("n0", CSI, 9, topology=["rack"])
    )
    inner = Group("a", sharing(8, "data")), Group("b", (simple_pod({"cpu": 1}, "chief"),))
    decision = schedule_gang(scheduler, Gang("ml/gang", Group("", groups=inner), "network"))
    assert decision.status is Status.FEASIBLE
    assert decision.bound.endswith("; not all places that satisfy one volume for claim default/data were compared")
