"""The kubectl plugin of a release: an archive per platform, and the manifest by which krew installs them.

Compiled packages exist per Python version, so an archive has them for each version that users may have. It is made
from the locked wheels of its platform alone, on any machine:

    kubectl-bayplan        the program: deploy/krew/kubectl-bayplan
    LICENSE
    lib/all/               bayplan, and packages that every Python can use
    lib/python3.12/        packages compiled for this one
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml
from packaging.markers import Marker

from bayplan import __version__
from tests.release.files import LOCKED, ROOT, locked_packages, packed

LAUNCHER = ROOT / "deploy" / "krew" / "kubectl-bayplan"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ONLY_ON_NODES = {"grpcio", "protobuf"}
"""What the agent alone needs, which runs from the image."""
MANIFEST = "bayplan.yaml"
"""krew wants the name of the plugin."""


@dataclass(frozen=True, slots=True)
class Platform:
    """As krew names it, and the wheels that it can load."""

    os: str
    arch: str
    tags: tuple[str, ...]

    @property
    def name(self) -> str:
        """As it stands in the name of the archive."""
        return f"{self.os}-{self.arch}"


def _linux(arch: str, machine: str) -> Platform:
    glibc = [f"manylinux_2_{minor}_{machine}" for minor in (28, 27, 24, 17, 12, 5)]
    return Platform("linux", arch, (*glibc, f"manylinux2014_{machine}", f"manylinux2010_{machine}"))


PLATFORMS = (
    _linux("amd64", "x86_64"),
    _linux("arm64", "aarch64"),
    Platform("darwin", "amd64", ("macosx_14_0_x86_64",)),
    Platform("darwin", "arm64", ("macosx_14_0_arm64",)),
)
"""Linux with glibc 2.28 or newer, macOS 14 or newer."""


def archive_name(platform: Platform) -> str:
    """The file of a platform."""
    return f"kubectl-bayplan-{__version__}-{platform.name}.tar.gz"


def plugin_archive(platform: Platform, wheel: Path, pythons: tuple[str, ...] = PYTHONS) -> bytes:
    """The archive of a platform, the same for the same lock and wheel."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = {python: _downloaded(platform, python, Path(folder) / python) for python in pythons}
        shared = set.intersection(*({file.name for file in files} for files in chosen.values()))
        content = {"kubectl-bayplan": LAUNCHER.read_bytes(), "LICENSE": (ROOT / "LICENSE").read_bytes()}
        for python, files in chosen.items():
            # A version of Python that needs nothing compiled is still one that the archive supports.
            content[f"lib/python{python}/README"] = f"packages for Python {python}\n".encode()
            for file in files:
                target = "lib/all" if file.name in shared else f"lib/python{python}"
                content |= {f"{target}/{name}": data for name, data in _unpacked(file)}
    content |= {f"lib/all/{name}": data for name, data in _unpacked(wheel)}
    return packed(content, program="kubectl-bayplan")


def krew_manifest(archives: Mapping[Platform, bytes], address: str) -> str:
    """The manifest for archives that can be downloaded below an address."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": platform.os, "arch": platform.arch}},
            "uri": f"{address}/{archive_name(platform)}",
            "sha256": hashlib.sha256(archive).hexdigest(),
            "bin": "kubectl-bayplan",
        }
        for platform, archive in archives.items()
    ]
    supported = f"{PYTHONS[0]} to {PYTHONS[-1]}"
    plugin = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "bayplan"},
        "spec": {
            "version": f"v{__version__}",
            "homepage": address,
            "shortDescription": "Explain and predict topology-aware placement",
            "description": (
                "Answers where a pod or gang would go, why one waits, which NUMA zones and racks have room, and what is"
                " wrong with an installation of bayplan. Reads the cluster, or a dump of one, and changes nothing.\n"
            ),
            "caveats": f"Needs Python {supported} on PATH. Start with: kubectl bayplan doctor\n",
            "platforms": platforms,
        },
    }
    return yaml.safe_dump(plugin, sort_keys=False, width=120)


def _downloaded(platform: Platform, python: str, folder: Path) -> list[Path]:
    """The locked wheels for a platform and a version of Python; pip checks their hashes."""
    target = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": platform.os,
        "platform_system": platform.os.capitalize(),
    }
    lines = [
        f"{package.name}=={package.version} {' '.join(f'--hash=sha256:{each}' for each in package.hashes)}\n"
        for package in locked_packages(LOCKED.read_text())
        if package.name not in ONLY_ON_NODES and (not package.marker or Marker(package.marker).evaluate(target))
    ]
    folder.mkdir()
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(lines))
    tags = [word for tag in platform.tags for word in ("--platform", tag)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps"]
    wheels = ["--only-binary=:all:", "--require-hashes", "--implementation=cp", f"--python-version={python}", *tags]
    subprocess.run([*command, *wheels, f"--dest={folder}", f"--requirement={requirements}"], check=True)
    return sorted(folder.glob("*.whl"))


def _unpacked(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Files of a wheel that a program needs, as they lie in site-packages."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            parts = PurePosixPath(entry.filename).parts
            if parts[0].endswith(".data"):
                raise ValueError(f"{wheel.name} has {entry.filename}, which belongs outside of site-packages")
            if not entry.is_dir() and not (parts[0] == "numpy" and "tests" in parts):
                yield entry.filename, archive.read(entry)


def show_from(archive: Path, *words: str, whole: bool = False) -> str:
    """What the plugin answers, by default its first line: unpacked into an empty folder, without anything installed."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as packed_files:
            packed_files.extractall(folder, filter="data")
        examples = f"{folder}/lib/all/bayplan/examples"
        question = ["place", "-f", f"{examples}/pods/upf.yaml", "--cluster", f"{examples}/cluster"]
        shown = subprocess.run(
            [f"{folder}/kubectl-bayplan", *(words or question)],
            cwd=folder,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": folder},
            capture_output=True,
            text=True,
            check=True,
        )
        return shown.stdout if whole else shown.stdout.partition("\n")[0]
