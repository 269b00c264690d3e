"""What a release holds beside wheel and sdist."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import yaml

from bayplan import __version__
from tests.release.files import (
    CHART,
    LOCKED,
    bill_of_materials,
    changelog_section,
    chart_package,
    locked_packages,
    write_release_files,
)

LOCK = """\
# a comment
aiohttp==3.14.5 \\
    --hash=sha256:0133c3c3b54a0bf1e71fa5c1ad95c93f07fd54e24ef1fe182f5122e1573d2bf1 \\
    --hash=sha256:038c2c7e8caa26b6c8423779b5eaf1893904048a512c19b32fe841ffa5592b50
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:08695f5cb7ed6e0531a20572697297273c47b8cae5a63ffc6d6ed5c201be6e44
"""
CHANGES = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [1.0.0] - 2026-01-01\n\n- first\n\n## [0.9.0]\n\n- older\n"


def test_the_chart_package_holds_files_and_no_links() -> None:
    with tarfile.open(fileobj=io.BytesIO(chart_package())) as archive:
        names = archive.getnames()
        assert all(member.isfile() for member in archive)
        assert {"bayplan/Chart.yaml", "bayplan/crds/podgroups.bayplan.io.yaml"} <= set(names)
        packed = archive.extractfile("bayplan/manifests/base/deployment.yaml")
        assert packed is not None
        assert packed.read() == (CHART.parents[1] / "base" / "deployment.yaml").read_bytes()


def test_the_chart_package_is_the_same_each_time() -> None:
    assert chart_package() == chart_package()


def test_locked_packages_are_read_with_versions_markers_and_hashes() -> None:
    found = {each.name: (each.version, each.marker, len(each.hashes)) for each in locked_packages(LOCK)}
    assert found == {"aiohttp": ("3.14.5", "", 2), "colorama": ("0.4.6", "sys_platform == 'win32'", 1)}


def test_the_bill_of_materials_names_every_locked_package() -> None:
    pinned = [line for line in LOCKED.read_text().splitlines() if "==" in line.partition(" ")[0]]
    bill = bill_of_materials(__version__)
    assert len(bill["components"]) == len(pinned)
    assert all(component["hashes"] for component in bill["components"])
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/bayplan@{__version__}"


def test_the_notes_are_the_section_of_the_version() -> None:
    assert changelog_section(CHANGES, "1.0.0") == "- first\n"
    assert changelog_section(CHANGES, "2.0.0") == ""


def test_checksums_cover_every_file(tmp_path: Path) -> None:
    (tmp_path / "bayplan.whl").write_bytes(b"wheel")
    write_release_files(tmp_path, __version__)
    pairs = [line.split("  ") for line in (tmp_path / "SHA256SUMS").read_text().splitlines()]
    listed = {name: checksum for checksum, name in pairs}
    assert set(listed) == {file.name for file in tmp_path.iterdir()} - {"SHA256SUMS"}
    assert listed["bayplan.whl"] == hashlib.sha256(b"wheel").hexdigest()


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
