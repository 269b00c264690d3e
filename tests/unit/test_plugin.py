"""The kubectl plugin: its manifest for krew, and how its program finds a Python that can run it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bayplan import __version__
from tests.release.plugin import LAUNCHER, PLATFORMS, PYTHONS, krew_manifest

ARCHIVES = {platform: platform.name.encode() for platform in PLATFORMS}


def test_the_manifest_names_an_archive_with_its_checksum_for_each_platform() -> None:
    manifest = yaml.safe_load(krew_manifest(ARCHIVES, "https://example.com/r"))
    assert (manifest["metadata"]["name"], manifest["spec"]["version"]) == ("bayplan", f"v{__version__}")
    found = {
        (each["selector"]["matchLabels"]["os"], each["selector"]["matchLabels"]["arch"]): (each["uri"], each["sha256"])
        for each in manifest["spec"]["platforms"]
    }
    assert found == {
        (platform.os, platform.arch): (
            f"https://example.com/r/kubectl-bayplan-{__version__}-{platform.name}.tar.gz",
            hashlib.sha256(ARCHIVES[platform]).hexdigest(),
        )
        for platform in PLATFORMS
    }


def test_the_manifest_says_which_python_is_needed() -> None:
    caveats = yaml.safe_load(krew_manifest(ARCHIVES, "https://example.com/r"))["spec"]["caveats"]
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in caveats


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """An unpacked archive for a Python that does not exist."""
    (tmp_path / "lib" / "python3.99").mkdir(parents=True)
    return Path(shutil.copy(LAUNCHER, tmp_path))


def test_a_python_that_the_archive_does_not_know_is_told_which_it_needs(plugin: Path) -> None:
    done = subprocess.run(
        [sys.executable, plugin], env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False
    )
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert (done.returncode, done.stderr) == (1, f"kubectl bayplan needs Python 3.99 on PATH; python3 is {here}\n")


def test_another_python_on_the_path_takes_over(plugin: Path) -> None:
    other = plugin.parent / "python3.99"
    other.write_text('#!/bin/sh\ntest "$1" = -c || echo "$@"\n')
    other.chmod(0o755)
    link = plugin.parent / "linked"
    link.symlink_to(plugin)
    command = [sys.executable, str(link), "nodes", "-o", "json"]
    done = subprocess.run(command, env={"PATH": str(plugin.parent)}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(plugin.resolve()), "nodes", "-o", "json"]


def test_a_shim_without_its_python_is_passed_over(plugin: Path) -> None:
    shim = plugin.parent / "python3.99"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    command = [sys.executable, str(plugin), "nodes"]
    done = subprocess.run(command, env={"PATH": str(plugin.parent)}, capture_output=True, text=True, check=False)
    assert (done.returncode, "needs Python 3.99 on PATH" in done.stderr) == (1, True)
