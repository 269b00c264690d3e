"""Gangs beside other pods: nodes that neighbours close, one pod per node, and what is held back because it cannot
be counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group
from bayplan.gangs.relations import gang_relations, member_rules
from bayplan.gangs.relations.layouts import WORK_OF_LAYOUTS
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.profile import default_profile
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.gangs import gang_scheduler
from tests.builders.neighbourhoods import HOSTNAME, RACK, REQUIRED, apart, app_pod, on, racks, spread, together
from tests.builders.objects import node


def members(number: int, app: str = "train", cpu: int = 1, **spec: Any) -> tuple[Pod, ...]:
    """Pods with a label that all share and one that each has to itself, as an indexed job makes them."""
    return tuple(app_pod(f"{app}-{rank}", app, labels={"index": str(rank)}, cpu=cpu, **spec) for rank in range(number))


def scheduler_of(names: str, *running_at: Pod) -> GangScheduler:
    return gang_scheduler(racks(names, *running_at), RACK)


def sized(*nodes_of: tuple[int, str]) -> GangScheduler:
    """Nodes of so many CPUs, each in a rack."""
    made = [node(f"n{at}", {"cpu": cpu}, labels={RACK: rack}) for at, (cpu, rack) in enumerate(nodes_of)]
    return gang_scheduler(cluster(nodes=made), RACK)


def decide(scheduler: GangScheduler, *pods: Pod) -> GangDecision:
    return schedule_gang(scheduler, Gang("default/gang", Group(pods=pods), "network"))


def nodes(decision: GangDecision) -> list[str]:
    return [seat.node for seat in decision.seats]


def test_members_that_want_no_fellow_on_their_node_get_one_node_each() -> None:
    scheduler = scheduler_of("aab")
    assert nodes(decide(scheduler, *members(3, **apart("train")))) == ["n1", "n2", "n3"]
    assert not decide(scheduler, *members(4, **apart("train"))).placed
    assert len(set(nodes(decide(scheduler, *members(4))))) < 3


def test_neighbours_keep_a_gang_away() -> None:
    scheduler = scheduler_of("aab", on("n1", app_pod("db", **apart("train"))))
    assert set(nodes(decide(scheduler, *members(2)))) <= {"n2", "n3"}


def test_a_gang_keeps_away_from_neighbours() -> None:
    scheduler = scheduler_of("aab", on("n1", app_pod("db")))
    assert nodes(decide(scheduler, *members(2, **apart("db", RACK)))) == ["n3", "n3"]


def test_a_gang_goes_where_its_neighbours_are() -> None:
    scheduler = scheduler_of("aab", on("n3", app_pod("cache")))
    assert nodes(decide(scheduler, *members(2, **together("cache", RACK)))) == ["n3", "n3"]


def test_only_the_members_that_are_meant_are_kept_away() -> None:
    scheduler = scheduler_of("ab", on("n1", app_pod("db", **apart("worker"))))
    decision = decide(scheduler, *members(1, "chief", cpu=2), *members(4, "worker"))
    assert {seat.pod.partition("-")[0]: seat.node for seat in decision.seats}["default/worker"] == "n2"


def test_seats_are_seen_by_those_who_come_after() -> None:
    scheduler = scheduler_of("ab")
    first = Gang("default/gang", Group(pods=members(1, **apart("train"))), "network")
    assert assume_gang(scheduler, first, schedule_gang(scheduler, first))
    other = decide(scheduler, app_pod("late", "train"))
    assert nodes(other) == ["n2"]


def test_members_with_affinity_to_each_other_start_together_in_any_place() -> None:
    """Eight CPUs a node: rack a holds 8 of them, racks b and c 16 each."""
    scheduler = scheduler_of("abbcc", on("n2", app_pod("other", cpu=2)))
    assert set(nodes(decide(scheduler, *members(12, **together("train", RACK))))) == {"n2", "n3"}
    refused = decide(scheduler, *members(17, **together("train", RACK)))
    assert (refused.status, refused.bound) == (
        Status.INFEASIBLE,
        "no place satisfies podAffinity by rack among its pods",
    )


def test_members_join_a_pod_outside_that_they_ask_for() -> None:
    scheduler = scheduler_of("aab", on("n3", app_pod("first", "train")))
    assert nodes(decide(scheduler, *members(3, **together("train", RACK)))) == ["n3"] * 3


def test_workers_that_ask_for_their_chief_go_where_it_goes() -> None:
    decision = decide(
        scheduler_of("abb"), *members(1, "chief", cpu=2), *members(10, "worker", **together("chief", RACK))
    )
    assert set(nodes(decision)) == {"n2", "n3"}


def test_members_stand_evenly_over_racks() -> None:
    scheduler = scheduler_of("aabbcc")
    decision = decide(scheduler, *members(7, **spread("train")))
    assert sorted(Counter("aabbcc"[int(node[1]) - 1] for node in nodes(decision)).values()) == [2, 2, 3]


def test_members_fill_up_what_pods_outside_left_uneven() -> None:
    scheduler = scheduler_of("ab", *(on("n1", app_pod(f"old-{number}", "train")) for number in range(3)))
    assert nodes(decide(scheduler, *members(2, **spread("train")))) == ["n2", "n2"]


def test_one_member_per_rack() -> None:
    scheduler = scheduler_of("aabbc")
    assert len(set(nodes(decide(scheduler, *members(3, **apart("train", RACK)))))) == 3
    assert decide(scheduler, *members(4, **apart("train", RACK))).status is Status.INFEASIBLE


def test_workers_keep_away_from_their_chief() -> None:
    decision = decide(scheduler_of("aab"), *members(12, "worker", **apart("chief")), *members(1, "chief", cpu=2))
    by_app = {app: {seat.node for seat in decision.seats if app in seat.pod} for app in ("worker", "chief")}
    assert decision.placed
    assert not by_app["worker"] & by_app["chief"]


def test_a_spread_over_other_pods_of_the_gang_alone_is_refused_with_the_reason() -> None:
    pods = (*members(2), *members(2, "other", **spread("train")))
    assert decide(scheduler_of("ab"), *pods).problem == (
        "pod default/other-0 asks for spec.topologySpreadConstraints over other pods of its gang, "
        "which bayplan supports only if they count the pod itself, too"
    )


def test_pods_of_equal_shape_are_spread_apart_from_others_of_that_shape() -> None:
    scheduler = scheduler_of("aabb")
    decision = decide(scheduler, *members(4, **spread("train", RACK)), *members(4, "other", **together("other", RACK)))
    racks_of = Counter((seat.pod[8:13], seat.node in ("n1", "n2")) for seat in decision.seats)
    assert (racks_of["train", True], racks_of["train", False]) == (2, 2)
    assert len({at for app, at in racks_of if app == "other"}) == 1


def test_a_pod_outside_keeps_only_the_member_away_that_it_means() -> None:
    repelling = on("n1", app_pod("x", **apart("b")))
    decision = decide(scheduler_of("ab", repelling), *members(1, "a", cpu=7), *members(1, "b", cpu=7))
    assert {seat.pod: seat.node for seat in decision.seats} == {"default/a-0": "n1", "default/b-0": "n2"}


@pytest.mark.parametrize(
    "chief_cpu, started",
    [
        pytest.param(3, {"chief": "n1", "worker": "n1"}, id="beside their own chief, although another one runs"),
        pytest.param(7, {"chief": "n1", "worker": "n2"}, id="beside the other chief, where theirs leaves no room"),
    ],
)
def test_workers_join_their_own_chief_or_one_that_runs(chief_cpu: int, started: dict[str, str]) -> None:
    full = 8 if chief_cpu == 3 else 1
    others = on("n2", app_pod("old", "chief", cpu=full))
    pods = (*members(1, "chief", cpu=chief_cpu), *members(1, "worker", cpu=2, **together("chief", RACK)))
    decision = decide(scheduler_of("ab", others), *pods)
    assert {seat.pod[8:].partition("-")[0]: seat.node for seat in decision.seats} == started


def leader(number: int) -> Pod:
    """A leader that keeps away from every other one by its own label, as JobSet's webhook writes it."""
    others = [{"key": "job", "operator": "Exists"}, {"key": "job", "operator": "NotIn", "values": [f"k{number}"]}]
    away = {"topologyKey": RACK, "labelSelector": {"matchExpressions": others}}
    affinity = {"podAntiAffinity": {REQUIRED: [away]}}
    return app_pod(f"leader-{number}", "lead", labels={"job": f"k{number}"}, affinity=affinity)


