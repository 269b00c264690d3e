"""A program that runs beside this one, at lower priority: started again if it ends, and ended with this one.

Its standard input is a pipe into which nothing is written. It ends when that closes, so it cannot outlive this program,
however that ended.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
PATIENCE = 5.0
# So that it never takes a core from the program that it accompanies.
NICENESS = 10


@contextmanager
def companion(name: str, arguments: Sequence[str]) -> Iterator[None]:
    """Keep `bayplan ARGUMENTS` running while the context lasts."""
    ends = threading.Event()
    keeper = threading.Thread(target=_keep_running, args=(name, arguments, ends), name=name, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ends.set()
        keeper.join(2 * PATIENCE)


def _keep_running(name: str, arguments: Sequence[str], ends: threading.Event) -> None:
    pause = FIRST_PAUSE
    while not ends.is_set():
        command = [sys.executable, "-c", "from bayplan.cli.main import main; main()", *arguments]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:  # noqa: S603 - this program itself
            while process.poll() is None and not ends.wait(0.2):
                pass
            if ends.is_set():
                _end(process)
                return
        logger.warning("companion ended, starting it again", extra={"program": name, "code": process.returncode})
        ends.wait(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


def accompany() -> None:
    """What the companion calls when it starts: yield to the other program, and end with it."""
    os.nice(NICENESS)

    def end_with_input() -> None:
        sys.stdin.buffer.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_input, name="input", daemon=True).start()
