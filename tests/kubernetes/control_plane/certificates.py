"""Keys and certificates of a control plane, made by the `openssl` command.

In: a folder. Out: files in it: `ca.crt` and `ca.key`, a pair for each identity, and the key that service account tokens
are signed with. In a client's certificate Kubernetes reads the user from CN and the groups from O. Next: `plane.py`
hands them to the API server, and `kubeconfigs.py` to its clients.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.control_plane.ports import LOOPBACK

DAYS = "3650"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key."""

    certificate: Path
    key: Path


class Authority:
    """The certificate authority of one control plane, with its files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = folder / "ca.crt"
        self._issued = 0
        self._new_key("ca.key")
        may = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        self._openssl(
            "req", "-x509", "-new", "-key", "ca.key", "-days", DAYS, "-subj", "/CN=ca", *may, "-out", "ca.crt"
        )

    def issue_server(self) -> KeyPair:
        """For a program that listens on loopback."""
        return self._issue("/CN=control-plane", f"extendedKeyUsage=serverAuth\nsubjectAltName=IP:{LOOPBACK}\n")

    def issue_client(self, user: str, groups: Sequence[str]) -> KeyPair:
        """For a user who is a member of these groups."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        return self._issue(subject, "extendedKeyUsage=clientAuth\n")

    def make_token_key(self) -> KeyPair:
        """The pair that signs service account tokens and checks them; its public half is no certificate."""
        key = self._new_key("tokens.key")
        self._openssl("ec", "-in", key.name, "-pubout", "-out", "tokens.pub")
        return KeyPair(self.folder / "tokens.pub", key)

    def _issue(self, subject: str, extensions: str) -> KeyPair:
        self._issued += 1
        name = f"identity-{self._issued}"
        key = self._new_key(f"{name}.key")
        usual = "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\n"
        (self.folder / f"{name}.extensions").write_text(usual + extensions, encoding="utf-8")
        self._openssl("req", "-new", "-key", key.name, "-subj", subject, "-out", f"{name}.request")
        signer = ["-CA", "ca.crt", "-CAkey", "ca.key", "-set_serial", str(self._issued), "-days", DAYS]
        what = ["-req", "-in", f"{name}.request", "-extfile", f"{name}.extensions", "-out", f"{name}.crt"]
        self._openssl("x509", *what, *signer)
        return KeyPair(self.folder / f"{name}.crt", key)

    def _new_key(self, name: str) -> Path:
        # Elliptic curves: made in milliseconds, where RSA would take the better part of a second.
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", name)
        (self.folder / name).chmod(0o600)
        return self.folder / name

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"openssl {' '.join(arguments)}: {done.stderr}"
