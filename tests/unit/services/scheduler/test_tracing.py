"""Decisions as JSON lines."""

from __future__ import annotations

import errno
import json
from io import StringIO
from typing import Any

import pytest

from bayplan.dispatch.actions import Action, Complete, Release
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.services.scheduler.tracing import MAX_PODS, DecisionTrace
from tests.builders.units import dispatcher, pod, pod_group


def traced(scheduler: Dispatcher, decisions: int) -> list[dict[str, Any]]:
    file = StringIO()
    trace = DecisionTrace(scheduler, file)
    for _ in range(decisions):
        action = scheduler.decide(0)
        assert action is not None
        trace.write(action, 1_700_000_000.25, 0.0012)
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_a_line_says_where_a_pod_goes_and_what_refuses_the_other_nodes() -> None:
    scheduler = dispatcher("n1")
    scheduler.set_pod(pod("a", 6), 0)
    scheduler.set_pod(pod("b", 6), 0)
    bound, refused = traced(scheduler, 2)
    assert (bound["time"], bound["seconds"]) == ("2023-11-14T22:13:20.250Z", 0.0012)
    assert (bound["unit"], bound["result"], bound["pods"]) == ("ml/a", "bind", 1)
    assert (bound["assignments"][0]["pod"], bound["assignments"][0]["node"]) == ("ml/a", "n1")
    assert (refused["unit"], refused["result"], refused["nodes"]) == ("ml/b", "unschedulable", 1)
    assert refused["refused"] == [{"plugin": "NodeResourcesFit", "cause": "Insufficient cpu", "nodes": 1}]


def test_a_gang_has_its_members_by_rank() -> None:
    scheduler = dispatcher("n1", "n2", racks={"n1": "r", "n2": "r"})
    scheduler.set_group(pod_group(2), 0)
    for name in ("a", "b"):
        scheduler.set_pod(pod(name, 6, gang="train"), 0)
    (line,) = traced(scheduler, 1)
    assert (line["unit"], line["pods"]) == ("gang ml/train", 2)
    assert sorted((each["rank"], each["node"]) for each in line["assignments"]) == [(0, "n1"), (1, "n2")]


@pytest.mark.parametrize(
    "action, result", [(Complete("ml/train"), "complete"), (Release("ml/train", (), "a member is missing"), "release")]
)
def test_a_gang_is_named_alike_in_every_line(action: Action, result: str) -> None:
    file = StringIO()
    DecisionTrace(dispatcher("n1"), file).write(action, 0.0, 0.0)
    line = json.loads(file.getvalue())
    assert (line["unit"], line["result"]) == ("gang ml/train", result)


def test_a_disk_that_is_full_ends_the_trace_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    class Full(StringIO):
        def write(self, _text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    scheduler = dispatcher("n1")
    scheduler.set_pod(pod("a", 1), 0)
    action = scheduler.decide(0)
    assert action is not None
    trace = DecisionTrace(scheduler, Full())
    for _ in range(2):
        trace.write(action, 0.0, 0.0)
    assert [record.message for record in caplog.records] == ["cannot write the trace of decisions, stopping it"]


def test_a_large_gang_is_one_line_of_bounded_length() -> None:
    nodes = [f"n{number}" for number in range(100)]
    scheduler = dispatcher(*nodes, racks=dict.fromkeys(nodes, "r"))
    scheduler.set_group(pod_group(100), 0)
    for number in range(100):
        scheduler.set_pod(pod(f"p{number}", 6, gang="train"), 0)
    (line,) = traced(scheduler, 1)
    assert (line["pods"], len(line["assignments"])) == (100, MAX_PODS)
