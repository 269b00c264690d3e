"""Kubernetes' CompositePodGroups: PodGroups inside them are one gang, in any order of arrival."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import msgspec
import pytest

from bayplan.dialects.members import Incomplete
from bayplan.dispatch.actions import Complete
from bayplan.dispatch.roster import GangRoster
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod, SchedulingGroup
from bayplan.kube.wire.k8s_scheduling_v1alpha3 import CompositePodGroup
from bayplan.kube.wire.k8s_scheduling_v1beta1 import PodGroup
from tests.builders import units
from tests.builders.gangs import member

BLOCK, RACK = "example.com/block", "example.com/rack"
NETWORK = Topologies({"network": (BLOCK, RACK, "kubernetes.io/hostname")})
TRAIN = "kubernetes-composite ml/train"


def composite(name: str, least: int | None = None, parent: str | None = None, level: str = "") -> CompositePodGroup:
    """A group of groups, `basic` without a minimum."""
    policy: dict[str, Any] = {"basic": {}} if least is None else {"gang": {"minGroupCount": least}}
    return msgspec.convert(written(name, policy, parent, level), CompositePodGroup)


def pod_group(name: str, least: int = 1, parent: str | None = "train", level: str = "") -> PodGroup:
    return msgspec.convert(written(name, {"gang": {"minCount": least}}, parent, level), PodGroup)


def written(name: str, policy: dict[str, Any], parent: str | None, level: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"schedulingPolicy": policy, "parentCompositePodGroupName": parent}
    if level:
        spec["schedulingConstraints"] = {"topology": [{"key": level}]}
    return {"metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"}, "spec": spec}


def pod(name: str, group: str, node: str = "") -> Pod:
    return member(name, node=node, schedulingGroup={"podGroupName": group})


def roster_of(*things: CompositePodGroup | PodGroup | Pod) -> GangRoster:
    roster = GangRoster(lambda: NETWORK)
    for each in things:
        if isinstance(each, Pod):
            roster.set_member(each)
        else:
            roster.set_group(each)
    return roster


def outline(group: Group) -> dict[str, Any]:
    """Names of pods, and of each group inside; with the minimum of groups and the level of each."""
    inner = {each.name: outline(each) for each in group.groups}
    pods = [each.metadata.name for each in group.pods]
    return {"needs": group.minimum_groups, "in": group.required, "groups": inner} if inner else {"pods": pods}


def waits(roster: GangRoster, key: str = TRAIN) -> str:
    found = roster.gang(key)
    assert isinstance(found, Incomplete), found
    return found.reason


def root(roster: GangRoster, key: str = TRAIN) -> Gang:
    found = roster.gang(key)
    assert isinstance(found, Gang), found
    return found


def test_objects_and_pods_make_one_gang_in_any_order_of_arrival() -> None:
    things: list[CompositePodGroup | PodGroup | Pod] = [composite("train", 2), pod_group("a"), pod_group("b")]
    things += [pod("a-0", "a"), pod("b-0", "b")]
    expected = {"needs": 2, "in": None, "groups": {"a": {"pods": ["a-0"]}, "b": {"pods": ["b-0"]}}}
    for order in permutations(things):
        roster = roster_of(*order)
        assert list(roster.names()) == [TRAIN]
        assert outline(root(roster).root) == expected
        assert [each.metadata.name for each in roster.waiting(TRAIN)] == ["a-0", "b-0"]


def test_groups_nest_and_each_has_its_own_level() -> None:
    roster = roster_of(
        composite("train", 2, level=BLOCK),
        composite("left", 1, "train"),
        pod_group("a", parent="left", level=RACK),
        pod_group("b", parent="train"),
        pod("a-0", "a"),
        pod("b-0", "b"),
    )
    found = root(roster)
    left = {"needs": 1, "in": None, "groups": {"a": {"pods": ["a-0"]}}}
    groups = {"b": {"pods": ["b-0"]}, "left (composite)": left}
    assert outline(found.root) == {"needs": 2, "in": BLOCK, "groups": groups}
    assert found.topology == "network"


def test_a_group_without_its_pods_is_left_out_where_others_suffice() -> None:
    things = (pod_group("a"), pod_group("b", 2), pod("a-0", "a"), pod("b-0", "b"))
    enough = roster_of(composite("train", 1), *things)
    assert outline(root(enough).root) == {"needs": 1, "in": None, "groups": {"a": {"pods": ["a-0"]}}}
    each_alone = roster_of(composite("train"), *things)
    assert root(each_alone).root.minimum_groups == 1
    assert waits(roster_of(composite("train", 2), *things)) == (
        "waits for groups: 1 of 2 in CompositePodGroup train have all pods that they need; "
        "waits for pods: 1 of 2 in PodGroup b have arrived"
    )


def test_pods_wait_for_a_parent_that_does_not_exist() -> None:
    roster = roster_of(pod_group("a"), pod("a-0", "a"))
    assert waits(roster) == "waits for CompositePodGroup ml/train (kubernetes-composite), which does not exist"


def test_a_group_that_loses_its_object_is_a_gang_of_its_own_again() -> None:
    roster = roster_of(composite("train", 1), pod_group("a"), pod("a-0", "a"))
    assert roster.remove_group("kubernetes ml/a") == {TRAIN, "kubernetes ml/a"}
    assert waits(roster, "kubernetes ml/a") == "waits for PodGroup ml/a (kubernetes), which does not exist"
    assert (roster.size(TRAIN), roster.gang_of("ml/a-0")) == (0, "kubernetes ml/a")


@pytest.mark.parametrize(
    "parents",
    [
        {"train": "train"},
        {"train": "other", "other": "train"},
        {"train": "up", "up": "further", "further": "highest"},
    ],
    ids=["itself", "a ring", "five levels"],
)
def test_nesting_without_end_is_an_error_of_the_gang(parents: dict[str, str]) -> None:
    roster = roster_of(pod_group("a"), pod("a-0", "a"), *(composite(name, 1, up) for name, up in parents.items()))
    (key,) = roster.names()
    with pytest.raises(InvalidObject, match="is inside itself, or inside more than 3 others"):
        roster.gang(key)


@pytest.mark.parametrize(
    "policy, told",
    [
        ({}, "spec.schedulingPolicy: needs one of basic and gang"),
        ({"gang": {"minGroupCount": 0}}, "spec.schedulingPolicy.gang.minGroupCount: 0 must be 1 or more"),
    ],
)
def test_wrong_policies_are_named(policy: dict[str, Any], told: str) -> None:
    wrong = msgspec.convert(written("train", policy, None, ""), CompositePodGroup)
    with pytest.raises(InvalidObject, match=told.replace(".", r"\.")):
        roster_of(wrong, pod_group("a"), pod("a-0", "a")).gang(TRAIN)


def test_replacements_join_a_gang_that_has_begun() -> None:
    complete = {"type": "CompositePodGroupInitiallyScheduled", "status": "True"}
    begun = msgspec.convert(
        {**msgspec.to_builtins(composite("train", 2)), "status": {"conditions": [complete]}}, CompositePodGroup
    )
    roster = roster_of(begun, pod_group("a", 2), pod_group("b"), pod("a-0", "a", "n1"), pod("a-1", "a"))
    found = root(roster)
    assert outline(found.root) == {"needs": 1, "in": None, "groups": {"a": {"pods": ["a-1"]}}}
    assert found.root.groups[0].least == 1


def in_group(name: str, group: str) -> Pod:
    """A waiting pod that takes a whole node."""
    made = units.pod(name, 8)
    named = msgspec.convert({"podGroupName": group}, SchedulingGroup)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, scheduling_group=named))


def test_both_groups_are_bound_at_once_each_in_its_rack() -> None:
    racks = {"n0": "r0", "n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
    scheduler = units.dispatcher(*racks, racks=racks)
    scheduler.set_group(composite("train", 2), 0)
    for name in ("a", "b"):
        scheduler.set_group(pod_group(name, 2, level=RACK), 0)
    waiting = [in_group(f"{name}-{index}", name) for name in ("a", "b") for index in range(2)]
    for each in waiting[:3]:
        scheduler.set_pod(each, 0)
    assert "PodGroup b have arrived" in units.reason(scheduler.decide(0))
    scheduler.set_pod(waiting[3], 1)
    action = scheduler.decide(20)
    placed = units.places(action)
    of_group = {name: {racks[node] for key, node in placed.items() if key.startswith(f"ml/{name}-")} for name in "ab"}
    assert sorted(map(sorted, of_group.values())) == [["r1"], ["r2"]]
    for each in waiting:
        scheduler.set_pod(units.on_node(each, placed[f"ml/{each.metadata.name}"]), 21)
    scheduler.bound(action, 21)  # type: ignore[arg-type]
    assert scheduler.decide(22) == Complete(TRAIN)
