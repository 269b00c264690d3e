"""What `make release` checks beyond twine: the changelog knows the version, and the wheel alone shows the
demonstration.

python -m tests.release dist
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from bayplan import __version__
from tests.release_files import write_release_files

ROOT = Path(__file__).parents[1]
LOCKED = ROOT / "requirements" / "runtime.txt"


def main(dist: Path) -> None:
    """Install the wheel into an empty environment, outside the checkout, and run the demo there."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    if f"## [{__version__}]" not in changelog:
        sys.stderr.write(f"note: CHANGELOG.md has no section for {__version__} yet; a release needs one\n")
    (wheel,) = dist.resolve().glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        subprocess.run([*pip, "--no-deps", "--require-hashes", "--requirement", LOCKED], check=True)
        subprocess.run([*pip, "--no-deps", wheel], check=True)
        shown = subprocess.run(
            [f"{folder}/bin/bayplan", "demo"], cwd=folder, check=True, capture_output=True, text=True
        )
        sys.stdout.write(shown.stdout.partition("\n")[0] + "\n")
    write_release_files(dist, __version__)
    files = ", ".join(sorted(file.name for file in dist.iterdir()))
    sys.stdout.write(f"release {__version__}: {files}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
