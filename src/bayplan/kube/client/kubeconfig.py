"""kubeconfig files: read, merged and looked up by context, as kubectl does.

In comes `--kubeconfig`, the list in $KUBECONFIG, or ~/.kube/config; out goes a `Chosen`: one cluster and one user, each
with the file that it stands in, because relative paths are meant from there. Of several files the first that names a
cluster, user, context or current context wins; files of a list that do not exist are passed over.
`kube/client/access.py` makes an `Access` of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from bayplan.kube.client.credentials import AccessError
from bayplan.kube.documents import located
from bayplan.kube.errors import InvalidObject, field_and_problem
from bayplan.kube.files import read_document


class _Config(Struct, frozen=True, rename="kebab", kw_only=True):
    """Base of the kubeconfig's structs, whose fields are written with hyphens."""


class Extension(_Config, frozen=True):
    """Anything that a tool keeps in a kubeconfig."""

    name: str = ""
    extension: Any = None


class Cluster(_Config, frozen=True):
    """Address of an API server and the authority that signs it."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[Extension] | None = None


class EnvironmentVariable(_Config, frozen=True):
    """A variable that a plug-in is started with."""

    name: str
    value: str = ""


class Exec(Struct, frozen=True, rename="camel", kw_only=True):
    """A plug-in that prints credentials."""

    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[EnvironmentVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(_Config, frozen=True):
    """The plug-ins of old, which were compiled into kubectl."""

    name: str = ""


class User(_Config, frozen=True):
    """Who asks, and how it is proven."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(default=None, name="as-user-extra")
    auth_provider: AuthProvider | None = None
    exec: Exec | None = None


class Context(_Config, frozen=True):
    """A cluster, a user and a namespace under one name."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Config, frozen=True):
    name: str
    cluster: Cluster | None = None


class _NamedUser(_Config, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(_Config, frozen=True):
    name: str
    context: Context | None = None


class _Kubeconfig(_Config, frozen=True):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


_E = TypeVar("_E")


@dataclass(frozen=True, slots=True)
class KubeconfigEntry(Generic[_E]):
    """Something in a kubeconfig, and where it stands."""

    file: Path
    field: str
    value: _E

    def error(self, field: str, problem: str) -> AccessError:
        """An error that names file and field."""
        return AccessError(f"{self.file}: {self.field}.{field}: {problem}")

    def path(self, text: str) -> Path:
        """A path as this file means it: relative to the folder that it lies in."""
        return self.file.parent / Path(text)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a context stands for."""

    name: str
    cluster: KubeconfigEntry[Cluster]
    user: KubeconfigEntry[User]
    namespace: str


def kubeconfig_files(kubeconfig: str | None, environment: Mapping[str, str]) -> list[Path]:
    """The files to merge: the one that is given, else those of $KUBECONFIG that exist, else
    ~/.kube/config if it does.
    """
    if kubeconfig:
        return [Path(kubeconfig)]
    listed = environment.get("KUBECONFIG", "")
    if listed:
        candidates = [Path(part) for part in listed.split(os.pathsep) if part]
    else:
        # As text: a user without a home, as in a container, keeps the "~", and no such file exists.
        candidates = [Path(environment.get("HOME") or os.path.expanduser("~")) / ".kube" / "config"]  # noqa: PTH111
    return [file for file in candidates if file.exists()]


def choose(files: Sequence[Path], context: str | None) -> Chosen:
    """Merge the files and look a context up (None: the current one)."""
    configs = [(file, _read(file)) for file in files]
    where = ", ".join(str(file) for file in files)
    contexts = _first_wins(configs, "contexts", "context")
    known = f"known: {', '.join(sorted(contexts))}"
    name = context or next((config.current_context for _, config in configs if config.current_context), None)
    if not contexts:
        raise AccessError(f"{where} is no kubeconfig, or has no contexts")
    if name is None:
        raise AccessError(f"{where}: current-context: is not set; choose a context: {', '.join(sorted(contexts))}")
    if name not in contexts:
        source = "context" if context else "current-context"
        raise AccessError(f'{where}: {source}: "{name}" does not exist; {known}')
    chosen: KubeconfigEntry[Context] = contexts[name]
    clusters = _first_wins(configs, "clusters", "cluster")
    users = _first_wins(configs, "users", "user")
    if chosen.value.cluster not in clusters:
        raise chosen.error("cluster", _does_not_exist(chosen.value.cluster, clusters, "clusters"))
    if chosen.value.user and chosen.value.user not in users:
        raise chosen.error("user", _does_not_exist(chosen.value.user, users, "users"))
    anonymous = KubeconfigEntry(chosen.file, f'users["{chosen.value.user}"].user', User())
    return Chosen(
        name,
        clusters[chosen.value.cluster],
        users.get(chosen.value.user, anonymous),
        chosen.value.namespace or "default",
    )


def _does_not_exist(name: str, known: Mapping[str, object], plural: str) -> str:
    listed = f"known: {', '.join(sorted(known))}" if known else f"there are no {plural}"
    return f'"{name}" does not exist; {listed}' if name else "is not set"


def _first_wins(
    configs: Sequence[tuple[Path, _Kubeconfig]], plural: str, singular: str
) -> dict[str, KubeconfigEntry[Any]]:
    found: dict[str, KubeconfigEntry[Any]] = {}
    for file, config in configs:
        names: set[str] = set()
        for named in getattr(config, plural) or []:
            field = f'{plural}["{named.name}"].{singular}'
            if named.name in names:
                raise AccessError(f'{file}: {plural}: the name "{named.name}" appears twice')
            names.add(named.name)
            value = getattr(named, singular)
            if value is None:
                value = {"cluster": Cluster, "user": User, "context": Context}[singular]()
            found.setdefault(named.name, KubeconfigEntry(file, field, value))
    return found


def _read(file: Path) -> _Kubeconfig:
    try:
        if not file.exists() or file.is_dir() or file.stat().st_size:
            return msgspec.convert(read_document(file, strict=False), _Kubeconfig)
    except InvalidObject as error:
        raise AccessError(f"kubeconfig {str(error).removeprefix('file ')}") from None
    except msgspec.ValidationError as error:
        path, problem = field_and_problem(error)
        raise AccessError(f"kubeconfig {located(file, f'{path}: {problem}' if path else problem)}") from None
    return _Kubeconfig()  # an empty file says nothing, and that is allowed
