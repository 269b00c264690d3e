"""`bayplan scheduler` as a program of its own, for tests that start it, stop it, kill it and look at it from outside.

with running_scheduler(control_plane) as scheduler:
    ...  # its first lists are done, and it leads unless another one does
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until

PROGRAM = "import sys; from bayplan.cli.main import main; sys.exit(main())"
STARTS_WITHIN = 180.0
ENDS_WITHIN = 30.0


class RunningScheduler:
    """A scheduler in a process of its own."""

    def __init__(
        self,
        kubeconfig: Path,
        arguments: tuple[str, ...],
        environment: dict[str, str] | None = None,
        program: str = "scheduler",
    ) -> None:
        self.port = _free_port()
        command = [sys.executable, "-c", PROGRAM, program, "--kubeconfig", str(kubeconfig)]
        command += ["--health-address", f"127.0.0.1:{self.port}", *arguments]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in close()
        self.process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, env={**os.environ, **(environment or {})}
        )

    def get(self, path: str) -> str:
        """What the health server answers, also if it says no; empty if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refused:
            return str(refused.read().decode())
        except (urllib.error.URLError, OSError):
            return ""

    def metric(self, name: str) -> float:
        """The sum of a metric over all of its labels."""
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith((name + " ", name + "{"))]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def wait_until_ready(self) -> None:
        """Everything is listed."""
        end = time.monotonic() + STARTS_WITHIN
        while self.get("/readyz") != "ok" and self.process.poll() is None:
            assert time.monotonic() < end, f"not ready: {self.get('/readyz?verbose')}\n{self.log[-3000:]}"
            time.sleep(0.1)
        assert self.process.poll() is None, self.log

    def wait_until_leading(self) -> None:
        """It holds the lease."""
        wait_until(
            lambda: self.metric("leader_election_master_status") == 1, "the scheduler leads", timeout=STARTS_WITHIN
        )

    def kill(self) -> None:
        """End it without warning."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """End it gracefully; its exit code."""
        self.process.terminate()
        return self.process.wait(ENDS_WITHIN)

    @property
    def log(self) -> str:
        """What it has said so far."""
        self._log.seek(0)
        return self._log.read()

    def close(self) -> None:
        """End it if it is still there."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                self.kill()
        self._log.close()


@contextmanager
def running_scheduler(
    plane: ControlPlane, *arguments: str, kubeconfig: Path | None = None, environment: dict[str, str] | None = None
) -> Iterator[RunningScheduler]:
    """A scheduler that is ready; it is ended afterwards."""
    scheduler = RunningScheduler(kubeconfig or plane.kubeconfig, arguments, environment)
    try:
        scheduler.wait_until_ready()
        yield scheduler
    finally:
        scheduler.close()


@contextmanager
def running_pod_grouper(
    plane: ControlPlane, *arguments: str, kubeconfig: Path | None = None
) -> Iterator[RunningScheduler]:
    """`bayplan pod-grouper` by itself, ready; it has the same health, metrics and lease as a scheduler."""
    grouper = RunningScheduler(kubeconfig or plane.kubeconfig, arguments, program="pod-grouper")
    try:
        grouper.wait_until_ready()
        yield grouper
    finally:
        grouper.close()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
