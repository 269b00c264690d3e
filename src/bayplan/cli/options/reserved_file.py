"""A file that is written at the end of a long task, but checked for writability before the task begins.

The text goes into a file beside the target and replaces it atomically. Readers never see a partial file, and the
previous content stays until the new text is complete.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import click

STANDARD_OUTPUT = Path("-")


class ReservedFile:
    """A context: enter it before the work, `write` once, and leave it; without `write` nothing has happened."""

    def __init__(self, path: Path, option: str) -> None:
        self._option = option
        self._path = path
        # A terminal, a pipe or /dev/null cannot be replaced by a file.
        self._in_place = path.exists() and not path.is_file() and not path.is_dir()
        self._target = path if self._in_place else path.resolve()
        self._draft = self._target.with_name(f".{self._target.name}.{os.getpid()}.part")

    def __enter__(self) -> Self:
        if self._path == STANDARD_OUTPUT:
            raise self._error("name a file, standard output has the answer")
        if self._target.is_dir():
            raise self._error("is a folder")
        if self._target.exists() and not os.access(self._target, os.W_OK):
            raise self._error("Permission denied")
        if not self._in_place:
            try:
                self._draft.touch(exist_ok=False)
            except OSError as error:
                raise self._error(error.strerror or str(error)) from None
        return self

    def write(self, text: str) -> None:
        """Put the text where the file is wanted."""
        try:
            if self._in_place:
                self._target.write_text(text, encoding="utf-8")
                return
            self._draft.write_text(text, encoding="utf-8")
            if self._target.exists():
                self._draft.chmod(self._target.stat().st_mode)
            self._draft.replace(self._target)
        except OSError as error:
            raise self._error(error.strerror or str(error)) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._in_place:
            self._draft.unlink(missing_ok=True)

    def _error(self, problem: str) -> click.ClickException:
        return click.ClickException(f"{self._option}: {self._path} cannot be written: {problem}")
