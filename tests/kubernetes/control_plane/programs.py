"""Where etcd, kube-apiserver and kube-scheduler lie on this machine.

In: the environment. `KUBEBUILDER_ASSETS` (the convention of envtest) names a folder of ready programs; what it lacks is
looked for in the user's cache folder, where `make control-plane` leaves what it builds. `BAYPLAN_KUBERNETES_VERSION`
names one of the folders in `versions/`, whose go.mod has the versions of all programs. Out: three paths. Next:
`build.py` makes what is missing, `plane.py` starts them.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

DEFAULT_VERSION = "1.36.4"
VERSION_VARIABLE = "BAYPLAN_KUBERNETES_VERSION"
GO_MODULES = {folder.name: folder for folder in sorted((Path(__file__).parent / "versions").iterdir())}
"""Each version that can be built, and the folder of its go.mod."""
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
"""Each program and the Go package that it is built from."""


class NoControlPlane(Exception):
    """The programs are not here and cannot be had. The message is one line for the person who runs the tests."""


class UnknownVersion(Exception):
    """There is no such version to build."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The three programs of a control plane."""

    etcd: Path
    kube_apiserver: Path
    kube_scheduler: Path


def find_programs() -> Programs:
    """All three programs; raises NoControlPlane if one is missing, or openssl, which makes their certificates."""
    missing = missing_programs()
    if missing:
        places = f"{cache_folder()}" if assets_folder() is None else f"{assets_folder()} or {cache_folder()}"
        raise NoControlPlane(f"no {', '.join(missing)} in {places}: run `make control-plane`")
    if shutil.which("openssl") is None:
        raise NoControlPlane("no openssl on PATH: install it with the packages of your system")
    return Programs(_find("etcd"), _find("kube-apiserver"), _find("kube-scheduler"))


def go_module() -> Path:
    """The folder with go.mod of the version that the environment names."""
    named = os.environ.get(VERSION_VARIABLE) or DEFAULT_VERSION
    if named not in GO_MODULES:
        raise UnknownVersion(f"{VERSION_VARIABLE}: no Kubernetes {named!r}; there are {', '.join(GO_MODULES)}")
    return GO_MODULES[named]


def missing_programs() -> list[str]:
    """The programs that are neither in KUBEBUILDER_ASSETS nor built yet."""
    return [program for program in PACKAGES if not _find(program).is_file()]


def _find(program: str) -> Path:
    assets = assets_folder()
    if assets is not None and (assets / program).is_file():
        return assets / program
    return cache_folder() / program


def assets_folder() -> Path | None:
    """The folder that KUBEBUILDER_ASSETS names."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(named) if named else None


def cache_folder() -> Path:
    """Where the programs of these versions are kept, the same for every clone of the repository."""
    return user_cache() / "control-plane" / f"kubernetes-{kubernetes_version()}-etcd-{etcd_version()}"


def user_cache() -> Path:
    """bayplan's part of the user's cache folder."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "bayplan"


def kubernetes_version() -> str:
    """The version of kube-apiserver and kube-scheduler: "v1.36.4"."""
    return _from_go_mod(r"^\s*k8s\.io/kubernetes (v\S+)")


def etcd_version() -> str:
    """The version of etcd: "v3.6.8"."""
    return _from_go_mod(r"^\s*go\.etcd\.io/etcd/server/v3 (v\S+)")


def needed_go_version() -> str:
    """The oldest Go that builds them: "1.26.0"."""
    return _from_go_mod(r"^go (\S+)")


def _from_go_mod(pattern: str) -> str:
    found = re.search(pattern, (go_module() / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"go.mod has no line like {pattern}"
    return found[1]
