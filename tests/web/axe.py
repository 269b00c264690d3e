"""`make axe`: axe-core from the npm registry, into the user's cache folder, for the accessibility test."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.14.0"


def axe_file() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return folder / "bayplan" / "axe" / f"axe-{VERSION}.min.js"


def fetch() -> None:
    """Fetch it with npm, which checks the registry's digest."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"axe-core@{VERSION}"], cwd=folder, check=True)
        (packed,) = Path(folder).glob("*.tgz")
        with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            axe_file().parent.mkdir(parents=True, exist_ok=True)
            axe_file().write_bytes(script.read())


if __name__ == "__main__":
    fetch()
    sys.stdout.write(f"{axe_file()}\n")
