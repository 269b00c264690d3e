"""Pods of a gang that makes room: only what happened is told and counted, and a right that is missing is said once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from bayplan.dispatch.actions import Release
from bayplan.kube.client.client import KubeClient, Unreachable
from bayplan.services.edges.events import EventRecorder
from bayplan.services.scheduler.releasing import Released, Releaser
from tests.builders.services import api_error, in_virtual_time, pod_named
from tests.unit.services.scheduler.test_announcer import Heard

A, B, C = (pod_named(name) for name in "abc")
GANG = Release("ml/train", (A, B, C), "no room")


@dataclass
class Deleting:
    """Deletes pods, but first gives the answers that it has for them."""

    answers: dict[str, list[Exception]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)

    async def delete(self, resource: object, name: str, namespace: str, *, uid: str) -> None:
        if self.answers.get(name):
            raise self.answers[name].pop(0)
        self.deleted.append(name)


class Releasing:
    """A releaser, and what comes of it."""

    def __init__(self, **answers: list[Exception]) -> None:
        self.client = Deleting(answers)
        self.heard = Heard()
        self.counted = 0
        self._releaser = Releaser(cast("KubeClient", self.client), cast("EventRecorder", self.heard), self._count)

    def _count(self) -> None:
        self.counted += 1

    def release(self, holds_lease: Callable[[], bool] = lambda: True) -> Released:
        return in_virtual_time(self._releaser.release(GANG, holds_lease))


def made_room(*names: str) -> list[str]:
    text = "gang ml/train cannot be completed, deleting its pods: no room"
    return [f"event Pod {name}, GangReleased: {text}" for name in names]


def test_deleted_pods_are_reported_and_counted() -> None:
    gang = Releasing()
    assert gang.release() == Released((A, B, C))
    assert gang.heard.lines == made_room("a", "b", "c")
    assert gang.counted == 3


@pytest.mark.parametrize("status", [404, 409])
def test_pods_that_are_already_gone_are_not_reported(status: int, caplog: pytest.LogCaptureFixture) -> None:
    gang = Releasing(b=[api_error(status)])
    assert gang.release() == Released((A, B, C))
    assert gang.heard.lines == made_room("a", "c")
    assert gang.counted == 2
    assert [record.message for record in caplog.records] == ["released gang"]


@pytest.mark.parametrize("trouble", [api_error(503), api_error(429), Unreachable("nobody answers")])
def test_transient_errors_are_retried_and_logged_once(trouble: Exception, caplog: pytest.LogCaptureFixture) -> None:
    gang = Releasing(b=[trouble] * 5)
    assert gang.release() == Released((A, B, C))
    assert gang.client.deleted == ["a", "b", "c"]
    messages = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert messages == ["failed to delete pod, retrying", "released gang"]


def test_without_permission_all_pods_keep_their_nodes_with_one_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gang = Releasing(a=[api_error(403)] * 2)
    assert gang.release() == gang.release() == Released(refused=True)
    text = "gang ml/train cannot be completed (no room), but its pods keep their nodes: no"
    assert gang.heard.lines == [f"event Pod {name}, GangNotReleased: {text}" for name in "abc"]
    assert gang.client.deleted == []
    assert gang.counted == 0
    assert [record.message for record in caplog.records] == ["not allowed to release gang"]


def test_without_the_lease_no_more_pods_are_deleted() -> None:
    gang = Releasing()
    assert gang.release(lambda: len(gang.client.deleted) < 2) == Released((A, B))
    assert gang.client.deleted == ["a", "b"]
