"""A folder for everything that a control plane writes, on tmpfs where there is one, and gone at the end.

tmpfs is memory, and a test run that is killed removes nothing. So a folder is held by a lock for as long as its process
lives, and the next run first removes those that are no longer held.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TMPFS = Path("/dev/shm")
PREFIX = "bayplan-control-plane-"
LOCK = "in-use.lock"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder, removed at the end."""
    parent = TMPFS if os.access(TMPFS, os.W_OK) else Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        with (folder / "new.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / "new.lock").rename(folder / LOCK)  # by this name it is never seen unheld
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    for lock_file in parent.glob(f"{PREFIX}*/{LOCK}"):
        if os.access(lock_file, os.W_OK) and not _is_held(lock_file):
            shutil.rmtree(lock_file.parent, ignore_errors=True)


def _is_held(lock_file: Path) -> bool:
    with lock_file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
