"""What every build from the Go module registry needs: one builder at a time, an environment without surprises, and a
word on stderr.

Next: `build.py` builds the control plane, `tests/peers/build.py` the peers that bayplan is compared with.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class BuildFailed(Exception):
    """Everything was there, and yet Go did not compile it: a fault of ours or of the toolchain, not of the network."""


@contextmanager
def only_builder(what: str, folder: Path) -> Iterator[None]:
    """Hold the lock of a folder in the cache; a second clone waits here for the first."""
    with (folder / "building.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(what, "another build is under way: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_go(go: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Go command in a module's folder."""
    # Without cgo the programs need nothing of the machine. A toolchain that is new enough need not fetch another one.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return subprocess.run([go, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def say(what: str, text: str) -> None:
    """One line of progress."""
    sys.stderr.write(f"{what}: {text}\n")
    sys.stderr.flush()
