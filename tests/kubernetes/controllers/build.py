"""Build controllers that are missing, once for all clones: `make controllers`.

In: the catalogue and a Go toolchain. Out: programs and manifests in the user's cache. Each controller is optional: one
that cannot be built is reported in one line, and the others are built all the same. Next: `operators.py` and
`manager.py` start them.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.kubernetes.control_plane.build import linker_flags
from tests.kubernetes.control_plane.go_build import only_builder, run_go, say
from tests.kubernetes.control_plane.go_toolchain import find_go
from tests.kubernetes.control_plane.programs import NoControlPlane
from tests.kubernetes.controllers.catalogue import Controller

WHAT = "controllers"
LAST_LINES = 3


class NotBuilt(Exception):
    """One controller cannot be fetched or compiled. The message is one line."""


def build_missing(controllers: Iterable[Controller]) -> list[str]:
    """Build those that are not in the cache; returns one line for each that failed."""
    missing = [controller for controller in controllers if not controller.is_built]
    if not missing:
        return []
    try:
        go = find_go()
    except NoControlPlane as problem:
        return [str(problem)]
    problems = []
    for controller in missing:
        try:
            _build(go, controller)
        except NotBuilt as problem:
            say(WHAT, str(problem))
            problems.append(str(problem))
    return problems


def _build(go: Path, controller: Controller) -> None:
    controller.folder.mkdir(parents=True, exist_ok=True)
    with only_builder(WHAT, controller.folder):
        if controller.is_built:  # another clone built it while we waited
            return
        started = time.monotonic()
        say(WHAT, f"building {controller}, once; the first builds take minutes")
        source = _fetch(go, controller)
        with tempfile.TemporaryDirectory(dir=controller.folder, prefix="building-") as unfinished:
            _keep_manifests(controller, source)
            program = Path(unfinished) / controller.name
            build = ["build", "-trimpath", "-ldflags", linker_flags(), "-o", str(program), controller.package]
            _check(controller, "cannot be compiled", run_go(go, controller.go_module, *build))
            program.rename(controller.program)
        size = controller.program.stat().st_size / 2**20
        say(WHAT, f"built {controller} in {time.monotonic() - started:.0f} s, {size:.0f} MB")


def _fetch(go: Path, controller: Controller) -> Path:
    """Download the source of the program and everything that it imports; returns the folder of its module."""
    why = "cannot be downloaded from the Go module registry"
    _check(controller, why, run_go(go, controller.go_module, "list", "-deps", controller.package))
    found = run_go(go, controller.go_module, "list", "-m", "-f", "{{.Dir}}", controller.module)
    _check(controller, why, found)
    return Path(found.stdout.strip())


def _keep_manifests(controller: Controller, source: Path) -> None:
    """Copy the manifests, because the module cache of Go may be cleaned after the build."""
    for each in controller.manifests:
        kept = controller.manifest(each)
        files = sorted((source / each).glob("*.yaml")) if (source / each).is_dir() else [source / each]
        for file in files:
            target = kept / file.name if (source / each).is_dir() else kept
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def _check(controller: Controller, why: str, done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        last = done.stderr.strip().splitlines()[-LAST_LINES:] or ["go printed nothing"]
        raise NotBuilt(f"{controller} {why}: {' '.join(line.strip() for line in last)}")
