"""kube-controller-manager: Deployments, StatefulSets, Jobs, garbage collection, node health and graceful deletion as in
a cluster.

In: the program and the certificates. Out: a handle that is ready when the controllers run. Each controller acts under
its own service account, as kubeadm sets it up. Next: `plane.py` starts it where a test asks for one; `make controllers`
builds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.kubernetes.control_plane.certificates import Authority, KeyPair
from tests.kubernetes.control_plane.ports import LOOPBACK, free_port
from tests.kubernetes.control_plane.process import Process
from tests.kubernetes.control_plane.raw_api import RawApi

USER = "system:kube-controller-manager"
"""The API server comes with the roles of this user."""
GRACE_PERIOD = "60s"
"""How long a node may miss heartbeats: longer than the slowest one on a busy machine."""


class ControllerManager(Process):
    """A kube-controller-manager; `api` asks its own server."""

    def __init__(
        self,
        program: Path,
        folder: Path,
        kubeconfig: Path,
        authority: Authority,
        serving: KeyPair,
        tokens: KeyPair,
        further_arguments: Sequence[str],
    ) -> None:
        port = free_port()
        command = [
            str(program),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--authorization-always-allow-paths=/healthz,/metrics",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--root-ca-file={authority.certificate}",
            f"--service-account-private-key-file={tokens.key}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            f"--node-monitor-grace-period={GRACE_PERIOD}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            *further_arguments,
        ]
        self.api = RawApi(f"https://{LOOPBACK}:{port}", authority.certificate, None)
        log = folder / "kube-controller-manager.log"
        super().__init__("kube-controller-manager", command, log, lambda: self.api.answers("/healthz"))
