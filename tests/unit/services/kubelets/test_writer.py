"""Writing: each object's newest word gets through, in order, whatever the API server answers in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.kube.client.client import ApiError, Unreachable
from bayplan.kube.wire.meta_v1 import Status, StatusCause, StatusDetails
from bayplan.services.kubelets import writer as writer_module
from bayplan.services.kubelets.model import DeletePod, PublishTopology, SetPodStatus, Write
from bayplan.services.kubelets.writer import StatusWriter


class FakeClient:
    """Notes requests, and fails them as told: what `answers` has for a request comes first."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.answers: dict[tuple[str, str], list[Exception]] = {}
        self.gate: asyncio.Event | None = None

    async def patch(self, resource: Any, name: str, body: Any, namespace: str | None = None, **_: Any) -> bytes:
        return await self._answer("patch", name, body)

    async def create(self, resource: Any, body: Any, namespace: str | None = None) -> bytes:
        return await self._answer("create", body["metadata"]["name"], body)

    async def delete(self, resource: Any, name: str, namespace: str | None = None, **options: Any) -> None:
        await self._answer("delete", name, options)

    async def _answer(self, verb: str, name: str, body: Any) -> bytes:
        self.requests.append((verb, name))
        self.bodies.append(body)
        if self.gate is not None:
            await self.gate.wait()
        if waiting := self.answers.get((verb, name)):
            raise waiting.pop(0)
        return b"{}"


def refusal(code: int) -> ApiError:
    return ApiError("PATCH /x", code, Status(code=code, reason="Reason", message="because"))


def invalid(*fields: str) -> ApiError:
    """What the API server answers about these fields."""
    details = StatusDetails(causes=[StatusCause("FieldValueInvalid", "field is immutable", field) for field in fields])
    return ApiError("PATCH /x", 422, Status(code=422, reason="Invalid", message="because", details=details))


def status(name: str, phase: str) -> SetPodStatus:
    return SetPodStatus("default", name, f"uid-{name}", {"phase": phase})


def report(*, exists: bool) -> PublishTopology:
    return PublishTopology("virtual-0", {"metadata": {"name": "virtual-0"}, "zones": []}, exists)


Story = Callable[[FakeClient, StatusWriter], Awaitable[None]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Story], tuple[FakeClient, list[str]]]:
    """Tell a story with a client and a writer at work; pauses are short."""
    monkeypatch.setattr(writer_module, "FIRST_PAUSE", 0.001)

    def tell(story: Story) -> tuple[FakeClient, list[str]]:
        client = FakeClient()
        troubles: list[str] = []

        async def whole_story() -> None:
            writer = StatusWriter(client, {"virtual-0": "uid-node"}, troubles.append, workers=4)  # type: ignore[arg-type]
            work = asyncio.create_task(writer.work())
            await story(client, writer)
            await asyncio.wait_for(writer.idle(), 5)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

        asyncio.run(whole_story())
        return client, troubles

    return tell


def write_all(*writes: Write, **answers: list[Exception]) -> Story:
    """Write these at once; `patch_a=[...]` are failures of patching `a`, `-` written as `_`."""

    async def story(client: FakeClient, writer: StatusWriter) -> None:
        for request, failures in answers.items():
            verb, _, name = request.partition("_")
            client.answers[verb, name.replace("_", "-")] = list(failures)
        writer.put(writes)

    return story


Run = Callable[[Story], tuple[FakeClient, list[str]]]


def test_a_status_goes_to_this_very_pod(run: Run) -> None:
    client, troubles = run(write_all(status("a", "Running")))
    assert client.requests == [("patch", "a")]
    assert client.bodies == [{"metadata": {"uid": "uid-a"}, "status": {"phase": "Running"}}]
    assert troubles == []


def test_a_pod_is_deleted_at_once_and_only_this_one(run: Run) -> None:
    client, _ = run(write_all(DeletePod("default", "a", "uid-a")))
    assert client.bodies == [{"uid": "uid-a", "grace": 0}]


