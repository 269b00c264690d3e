"""Build the programs of the control plane that are missing, once for all clones.

In: go.mod, which names the programs and their versions, and a Go toolchain. Out: the programs in the user's cache
folder. Go compiles into a folder beside it and each program is moved in whole, so that half of one is never found;
a lock lets a second clone wait for the first instead of building the same. Next: `programs.py` finds them there.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.kubernetes.control_plane.go_build import BuildFailed, only_builder, run_go, say
from tests.kubernetes.control_plane.go_toolchain import find_go
from tests.kubernetes.control_plane.programs import (
    PACKAGES,
    NoControlPlane,
    cache_folder,
    go_module,
    kubernetes_version,
    missing_programs,
)

WHAT = "control plane"


def build_missing() -> None:
    """Build what is neither in KUBEBUILDER_ASSETS nor in the cache; raises NoControlPlane where it cannot be had."""
    if not missing_programs():
        return
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with only_builder(WHAT, folder):
        missing = missing_programs()  # asked again: another clone may have built them while we waited
        if not missing:
            return
        started = time.monotonic()
        _say(f"{', '.join(missing)} are not here yet: building them once, about 5 minutes on 2 cores")
        go = find_go()
        _download(go, missing)
        with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as unfinished:
            for program in missing:
                _compile(go, program, Path(unfinished) / program)
                (Path(unfinished) / program).rename(folder / program)
        _say(f"built in {time.monotonic() - started:.0f} s")


def _download(go: Path, programs: Sequence[str]) -> None:
    """Fetch the source first and by itself: a registry out of reach is no failed build."""
    done = _run(go, "list", "-deps", *(PACKAGES[program] for program in programs))
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["go said nothing"])[-1]
        raise NoControlPlane(f"the source of the control plane cannot be had from the Go module registry: {why}")


def _compile(go: Path, program: str, result: Path) -> None:
    started = time.monotonic()
    _say(f"compiling {program}")
    done = _run(go, "build", "-trimpath", "-ldflags", linker_flags(), "-o", str(result), PACKAGES[program])
    if done.returncode:
        raise BuildFailed(f"go build {PACKAGES[program]}:\n{done.stderr.strip()}")
    _say(f"compiled {program} in {time.monotonic() - started:.0f} s")


def _run(go: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_go(go, go_module(), *arguments)


def linker_flags() -> str:
    """No symbols, and the version that the API server is to announce: a plain `go build` leaves it at v0.0.0."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    announced = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X k8s.io/component-base/version.{name}={v}" for name, v in announced.items())])


def _say(text: str) -> None:
    say(WHAT, text)
