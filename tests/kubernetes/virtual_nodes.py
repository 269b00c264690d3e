"""`bayplan kubelets` as a program of its own, for tests that need nodes which refuse like kubelets.

    with virtual_nodes(control_plane, "--nodes", "200", "--report-delay", "1s") as nodes:
        ...  # nodes are registered, their first reports are written

Afterwards the nodes are gone, unless the arguments say `--keep` or the program was killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until

PROGRAM = "import sys; from bayplan.cli.main import main; sys.exit(main())"
# Thousands of nodes on a busy machine take their time.
STARTS_WITHIN = ENDS_WITHIN = 600.0
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class VirtualNodes:
    """The running program and what it has told so far."""

    def __init__(self, kubeconfig: Path, arguments: tuple[str, ...]) -> None:
        command = [sys.executable, "-c", PROGRAM, "kubelets", "--kubeconfig", str(kubeconfig), "-o", "json", *arguments]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        assert self._process.stdout is not None
        self.news: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self.news.append(json.loads(line))

    def told(self, event: str) -> list[dict[str, Any]]:
        """All news of one kind."""
        return [news for news in list(self.news) if news["event"] == event]

    def wait_until_ready(self) -> None:
        """Nodes are registered and have reported."""
        wait_until(
            lambda: bool(self.told("ready")) or self._has_ended(), "virtual nodes are ready", timeout=STARTS_WITHIN
        )
        assert not self._has_ended(), self.errors

    def _has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def errors(self) -> str:
        """What it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read()

    @property
    def cpu_seconds(self) -> float:
        """CPU time that it has used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND

    def kill(self) -> None:
        """End it so that it cannot clean up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        self._end(signal.SIGINT)

    def _end(self, number: signal.Signals) -> None:
        if not self._has_ended():
            self._process.send_signal(number)
            self._process.wait(ENDS_WITHIN)
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def close(self) -> None:
        """Stop it, whatever state it is in, and forget its files."""
        self.stop()
        self._errors.close()


@contextmanager
def virtual_nodes(plane: ControlPlane, *arguments: str) -> Iterator[VirtualNodes]:
    """Start `bayplan kubelets` with these arguments and wait until it is ready."""
    nodes = VirtualNodes(plane.kubeconfig, arguments)
    try:
        nodes.wait_until_ready()
        yield nodes
    finally:
        nodes.close()