@pytest.mark.parametrize("failures, told", [([], 0), ([refusal(500)], 1), ([refusal(422)], 1)])
def test_a_pod_gets_its_last_status_before_it_is_deleted(run: Run, failures: list[Exception], told: int) -> None:
    client, troubles = run(write_all(DeletePod("default", "a", "uid-a", {"phase": "Failed"}), patch_a=failures))
    assert client.requests[-2:] == [("patch", "a"), ("delete", "a")]
    assert client.bodies[-2] == {"metadata": {"uid": "uid-a"}, "status": {"phase": "Failed"}}
    assert len(troubles) == told


def test_a_report_of_a_deleted_node_is_not_written(run: Run) -> None:
    client, _ = run(write_all(PublishTopology("virtual-9", {"metadata": {"name": "virtual-9"}, "zones": []}, False)))
    assert client.requests == []


def test_a_newer_write_replaces_an_unsent_one(run: Run) -> None:
    client, _ = run(write_all(status("a", "Running"), status("a", "Succeeded"), DeletePod("default", "a", "uid-a")))
    assert client.requests == [("delete", "a")]


def test_writes_to_one_pod_wait_for_each_other_and_others_do_not(run: Run) -> None:
    async def story(client: FakeClient, writer: StatusWriter) -> None:
        client.gate = asyncio.Event()
        writer.put([status("a", "Running")])
        await asyncio.sleep(0.01)
        writer.put([status("a", "Succeeded"), status("b", "Running")])
        await asyncio.sleep(0.01)
        assert client.requests == [("patch", "a"), ("patch", "b")]
        client.gate.set()

    client, _ = run(story)
    assert client.requests == [("patch", "a"), ("patch", "b"), ("patch", "a")]


@pytest.mark.parametrize("trouble", [Unreachable("no answer"), refusal(429), refusal(500), refusal(403)])
def test_transient_errors_are_reported_and_retried(run: Run, trouble: Exception) -> None:
    client, troubles = run(write_all(status("a", "Running"), patch_a=[trouble, trouble]))
    assert client.requests == [("patch", "a")] * 3
    assert troubles == [str(trouble)] * 2


@pytest.mark.parametrize("code, told", [(404, False), (409, False), (422, True)])
def test_permanent_errors_are_not_retried(run: Run, code: int, told: bool) -> None:
    client, troubles = run(write_all(status("a", "Running"), patch_a=[refusal(code)]))
    assert client.requests == [("patch", "a")]
    assert bool(troubles) == told


@pytest.mark.parametrize(
    "fields, told",
    [
        (["metadata.uid"], False),
        (["status.podIPs", "metadata.uid"], False),  # whatever else is invalid was meant for another pod
        (["status.podIPs"], True),
        (["metadata.name"], True),
        ([], True),
    ],
)
@pytest.mark.parametrize("write", [status("a", "Running"), DeletePod("default", "a", "uid-a", {"phase": "Failed"})])
def test_a_status_for_a_predecessor_is_no_trouble(run: Run, write: Write, fields: list[str], told: bool) -> None:
    client, troubles = run(write_all(write, patch_a=[invalid(*fields)]))
    assert client.requests == [("patch", "a"), *([("delete", "a")] if isinstance(write, DeletePod) else [])]
    assert bool(troubles) == told


@pytest.mark.parametrize(
    "exists, answers, requests",
    [
        (False, {}, ["create"]),
        (True, {}, ["patch"]),
        (True, {"patch_virtual_0": [refusal(404)]}, ["patch", "create"]),
        (False, {"create_virtual_0": [refusal(409)]}, ["create", "patch"]),
        (False, {"create_virtual_0": [refusal(404)]}, ["create"]),  # the kind is gone; its return will be noticed
    ],
)
def test_a_report_is_created_or_changed(
    run: Run, exists: bool, answers: dict[str, list[Exception]], requests: list[str]
) -> None:
    client, troubles = run(write_all(report(exists=exists), **answers))
    assert [verb for verb, _ in client.requests] == requests
    assert client.bodies[-1]["metadata"]["ownerReferences"][0]["uid"] == "uid-node"
    assert troubles == []
