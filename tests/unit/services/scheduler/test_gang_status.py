"""The status of PodGroups: what each system's users read there while a gang waits, and when it is complete."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.kube.resources import (
    ALL_POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
    KAI_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    POD_GROUPS,
    VOLCANO_POD_GROUPS,
    Resource,
)
from bayplan.services.scheduler.gang_status import Progress, status_of

SINCE = "2030-01-01T00:00:00Z"
WAITS = Progress(complete=False, since=SINCE, message="no room")
COMPLETE = Progress(complete=True, since=SINCE, message="4 pods have nodes", running=4)


@pytest.mark.parametrize(
    "resource, waiting, complete",
    [
        (POD_GROUPS, "Waiting", "Scheduled"),
        (VOLCANO_POD_GROUPS, "Inqueue", "Running"),
        (KAI_POD_GROUPS, "Pending", "Running"),
        (COSCHEDULING_POD_GROUPS, None, "Scheduled"),
        (KUBERNETES_POD_GROUPS, None, None),
    ],
    ids=lambda value: value.api_version if isinstance(value, Resource) else None,
)
def test_phases(resource: Resource[Any], waiting: str | None, complete: str | None) -> None:
    assert status_of(resource.type, WAITS).get("phase") == waiting
    assert status_of(resource.type, COMPLETE).get("phase") == complete


@pytest.mark.parametrize(
    "resource, kind, status",
    [
        (POD_GROUPS, "Scheduled", "False"),
        (KUBERNETES_POD_GROUPS, "PodGroupScheduled", "False"),
        (VOLCANO_POD_GROUPS, "Unschedulable", "True"),
    ],
    ids=lambda value: value.api_version if isinstance(value, Resource) else None,
)
def test_conditions_say_why_a_gang_waits(resource: Resource[Any], kind: str, status: str) -> None:
    (condition,) = status_of(resource.type, WAITS)["conditions"]
    assert (condition["type"], condition["status"]) == (kind, status)
    assert (condition["message"], condition["lastTransitionTime"]) == ("no room", SINCE)


def test_kai_has_a_place_of_its_own_for_it() -> None:
    (condition,) = status_of(KAI_POD_GROUPS.type, WAITS)["schedulingConditions"]
    assert (condition["type"], condition["message"]) == ("UnschedulableOnNodePool", "no room")
    assert status_of(KAI_POD_GROUPS.type, COMPLETE)["schedulingConditions"] == []


@pytest.mark.parametrize(
    "progress, reason",
    [
        (WAITS, "Unschedulable"),
        (Progress(complete=False, since=SINCE, message="wrong", invalid=True), "SchedulerError"),
        (COMPLETE, "Scheduled"),
    ],
)
def test_reasons_are_those_of_kubernetes(progress: Progress, reason: str) -> None:
    (condition,) = status_of(KUBERNETES_POD_GROUPS.type, progress)["conditions"]
    assert condition["reason"] == reason


def test_every_dialect_is_told_when_it_is_complete() -> None:
    assert all(status_of(struct, COMPLETE) for struct in ALL_POD_GROUPS)
