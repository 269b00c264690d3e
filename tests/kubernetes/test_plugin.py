"""The kubectl plugin of a release, for this platform and this Python: unpacked, linked as krew links it, and asked by
kubectl.

Its archive is made from the locked wheels, as `make release` makes it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.release.files import ROOT
from tests.release.plugin import PLATFORMS, plugin_archive, show_from

HERE = next((each for each in PLATFORMS if (each.os, each.arch) == ("linux", "amd64")), None)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if (sys.platform, platform.machine()) != ("linux", "x86_64") or HERE is None:
        pytest.skip("the plugin is tried on Linux on x86-64")
    folder = tmp_path_factory.mktemp("plugin")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    file = folder / "kubectl-bayplan.tar.gz"
    file.write_bytes(plugin_archive(HERE, wheel, (f"{sys.version_info[0]}.{sys.version_info[1]}",)))
    return file


def test_the_archive_answers_from_an_empty_folder(archive: Path) -> None:
    assert show_from(archive).startswith("telco/upf-0 fits")


def test_the_archive_finds_rules_of_other_systems(archive: Path) -> None:
    """They are entry points, which need the metadata of the wheel."""
    scenario = "lib/all/bayplan/examples/scenarios/two-nodes.yaml"
    assert "upstream" in show_from(archive, "simulate", scenario, whole=True)


def test_kubectl_runs_it_as_a_plugin(archive: Path, control_plane: ControlPlane, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl")
    store, links = tmp_path / "store", tmp_path / "bin"
    links.mkdir()
    with tarfile.open(archive) as packed:
        packed.extractall(store, filter="data")
    (links / "kubectl-bayplan").symlink_to(store / "kubectl-bayplan")
    path = f"{links}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    with virtual_nodes(control_plane, "--machine", "pack:2 numa:1 core:8 pu:1 mem:32Gi", "--nodes", "2"):
        done = subprocess.run(
            [kubectl, "bayplan", "nodes", "--kubeconfig", str(control_plane.kubeconfig)],
            cwd=links,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    assert "2 nodes" in done.stdout
