"""What a release holds beside wheel and sdist and plugin: the packaged chart, a bill of materials, its section of the
changelog, and checksums.

Everything is made from the checkout alone and is the same for the same commit: no clock, sorted entries.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart" / "bayplan"
LOCKED = ROOT / "requirements" / "image.txt"
CHECKSUMS = "SHA256SUMS"
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+?)(?: ; (.*?))? \\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Locked:
    """An entry of a lock file; the marker says which interpreters it is for."""

    name: str
    version: str
    marker: str
    hashes: list[str] = field(default_factory=list)


def write_release_files(dist: Path, version: str) -> list[Path]:
    """Write all of them into the folder of the wheel; checksums come last and cover every file there."""
    written = [
        _write(dist / f"bayplan-chart-{version}.tgz", chart_package()),
        _write(dist / f"bayplan-{version}.cdx.json", json.dumps(bill_of_materials(version), indent=2).encode() + b"\n"),
    ]
    changes = (ROOT / "CHANGELOG.md").read_text()
    notes = changelog_section(changes, version) or changelog_section(changes, "Unreleased")
    written.append(_write(dist / f"bayplan-{version}-notes.md", notes.encode()))
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(dist.iterdir())
        if file.name not in (CHECKSUMS, ".gitignore")
    ]
    return [*written, _write(dist / CHECKSUMS, "".join(lines).encode())]


def chart_package() -> bytes:
    """The chart as `helm package` writes it: a gzipped tar of its folder, links replaced by what they lead to."""
    return packed(_files(CHART, "bayplan"))


def packed(content: Mapping[str, bytes], *, program: str = "") -> bytes:
    """A gzipped tar of files by their names; `program` may be executed."""
    written = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=written, mode="wb", mtime=0, compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, data in sorted(content.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mode = 0o755 if name == program else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return written.getvalue()


def bill_of_materials(version: str) -> dict[str, Any]:
    """CycloneDX 1.6: the locked packages of the image, with the hashes of all their files."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component("application", "bayplan", version)},
        "components": [
            {
                **_component("library", package.name, package.version),
                "hashes": [{"alg": "SHA-256", "content": each} for each in package.hashes],
            }
            for package in locked_packages(LOCKED.read_text())
        ],
    }


def locked_packages(text: str) -> list[Locked]:
    """The entries of a lock file."""
    found: list[Locked] = []
    for line in text.splitlines():
        pin = _PIN.match(line)
        if pin is not None:
            found.append(Locked(pin[1], pin[2], pin[3] or ""))
        elif found:
            found[-1].hashes.extend(_HASH.findall(line))
    return found


def changelog_section(text: str, version: str) -> str:
    """The part of the changelog about one version; empty if there is none."""
    found = re.search(rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() + "\n" if found else ""


def _component(kind: str, name: str, version: str) -> dict[str, str]:
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    return {"type": kind, "name": name, "version": version, "purl": purl, "bom-ref": purl}


def _files(folder: Path, prefix: str) -> dict[str, bytes]:
    """Files below a folder by their names in the archive; links are followed."""
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        name = f"{prefix}/{entry.name}"
        if entry.is_dir():
            found |= _files(entry, name)
        else:
            found[name] = entry.read_bytes()
    return found


def _write(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file
