"""KAI's PodGroups: pods find theirs by annotation, their sub-group by label, and everything about them is in KAI's
words.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dialects.kai.pod_group import DIALECT
from bayplan.dialects.registry import gang_of_members, key_of
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Topologies
from bayplan.kube.wire import kai_scheduling_v2alpha2 as kai
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import member
from tests.unit.dialects.readings import gang, outline, waits, wrong


def kai_group(**spec: Any) -> kai.PodGroup:
    return msgspec.convert({"metadata": {"name": "pg", "namespace": "ml"}, "spec": spec}, kai.PodGroup)


def in_sub_group(name: str, group: str) -> Pod:
    return member(name, {"kai.scheduler/subgroup-name": group})


def test_pods_name_their_group_in_an_annotation() -> None:
    assert DIALECT.group_named(member("w-0", annotations={"pod-group-name": "pg"})) == "pg"
    assert DIALECT.group_named(member("w-0")) == ""


def test_pods_find_their_sub_group_by_label() -> None:
    written = kai_group(
        minMember=3,
        topologyConstraint={"topology": "network", "requiredTopologyLevel": "block"},
        subGroups=[
            {"name": "workers", "minMember": 2, "topologyConstraint": {"preferredTopologyLevel": "rack"}},
            {"name": "leader", "minMember": 1},
        ],
    )
    members = [in_sub_group("w-10", "workers"), in_sub_group("w-9", "workers"), in_sub_group("l-0", "leader")]
    found = gang(DIALECT, written, members)
    assert (found.name, found.topology, found.root.required) == ("ml/pg", "network", "block")
    assert outline(found.root) == {"workers": (["w-9", "w-10"], 2), "leader": (["l-0"], 1)}
    assert [group.preferred for group in found.root.groups] == ["rack", None]


@pytest.mark.parametrize(
    "running, waiting, minimum",
    [(0, 3, 3), (1, 3, 2), (3, 2, 0), (4, 1, 0), (0, 5, 3)],
)
def test_members_that_run_count_towards_the_minimum(running: int, waiting: int, minimum: int) -> None:
    pods = [member(f"r-{number}", node="n1") for number in range(running)]
    pods += [member(f"w-{number}") for number in range(waiting)]
    (group,) = gang(DIALECT, kai_group(minMember=3), pods).root.groups
    assert (len(group.running), len(group.pods), group.least) == (running, waiting, minimum)


def test_pods_that_failed_are_members_no_more() -> None:
    pods = [member("a", node="n1", phase="Failed"), member("b", node="n1", phase="Succeeded"), member("c")]
    assert waits(DIALECT, kai_group(minMember=3), pods) == "waits for pods: 2 of 3 have arrived"


def test_a_pod_of_a_sub_group_that_is_not_there_is_named() -> None:
    told = wrong(DIALECT, kai_group(subGroups=[{"name": "workers"}]), [in_sub_group("a", "leader")])
    assert 'pod ml/a names the subgroup "leader", which does not exist; known: workers' in told


@pytest.mark.parametrize(
    "spec, told",
    [
        ({"minMember": -1}, "spec.minMember: -1 must be 1 or more"),
        ({"subGroups": [{"name": "a"}, {"name": "b", "minMember": -3}]}, "spec.subGroups[1].minMember: -3 must be 1"),
    ],
)
def test_a_negative_minimum_is_named(spec: dict[str, Any], told: str) -> None:
    assert told in wrong(DIALECT, kai_group(**spec), [])


@pytest.mark.parametrize("least, is_told", [(9, True), (3, False), (1, False)])
def test_a_minimum_beside_sub_groups_has_no_effect_and_is_told_if_they_say_otherwise(least: int, is_told: bool) -> None:
    sub_groups = [{"name": "leader", "minMember": 1}, {"name": "workers", "minMember": 2}]
    told = DIALECT.remarks(kai_group(minMember=least, subGroups=sub_groups))
    said = f"minMember: {least} has no effect beside subGroups, whose minimums add up to 3"
    assert told == ((said,) if is_told else ())


def test_without_sub_groups_it_is_waited_for() -> None:
    assert waits(DIALECT, kai_group(minMember=9), [member("a")]) == "waits for pods: 1 of 9 have arrived"


def test_a_gang_is_in_one_topology() -> None:
    sub_groups = [{"name": name, "topologyConstraint": {"topology": name}} for name in ("blue", "green")]
    told = 'spec.subGroups[1].topologyConstraint.topology: "green" is not "blue": bayplan places a gang in one Topology'
    assert wrong(DIALECT, kai_group(subGroups=sub_groups), []) == f"PodGroup ml/pg: {told}"


def replicas(**spec: Any) -> kai.PodGroup:
    """Three replicas of a leader and a worker each."""
    inner = [
        {"name": f"{role}{number}", "parent": f"r{number}"} for number in range(3) for role in ("leader", "worker")
    ]
    return kai_group(subGroups=[*({"name": f"r{number}"} for number in range(3)), *inner], **spec)


def test_min_sub_group_is_how_many_of_the_sub_groups_must_start() -> None:
    names = [f"{role}{number}" for number in range(3) for role in ("leader", "worker")]
    members = [in_sub_group(f"{name}-0", name) for name in names]
    assert gang(DIALECT, replicas(minSubGroup=2), members).root.minimum_groups == 2
    assert gang(DIALECT, replicas(), members).root.minimum_groups is None


def test_sub_groups_whose_pods_are_missing_may_stay_away_beyond_the_minimum() -> None:
    members = [in_sub_group(f"{name}-0", name) for name in ("leader0", "worker0", "leader1", "worker1", "leader2")]
    found = gang(DIALECT, replicas(minSubGroup=2), members)
    assert [group.name for group in found.root.groups] == ["r0", "r1"]
    assert waits(DIALECT, replicas(), members) == "waits for pods: 0 of 1 in group worker2 have arrived"


@pytest.mark.parametrize("number", [0, 4])
def test_min_sub_group_is_at_most_the_sub_groups_there_are(number: int) -> None:
    told = f"spec.minSubGroup: {number} must be between 1 and the 3 sub-groups inside"
    assert wrong(DIALECT, replicas(minSubGroup=number), []) == f"PodGroup ml/pg: {told}"


def test_queues_are_not_bayplans_to_keep() -> None:
    (remark,) = DIALECT.remarks(kai_group(queue="research"))
    assert remark == 'queue: "research" is kept, but bayplan has no queues or quotas'
    assert DIALECT.remarks(kai_group(queue="default-queue")) == ()


CONSTRAINT = {"requiredTopologyLevel": "example.com/block", "preferredTopologyLevel": "rack"}


@pytest.mark.parametrize("name", ["topologyConstraint", "topologyConstraints"])
def test_the_constraint_is_read_under_both_names(name: str) -> None:
    found = gang(DIALECT, kai_group(**{name: {"topology": "network", **CONSTRAINT}}), [member("w-0")])
    assert (found.topology, found.root.required, found.root.preferred) == ("network", "example.com/block", "rack")
    sub_group = {"name": "workers", name: CONSTRAINT}
    found = gang(DIALECT, kai_group(subGroups=[sub_group]), [in_sub_group("w-0", "workers")])
    assert (found.topology, found.root.groups[0].required) == ("network", "example.com/block")


def test_of_two_constraints_that_differ_one_counts_and_the_other_is_remarked() -> None:
    other = {"topology": "network", "requiredTopologyLevel": "rack"}
    written = kai_group(topologyConstraint={"topology": "network", **CONSTRAINT}, topologyConstraints=other)
    assert gang(DIALECT, written, [member("w-0")]).root.required == "example.com/block"
    (remark,) = DIALECT.remarks(written)
    assert remark == "topologyConstraints: has no effect: topologyConstraint says otherwise and counts"
    assert DIALECT.remarks(kai_group(topologyConstraint=other, topologyConstraints=other)) == ()


def test_a_constraint_without_a_topology_means_the_only_one() -> None:
    assert gang(DIALECT, kai_group(topologyConstraints=CONSTRAINT), [member("w-0")]).topology == "network"


@pytest.mark.parametrize(
    "topologies, known",
    [
        (Topologies(), "the cluster has no Topology"),
        (Topologies({"blue": ("rack",), "green": ("row", "rack")}), "known: blue, green"),
    ],
)
def test_a_constraint_without_a_topology_waits_where_none_or_several_could_be_meant(
    topologies: Topologies, known: str
) -> None:
    told = wrong(DIALECT, kai_group(topologyConstraints=CONSTRAINT), [member("w-0")], topologies)
    where = "PodGroup ml/pg: spec.topologyConstraint.topology"
    assert told == f'{where}: is missing for level "example.com/block"; {known}'


def test_nodes_and_numa_zones_need_no_topology() -> None:
    written = kai_group(topologyConstraint={"requiredTopologyLevel": "numa"})
    found = gang(DIALECT, written, [member("w-0")], Topologies())
    assert (found.topology, found.root.required) == ("nodes by kubernetes.io/hostname", "numa")


def test_levels_can_be_named_by_the_aliases_of_the_topology() -> None:
    labels = ("example.com/fabric", "example.com/leaf")
    topologies = Topologies({"network": labels}, aliases={"network": {"island": labels[0], "switch": labels[1]}})
    sub_group = {"name": "workers", "topologyConstraint": {"requiredTopologyLevel": "switch"}}
    written = kai_group(topologyConstraint={"preferredTopologyLevel": "island"}, subGroups=[sub_group])
    found = gang_of_members(key_of(written), written, [in_sub_group("w-0", "workers")], topologies)
    assert isinstance(found, Gang)
    assert (found.root.preferred, found.root.groups[0].required) == labels
