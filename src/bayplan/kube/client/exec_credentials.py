"""Exec plug-ins: programs named in a kubeconfig that print credentials (`aws eks get-token`, `gke-gcloud-auth-plugin`).

The protocol is `client.authentication.k8s.io` v1 and v1beta1: the program is started with the request in
KUBERNETES_EXEC_INFO and prints an ExecCredential with a token or a client certificate, perhaps with a time at which it
expires. It is run when credentials are first needed, again shortly before they expire, and after the server has refused
them with 401; however many requests wait, it runs once. It never gets a terminal: bayplan is a service.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

import msgspec

from bayplan.kube.client.credentials import AccessError, ClientCertificate, Credential, Trust
from bayplan.kube.client.kubeconfig import Cluster, Exec, KubeconfigEntry, User
from bayplan.kube.errors import field_and_problem
from bayplan.kube.json_text import json_words

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
CLUSTER_EXTENSION = "client.authentication.k8s.io/exec"
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
LONGEST_RUN = 60.0  # seconds; a plug-in that waits for a browser never ends
AHEAD = timedelta(seconds=10)  # renewed so long before it expires


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecPlugin:
    """Credentials from a program. `certificate` is the user's own, shown unless the program prints another."""

    def __init__(
        self,
        user: KubeconfigEntry[User],
        cluster: KubeconfigEntry[Cluster],
        trust: Trust | None,
        certificate: ClientCertificate | None,
        environment: Mapping[str, str],
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        assert user.value.exec is not None
        self._exec = user.value.exec
        self._user = user
        self._trust = trust
        self._certificate = certificate
        self._clock = clock
        self._command = _command(user, self._exec)
        self._environment = _environment(self._exec, cluster, trust, environment)
        self._credential: Credential | None = None
        self._expires: datetime | None = None
        # One for each event loop: a lease is renewed in a loop of its own.
        self._running: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def current(self) -> Credential:
        """What the program printed last, unless it expires in these seconds."""
        async with self._running.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            expired = self._expires is not None and self._clock() >= self._expires - AHEAD
            if self._credential is None or expired:
                status = self._read(await self._run())
                self._credential = self._credential_of(status)
                self._expires = status.expiration_timestamp
            return self._credential

    def refused(self, shown: Credential) -> bool:
        """Run the program again, unless the 401 of another request has already done so."""
        if shown is self._credential:
            self._credential = None
        return True

    async def _run(self) -> bytes:
        program, *arguments = self._command
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f" {self._exec.install_hint.strip()}" if self._exec.install_hint else ""
            raise self._error(f"cannot be started: {error.strerror}.{hint}") from None
        try:
            async with asyncio.timeout(LONGEST_RUN):
                out, err = await process.communicate()
        except TimeoutError:
            raise self._error(f"did not end within {LONGEST_RUN:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = err.decode(errors="replace").strip() or "it said nothing"
            raise self._error(f"ended with {process.returncode}: {said[-500:]}")
        return out

    def _read(self, out: bytes) -> _Status:
        try:
            printed = msgspec.json.decode(out, type=_ExecCredential)
        except msgspec.ValidationError as error:
            path, problem = field_and_problem(error)
            raise self._error(f"printed an ExecCredential with a wrong {path or 'form'}: {problem}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._error(f"printed no JSON: {json_words(error)}") from None
        if printed.kind != "ExecCredential" or printed.api_version != self._exec.api_version:
            found = f"{printed.api_version or '(no apiVersion)'} {printed.kind or '(no kind)'}"
            raise self._error(f"printed {found}; expected {self._exec.api_version} ExecCredential")
        status = printed.status or _Status()
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("printed only one of clientCertificateData and clientKeyData")
        if not status.token and not status.client_certificate_data:
            raise self._error("printed neither a token nor a client certificate")
        return status

    def _credential_of(self, status: _Status) -> Credential:
        certificate = self._certificate
        if status.client_certificate_data:
            certificate = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        try:
            tls = self._trust.context(certificate) if self._trust is not None else None
        except ssl.SSLError as error:
            raise self._error(f"printed a client certificate that cannot be used with its key: {error}") from None
        return Credential(f"Bearer {status.token}" if status.token else None, tls)

    def _error(self, problem: str) -> AccessError:
        return self._user.error("exec.command", f'"{self._exec.command}" {problem}')


def _command(user: KubeconfigEntry[User], plugin: Exec) -> list[str]:
    """The program with its arguments; raises AccessError for what cannot be run without asking it."""
    if plugin.api_version not in API_VERSIONS:
        raise user.error(
            "exec.apiVersion", f'"{plugin.api_version}" is not known; expected {" or ".join(API_VERSIONS)}'
        )
    if not plugin.command:
        raise user.error("exec.command", "is not set")
    mode = plugin.interactive_mode or ("" if plugin.api_version == API_VERSIONS[0] else "IfAvailable")
    if mode not in INTERACTIVE_MODES:
        raise user.error("exec.interactiveMode", f'"{mode}" is not known; expected {", ".join(INTERACTIVE_MODES)}')
    if mode == "Always":
        raise user.error("exec.interactiveMode", f'"{mode}" needs a terminal, and bayplan offers none')
    # As for every path in a kubeconfig; a bare name is looked up in $PATH.
    command = str(user.path(plugin.command)) if os.sep in plugin.command else plugin.command
    return [command, *(plugin.args or [])]


def _environment(
    plugin: Exec, cluster: KubeconfigEntry[Cluster], trust: Trust | None, environment: Mapping[str, str]
) -> dict[str, str]:
    spec: dict[str, object] = {"interactive": False}
    if plugin.provide_cluster_info:
        spec["cluster"] = _cluster_info(cluster.value, trust)
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    own = {variable.name: variable.value for variable in plugin.env or []}
    return {**environment, **own, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}


def _cluster_info(cluster: Cluster, trust: Trust | None) -> dict[str, object]:
    authorities = trust.authorities if trust is not None else None
    stated = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authorities.encode()).decode() if authorities else "",
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": next((each.extension for each in cluster.extensions or [] if each.name == CLUSTER_EXTENSION), None),
    }
    return {name: value for name, value in stated.items() if value}
