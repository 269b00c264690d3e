"""A `bayplan` command that goes on running, on a terminal or into a pipe, and what it writes."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

PROGRAM = [sys.executable, "-c", "from bayplan.cli.main import main; main()"]
LONGEST_WAIT = 60.0


class Running:
    """A command that runs, and what it has written."""

    def __init__(self, process: subprocess.Popen[bytes], output: int) -> None:
        self.process = process
        self.output = output
        self.text = ""

    def until(self, words: str) -> str:
        """Read until these words have come; what came since the last call."""
        began, seen = time.monotonic(), len(self.text)
        while words not in self.text[seen:]:
            assert time.monotonic() - began < LONGEST_WAIT, f"{words!r} is not in {self.text[seen:]!r}"
            if select.select([self.output], [], [], 0.2)[0]:
                self.text += os.read(self.output, 65536).decode()
        return self.text[seen:]

    def ctrl_c(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(LONGEST_WAIT)


@contextmanager
def running(*arguments: str, on_terminal: bool = False) -> Iterator[Running]:
    def begin() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if on_terminal:
        reader, writer = pty.openpty()
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    else:
        reader, writer = os.pipe()
    environment = {**os.environ, "TERM": "xterm", "PYTHONUNBUFFERED": "1"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=environment,
        preexec_fn=begin,  # noqa: PLW1509 - a shell's background jobs begin with SIGINT ignored
    )
    os.close(writer)
    try:
        yield Running(process, reader)
    finally:
        process.kill()
        process.communicate()
        os.close(reader)
