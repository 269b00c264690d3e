"""One command writes a new version into program, chart, manifests and changelog."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from bayplan import __version__
from tests.release.version import CHANGES, PLACES, ROOT, set_version


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for pattern in (*PLACES, CHANGES):
        for file in ROOT.glob(pattern):
            copy = tmp_path / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    return tmp_path


def test_every_place_has_the_new_version(checkout: Path) -> None:
    set_version(checkout, "7.8.9", "2030-01-31")
    for pattern, place in PLACES.items():
        found = [each for file in checkout.glob(pattern) for each in re.findall(place, file.read_text(), re.MULTILINE)]
        assert set(found) == {"7.8.9"}, pattern


def test_no_image_no_chart_and_no_instruction_keeps_the_old_version(checkout: Path) -> None:
    set_version(checkout, "7.8.9", "2030-01-31")
    left = [
        line
        for file in (*checkout.rglob("*.yaml"), *checkout.rglob("docs/*.md"), *checkout.rglob("deploy/*.md"))
        for line in file.read_text().splitlines()
        if __version__ in line and not line.lstrip().startswith("#")
    ]
    assert left == []


def test_unreleased_changes_become_those_of_the_version(checkout: Path) -> None:
    before = (checkout / CHANGES).read_text()
    set_version(checkout, "7.8.9", "2030-01-31")
    after = (checkout / CHANGES).read_text()
    head = "## [Unreleased]\n\n## [7.8.9] - 2030-01-31\n"
    assert head in after
    assert after.replace(head, "## [Unreleased]\n") == before


@pytest.mark.parametrize("version", ["1", "v1.0.0", "1.0.0-beta", ""])
def test_other_forms_of_a_version_are_refused(checkout: Path, version: str) -> None:
    with pytest.raises(ValueError, match="must be a version"):
        set_version(checkout, version, "2030-01-31")


def test_a_version_is_released_once(checkout: Path) -> None:
    set_version(checkout, "7.8.9", "2030-01-31")
    with pytest.raises(ValueError, match="already has a section"):
        set_version(checkout, "7.8.9", "2030-01-31")
