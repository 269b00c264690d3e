"""A gang that was complete and lost members: those that ended are not waited for, a pod that takes the place of another
starts at once.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dialects.registry import AnyPodGroup, dialect_of
from bayplan.kube.wire import (
    bayplan_v1alpha1,
    coscheduling_v1alpha1,
    k8s_scheduling_v1beta1,
    kai_scheduling_v2alpha2,
    volcano_scheduling_v1beta1,
)
from tests.builders.gangs import member
from tests.unit.dialects.readings import gang, outline, waits

SUB_GROUP, TASK, PARTITION = "kai.scheduler/subgroup-name", "volcano.sh/task-spec", "volcano.sh/partition-id"
GROUP = "bayplan.io/group"
SCHEDULED_UPSTREAM = {"conditions": [{"type": "PodGroupScheduled", "status": "True"}]}
SCHEDULED_IN_KAI = {"conditions": [{"type": "Scheduled", "status": "True"}]}


def written(struct: type[Any], spec: dict[str, Any], status: dict[str, Any] | None = None) -> Any:
    document = {"metadata": {"name": "pg", "namespace": "ml"}, "spec": spec, "status": status}
    return msgspec.convert(document, struct)


OF_FOUR = [
    (bayplan_v1alpha1.PodGroup, {"size": 4}, {"phase": "Scheduled"}),
    (k8s_scheduling_v1beta1.PodGroup, {"schedulingPolicy": {"gang": {"minCount": 4}}}, SCHEDULED_UPSTREAM),
    (kai_scheduling_v2alpha2.PodGroup, {"minMember": 4}, SCHEDULED_IN_KAI),
    (volcano_scheduling_v1beta1.PodGroup, {"minMember": 4}, {"phase": "Running"}),
    (coscheduling_v1alpha1.PodGroup, {"minMember": 4}, {"phase": "Scheduled"}),
]
of_four = pytest.mark.parametrize("struct, spec, complete", OF_FOUR, ids=lambda value: getattr(value, "__module__", ""))


@of_four
def test_a_replacement_starts_beside_those_that_run(
    struct: type[AnyPodGroup], spec: dict[str, Any], complete: dict[str, Any]
) -> None:
    # The scheduler does not follow pods that have ended: the fourth is not to be seen.
    pods = [member("b", node="n1"), member("c", node="n2"), member("new")]
    group = written(struct, spec, complete)
    (found,) = outline(gang(dialect_of(group), group, pods).root).values()
    assert found == (["new"], 1)
    never_complete = written(struct, spec)
    assert waits(dialect_of(group), never_complete, pods) == "waits for pods: 3 of 4 have arrived"


@of_four
def test_those_that_succeeded_have_arrived(
    struct: type[AnyPodGroup], spec: dict[str, Any], complete: dict[str, Any]
) -> None:
    del complete
    group = written(struct, spec)
    pods = [member("a", node="n1", phase="Succeeded"), member("b", node="n1"), member("c"), member("d")]
    (found,) = outline(gang(dialect_of(group), group, pods).root).values()
    assert found == (["c", "d"], 2)


@of_four
def test_a_gang_without_members_left_starts_anew_together(
    struct: type[AnyPodGroup], spec: dict[str, Any], complete: dict[str, Any]
) -> None:
    group = written(struct, spec, complete)
    leaving = member("a", node="n1")
    leaving = msgspec.structs.replace(
        leaving, metadata=msgspec.structs.replace(leaving.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    )
    for pods in ([member("new")], [leaving, member("new")]):
        assert waits(dialect_of(group), group, pods) == "waits for pods: 1 of 4 have arrived"


@pytest.mark.parametrize(
    "struct, label, spec, complete",
    [
        (
            bayplan_v1alpha1.PodGroup,
            GROUP,
            {"groups": [{"name": "driver", "size": 1}, {"name": "workers", "size": 2}]},
            {"phase": "Scheduled"},
        ),
        (
            kai_scheduling_v2alpha2.PodGroup,
            SUB_GROUP,
            {"subGroups": [{"name": "driver", "minMember": 1}, {"name": "workers", "minMember": 2}]},
            SCHEDULED_IN_KAI,
        ),
        (
            volcano_scheduling_v1beta1.PodGroup,
            TASK,
            {"minMember": 3, "minTaskMember": {"driver": 1, "workers": 2}},
            {"phase": "Running"},
        ),
    ],
    ids=["own", "kai", "volcano"],
)
def test_a_worker_is_replaced_after_the_driver_has_ended(
    struct: type[AnyPodGroup], label: str, spec: dict[str, Any], complete: dict[str, Any]
) -> None:
    group = written(struct, spec, complete)
    pods = [member("w-0", {label: "workers"}, node="n1"), member("w-1b", {label: "workers"})]
    assert outline(gang(dialect_of(group), group, pods).root) == {"workers": (["w-1b"], 1)}
    assert "have arrived" in waits(dialect_of(group), written(struct, spec), pods)


@pytest.mark.parametrize(
    "struct, label, spec, complete",
    [
        (
            bayplan_v1alpha1.PodGroup,
            GROUP,
            {"minimumGroups": 1, "groups": [{"name": "leader", "size": 1}, {"name": "workers", "size": 2}]},
            {"phase": "Scheduled"},
        ),
        (
            kai_scheduling_v2alpha2.PodGroup,
            SUB_GROUP,
            {
                "minSubGroup": 1,
                "subGroups": [{"name": "leader", "minMember": 1}, {"name": "workers", "minMember": 2}],
            },
            SCHEDULED_IN_KAI,
        ),
    ],
    ids=["own", "kai"],
)
def test_a_group_that_comes_later_still_starts_together(
    struct: type[AnyPodGroup], label: str, spec: dict[str, Any], complete: dict[str, Any]
) -> None:
    group = written(struct, spec, complete)
    leader, first, second = (
        member("l", {label: "leader"}, node="n1"),
        member("w-0", {label: "workers"}),
        member("w-1", {label: "workers"}),
    )
    assert outline(gang(dialect_of(group), group, [leader, first]).root) == {"leader": ([], 0)}
    both = gang(dialect_of(group), group, [leader, first, second])
    assert outline(both.root)["workers"] == (["w-0", "w-1"], 2)


def test_partitions_of_volcano_are_filled_up_again() -> None:
    policy = {"name": "w", "subGroupSize": 2, "minSubGroups": 2, "matchLabelKeys": [PARTITION]}
    spec = {"minMember": 4, "subGroupPolicy": [policy]}
    group = written(volcano_scheduling_v1beta1.PodGroup, spec, {"phase": "Running"})
    pods = [member("w-0", {PARTITION: "0"}, node="n1"), member("w-3b", {PARTITION: "1"})]
    assert outline(gang(dialect_of(group), group, pods).root) == {"w-0": ([], 0), "w-1": (["w-3b"], 1)}