@pytest.mark.parametrize("leaders, status", [(4, Status.FEASIBLE), (5, Status.INFEASIBLE)])
def test_members_of_which_each_keeps_away_from_all_others_get_a_rack_each(leaders: int, status: Status) -> None:
    scheduler = scheduler_of("aabbccdd")
    gang = Gang("default/gang", Group(pods=tuple(map(leader, range(leaders)))), "network")
    (rule,) = scheduler.relations(gang).fellows.rules
    assert isinstance(rule, member_rules.Apart)
    assert rule.one == rule.other
    decision = schedule_gang(scheduler, gang)
    assert (decision.status, len({(int(node[1:]) - 1) // 2 for node in nodes(decision)})) == (
        status,
        4 if decision.placed else 0,
    )


def test_one_member_per_rack_leaves_the_larger_node_to_a_larger_member() -> None:
    scheduler = sized((4, "a"), (2, "a"), (6, "b"))
    assert decide(scheduler, *members(2, cpu=2, **apart("train", RACK)), *members(2, "big", cpu=4)).placed


def test_a_worker_joins_one_of_several_chiefs_that_have_no_room_together() -> None:
    scheduler = sized((4, "a"), (4, "b"), (1, "b"))
    workers = members(1, "worker", **together("chief", RACK))
    decision = decide(scheduler, *members(2, "chief", cpu=4), *workers)
    assert sorted(nodes(decision)) == ["n0", "n1", "n2"]


def test_workers_of_two_kinds_join_different_chiefs() -> None:
    made = [node(name, {"cpu": 5}, labels={HOSTNAME: name, RACK: name}) for name in ("n0", "n1")]
    scheduler = gang_scheduler(cluster(nodes=made), RACK)
    workers = members(1, "near", **together("chief", HOSTNAME)) + members(1, "far", **together("chief", RACK))
    decision = decide(scheduler, *members(2, "chief", cpu=4), *workers)
    assert sorted(nodes(decision)) == ["n0", "n0", "n1", "n1"]


def test_workers_that_would_divide_themselves_over_chiefs_are_no_proven_no() -> None:
    scheduler = sized((5, "a"), (5, "b"))
    workers = members(2, "worker", **together("chief", RACK))
    assert decide(scheduler, *members(2, "chief", cpu=4), *workers).status is Status.LIMIT_REACHED


@pytest.mark.parametrize("spec", [together("train", RACK), spread("train"), apart("train", RACK)])
def test_a_gang_of_one_has_no_fellows(spec: Json) -> None:
    assert decide(scheduler_of("ab"), *members(1, **spec)).placed


def test_a_profile_without_the_plugin_does_not_ask() -> None:
    scheduler = scheduler_of("aab")
    profile = scheduler.profile
    filters = tuple(each for each in profile.filters if each.name not in ("InterPodAffinity", "PodTopologySpread"))
    scheduler.profile = type(profile)("plain", filters, ())
    assert decide(scheduler, *members(4, **apart("train"))).placed


def test_pods_with_too_many_different_terms_about_each_other_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that share their terms are one pair each; unlike terms multiply, and so do several terms of one pod."""
    monkeypatch.setattr(gang_relations, "MOST_PAIRS", 8)
    scheduler = scheduler_of("abcd")
    assert decide(scheduler, *members(4, **apart("train"))).placed
    unlike = [app_pod(f"p{each}", f"app-{each}", **apart(f"app-{each}")) for each in range(4)]
    assert decide(scheduler, *unlike[:2]).placed
    assert decide(scheduler, *unlike).problem == gang_relations.TOO_MANY


def test_pods_outside_that_tell_too_many_members_apart_are_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_relations, "MOST_DIVIDED", 1)
    standing = [on("n1", app_pod(f"x{number}", **apart(f"app-{number}"))) for number in range(3)]
    unlike = [app_pod(f"p{number}", f"app-{number}") for number in range(3)]
    assert decide(scheduler_of("ab", *standing), *unlike[:2]).placed
    assert decide(scheduler_of("ab", *standing), *unlike).problem == gang_relations.TOO_MANY


@pytest.mark.parametrize(
    "groups, minimum_groups, cpu, placed, status",
    [
        pytest.param(3, 1, 1, 2, Status.FEASIBLE, id="two groups are even, one is not"),
        pytest.param(5, 3, 1, 4, Status.FEASIBLE, id="four, one after another"),
        pytest.param(3, 1, 9, 0, Status.INFEASIBLE, id="no node holds a pod"),
    ],
)
def test_as_many_groups_start_as_can_be_spread_evenly(
    groups: int, minimum_groups: int, cpu: int, placed: int, status: Status
) -> None:
    pods = members(2 * groups, cpu=cpu, **spread("train", RACK))
    inside = tuple(Group(f"g{at}", pods[2 * at : 2 * at + 2], required=RACK) for at in range(groups))
    root = Group(groups=inside, minimum_groups=minimum_groups)
    decision = schedule_gang(scheduler_of("aabb"), Gang("default/gang", root, "network"))
    assert (len(decision.seats), decision.status) == (2 * placed, status)


@pytest.mark.parametrize("cpu, placed, status", [(1, 4, Status.FEASIBLE), (9, 0, Status.INFEASIBLE)])
def test_groups_start_with_all_members_where_fewer_cannot_be_spread_evenly(
    cpu: int, placed: int, status: Status
) -> None:
    pods = members(4, cpu=cpu, **spread("train", RACK))
    even = (Group("a", pods[:2], required=RACK), Group("b", pods[2:], minimum=0, required=RACK))
    root = Group(groups=(*even, Group("too large", members(1, "large", cpu=10))), minimum_groups=2)
    decision = schedule_gang(scheduler_of("aabb"), Gang("default/gang", root, "network"))
    assert (len(decision.seats), decision.status) == (placed, status)


CHIEF_AND_WORKERS = ["chief-0", "worker-0", "worker-1", "worker-2"]


@pytest.mark.parametrize(
    "chief_cpu, worker_cpu, started, status",
    [
        pytest.param(2, 1, CHIEF_AND_WORKERS, Status.OPTIMAL, id="both fit"),
        pytest.param(2, 20, ["chief-0"], Status.OPTIMAL, id="a chief needs no workers"),
        pytest.param(20, 1, [], Status.INFEASIBLE, id="workers need their chief"),
    ],
)
def test_a_group_starts_only_with_the_group_that_its_pods_ask_for(
    chief_cpu: int, worker_cpu: int, started: list[str], status: Status
) -> None:
    chief = Group("chiefs", members(1, "chief", cpu=chief_cpu))
    workers = Group("workers", members(3, "worker", cpu=worker_cpu, **together("chief", RACK)))
    root = Group(groups=(chief, workers), minimum_groups=1)
    decision = schedule_gang(scheduler_of("abb"), Gang("default/gang", root, "network"))
    assert ([seat.pod.partition("/")[2] for seat in decision.seats], decision.status) == (started, status)


def test_a_group_beside_one_that_is_left_out_need_not_be_in_one_rack() -> None:
    chiefs = Group("chiefs", members(12, "chief"))
    workers = Group("workers", members(1, "worker", cpu=20, **together("chief", RACK)))
    root = Group(groups=(chiefs, workers), minimum_groups=1)
    decision = schedule_gang(scheduler_of("ab"), Gang("default/gang", root, "network"))
    assert Counter(nodes(decision)) == {"n1": 8, "n2": 4}


# -- parts of a gang -------------------------------------------------------------------------------------------------


def started(decision: GangDecision) -> list[str]:
    return [seat.pod.partition("/")[2] for seat in decision.seats]


def with_minimum(scheduler: GangScheduler, *pods: Pod, minimum: int) -> GangDecision:
    return schedule_gang(scheduler, Gang("default/gang", Group(pods=pods, minimum=minimum), "network"))


def test_workers_whose_own_chief_has_no_room_start_only_beside_another_one() -> None:
    pods = (*members(2, "worker", **together("chief", RACK)), *members(1, "chief", cpu=20))
    other = on("n2", app_pod("old", "chief"))
    full = on("n2", app_pod("filler", cpu=7))
    assert nodes(with_minimum(scheduler_of("ab", other), *pods, minimum=2)) == ["n2", "n2"]
    assert not with_minimum(scheduler_of("ab", other, full), *pods, minimum=2).placed


def test_workers_with_their_chief_s_own_affinity_need_it_too() -> None:
    same = together("chief", RACK)
    pods = (*members(2, "worker", **same), *members(1, "chief", cpu=20, **same))
    assert not with_minimum(scheduler_of("ab"), *pods, minimum=2).placed
    pods = (*members(1, "chief", **same), *members(2, "worker", **same))
    assert started(with_minimum(scheduler_of("ab"), *pods, minimum=2)) == ["chief-0", "worker-0", "worker-1"]


def test_members_that_keep_away_from_a_pod_that_is_left_out_may_go_anywhere() -> None:
    pods = (*members(4, "worker", **apart("chief", "power")), *members(1, "chief", cpu=30))
    labels = [{RACK: "a", "power": "p"}, {RACK: "a"}]
    made = [
        node(f"n{at}", {"cpu": cpu}, labels=each) for at, (cpu, each) in enumerate(zip((1, 3), labels, strict=True))
    ]
    assert len(with_minimum(gang_scheduler(cluster(nodes=made), RACK), *pods, minimum=4).seats) == 4


# -- names of nodes, profiles, work ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels, placed",
    [
        pytest.param([{}, {}], True, id="nodes without a hostname label keep no pods apart"),
        pytest.param([{HOSTNAME: "same"}, {HOSTNAME: "same"}], False, id="two nodes of one name are one place"),
        pytest.param([{HOSTNAME: "n1"}, {HOSTNAME: "n2"}], True, id="each node has its name"),
    ],
)
def test_hostnames_count_as_labels(labels: list[dict[str, str]], placed: bool) -> None:
    made = [node(f"n{at}", {"cpu": 1}, labels=each) for at, each in enumerate(labels, start=1)]
    scheduler = gang_scheduler(cluster(nodes=made), RACK)
    gang = Gang("default/gang", Group(pods=members(2, **apart("train"))))
    assert schedule_gang(scheduler, gang).placed is placed


def test_a_profile_without_one_of_the_plugins_asks_the_other() -> None:
    profile = default_profile()
    others = [plugin for plugin in profile.filters if plugin.name != "PodTopologySpread"]
    scheduler = gang_scheduler(racks("ab"), RACK, profile=replace(profile, filters=tuple(others)))
    three = members(3, **spread("train", RACK), **together("train", RACK))
    assert len({*nodes(decide(scheduler, *three))}) == 1
    assert not decide(gang_scheduler(racks("ab"), RACK), *three).placed


def test_rules_that_no_layout_satisfies_take_bounded_work() -> None:
    pairs = [
        app_pod(f"{role}-{at}", f"{role}-{at}", **(together(f"chief-{at}") if role == "worker" else {}))
        for at in range(3)
        for role in ("chief", "worker")
    ]
    spread_over = members(2, "even", **spread("even", RACK, minDomains=5))
    scheduler = scheduler_of("a" * 60)
    gang = Gang("default/gang", Group(pods=(*pairs, *spread_over)), "network")
    budget = Budget()
    decision = schedule_gang(scheduler, gang, parent=budget)
    assert (decision.status, budget.spent < 2 * WORK_OF_LAYOUTS) == (Status.LIMIT_REACHED, True)


# -- members that are still to come ----------------------------------------------------------------------------------


def in_racks(decision: GangDecision) -> Counter[str]:
    """How many pods each rack of `aabb` gets."""
    return Counter("a" if node in ("n1", "n2") else "b" for node in nodes(decision))


def test_present_pods_are_spread_evenly_whatever_is_still_to_come() -> None:
    pods = members(4, cpu=4, **spread("train", RACK))
    root = Group(pods=pods[:2], coming=pods[2:], preferred=RACK)
    decision = schedule_gang(scheduler_of("aabb"), Gang("default/gang", root, "network"))
    assert in_racks(decision) == {"a": 1, "b": 1}


def test_a_later_member_keeps_away_from_the_present_one() -> None:
    pods = members(2, **apart("train"))
    root = Group(pods=pods[:1], coming=pods[1:], required=RACK)
    decision = schedule_gang(scheduler_of("aab"), Gang("default/gang", root, "network"))
    assert {*nodes(decision), *(later.node for later in decision.later)} == {"n1", "n2"}


# -- spread ----------------------------------------------------------------------------------------------------------


def test_two_roles_that_are_each_spread_leave_room_for_each_other() -> None:
    leaders, workers = (members(2, app, cpu=8, **spread(app, RACK)) for app in ("leader", "worker"))
    assert in_racks(decide(scheduler_of("aabb"), *leaders, *workers)) == {"a": 2, "b": 2}


def test_an_empty_selector_counts_no_pods() -> None:
    constraint = {"topologyKey": RACK, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    pods = members(4, topologySpreadConstraints=[constraint])
    gang = Gang("default/gang", Group(pods=pods, required=RACK), "network")
    assert len(schedule_gang(scheduler_of("aab"), gang).seats) == 4


def test_nodes_without_the_label_of_a_constraint_among_members_count_for_no_other() -> None:
    zones = {"n1": {RACK: "a", "zone": "p"}, "n2": {RACK: "b", "zone": "q"}, "n3": {"zone": "p"}}
    made = [node(name, {"cpu": 8}, labels={"net": "1", **labels}) for name, labels in zones.items()]
    standing = [on("n3", app_pod(f"db-{number}", "db")) for number in range(2)]
    constraints = [
        *spread("train", RACK)["topologySpreadConstraints"],
        *spread("db", "zone")["topologySpreadConstraints"],
    ]
    scheduler = gang_scheduler(cluster(nodes=made, pods=standing), "net")
    assert {*nodes(decide(scheduler, *members(2, topologySpreadConstraints=constraints)))} == {"n1", "n2"}


def test_a_chief_starts_alone_if_its_workers_have_no_room() -> None:
    same = together("chief", RACK)
    workers, chiefs = (
        Group("workers", members(1, "worker", cpu=8, **same)),
        Group("c", members(1, "chief", cpu=8, **same)),
    )
    root = Group(groups=(workers, chiefs), minimum_groups=1)
    assert started(schedule_gang(scheduler_of("a"), Gang("default/gang", root, "network"))) == ["chief-0"]
