"""Pods of a gang that makes room: only what happened is told and counted, and a right that is missing is said once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from bayplan.dispatch.actions import Release
from bayplan.kube.client.client import KubeClient, Unreachable
from bayplan.kube.wire.core_v1 import OwnerReference, Pod
from bayplan.services.edges.events import EventRecorder
from bayplan.services.scheduler.releasing import Released, Releaser
from tests.builders.services import api_error, in_virtual_time, pod_named
from tests.unit.services.scheduler.announcing.test_announcer import Heard

Json = dict[str, Any]
A, B, C = (pod_named(name) for name in "abc")
GANG = Release("ml/train", (A, B, C), "no room")


@dataclass
class Deleting:
    """Deletes pods, but first gives the answers that it has for them."""

    answers: dict[str, list[Exception]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    conditions: dict[str, list[Json]] = field(default_factory=dict)
    jobs: dict[str, Json] = field(default_factory=dict)

    async def request(self, method: str, path: str) -> bytes:
        assert method == "GET"
        name = path.removeprefix("/apis/batch/v1/namespaces/ml/jobs/")
        if name not in self.jobs:
            raise api_error(403)
        return msgspec.json.encode(self.jobs[name])

    async def patch(self, resource: object, name: str, body: Json, namespace: str, *, subresource: str) -> bytes:
        assert (body["metadata"]["uid"], subresource) == (f"uid-{name}", "status")
        self.conditions[name] = body["status"]["conditions"]
        return b"{}"

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
        self._releaser = Releaser(
            cast("KubeClient", self.client), cast("EventRecorder", self.heard), self._count, lambda: 60.0
        )

    def _count(self) -> None:
        self.counted += 1

    def release(self, holds_lease: Callable[[], bool] = lambda: True, action: Release = GANG) -> Released:
        return in_virtual_time(self._releaser.release(action, holds_lease))


def made_room(*names: str) -> list[str]:
    text = "gang ml/train cannot be completed, deleting its pods: no room"
    return [f"event Pod {name}, GangReleased: {text}" for name in names]


def test_deleted_pods_are_reported_and_counted() -> None:
    gang = Releasing()
    assert gang.release() == Released((A, B, C))
    assert gang.heard.lines == made_room("a", "b", "c")
    assert gang.counted == 3


def test_pods_are_marked_as_disrupted_before_they_are_deleted() -> None:
    gang = Releasing()
    gang.release()
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "GangReleased",
        "message": "gang ml/train cannot be completed: no room",
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    }
    assert gang.client.conditions == {name: [condition] for name in "abc"}


def owned(pod: Pod, failures: int | None = None) -> Pod:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="train", uid="j", controller=True)
    notes = {} if failures is None else {"batch.kubernetes.io/job-index-failure-count": str(failures)}
    metadata = msgspec.structs.replace(pod.metadata, owner_references=[owner], annotations=notes)
    return msgspec.structs.replace(pod, metadata=metadata)


def policy(*rules: Json) -> Json:
    return {"podFailurePolicy": {"rules": list(rules)}}


IGNORES = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
COUNTS = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}
FAILS_ON_EXIT = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}


@pytest.mark.parametrize(
    "spec, failed, kept",
    [
        ({}, 0, ""),
        ({}, 4, "deleting 3 pods would fail Job train (backoffLimit 6, 4 pods have failed)"),
        ({"backoffLimit": 2}, 0, "deleting 3 pods would fail Job train (backoffLimit 2, 0 pods have failed)"),
        ({"backoffLimit": 0, **policy(IGNORES)}, 0, ""),
        ({"backoffLimit": 0, **policy(COUNTS, IGNORES)}, 0, "deleting 3 pods would fail Job train"),
        ({"backoffLimit": 0, **policy(FAILS_ON_EXIT, IGNORES)}, 0, "deleting 3 pods would fail Job train"),
        ({"backoffLimitPerIndex": 2}, 0, "deleting them would fail 1 index of Job train (backoffLimitPerIndex 2)"),
        ({"backoffLimitPerIndex": 3}, 0, ""),
    ],
)
def test_pods_stay_if_deleting_them_would_fail_their_job(spec: Json, failed: int, kept: str) -> None:
    gang = Releasing()
    gang.client.jobs["train"] = {"spec": spec, "status": {"failed": failed}}
    pods = (owned(A, 2), owned(B, 0), owned(C))
    outcome = gang.release(action=Release("ml/train", pods, "no room"))
    assert outcome.refused == bool(kept)
    assert gang.client.deleted == ([] if kept else ["a", "b", "c"])
    if kept:
        assert all(
            f"GangNotReleased: gang ml/train cannot be completed (no room), but its pods keep their nodes: {kept}"
            in line
            for line in gang.heard.lines
        )
        assert "podFailurePolicy" in gang.heard.lines[0]


def test_a_job_that_cannot_be_read_keeps_no_pod() -> None:
    gang = Releasing()
    gang.release(action=Release("ml/train", (owned(A),), "no room"))
    assert gang.client.deleted == ["a"]


@pytest.mark.parametrize("status", [404, 409])
def test_pods_that_are_already_gone_are_not_reported(status: int, caplog: pytest.LogCaptureFixture) -> None:
    gang = Releasing(b=[api_error(status)])
    assert gang.release() == Released((A, B, C))
    assert gang.heard.lines == made_room("a", "c")
    assert gang.counted == 2
    assert [record.message for record in caplog.records] == ["released gang"]


@pytest.mark.parametrize("trouble", [api_error(503), api_error(429), Unreachable("no answer")])
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
