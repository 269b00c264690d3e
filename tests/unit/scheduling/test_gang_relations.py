"""Gangs beside other pods: nodes that neighbours close, one pod per node, and what is held back because nobody can count it."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.gang import Gang, GangDecision, Group
from bayplan.scheduling.gang_cycle import GangScheduler, assume_gang, schedule_gang
from bayplan.scheduling.profile import default_profile
from bayplan.scheduling.trees import Trees
from tests.helpers import Json
from tests.neighbourhoods import RACK, apart, on, racks, somebody, spread, together


def members(number: int, app: str = "train", cpu: int = 1, **spec: Any) -> tuple[Pod, ...]:
    """Pods with a label that all share and one that each has to itself, as an indexed job makes them."""
    return tuple(somebody(f"{app}-{rank}", app, labels={"index": str(rank)}, cpu=cpu, **spec) for rank in range(number))


def scheduler_of(names: str, *standing: Pod) -> GangScheduler:
    state = racks(names, *standing)
    trees = Trees(state)
    trees.set("network", (RACK,))
    return GangScheduler(state, trees, default_profile(), ClassAnswers(state))


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
    scheduler = scheduler_of("aab", on("n1", somebody("db", **apart("train"))))
    assert set(nodes(decide(scheduler, *members(2)))) <= {"n2", "n3"}


def test_a_gang_keeps_away_from_neighbours() -> None:
    scheduler = scheduler_of("aab", on("n1", somebody("db")))
    assert nodes(decide(scheduler, *members(2, **apart("db", RACK)))) == ["n3", "n3"]


def test_a_gang_goes_where_its_neighbours_are() -> None:
    scheduler = scheduler_of("aab", on("n3", somebody("cache")))
    assert nodes(decide(scheduler, *members(2, **together("cache", RACK)))) == ["n3", "n3"]


def test_only_the_members_that_are_meant_are_kept_away() -> None:
    scheduler = scheduler_of("ab", on("n1", somebody("db", **apart("worker"))))
    decision = decide(scheduler, *members(1, "chief", cpu=2), *members(4, "worker"))
    assert {seat.pod.partition("-")[0]: seat.node for seat in decision.seats}["default/worker"] == "n2"


def test_seats_are_seen_by_those_who_come_after() -> None:
    scheduler = scheduler_of("ab")
    first = Gang("default/gang", Group(pods=members(1, **apart("train"))), "network")
    assert assume_gang(scheduler, first, schedule_gang(scheduler, first))
    other = decide(scheduler, somebody("late", "train"))
    assert nodes(other) == ["n2"]


@pytest.mark.parametrize(
    "pods, asked",
    [
        (members(2, **together("train", RACK)), "spec.affinity.podAffinity"),
        (members(2, **spread("train")), "spec.topologySpreadConstraints"),
        (members(2, **apart("train", RACK)), "spec.affinity.podAntiAffinity by rack"),
        (
            (*members(2, **apart("chief")), *members(1, "chief", cpu=2)),
            "spec.affinity.podAntiAffinity between some of them",
        ),
    ],
    ids=["together", "evenly", "apart by rack", "apart from different pods"],
)
def test_what_members_ask_of_each_other_is_held_back(pods: tuple[Pod, ...], asked: str) -> None:
    decision = decide(scheduler_of("ab"), *pods)
    words = f"pod default/train-0 asks for {asked} among the pods of its own gang, which this version of bayplan cannot judge yet"
    assert (decision.placed, decision.problem) == (False, words)


@pytest.mark.parametrize("spec", [together("train", RACK), spread("train"), apart("train", RACK)])
def test_a_gang_of_one_has_no_fellows(spec: Json) -> None:
    assert decide(scheduler_of("ab"), *members(1, **spec)).placed


def test_a_profile_without_the_plugin_does_not_ask() -> None:
    scheduler = scheduler_of("aab")
    profile = scheduler.profile
    filters = tuple(each for each in profile.filters if each.name not in ("InterPodAffinity", "PodTopologySpread"))
    scheduler.profile = type(profile)("plain", filters, ())
    assert decide(scheduler, *members(4, **apart("train"))).placed
