"""Write a new version wherever it stands: `python -m tests.release.version 0.2.0 2026-12-01`.

The changelog's *Unreleased* becomes the section of the version, and a new one begins.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NUMBER = r"[0-9]+\.[0-9]+\.[0-9]+(?:(?:a|b|rc)[0-9]+)?"
PLACES = {
    "src/bayplan/__init__.py": r'(?<=^__version__ = ")[^"]+',
    "deploy/chart/bayplan/Chart.yaml": r"(?<=ersion: )[0-9][^\s]*",
    "deploy/*/kustomization.yaml": r"(?<=newTag: )\S+",
    "deploy/*/*deployment.yaml": r"(?<=image: bayplan:)\S+",
    "deploy/*/daemonset.yaml": r"(?<=image: bayplan:)\S+",
    "deploy/image/Containerfile": r"(?:(?<=^ARG VERSION=)|(?<=bayplan:))[0-9]\S*",
    "deploy/README.md": rf"(?<=bayplan:){NUMBER}",
    "docs/getting-started.md": rf"(?<=bayplan[:-]){NUMBER}",
    "docs/snapshot.md": rf"(?<=recorded by bayplan ){NUMBER}",
}
"""Files, and where the version stands in them."""
CHANGES = "CHANGELOG.md"
VERSION = re.compile(NUMBER)


def set_version(root: Path, version: str, date: str) -> list[Path]:
    """Write a version into all files; those that changed. Raises ValueError if it is none, or already released."""
    if not VERSION.fullmatch(version):
        raise ValueError(f'"{version}" must be a version such as 0.2.0 or 0.2.0rc1')
    changes = root / CHANGES
    if f"## [{version}]" in changes.read_text():
        raise ValueError(f"{CHANGES} already has a section for {version}")
    texts = {
        changes: changes.read_text().replace("## [Unreleased]\n", f"## [Unreleased]\n\n## [{version}] - {date}\n", 1)
    }
    for pattern, place in PLACES.items():
        for file in root.glob(pattern):
            texts[file] = re.sub(place, version, file.read_text(), flags=re.MULTILINE)
    changed = [file for file, text in texts.items() if file.read_text() != text]
    for file in changed:
        file.write_text(texts[file])
    return changed


if __name__ == "__main__":
    try:
        sys.stdout.writelines(f"{file.relative_to(ROOT)}\n" for file in set_version(ROOT, *sys.argv[1:]))
    except ValueError as problem:
        sys.exit(f"error: {problem}")
