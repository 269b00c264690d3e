"""Service logs: one line per record, as text or JSON. Modules pass facts as `extra`:

logger.info("bound pod", extra={"pod": "ml/train-0", "node": "n17"})

2026-01-02T03:04:05.678Z INFO scheduler bound pod pod=ml/train-0 node=n17
{"time":"2026-01-02T03:04:05.678Z","level":"info","logger":"bayplan.services.scheduler","message":"bound pod", ...}
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

import msgspec

from bayplan.kube.visible import visible, visible_json, visible_text

LogFormat = Literal["text", "json"]

# Attributes of every record; all others came as `extra`.
_STANDARD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
_ROOT = "bayplan"


def set_up_logs(log_format: LogFormat = "text", verbosity: int = 0, stream: TextIO | None = None) -> None:
    """Log to `stream` (default stderr): info, with `verbosity` 1 also debug, with 2 also the libraries' debug."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.DEBUG if verbosity >= 2 else logging.WARNING)
    logging.getLogger(_ROOT).setLevel(logging.DEBUG if verbosity >= 1 else logging.INFO)


class TextFormatter(logging.Formatter):
    """Time, level, logger, message, then facts as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback follows on indented lines."""
        facts = "".join(f" {key}={_quoted(value)}" for key, value in _facts(record).items())
        where = record.name.removeprefix(f"{_ROOT}.").removeprefix("services.")
        line = f"{_timestamp(record)} {record.levelname} {where} {visible(record.getMessage())}{facts}"
        if not record.exc_info:
            return line
        # Indented, so that no line of an error message looks like a log line.
        traceback = visible_text(self.formatException(record.exc_info)).replace("\n", "\n    ")
        return f"{line}\n    {traceback}"


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with the facts beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON; a traceback is the text in `error`."""
        fields: dict[str, object] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {key: value for key, value in _facts(record).items() if key not in fields}
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return visible_json(msgspec.json.encode(fields, enc_hook=str).decode())


def _facts(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _timestamp(record: logging.LogRecord) -> str:
    made = datetime.fromtimestamp(record.created, tz=UTC)
    return made.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quoted(value: object) -> str:
    """The value, in quotes unless it is one word."""
    text = str(value)
    if text and text.isprintable() and not set(text) & set(' "='):
        return text
    return visible_json(msgspec.json.encode(text).decode())
