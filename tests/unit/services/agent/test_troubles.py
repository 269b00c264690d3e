"""What is wrong is said once: when it begins, when it turns into something else, and when it is over."""

from __future__ import annotations

import logging

import pytest

from bayplan.services.agent.troubles import Troubles

REFUSED, SILENT = ("unreachable", "connection refused"), ("unreachable", "no answer within 10 s")


@pytest.mark.parametrize(
    "noted, said",
    [
        ([REFUSED] * 3, ["connection refused"]),
        ([REFUSED, ("forbidden", "cannot write")], ["connection refused", "cannot write"]),
        # One cause, another reason: both are worth a line, but only once however often they take turns.
        ([REFUSED, SILENT, REFUSED, SILENT], ["connection refused", "no answer within 10 s"]),
        ([("timeout", "no answer after 1 s"), ("timeout", "no answer after 27 s")], ["no answer after 1 s"]),
    ],
)
def test_each_message_is_logged_once(
    noted: list[tuple[str, str]], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    troubles = Troubles()
    for cause, message in noted:
        troubles.note("api", cause, message)
    assert [each.getMessage() for each in caplog.records] == said
    assert troubles.current["api"].message == noted[-1][1]


def test_a_recurring_trouble_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bayplan")
    troubles = Troubles()
    troubles.note("api", *REFUSED)
    troubles.over("api")
    troubles.note("api", *REFUSED)
    assert [each.getMessage() for each in caplog.records] == [REFUSED[1], "recovered", REFUSED[1]]


def test_each_held_trouble_is_logged_when_it_begins_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bayplan")
    troubles = Troubles()
    for held in (["a is odd"], ["a is odd", "b is odd"], ["b is odd"], []):
        troubles.hold("input", held)
    assert [each.getMessage() for each in caplog.records] == [
        "a is odd",
        "b is odd",
        "resolved: a is odd",
        "resolved: b is odd",
    ]
    assert troubles.numbers() == {"input": 0}
