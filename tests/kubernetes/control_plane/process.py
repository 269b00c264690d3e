"""One program of the control plane as a handle: start and stop it, pause it, see what it costs.

In: a command line, and a question that tells whether the program is ready. Out: a program that answers, or the end of
its log in the exception. Every start runs the same command line, so a restarted program is found at the same address
with the same data. Next: `plane.py` holds a handle for each program.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

DIE_WITH_PARENT = Path(__file__).with_name("die_with_parent.py")
LAUNCHER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="launcher")
"""To the kernel, a program's parent is a thread: this one lives as long as the test run, whichever thread asks for a
start.
"""
READY_TIMEOUT = 90.0
"""Seconds: a start takes 1 to 4, and many times that on a machine that is busy with something else."""


class ProgramFailed(Exception):
    """A program ended by itself or never became ready; the message has the end of its log."""


class PortTaken(ProgramFailed):
    """Another program was faster to take the port: worth another try with another one."""


class Process:
    """A program, running or not. As a context manager it is stopped at the end."""

    def __init__(self, name: str, command: Sequence[str], log: Path, is_ready: Callable[[], bool]) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._is_ready = is_ready
        self._running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The id of the running program."""
        assert self._running is not None, f"{self.name} is not running"
        return self._running.pid

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start it and return at once."""
        assert self._running is None, f"{self.name} is running already"
        self._running = LAUNCHER.submit(self._spawn).result()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-I", DIE_WITH_PARENT, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C at the terminal is for the test run alone
            )

    def wait_until_ready(self) -> None:
        """Wait until it answers; raises ProgramFailed if it ends first or takes too long."""
        end = time.monotonic() + READY_TIMEOUT
        while not self._is_ready():
            self._check_alive()
            if time.monotonic() > end:
                raise ProgramFailed(f"{self.name} is not ready after {READY_TIMEOUT:.0f} s:\n{self._end_of_log()}")
            time.sleep(0.05)

    def _check_alive(self) -> None:
        assert self._running is not None
        status = self._running.poll()
        if status is None:
            return
        self._running = None
        log = self._end_of_log()
        failure = PortTaken if "address already in use" in log else ProgramFailed
        raise failure(f"{self.name} ended with status {status}:\n{log}")

    def _end_of_log(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]

    def stop(self, grace: float = 5.0) -> None:
        """Ask it to end, and kill it if it has not after `grace` seconds. A program that is not running stays so."""
        if self._running is None:
            return
        self.resume()  # a paused program would never hear the request
        self._running.terminate()
        try:
            self._running.wait(grace)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
        self._running = None

    def kill(self) -> None:
        """End it at once, as a crash or a lost machine would."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()
            self._running = None

    def restart(self) -> None:
        """Stop it and start it again, at the same address with the same data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open, and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)
        # kill() returns before the threads of the program stand still, and one that still runs may answer.
        end = time.monotonic() + READY_TIMEOUT
        while not self._stands_still():
            if time.monotonic() > end:
                raise ProgramFailed(f"{self.name} has not stopped {READY_TIMEOUT:.0f} s after SIGSTOP")
            time.sleep(0.005)

    def _stands_still(self) -> bool:
        """Whether every thread is stopped: `T` in field 3 of proc(5)."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return all(stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T" for stat in threads)

    def resume(self) -> None:
        """Let a paused program go on."""
        os.kill(self.pid, signal.SIGCONT)

    def memory(self) -> int:
        """Resident memory in bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise ProgramFailed(f"{self.name} has no memory: it has ended")

    def cpu_seconds(self) -> float:
        """Processor time used since it was started, in user and kernel mode."""
        # After the name in brackets, which may contain blanks: state is field 3 of proc(5), utime 14 and stime 15.
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
