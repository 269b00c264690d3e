"""The status of PodGroups: what each system's users read there while a gang waits, when it is complete, and when it has
lost pods since.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dialects.progress import MemberCounts, Phase, Progress, says, with_times
from bayplan.dialects.registry import dialect_written_as
from bayplan.kube.resources import (
    COSCHEDULING_POD_GROUPS,
    KAI_POD_GROUPS,
    KNOWN_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    POD_GROUPS,
    VOLCANO_POD_GROUPS,
    Resource,
)

WAITS = Progress(Phase.WAITING, "no room", MemberCounts(4))
STANDS = Progress(Phase.COMPLETE, "4 pods have nodes, 4 run", MemberCounts(4, 4, 4))
LACKS = Progress(Phase.DEGRADED, "3 of 4 pods have nodes: no room", MemberCounts(4, 3, 2))
STARTS_ANEW = Progress(Phase.DEGRADED, "1 of 4 have arrived", MemberCounts(1))
ENDED = Progress(Phase.ENDED, "no pods are left")
THEN, NOW = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"


def named(value: object) -> str | None:
    return value.api_version if isinstance(value, Resource) else None


@pytest.mark.parametrize(
    "resource, phases",
    [
        (POD_GROUPS, ["Waiting", "Scheduled", "Degraded", "Waiting", "Ended"]),
        (VOLCANO_POD_GROUPS, ["Inqueue", "Running", "Unknown", "Inqueue", "Inqueue"]),
        (COSCHEDULING_POD_GROUPS, [None, "Scheduled", "Unknown", "Pending", "Pending"]),
        (KAI_POD_GROUPS, [None] * 5),
        (KUBERNETES_POD_GROUPS, [None] * 5),
    ],
    ids=named,
)
def test_phases(resource: Resource[Any], phases: list[str | None]) -> None:
    stages = (WAITS, STANDS, LACKS, STARTS_ANEW, ENDED)
    assert [dialect_written_as(resource.type).status_of(progress).get("phase") for progress in stages] == phases


@pytest.mark.parametrize(
    "resource, counts",
    [
        (POD_GROUPS, {"members": 4, "scheduled": 3, "running": 2}),
        (VOLCANO_POD_GROUPS, {"running": 2}),
        (COSCHEDULING_POD_GROUPS, {"running": 2}),
    ],
    ids=named,
)
def test_counts_are_those_of_the_moment(resource: Resource[Any], counts: dict[str, int]) -> None:
    assert counts.items() <= dialect_written_as(resource.type).status_of(LACKS).items()


@pytest.mark.parametrize(
    "resource, waits, stands, lacks",
    [
        (POD_GROUPS, ["Scheduled=False"], ["Scheduled=True", "Started=True"], ["Scheduled=False", "Started=True"]),
        (
            KUBERNETES_POD_GROUPS,
            ["PodGroupInitiallyScheduled=False"],
            ["PodGroupInitiallyScheduled=True"],
            ["PodGroupInitiallyScheduled=True"],
        ),
        (VOLCANO_POD_GROUPS, ["Unschedulable=True"], ["Scheduled=True"], ["Unschedulable=True"]),
        (
            KAI_POD_GROUPS,
            ["Scheduled=False", "UnschedulableOnNodePool=True"],
            ["Scheduled=True"],
            ["Scheduled=True", "UnschedulableOnNodePool=True"],
        ),
    ],
    ids=named,
)
def test_conditions(resource: Resource[Any], waits: list[str], stands: list[str], lacks: list[str]) -> None:
    for progress, expected in ((WAITS, waits), (STANDS, stands), (LACKS, lacks)):
        status = dialect_written_as(resource.type).status_of(progress)
        conditions = [*status["conditions"], *status.get("schedulingConditions", ())]
        assert [f"{each['type']}={each['status']}" for each in conditions] == expected
        assert progress.message in [each["message"] for each in conditions]


@pytest.mark.parametrize(
    "progress, reason",
    [
        (WAITS, "Unschedulable"),
        (Progress(Phase.WAITING, "wrong", invalid=True), "SchedulerError"),
        (STANDS, "Scheduled"),
        (LACKS, "Scheduled"),
    ],
)
def test_reasons_are_those_of_kubernetes(progress: Progress, reason: str) -> None:
    (condition,) = dialect_written_as(KUBERNETES_POD_GROUPS.type).status_of(progress)["conditions"]
    assert condition["reason"] == reason


@pytest.mark.parametrize("struct", KNOWN_POD_GROUPS, ids=lambda struct: struct.__module__)
@pytest.mark.parametrize(
    "progress, was_complete",
    [
        pytest.param(WAITS, False, id="waits"),
        pytest.param(STANDS, True, id="stands"),
        pytest.param(LACKS, True, id="lacks"),
    ],
)
def test_that_a_gang_was_complete_can_be_read_where_it_was_written(
    struct: type[Any], progress: Progress, was_complete: bool
) -> None:
    written = msgspec.convert(
        {"metadata": {"name": "train"}, "status": dialect_written_as(struct).status_of(progress)}, struct
    )
    assert dialect_written_as(struct).was_complete(written) == was_complete


@pytest.mark.parametrize("struct", KNOWN_POD_GROUPS, ids=lambda struct: struct.__module__)
@pytest.mark.parametrize("progress", [WAITS, STANDS, LACKS, ENDED], ids=lambda progress: progress.phase.name)
def test_what_was_written_is_known_again_when_it_is_read(struct: type[Any], progress: Progress) -> None:
    """Or every restart would write all of them again."""
    dialect = dialect_written_as(struct)
    status = with_times(dialect.status_of(progress), {}, THEN)
    others = {"type": "Grouped", "status": "True", "message": "made for Job ml/train"}
    on_server = {**status, "conditions": [*status.get("conditions", ()), others]}
    read = msgspec.to_builtins(msgspec.convert({"status": on_server}, struct).status)
    assert says(read, dialect.status_of(progress), dialect.conditions)
    assert [
        each.phase
        for each in (WAITS, STANDS, LACKS)
        if says(read, dialect.status_of(each) or {"phase": ""}, dialect.conditions)
    ] in (
        [progress.phase],
        [],
    )


def test_a_new_message_is_not_a_new_state() -> None:
    before = with_times(dialect_written_as(POD_GROUPS.type).status_of(STANDS), {}, THEN)
    status = with_times(dialect_written_as(POD_GROUPS.type).status_of(LACKS), before, NOW)
    assert [(each["type"], each["lastTransitionTime"]) for each in status["conditions"]] == [
        ("Scheduled", NOW),
        ("Started", THEN),
    ]


def test_a_transition_is_named_where_a_system_wants_that() -> None:
    (condition,) = with_times(dialect_written_as(VOLCANO_POD_GROUPS.type).status_of(WAITS), {}, THEN)["conditions"]
    assert condition["transitionID"] == condition["lastTransitionTime"] == THEN
