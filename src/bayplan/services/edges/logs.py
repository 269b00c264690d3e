"""Logs of a service: one line an event, as text for people or as JSON for machines.

Modules log with the standard library and pass facts as `extra`:

    logger.info("bound", extra={"pod": "ml/train-0", "node": "n17"})

`set_up_logs` decides once, at the start, how that is written:

    2026-01-02T03:04:05.678Z INFO scheduler bound pod=ml/train-0 node=n17
    {"time":"2026-01-02T03:04:05.678Z","level":"info","logger":"bayplan.services.scheduler","message":"bound","pod":"ml/train-0","node":"n17"}
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

import msgspec

from bayplan.kube.visible import visible, visible_json, visible_text

LogFormat = Literal["text", "json"]

# What every record has by itself; anything else came as `extra`.
_STANDARD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
_ROOT = "bayplan"


def set_up_logs(log_format: LogFormat = "text", verbosity: int = 0, stream: TextIO | None = None) -> None:
    """Write logs to `stream` (standard error): information, with `verbosity` 1 also details, with 2 also libraries'."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.DEBUG if verbosity >= 2 else logging.WARNING)
    logging.getLogger(_ROOT).setLevel(logging.DEBUG if verbosity >= 1 else logging.INFO)


class TextFormatter(logging.Formatter):
    """Time, level, who, what, then facts as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback follows on lines of its own."""
        facts = "".join(f" {key}={_plain(value)}" for key, value in facts_of(record).items())
        where = record.name.removeprefix(f"{_ROOT}.").removeprefix("services.")
        line = f"{timestamp(record)} {record.levelname} {where} {visible(record.getMessage())}{facts}"
        return f"{line}\n{_indented(self.formatException(record.exc_info))}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line; facts stand beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON; a traceback is the text in `error`."""
        said: dict[str, object] = {
            "time": timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said |= {key: value for key, value in facts_of(record).items() if key not in said}
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return visible_json(msgspec.json.encode(said, enc_hook=str).decode())


def facts_of(record: logging.LogRecord) -> dict[str, object]:
    """What was passed as `extra`, in the order given."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def timestamp(record: logging.LogRecord) -> str:
    """When it happened, in UTC to the millisecond."""
    made = datetime.fromtimestamp(record.created, tz=UTC)
    return made.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: object) -> str:
    """A value as it is if it is one word, else in quotes."""
    text = str(value)
    if text and text.isprintable() and not set(text) & set(' "='):
        return text
    return visible_json(msgspec.json.encode(text).decode())


def _indented(traceback: str) -> str:
    """A traceback of which no line looks like one of the log, whatever the error says."""
    return visible_text(traceback).replace("\n", "\n    ").join(("    ", ""))
