"""kube-apiserver as clusters run it: RBAC, node restriction and pod security on, anonymous access off.

In: the program, etcd's address and the certificates. Out: a handle that is ready when the server is. Two admission
plugins need a controller manager, and are off without one: ServiceAccount (it makes the `default` account) and
TaintNodesByCondition (it removes the not-ready taint). Next: `plane.py` starts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.kubernetes.control_plane.certificates import Authority, KeyPair
from tests.kubernetes.control_plane.ports import LOOPBACK, free_port
from tests.kubernetes.control_plane.process import Process
from tests.kubernetes.control_plane.raw_api import RawApi

ISSUER = "https://kubernetes.default.svc"


class ApiServer(Process):
    """A kube-apiserver at `url`; `api` asks it as the administrator."""

    def __init__(
        self,
        program: Path,
        folder: Path,
        etcd_url: str,
        authority: Authority,
        serving: KeyPair,
        administrator: KeyPair,
        tokens: KeyPair,
        further_arguments: Sequence[str],
        *,
        is_managed: bool,
    ) -> None:
        port = free_port()
        self.url = f"https://{LOOPBACK}:{port}"
        self.api = RawApi(self.url, authority.certificate, administrator)
        command = [
            str(program),
            f"--etcd-servers={etcd_url}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={port}",
            "--endpoint-reconciler-type=none",  # would publish the address, and loopback must not be published
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={authority.certificate}",
            "--anonymous-auth=false",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            *([] if is_managed else ["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]),
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={tokens.certificate}",
            f"--service-account-signing-key-file={tokens.key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--profiling=false",
            *further_arguments,
        ]
        super().__init__("kube-apiserver", command, folder / "kube-apiserver.log", self._is_ready_with_namespaces)

    def _is_ready_with_namespaces(self) -> bool:
        # The server calls itself ready a moment before it has made its own namespaces.
        return self.api.answers("/readyz") and all(
            self.api.answers(f"/api/v1/namespaces/{name}") for name in ("default", "kube-system", "kube-node-lease")
        )
