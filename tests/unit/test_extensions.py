"""Packages that extend bayplan: the example is installed and used, and broken ones are named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from bayplan import api, extensions
from bayplan.extensions import BrokenExtension, compat_names, load, registered

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "extension"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example package in a folder of its own, as pip puts it there."""
    folder = tmp_path_factory.mktemp("site")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(EXAMPLE)], check=True, capture_output=True)
    return folder


def bayplan(*words: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "bayplan"
    arguments = (*words, "--cluster", str(EXAMPLE / "cluster.yaml"), "--config", str(EXAMPLE / "scheduler-config.yaml"))
    environment = os.environ | ({"PYTHONPATH": str(site)} if site else {})
    return subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_a_plugin_of_another_package_filters_and_explains(installed: Path) -> None:
    answer = bayplan("why", "ml/large", site=installed)
    first = "ml/large is Pending: no node passes PowerBudget: rack has less than 1000 W of headroom."
    assert (answer.returncode, answer.stdout.splitlines()[0]) == (1, first)


def test_a_dialect_of_another_package_makes_gangs(installed: Path) -> None:
    answer = bayplan("why", "ml/train-0", site=installed)
    first = "ml/train-0 is Pending: its gang ml/train fits: rack r1, 2 nodes (optimal)"
    assert (answer.returncode, answer.stdout.splitlines()[0]) == (0, first)


def test_without_the_package_its_plugin_is_unknown() -> None:
    answer = bayplan("why", "ml/large")
    assert (answer.returncode, "bayplan has no plugin PowerBudget" in answer.stderr) == (2, True)


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    listed: list[EntryPoint] = []
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: [each for each in listed if each.group == group])
    registered.cache_clear()
    load.cache_clear()
    yield listed
    registered.cache_clear()
    load.cache_clear()


def test_a_broken_extension_is_named(entries: list[EntryPoint]) -> None:
    entries.append(EntryPoint("Odd", "no_such_package:plugin", extensions.PLUGINS))
    with pytest.raises(
        BrokenExtension, match=r'bayplan\.plugins: "Odd" of package .* cannot be loaded: No module named'
    ):
        load(extensions.PLUGINS, "Odd")


def test_two_packages_cannot_have_one_name(entries: list[EntryPoint]) -> None:
    entries += [EntryPoint("Same", value, extensions.PLUGINS) for value in ("a:plugin", "b:plugin")]
    with pytest.raises(BrokenExtension, match='"Same" is registered by a:plugin and by b:plugin'):
        registered(extensions.PLUGINS)


def test_without_the_compat_room_there_are_no_rules_of_others(entries: list[EntryPoint]) -> None:
    assert entries == []
    assert compat_names(extensions.PLACEMENT_STYLE) == ()
    with pytest.raises(LookupError, match=r'bayplan\.compat: "placement-style\.kueue" is not registered'):
        extensions.compat(extensions.PLACEMENT_STYLE, "kueue")


def test_every_public_name_is_there() -> None:
    assert sorted(api.__all__) == api.__all__
    assert all(hasattr(api, name) for name in api.__all__)
