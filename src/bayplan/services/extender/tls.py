"""Files of the server that are re-read when they change: certificate, key, client CA and token.

Certificates are renewed in place, usually through a mounted Secret. New handshakes use the new files; open connections
stay. Unusable new files are logged, and the old ones stay in use.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayplan.services.edges.health import AddressError

logger = logging.getLogger(__name__)

LOOK_EVERY = 10.0


@dataclass(frozen=True, slots=True)
class ServingFiles:
    """Files for TLS and authentication. With `client_ca`, clients must present a certificate of that authority."""

    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    token: str | None = None

    @property
    def authenticates(self) -> bool:
        """Whether clients must prove who they are."""
        return self.client_ca is not None or self.token is not None


class ServingTls:
    """The server's TLS context. `reload` replaces what the next handshake uses."""

    def __init__(self, files: ServingFiles) -> None:
        self._files = files
        self._current = self._load()
        # Handshakes start in a context that never changes; the callback runs first and swaps in the current one.
        self.context = self._load()
        self.context.sni_callback = self._swap

    def reload(self) -> None:
        """Read the files again; raises `AddressError` if they cannot be used."""
        self._current = self._load()

    def _swap(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _load(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # A resumed session would skip the check of the client's certificate.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            context.load_cert_chain(files.certificate or "", files.key)
            if files.client_ca is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(files.client_ca)
        except (OSError, ssl.SSLError) as error:
            names = ", ".join(filter(None, (files.certificate, files.key, files.client_ca)))
            raise AddressError(f"cannot load the certificates {names}: {error}") from None
        return context


class Token:
    """A bearer token in a file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._token = b""
        self.reload()

    def reload(self) -> None:
        """Read the file again; raises `AddressError` if it holds no token."""
        try:
            token = Path(self._file).read_bytes().strip()
        except OSError as error:
            raise AddressError(f"cannot read the token: {error}") from None
        if not token:
            raise AddressError(f"cannot use the token {self._file}: the file is empty")
        self._token = token

    def accepts(self, authorization: str) -> bool:
        """Whether a header carries the token: as Bearer, or as the password of Basic, which kube-scheduler's
        `urlPrefix` can hold.
        """
        scheme, _, credentials = authorization.partition(" ")
        given = credentials.strip().encode()
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given, self._token)


async def reload_on_change(
    files: Sequence[str], reload: Callable[[], None], every: float = LOOK_EVERY, what: str = "certificates"
) -> None:
    """Call `reload` whenever a file changes, until cancelled."""
    seen = _signatures(files)
    while True:
        await asyncio.sleep(every)
        now = _signatures(files)
        if now == seen:
            continue
        seen = now
        try:
            reload()
            logger.info("reloaded files", extra={"what": what})
        except AddressError as error:
            logger.error("cannot use the new files, keeping the old ones", extra={"problem": str(error)})  # noqa: TRY400


def _signatures(files: Sequence[str]) -> list[tuple[int, int, int] | None]:
    """Inode, time and size of each file. Secrets are mounted through links, so a new one has another inode."""
    found: list[tuple[int, int, int] | None] = []
    for file in files:
        try:
            status = Path(file).stat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return found
