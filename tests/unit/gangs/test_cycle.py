"""Gangs from objects to seats: ranks in the order of the tree, what is given up and in which
order, and all or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group, Patience, Segments
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.clusters import cluster, free_on
from tests.builders.gangs import gang_scheduler, gpu_pods
from tests.builders.objects import GPU, node, simple_pod, topology, zone

HOSTNAME = "kubernetes.io/hostname"


def racks(*lines: str) -> GangScheduler:
    """`b1/r1: 4 2` is a rack with two nodes that have four GPUs and two; nodes are n1, n2, ... as they are written."""
    state = ClusterState()
    for line in lines:
        path, _, gpus = line.partition(":")
        block, _, rack = path.partition("/")
        for number in gpus.split():
            labels = {"block": block, "rack": rack}
            state.set_node(node(f"n{len(state.rows) + 1}", {GPU: int(number), "cpu": 64}, labels=labels))
    return scheduler_of(state)


def scheduler_of(state: ClusterState) -> GangScheduler:
    return gang_scheduler(state, "block", "rack")


def running(*nodes: str) -> tuple[Pod, ...]:
    return tuple(simple_pod({GPU: 0}, f"runs-{rank}", nodeName=name) for rank, name in enumerate(nodes))


def decide(scheduler: GangScheduler, root: Group, *, spread: bool = False) -> GangDecision:
    return schedule_gang(scheduler, Gang("ml/gang", root, "network", spread))


def nodes(decision: GangDecision) -> list[str]:
    return [seat.node for seat in decision.seats]


# -- seats
# -------------------------------------------------------------------------------------------------------------------


def test_neighbours_in_rank_are_neighbours_in_the_tree() -> None:
    scheduler = racks("b1/r10: 2", "b1/r2: 2", "b2/r1: 2")
    decision = decide(scheduler, Group(pods=gpu_pods(6)))
    assert [(seat.pod, seat.rank, seat.path) for seat in decision.seats] == [
        ("default/p-0", 0, ("b1", "r2", "n2")),
        ("default/p-1", 1, ("b1", "r2", "n2")),
        ("default/p-2", 2, ("b1", "r10", "n1")),
        ("default/p-3", 3, ("b1", "r10", "n1")),
        ("default/p-4", 4, ("b2", "r1", "n3")),
        ("default/p-5", 5, ("b2", "r1", "n3")),
    ]
    assert {seat.segment for seat in decision.seats} == {None}


def test_groups_are_named_and_ranks_count_through_all_of_them() -> None:
    root = Group(groups=(Group("a", gpu_pods(2, "a"), required="rack"), Group("b", gpu_pods(2, "b"), required="rack")))
    decision = decide(racks("b1/r1: 2", "b1/r2: 2"), root)
    assert [(seat.group, seat.rank) for seat in decision.seats] == [("a", 0), ("a", 1), ("b", 2), ("b", 3)]


@pytest.mark.parametrize(
    "gpus",
    [(1, 1, 1, 1, 1, 1), (1, 1, 2, 1, 1, 1)],
    ids=["equal pods, counted", "different pods, searched"],
)
def test_segments_are_numbered_by_rank_and_stay_in_their_rack(gpus: Sequence[int]) -> None:
    members = tuple(simple_pod({GPU: number}, f"p-{rank}") for rank, number in enumerate(gpus))
    decision = decide(racks("b1/r1: 3", "b1/r2: 3", "b1/r3: 2"), Group(pods=members, segments=(Segments(2, "rack"),)))
    by_rank = sorted(decision.seats, key=lambda seat: seat.rank)
    assert [seat.segment for seat in by_rank] == [0, 0, 1, 1, 2, 2]
    for segment in range(3):
        assert len({seat.path[:2] for seat in by_rank if seat.segment == segment}) == 1


def test_segments_of_groups_inside() -> None:
    inner = Group("a", gpu_pods(4, "a"), segments=(Segments(2, "rack", apart=True),))
    decision = decide(racks("b1/r1: 4", "b1/r2: 2"), Group(groups=(inner, Group("b", gpu_pods(1, "b")))))
    assert [(seat.path[1], seat.segment) for seat in decision.seats if seat.group == "a"] in (
        [("r1", 0), ("r1", 0), ("r2", 1), ("r2", 1)],
        [("r2", 0), ("r2", 0), ("r1", 1), ("r1", 1)],
    )


def test_spread_uses_every_node_of_the_rack() -> None:
    assert nodes(decide(racks("b1/r1: 4 4 4"), Group(pods=gpu_pods(3), required="rack"))) == ["n1"] * 3
    assert nodes(decide(racks("b1/r1: 4 4 4"), Group(pods=gpu_pods(3), required="rack"), spread=True)) == [
        "n1",
        "n2",
        "n3",
    ]


# -- what is asked for
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "root, used",
    [
        (Group(pods=gpu_pods(4), required="rack"), None),
        (Group(pods=gpu_pods(6), required="block", preferred="rack"), 2),
        (Group(pods=gpu_pods(4), preferred="rack"), 1),
        (Group(pods=gpu_pods(4), preferred=HOSTNAME), 2),
    ],
)
def test_preferred_domains_are_counted(root: Group, used: int | None) -> None:
    decision = decide(racks("b1/r1: 2 2", "b1/r2: 3"), root)
    assert (decision.status, decision.preferred_domains) == (Status.OPTIMAL, used)


def test_members_that_run_hold_the_others_in_their_rack() -> None:
    scheduler = racks("b1/r1: 4", "b1/r2: 2")
    assert nodes(decide(scheduler, Group(pods=gpu_pods(2), required="rack", running=running("n1")))) == ["n1", "n1"]
    full = decide(scheduler, Group(pods=gpu_pods(3), required="rack", running=running("n2")))
    assert (full.status, full.placed) == (Status.INFEASIBLE, False)
    assert full.bound == "the gang needs 3 slots in b1/r2, where members run, but can get at most 2"


def test_members_that_run_draw_the_others_near() -> None:
    decision = decide(racks("b1/r1: 2", "b1/r2: 9"), Group(pods=gpu_pods(2), preferred="rack", running=running("n2")))
    assert (nodes(decision), decision.preferred_domains) == (["n2", "n2"], 1)


def test_members_that_run_in_two_racks_cannot_be_in_one() -> None:
    root = Group(groups=(Group("a", gpu_pods(1), required="rack", running=running("n1", "n2")),))
    decision = decide(racks("b1/r1: 2", "b1/r2: 2"), root)
    assert not decision.placed
    expected = 'group "a": members run in b1/r1 and in b1/r2, but must share one rack'
    assert decision.problem == decision.bound == expected


def test_nodes_that_a_filter_refuses_have_no_slots() -> None:
    scheduler = racks("b1/r1: 4", "b1/r2: 2")
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    scheduler.state.set_node(node("n1", {GPU: 4}, labels={"block": "b1", "rack": "r1"}, taints=[taint]))
    assert nodes(decide(scheduler, Group(pods=gpu_pods(2), required="rack"))) == ["n2", "n2"]


def test_a_pod_that_waits_for_a_gate_holds_the_gang_back() -> None:
    gated = simple_pod({GPU: 1}, "late", schedulingGates=[{"name": "quota"}])
    decision = decide(racks("b1/r1: 4"), Group(pods=(*gpu_pods(1), gated)))
    assert (decision.placed, decision.problem) == (False, "pod default/late waits for scheduling gate quota")


# -- what is given up
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room, seated", [("9", 6), ("6", 6), ("5", 5), ("3", 3), ("2", 0)])
def test_members_beyond_the_minimum_join_if_they_can(room: str, seated: int) -> None:
    decision = decide(racks(f"b1/r1: {room}"), Group(pods=gpu_pods(6), minimum=3))
    assert len(decision.seats) == seated
    if seated:
        assert decision.left_out == tuple(f"default/p-{rank}" for rank in range(seated, 6))
    else:
        assert decision.bound == "the gang needs 3 slots, but can get at most 2"


def test_groups_grow_in_their_order_each_as_far_as_it_can() -> None:
    # Group a would take three more on one node, where there is room for one; b takes what it wants elsewhere.
    root = Group(
        groups=(
            Group("a", gpu_pods(4, "a"), required=HOSTNAME, minimum=1),
            Group("b", gpu_pods(3, "b"), required=HOSTNAME, minimum=1),
        )
    )
    decision = decide(racks("b1/r1: 3", "b1/r2: 2"), root)
    assert [(seat.group, seat.node) for seat in decision.seats] == [("a", "n1")] * 3 + [("b", "n2")] * 2
    assert decision.left_out == ("default/a-3", "default/b-2")


@pytest.mark.parametrize(
    "sizes, minimum, room, started",
    [
        ((2, 2, 2), 1, "2 2 2", ["g0", "g1", "g2"]),
        ((2, 2, 2), 1, "2 2 1", ["g0", "g1"]),
        ((3, 2, 1), 2, "2 2", ["g1", "g2"]),
        ((3, 3, 1), 2, "3 1", ["g0", "g2"]),
        ((3, 3, 3), 2, "3 2", []),
    ],
)
def test_as_many_groups_as_possible_start(sizes: Sequence[int], minimum: int, room: str, started: list[str]) -> None:
    groups = tuple(
        Group(f"g{number}", gpu_pods(size, f"g{number}"), required=HOSTNAME) for number, size in enumerate(sizes)
    )
    decision = decide(racks(f"b1/r1: {room}"), Group(groups=groups, minimum_groups=minimum))
    assert sorted({seat.group for seat in decision.seats}) == started
    assert decision.placed is bool(started)


def test_k_of_n_holds_at_every_depth() -> None:
    replicas = tuple(
        Group(f"replica-{number}", groups=(Group(f"a{number}", gpu_pods(2, f"a{number}"), required=HOSTNAME),))
        for number in range(3)
    )
    inner = Group("inference", groups=replicas, minimum_groups=2)
    decision = decide(racks("b1/r1: 2 2 1"), Group(groups=(inner, Group("router", gpu_pods(1, "router")))))
    assert sorted({seat.group for seat in decision.seats}) == ["a0", "a1", "router"]


def test_fifty_equal_groups_are_few_plans() -> None:
    groups = tuple(Group(f"g{number}", gpu_pods(2, f"g{number}"), required=HOSTNAME) for number in range(50))
    decision = decide(racks(f"b1/r1: {'2 ' * 43}"), Group(groups=groups, minimum_groups=40))
    assert len(decision.seats) == 86
    refused = decide(racks(f"b1/r1: {'2 ' * 39}"), Group(groups=groups, minimum_groups=40))
    assert (refused.status, len(refused.seats)) == (Status.INFEASIBLE, 0)


def groups_of_sizes(sizes: Iterable[int]) -> tuple[Group, ...]:
    return tuple(Group(f"g{size}", gpu_pods(size, f"g{size}"), required=HOSTNAME) for size in sizes)


def test_too_many_different_choices_prove_nothing() -> None:
    groups = groups_of_sizes(range(1, 17))
    some = decide(racks("b1/r1: 16 16"), Group(groups=groups, minimum_groups=4))
    assert some.placed
    assert some.status is Status.FEASIBLE
    assert some.bound.endswith("a larger part may also fit")
    none = decide(racks("b1/r1: 16"), Group(groups=groups, minimum_groups=8))
    assert (none.placed, none.status) == (False, Status.LIMIT_REACHED)


def test_of_too_many_equally_large_parts_one_that_was_found_starts() -> None:
    sizes = range(1, 17)
    groups = tuple(Group(f"g{size}", gpu_pods(size, f"g{size}"), preferred=HOSTNAME) for size in sizes)
    decision = decide(racks(f"b1/r1: {'17 ' * 7}"), Group(groups=groups, minimum_groups=4))
    assert (len({seat.group for seat in decision.seats}), decision.status) == (14, Status.FEASIBLE)
    assert "larger part" not in decision.bound


def test_groups_that_fit_nowhere_are_left_out_before_choices_are_tried() -> None:
    groups = groups_of_sizes(range(1, 17))
    some = decide(racks("b1/r1: 1 2 3 4 5 6 7 8"), Group(groups=groups, minimum_groups=4))
    assert (len({seat.group for seat in some.seats}), some.status) == (8, Status.OPTIMAL)
    none = decide(racks("b1/r1: 1 1 1"), Group(groups=groups, minimum_groups=4))
    assert (none.placed, none.status) == (False, Status.INFEASIBLE)


@pytest.mark.parametrize("required, seated", [(True, 0), (False, 4)])
def test_segments_that_are_only_wished_for_are_given_up(required: bool, seated: int) -> None:
    root = Group(pods=gpu_pods(4), segments=(Segments(2, "rack", required=required),))
    decision = decide(racks("b1/r1: 3", "b1/r2: 1"), root)
    assert len(decision.seats) == seated
    assert decision.relaxed == (("segments of 2",) if seated else ())


def test_a_gang_with_patience_waits_for_fewer_racks() -> None:
    gang = Gang("ml/gang", Group(pods=gpu_pods(4), preferred="rack"), "network", patience=Patience(1, 30))
    early = schedule_gang(racks("b1/r1: 2", "b1/r2: 2"), gang, waited=29.0)
    assert (early.placed, early.waits) == (False, "2 preferred domains, waits for 1 up to 30 s")
    assert schedule_gang(racks("b1/r1: 2", "b1/r2: 2"), gang, waited=30.0).placed
    assert schedule_gang(racks("b1/r1: 4", "b1/r2: 2"), gang).placed


@pytest.mark.parametrize(
    "story, stand_on, places, waits",
    [
        ("they run in more racks than are optional for: waiting cannot help", ("n1", "n2"), "n3", False),
        ("its place is in a rack where they run", ("n1",), "n1", False),
        ("a second rack would be added", ("n1",), "n2", True),
    ],
)
def test_a_replacement_waits_only_if_that_saves_a_rack(
    story: str, stand_on: tuple[str, ...], places: str, waits: bool
) -> None:
    free = [1 if name == places else 0 for name in ("n1", "n2", "n3")]
    scheduler = racks(*(f"b1/r{number}: {gpus}" for number, gpus in enumerate(free, 1)))
    root = Group(pods=gpu_pods(1), preferred="rack", running=running(*stand_on))
    decision = schedule_gang(scheduler, Gang("ml/gang", root, "network", patience=Patience(1, 30)), waited=10.0)
    assert (decision.placed, bool(decision.waits), decision.patience_left) == (not waits, waits, 20.0 if waits else 0.0)


# -- all or nothing
# --------------------------------------------------------------------------------------------------------


def test_assuming_takes_every_seat() -> None:
    scheduler = racks("b1/r1: 2", "b1/r2: 2")
    gang = Gang("ml/gang", Group(pods=gpu_pods(3)), "network")
    taken = assume_gang(scheduler, gang, schedule_gang(scheduler, gang))
    assert taken is not None
    assert [decision.pod for decision in taken] == [pod_key(pod) for pod in gang.pods]
    assert free_on(scheduler.state, "n1", GPU) + free_on(scheduler.state, "n2", GPU) == 1
    assert not schedule_gang(scheduler, Gang("ml/next", Group(pods=gpu_pods(2, "q")), "network")).placed


@pytest.mark.parametrize("change", ["pod", "node", "cordon", "same pod"])
def test_if_one_seat_is_gone_nothing_is_taken(change: str) -> None:
    scheduler = racks("b1/r1: 2", "b1/r2: 2")
    state = scheduler.state
    gang = Gang("ml/gang", Group(pods=gpu_pods(4)), "network")
    decision = schedule_gang(scheduler, gang)
    if change == "pod":
        state.set_pod(simple_pod({GPU: 1}, "other", nodeName="n2"))
    elif change == "node":
        state.remove_node("n2")
    elif change == "cordon":
        state.set_node(node("n2", {GPU: 2}, labels={"block": "b1", "rack": "r2"}, unschedulable=True))
    else:
        state.set_pod(simple_pod({GPU: 0}, "p-3", nodeName="n1"))
    before = set(state.pods)
    assert assume_gang(scheduler, gang, decision) is None
    assert set(state.pods) == before
    assert free_on(state, "n1", GPU) == 2


def test_different_pods_take_their_seats_in_the_order_their_node_wants() -> None:
    # Zone 0 has three CPUs, zone 1 two. By rank the small pod comes first, takes zone 0, and the large one would be
    # refused.
    zones = (zone(0, {"cpu": 3, "memory": "8Gi"}), zone(1, {"cpu": 2, "memory": "8Gi"}))
    scheduler = scheduler_of(cluster(topology(*zones)))
    members = (simple_pod({"cpu": 2, "memory": "1Gi"}, "small"), simple_pod({"cpu": 3, "memory": "1Gi"}, "large"))
    gang = Gang("ml/gang", Group(pods=members))
    decision = schedule_gang(scheduler, gang)
    assert [(seat.pod, seat.rank) for seat in decision.seats] == [("default/large", 1), ("default/small", 0)]
    taken = assume_gang(scheduler, gang, decision)
    assert taken is not None
    assert [each.containers[0].zones for each in taken] == [(0,), (1,)]


def test_pods_that_zones_refuse_together_go_to_different_nodes() -> None:
    # Eight CPUs hold three and three and two in sum, but not zones of four.
    reports = [
        topology(zone(0, {"cpu": 4, "memory": "8Gi"}), zone(1, {"cpu": 4, "memory": "8Gi"}), name=name)
        for name in ("n1", "n2")
    ]
    members = tuple(simple_pod({"cpu": cpu, "memory": "1Gi"}, f"p-{rank}") for rank, cpu in enumerate((3, 3, 2)))
    gang = Gang("ml/gang", Group(pods=members))
    assert len({seat.node for seat in schedule_gang(scheduler_of(cluster(*reports)), gang).seats}) == 2
    alone = schedule_gang(scheduler_of(cluster(reports[0])), gang)
    assert (alone.status, alone.placed) == (Status.INFEASIBLE, False)


def test_a_decision_changes_when_the_cluster_does() -> None:
    scheduler = racks("b1/r1: 4", "b1/r2: 3")
    gang = Gang("ml/gang", Group(pods=gpu_pods(3), required="rack"), "network")
    assert nodes(schedule_gang(scheduler, gang)) == ["n2"] * 3
    scheduler.state.set_node(node("n2", {GPU: 3}, labels={"block": "b1"}))
    assert nodes(schedule_gang(scheduler, gang)) == ["n1"] * 3
