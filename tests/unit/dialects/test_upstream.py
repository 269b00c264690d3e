"""Kubernetes' own PodGroups: gangs and loose groups, in one domain of a node label where they ask for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dialects.dialect import TOPOLOGY
from bayplan.dialects.kubernetes.pod_group import DIALECT
from bayplan.dialects.progress import Phase, Progress
from bayplan.gangs.trees import Topologies
from bayplan.kube.wire.k8s_scheduling_v1beta1 import PodGroup
from tests.builders.gangs import group_object, member
from tests.unit.dialects.readings import BLOCK, NETWORK, RACK, gang, outline, waits, wrong

GANG_OF_TWO = {"gang": {"minCount": 2}}


def pod_group(policy: dict[str, Any], *keys: str, annotations: dict[str, str] | None = None) -> PodGroup:
    spec: dict[str, Any] = {"schedulingPolicy": policy}
    if keys:
        spec["schedulingConstraints"] = {"topology": [{"key": key} for key in keys]}
    return group_object(PodGroup, spec, annotations=annotations)


def members(number: int) -> list[Any]:
    return [member(f"w-{index}") for index in range(number)]


def test_pods_name_their_group_in_their_spec() -> None:
    assert DIALECT.group_named(member("a", schedulingGroup={"podGroupName": "pg"})) == "pg"
    assert DIALECT.group_named(member("a")) == ""


def test_a_gang_starts_with_its_minimum() -> None:
    assert outline(gang(DIALECT, pod_group(GANG_OF_TWO), members(3)).root) == {"": (["w-0", "w-1", "w-2"], 2)}
    assert waits(DIALECT, pod_group(GANG_OF_TWO), members(1)) == "waits for pods: 1 of 2 have arrived"


def test_with_the_basic_policy_any_pod_may_begin_and_the_others_follow() -> None:
    basic = pod_group({"basic": {}})
    assert gang(DIALECT, basic, members(3)).root.least == 1
    assert gang(DIALECT, basic, [*members(2), member("r", node="n1")]).root.least == 0


class TestTheTree:
    def test_a_level_is_looked_for_in_the_topologies(self) -> None:
        found = gang(DIALECT, pod_group(GANG_OF_TWO, RACK), members(2))
        assert (found.root.required, found.topology) == (RACK, "network")

    def test_a_label_of_no_topology_is_a_tree_by_itself(self) -> None:
        found = gang(DIALECT, pod_group(GANG_OF_TWO, "example.com/row"), members(2))
        assert (found.root.required, found.topology) == ("example.com/row", "nodes by example.com/row")

    def test_hosts_need_no_topology(self) -> None:
        found = gang(DIALECT, pod_group(GANG_OF_TWO, "kubernetes.io/hostname"), members(2), Topologies())
        assert found.topology == "nodes by kubernetes.io/hostname"

    def test_of_several_one_is_chosen_by_annotation(self) -> None:
        trees = Topologies({**NETWORK.levels, "power": (BLOCK, "example.com/feed")})
        told = f'"{BLOCK}" is a level of several Topologies: network, power; choose with the annotation {TOPOLOGY}'
        where = "PodGroup ml/pg: spec.schedulingConstraints.topology[0].key"
        assert wrong(DIALECT, pod_group(GANG_OF_TWO, BLOCK), members(2), trees) == f"{where}: {told}"
        chosen = pod_group(GANG_OF_TWO, BLOCK, annotations={TOPOLOGY: "power"})
        assert gang(DIALECT, chosen, members(2), trees).topology == "power"


@pytest.mark.parametrize(
    "policy, keys, told",
    [
        ({}, (), "schedulingPolicy: needs one of basic and gang"),
        ({"basic": {}, "gang": {"minCount": 1}}, (), "schedulingPolicy: has both basic and gang; only one is allowed"),
        ({"gang": {"minCount": 0}}, (), "schedulingPolicy.gang.minCount: 0 must be 1 or more"),
        (GANG_OF_TWO, (RACK, BLOCK), "schedulingConstraints.topology: has 2 entries: must be at most 1"),
        (
            GANG_OF_TWO,
            ("",),
            "schedulingConstraints.topology[0].key: is missing: which node label do all pods share?",
        ),
    ],
)
def test_wrong_fields_are_named(policy: dict[str, Any], keys: tuple[str, ...], told: str) -> None:
    assert wrong(DIALECT, pod_group(policy, *keys), members(2)) == f"PodGroup ml/pg: spec.{told}"


@pytest.mark.parametrize("condition", ["PodGroupScheduled", "PodGroupInitiallyScheduled"])
@pytest.mark.parametrize("status", ["True", "False"])
def test_its_condition_tells_whether_it_has_been_complete(status: str, condition: str) -> None:
    written = {"status": {"conditions": [{"type": condition, "status": status}]}}
    assert DIALECT.was_complete(msgspec.convert(written, PodGroup)) is (status == "True")


@pytest.mark.parametrize(
    "version, condition",
    [
        ("v1alpha2", "PodGroupScheduled"),
        ("v1alpha3", "PodGroupInitiallyScheduled"),
        ("v1beta1", "PodGroupInitiallyScheduled"),
    ],
)
def test_its_condition_is_named_as_in_its_version(version: str, condition: str) -> None:
    progress = Progress(Phase.COMPLETE, "2 pods have nodes", api_version=f"scheduling.k8s.io/{version}")
    (written,) = DIALECT.status_of(progress)["conditions"]
    assert (written["type"], written["status"]) == (condition, "True")


@pytest.mark.parametrize(
    "mode, least",
    [
        (None, 2),
        ("Pod", 2),
        ("PodGroup", None),
        ({"single": {}}, 2),
        ({"all": {}}, None),
        ("podGroup", None),
    ],
)
def test_the_disruption_mode_says_how_many_members_keep_running(mode: object, least: int | None) -> None:
    written = {"metadata": {"name": "pg"}, "spec": {"schedulingPolicy": GANG_OF_TWO, "disruptionMode": mode}}
    assert DIALECT.least_running(msgspec.convert(written, PodGroup)) == least


def test_a_raised_minimum_counts_for_pods_that_are_still_to_come() -> None:
    running = [member("r-0", node="n1"), member("r-1", node="n1")]
    assert gang(DIALECT, pod_group({"gang": {"minCount": 3}}), [*running, *members(2)]).root.least == 1


@pytest.mark.parametrize(
    "field, remarks",
    [
        (
            {"priorityClassName": "urgent", "priority": 1000},
            ('priorityClassName: "urgent" has no effect on the group: the highest priority of its pods counts',),
        ),
        (
            {"resourceClaims": [{"name": "gpus"}, {"name": "nics"}]},
            ('resourceClaims: "gpus, nics" are not allocated by bayplan: pods that use them wait',),
        ),
        ({"disruptionMode": "Pod", "priority": 0, "priorityClassName": "", "resourceClaims": []}, ()),
        ({"disruptionMode": {"single": {}}, "priority": 0, "preemptionPolicy": "PreemptLowerPriority"}, ()),
        (
            {"disruptionMode": "podGroup"},
            ('disruptionMode: "podGroup" is not known: must be Pod or PodGroup; all members are evicted together',),
        ),
        (
            {"disruptionMode": {}},
            ('disruptionMode: "{}" is not known: must be single or all; all members are evicted together',),
        ),
    ],
    ids=["priority", "claims", "what the API server fills in in 1.36", "in 1.37", "a misspelt mode", "no mode"],
)
def test_what_has_no_effect_is_remarked(field: dict[str, Any], remarks: tuple[str, ...]) -> None:
    written = {"metadata": {"name": "pg"}, "spec": {"schedulingPolicy": GANG_OF_TWO, **field}}
    assert DIALECT.remarks(msgspec.convert(written, PodGroup)) == remarks
