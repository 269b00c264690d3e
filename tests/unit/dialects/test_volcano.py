"""Volcano's PodGroups: minima of all and of tasks, sub-groups by label, tiers as levels of a Topology."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.dialects.dialect import TOPOLOGY
from bayplan.dialects.volcano.pod_group import DIALECT
from bayplan.gangs.trees import Topologies
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.volcano_scheduling_v1beta1 import PodGroup
from tests.builders.gangs import group_object, member
from tests.unit.dialects.readings import BLOCK, NETWORK, RACK, ZONE, gang, outline, waits, wrong

NO_TREE = "tiers are levels of a Topology; the cluster has no Topology whose levels they could be"
PARTITIONS = {
    "name": "worker",
    "subGroupSize": 2,
    "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
    "matchLabelKeys": ["volcano.sh/partition-id"],
}


def pod_group(annotations: dict[str, str] | None = None, **spec: Any) -> PodGroup:
    return group_object(PodGroup, spec, annotations=annotations)


def task(name: str, number: int, partition: int | None = None, node: str = "") -> Pod:
    labels = {"volcano.sh/task-spec": name, "volcano.sh/task-index": str(number)}
    if partition is not None:
        labels["volcano.sh/partition-id"] = str(partition)
    return member(f"{name}-{number}", labels, node=node)


def workers(number: int, size: int | None = None) -> list[Pod]:
    return [task("worker", index, index // size if size else None) for index in range(number)]


@pytest.mark.parametrize("key", ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"])
def test_pods_name_their_group_in_an_annotation(key: str) -> None:
    assert DIALECT.group_named(member("a", annotations={key: "pg"})) == "pg"


class TestMinima:
    def test_only_the_sum_counts(self) -> None:
        found = gang(DIALECT, pod_group(minMember=2), workers(3))
        assert outline(found.root) == {"": (["worker-0", "worker-1", "worker-2"], 2)}

    def test_it_waits_until_enough_have_arrived(self) -> None:
        assert waits(DIALECT, pod_group(minMember=4), workers(3)) == "waits for pods: 3 of 4 have arrived"

    def test_each_task_has_its_own(self) -> None:
        written = pod_group(minMember=3, minTaskMember={"ps": 1, "worker": 2})
        found = gang(DIALECT, written, [*workers(3), task("ps", 0)])
        assert outline(found.root) == {"ps": (["ps-0"], 1), "worker": (["worker-0", "worker-1", "worker-2"], 2)}
        assert waits(DIALECT, written, workers(3)) == "waits for pods: 0 of 1 in group ps have arrived"

    def test_a_larger_sum_asks_for_more_of_the_first_tasks(self) -> None:
        written = pod_group(minMember=4, minTaskMember={"ps": 1, "worker": 1})
        found = gang(DIALECT, written, [*workers(3), task("ps", 0), task("ps", 1)])
        assert {name: least for name, (_, least) in outline(found.root).items()} == {"ps": 2, "worker": 2}
        (remark,) = DIALECT.remarks(written)
        told = "minMember: 4 is more than the 2 of minTaskMember: the first tasks provide the difference"
        assert remark == told

    def test_a_smaller_sum_makes_those_of_tasks_void_as_in_volcano(self) -> None:
        written = pod_group(minMember=2, minTaskMember={"ps": 1, "worker": 2})
        assert outline(gang(DIALECT, written, workers(3)).root) == {"": (["worker-0", "worker-1", "worker-2"], 2)}
        (remark,) = DIALECT.remarks(written)
        assert remark.startswith("minTaskMember: has no effect, as in Volcano: its sum 3 is more than")

    def test_with_a_minimum_of_zero_any_pod_may_begin(self) -> None:
        assert gang(DIALECT, pod_group(), workers(2)).root.least == 1
        assert gang(DIALECT, pod_group(), [*workers(2), task("worker", 2, node="n1")]).root.least == 0

    def test_members_with_a_node_count(self) -> None:
        written = pod_group(minMember=3, minTaskMember={"ps": 1, "worker": 2})
        found = gang(DIALECT, written, [*workers(2), task("ps", 0, node="n1")])
        assert {name: least for name, (_, least) in outline(found.root).items()} == {"ps": 0, "worker": 2}


class TestSubGroups:
    def test_pods_are_divided_by_labels(self) -> None:
        policy = {**PARTITIONS, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
        found = gang(DIALECT, pod_group(minMember=4, subGroupPolicy=[policy]), workers(4, size=2))
        (around,) = found.root.groups
        assert outline(around) == {
            "worker-0": (["worker-0", "worker-1"], 2),
            "worker-1": (["worker-2", "worker-3"], 2),
        }
        assert [group.required for group in around.groups] == [RACK, RACK]
        assert (around.minimum_groups, found.topology) == (2, "network")

    @pytest.mark.parametrize(
        "minima, needed",
        [
            ({"minMember": 6}, 3),
            ({"minMember": 3}, 2),  # two sub-groups of two hold three pods
            ({"minMember": 1, "minSubGroups": 2}, 2),
            ({"minMember": 1, "minTaskMember": {"worker": 4}}, 2),
            ({"minMember": 6, "minTaskMember": {"worker": 4}}, 3),
        ],
    )
    def test_so_many_must_start(self, minima: dict[str, Any], needed: int) -> None:
        policy = {**PARTITIONS, "minSubGroups": minima.pop("minSubGroups", 0)}
        found = gang(DIALECT, pod_group(**minima, subGroupPolicy=[policy]), workers(6, size=2))
        assert found.root.groups[0].minimum_groups == needed

    def test_those_that_are_not_full_wait(self) -> None:
        policy = {**PARTITIONS, "minSubGroups": 1}
        found = gang(DIALECT, pod_group(minMember=1, subGroupPolicy=[policy]), workers(3, size=2))
        assert list(outline(found.root)) == ["worker-0"]
        told = waits(DIALECT, pod_group(minMember=3, subGroupPolicy=[PARTITIONS]), workers(3, size=2))
        assert told == "waits for sub-groups of 2 pods: 1 of 2 in group worker have arrived"

    def test_other_tasks_stand_beside_them(self) -> None:
        written = pod_group(minMember=5, minTaskMember={"ps": 1, "worker": 4}, subGroupPolicy=[PARTITIONS])
        found = gang(DIALECT, written, [*workers(4, size=2), task("ps", 0)])
        assert [group.name for group in found.root.groups] == ["ps", "worker"]
        assert {name: least for name, (_, least) in outline(found.root).items()} == {
            "worker-0": 2,
            "worker-1": 2,
            "ps": 1,
        }

    def test_a_size_of_nothing_is_wrong(self) -> None:
        told = wrong(DIALECT, pod_group(subGroupPolicy=[{**PARTITIONS, "subGroupSize": 0}]), workers(1))
        assert told == "PodGroup ml/pg: spec.subGroupPolicy[0].subGroupSize: 0 must be 1 or more"


class TestTiers:
    @pytest.mark.parametrize(
        "asked, required, preferred",
        [
            ({"mode": "hard", "highestTierAllowed": 1}, RACK, None),
            ({"mode": "hard", "highestTierAllowed": 2}, BLOCK, RACK),
            ({"highestTierAllowed": 3}, ZONE, RACK),
            ({"mode": "hard", "highestTierAllowed": 4}, None, None),  # spans the whole cluster
            ({"mode": "hard"}, None, None),
            ({"mode": "hard", "highestTierName": "block"}, BLOCK, RACK),
            ({"mode": "hard", "highestTierName": RACK}, RACK, None),
            ({"mode": "soft"}, None, RACK),
            ({"mode": "soft", "highestTierAllowed": 2}, None, RACK),
        ],
    )
    def test_they_count_levels_from_below(
        self, asked: dict[str, Any], required: str | None, preferred: str | None
    ) -> None:
        found = gang(DIALECT, pod_group(minMember=1, networkTopology=asked), workers(2))
        assert (found.root.required, found.root.preferred) == (required, preferred)
        assert found.topology == ("network" if required or preferred else "")

    def test_of_several_topologies_one_is_chosen_by_annotation(self) -> None:
        trees = Topologies({**NETWORK.levels, "power": ("example.com/feed",)})
        asked = {"highestTierAllowed": 1}
        told = wrong(DIALECT, pod_group(networkTopology=asked), workers(1), trees)
        assert told.endswith(f"choose one of network, power with the annotation {TOPOLOGY}")
        chosen = pod_group({TOPOLOGY: "power"}, networkTopology=asked)
        assert gang(DIALECT, chosen, workers(1), trees).root.required == "example.com/feed"

    @pytest.mark.parametrize(
        "asked, trees, told",
        [
            ({"mode": "firm"}, NETWORK, 'mode: "firm" must be one of hard, soft'),
            ({"highestTierAllowed": 0}, NETWORK, "highestTierAllowed: 0 must be 1 or more"),
            (
                {"highestTierName": "row"},
                NETWORK,
                f'highestTierName: "row" is not a level; known: {RACK}, {BLOCK}, {ZONE}',
            ),
            (
                {"highestTierAllowed": 1},
                Topologies(),
                f"highestTierAllowed: 1: {NO_TREE}",
            ),
        ],
    )
    def test_what_cannot_be_told_is_named(self, asked: dict[str, Any], trees: Topologies, told: str) -> None:
        found = wrong(DIALECT, pod_group(networkTopology=asked), workers(1), trees)
        assert found == f"PodGroup ml/pg: spec.networkTopology.{told}"

    def test_a_tier_is_named_or_numbered(self) -> None:
        both = {"highestTierAllowed": 1, "highestTierName": "rack"}
        told = wrong(DIALECT, pod_group(networkTopology=both), workers(1))
        assert told.endswith("has both highestTierAllowed and highestTierName: only one may be given")


@pytest.mark.parametrize("field", ["minMember", "minTaskMember"])
def test_minima_are_not_negative(field: str) -> None:
    value: Any = -1 if field == "minMember" else {"ps": -1}
    assert "-1 is negative: must be 0 or more" in wrong(DIALECT, pod_group(**{field: value}), workers(1))
