"""Log lines as text and JSON; object content cannot forge lines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from bayplan.services.edges.logs import LogFormat, set_up_logs

LOGGER = logging.getLogger("bayplan.services.scheduler")


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    loggers = [logging.getLogger(), logging.getLogger("bayplan")]
    before = [(list(each.handlers), each.level) for each in loggers]
    yield
    for each, (handlers, level) in zip(loggers, before, strict=True):
        each.handlers = handlers
        each.setLevel(level)


def written(log_format: LogFormat, verbosity: int = 0) -> io.StringIO:
    stream = io.StringIO()
    set_up_logs(log_format, verbosity, stream)
    return stream


def test_text_ends_with_key_value_facts() -> None:
    stream = written("text")
    LOGGER.info("bound", extra={"pod": "ml/train-0", "why": "best of 3", "empty": ""})
    time, rest = stream.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert rest == 'INFO scheduler bound pod=ml/train-0 why="best of 3" empty=""\n'


def test_json_has_facts_beside_the_message() -> None:
    stream = written("json")
    LOGGER.warning("watch lost after %d s", 5, extra={"resource": "pods", "level": "mine", "error_type": KeyError})
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "bayplan.services.scheduler",
        "message": "watch lost after 5 s",
        "resource": "pods",
        "error_type": "<class 'KeyError'>",
    }


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_line_breaks_in_content_do_not_forge_lines(log_format: LogFormat) -> None:
    stream = written(log_format)
    LOGGER.info("bad object: a\n2026 ERROR forged", extra={"name_": "x\ny"})
    assert stream.getvalue().count("\n") == 1


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_tracebacks_are_included(log_format: LogFormat) -> None:
    stream = written(log_format)
    try:
        int("bug")
    except ValueError:
        LOGGER.exception("not sent")
    assert "ValueError: invalid literal" in stream.getvalue()


@pytest.mark.parametrize(
    "verbosity, seen",
    [
        (0, {"info", "library warning"}),
        (1, {"info", "detail", "library warning"}),
        (2, {"info", "detail", "library warning", "library detail"}),
    ],
)
def test_verbosity(verbosity: int, seen: set[str]) -> None:
    stream = written("json", verbosity)
    LOGGER.info("info")
    LOGGER.debug("detail")
    logging.getLogger("somelibrary").warning("library warning")
    logging.getLogger("somelibrary").debug("library detail")
    assert {json.loads(line)["message"] for line in stream.getvalue().splitlines()} == seen
