"""What users install: one version everywhere, types included, and lock files that work behind any registry."""

import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest

import bayplan

ROOT = Path(__file__).parents[2]
LOCKS = ["runtime.txt", "dev.txt"]


def locked(name: str) -> str:
    return (ROOT / "requirements" / name).read_text()


def test_the_installed_version_is_the_one_in_the_source() -> None:
    assert metadata.version("bayplan") == bayplan.__version__


def test_the_package_ships_its_types() -> None:
    assert resources.files(bayplan).joinpath("py.typed").is_file()


def test_kubectl_finds_the_program_and_what_completes_it_by_their_names() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {
        "bayplan": "bayplan.cli.main:main",
        "kubectl-bayplan": "bayplan.cli.main:main",
        "kubectl_complete-bayplan": "bayplan.cli.completion:main",
    }
    for entry in metadata.distribution("bayplan").entry_points:
        assert callable(entry.load()) or entry.group == "bayplan.compat"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_registry(name: str) -> None:
    assert [line for line in locked(name).splitlines() if "://" in line or "index-url" in line] == []


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_hashes(name: str) -> None:
    entries = locked(name).replace("\\\n", " ").splitlines()
    assert [entry for entry in entries if "==" in entry and "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_every_runtime_dependency(name: str) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted = {requirement.partition(">=")[0].lower().replace("_", "-") for requirement in declared}
    assert wanted <= {line.partition("==")[0] for line in locked(name).splitlines()}
