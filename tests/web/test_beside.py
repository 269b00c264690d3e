"""The page beside a scheduler: it is served while that program runs, at lower priority, and ends with it."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from bayplan.services.edges.companion import NICENESS, companion
from tests.web.conftest import EXAMPLES
from tests.web.running_web import RunningWeb

LONGEST_WAIT = 60.0


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def answers(web: RunningWeb) -> bool:
    try:
        return web.ask("/readyz").status == 200
    except OSError:
        return False


def child_serving(port: int) -> int:
    """The process whose command line names the port."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if f"127.0.0.1:{port}".encode() in words and b"--beside" in words:
            return int(entry.name)
    raise AssertionError("no such process")


def test_the_page_is_served_while_the_program_runs() -> None:
    port = free_port()
    web = RunningWeb(f"http://127.0.0.1:{port}")
    arguments = ["web", "--beside", "--cluster", str(EXAMPLES / "cluster"), "--address", f"127.0.0.1:{port}"]
    with companion("web", arguments):
        began = time.monotonic()
        while not answers(web):
            assert time.monotonic() - began < LONGEST_WAIT, "the page does not come up"
            time.sleep(0.1)
        child = child_serving(port)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, child) == min(own + NICENESS, 19)
    assert not answers(web)
    assert not Path(f"/proc/{child}").exists()
