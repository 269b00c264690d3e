"""What `make release` adds to wheel and sdist, and checks beyond twine: the wheel alone shows the demonstration, and
the kubectl plugin of this platform answers from an empty folder.

python -m tests.release dist
python -m tests.release dist https://example.com/bayplan/v0.1.0      where the archives of the plugin will be
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from bayplan import __version__
from tests.release.files import ROOT, write_release_files
from tests.release.plugin import MANIFEST, PLATFORMS, archive_name, krew_manifest, plugin_archive, show_from

LOCKED = ROOT / "requirements" / "runtime.txt"
ADDRESS = f"https://example.com/bayplan/v{__version__}"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def main(dist: Path, address: str = ADDRESS) -> None:
    """Check the wheel, and write the rest of the release beside it."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    if f"## [{__version__}]" not in changelog:
        sys.stderr.write(f"note: CHANGELOG.md has no section for {__version__}; the notes are those of Unreleased\n")
    (wheel,) = dist.resolve().glob("*.whl")
    _show_demo(wheel)
    _write_plugin(dist, wheel, address.rstrip("/"))
    write_release_files(dist, __version__)
    files = ", ".join(sorted(file.name for file in dist.iterdir()))
    sys.stdout.write(f"release {__version__}: {files}\n")


def _show_demo(wheel: Path) -> None:
    """Install the wheel into an empty environment, outside the checkout, and run the demo there."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        subprocess.run([*pip, "--no-deps", "--require-hashes", "--requirement", LOCKED], check=True)
        subprocess.run([*pip, "--no-deps", wheel], check=True)
        shown = subprocess.run(
            [f"{folder}/bin/bayplan", "demo"], cwd=folder, check=True, capture_output=True, text=True
        )
        sys.stdout.write(shown.stdout.partition("\n")[0] + "\n")


def _write_plugin(dist: Path, wheel: Path, address: str) -> None:
    """An archive per platform and the manifest for krew; run the one that this machine can run."""
    here = (platform.system().lower(), ARCHITECTURES.get(platform.machine()))
    archives = {}
    for each in PLATFORMS:
        archives[each] = plugin_archive(each, wheel)
        file = dist / archive_name(each)
        file.write_bytes(archives[each])
        if (each.os, each.arch) == here:
            sys.stdout.write(f"{file.name}: {show_from(file)}\n")
    (dist / MANIFEST).write_text(krew_manifest(archives, address))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
