"""Credentials for an API server: a token, a password or a client certificate, refreshed in time.

`kube/client/access.py` chooses one of these from the kubeconfig. The client calls `current()` before each request and
`refused()` after a 401. The kubelet, or another owner, rotates token files, so they are reread every minute and after a
401. A certificate is part of the TLS context: a renewed certificate gets its own context, which opens new connections.
Credential plug-ins are in `kube/client/exec_credentials.py`.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

TOKEN_AGE = 60.0  # seconds after which a token file is read again; client-go does the same


class AccessError(Exception):
    """There is no way to reach or convince an API server; the message names file, context or field."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What one request shows: the Authorization header, and the TLS context with its client certificate (None: plain
    HTTP).
    """

    authorization: str | None = None
    tls: ssl.SSLContext | None = None


class Credentials(Protocol):
    """Where credentials come from."""

    async def current(self) -> Credential:
        """What to show now; raises AccessError if there is nothing to show."""
        ...

    def refused(self, shown: Credential) -> bool:
        """The server answered 401 to what was shown. True: ask again, there may be something new."""
        ...


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """PEM texts of a certificate and its key."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Trust:
    """Certificate authorities to trust: the cluster's in PEM, the system's if there are none, or any."""

    authorities: str | None = None
    verify: bool = True

    def context(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
        """A TLS context; raises ssl.SSLError if a certificate or key is unreadable."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.authorities is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=self.authorities)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an intermediate may be the root of trust, as in Go
        if certificate is not None:
            _load(context, certificate)
        return context


def _load(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """The ssl module reads certificates from files only.

    This one lives for the blink of an eye and only we may read it.
    """
    with tempfile.NamedTemporaryFile(prefix="bayplan-", suffix=".pem") as file:
        file.write(certificate.certificate.rstrip() + b"\n" + certificate.key)
        file.flush()
        context.load_cert_chain(file.name)


class Fixed:
    """A token or password written in the kubeconfig, a certificate whose data stands there, or nothing at all."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """Always the same."""
        return self._credential

    def refused(self, shown: Credential) -> bool:  # noqa: ARG002 - part of the protocol
        """Asking again would change nothing."""
        return False


class TokenFile:
    """A token in a file, and beside it perhaps the authorities to trust, which are replaced too.

    An unreadable file is no trouble as long as its last content serves.
    """

    def __init__(
        self,
        file: Path,
        tls: ssl.SSLContext | None,
        *,
        authorities: Path | None = None,
        fallback: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._tls = tls
        self._authorities = authorities
        self._trusted = ""
        self._clock = clock
        self._token = fallback
        self._credential = Credential(None, tls)
        self._read_at = float("-inf")

    async def current(self) -> Credential:
        """The token that the file holds, at most a minute ago."""
        if self._clock() - self._read_at >= TOKEN_AGE:
            self.read_now()
        return self._credential

    def refused(self, shown: Credential) -> bool:
        """Read the file again; there is hope if it holds another token."""
        if shown is self._credential:
            self.read_now()
        return shown is not self._credential

    def read_now(self) -> None:
        """Read the file; raises AccessError if there is no token to be had."""
        try:
            token = self._file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._token is None:
                raise AccessError(f"token file {self._file}: cannot be read: {error}") from None
            token = self._token
        if not token:
            raise AccessError(f"token file {self._file}: is empty")
        if self._trust_anew() or token != self._token or self._credential.authorization is None:
            self._token = token
            self._credential = Credential(f"Bearer {token}", self._tls)
        self._read_at = self._clock()

    def _trust_anew(self) -> bool:
        """Whether the authorities have been replaced; connections from now on trust the new ones."""
        if self._authorities is None:
            return False
        try:
            found = self._authorities.read_text()
            if found == self._trusted:
                return False
            self._tls = Trust(found).context()
        except (OSError, ValueError):  # it is being written just now; ssl.SSLError is an OSError
            return False
        self._trusted = found
        return True


class CertificateFiles:
    """A client certificate in files that may be renewed, with a fixed Authorization or none."""

    def __init__(self, trust: Trust, read: Callable[[], ClientCertificate], first: Credential) -> None:
        self._trust = trust
        self._read = read
        self._certificate = read()
        self._credential = first

    async def current(self) -> Credential:
        """The certificate as it was read last."""
        return self._credential

    def refused(self, shown: Credential) -> bool:
        """Read the files again; there is hope if they hold another certificate."""
        if shown is self._credential:
            try:
                certificate = self._read()
                if certificate != self._certificate:
                    self._credential = Credential(shown.authorization, self._trust.context(certificate))
                    self._certificate = certificate
            except (AccessError, ssl.SSLError):
                return False  # the files are being rewritten; the next 401 rereads them
        return shown is not self._credential


def basic(username: str, password: str) -> str:
    """The Authorization header of a name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
