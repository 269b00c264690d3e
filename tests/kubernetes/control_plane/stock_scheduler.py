"""The stock kube-scheduler, which bayplan is compared with and works beside.

In: the settings that a comparison varies. Out: its configuration file and a handle that also knows its metrics. Its
client's limit of 50 requests a second is lifted, or a comparison would measure that. Next: `plane.py` starts it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.kubernetes.control_plane.certificates import Authority, KeyPair
from tests.kubernetes.control_plane.ports import LOOPBACK, free_port
from tests.kubernetes.control_plane.process import Process
from tests.kubernetes.control_plane.raw_api import Json, RawApi

USER = "system:kube-scheduler"
"""The API server comes with the roles of this user."""


class StockScheduler(Process):
    """A kube-scheduler; `api` asks its own server: health and metrics."""

    def __init__(
        self,
        program: Path,
        folder: Path,
        configuration: Json,
        authority: Authority,
        serving: KeyPair,
        verbosity: str = "",
    ) -> None:
        port = free_port()
        name = f"kube-scheduler-{port}"
        kubeconfig = configuration["clientConnection"]["kubeconfig"]
        file = folder / f"{name}.configuration.json"
        file.write_text(json.dumps(configuration, indent=1), encoding="utf-8")
        command = [
            str(program),
            f"--config={file}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--authorization-always-allow-paths=/readyz,/metrics",
            *([f"--vmodule={verbosity}"] if verbosity else []),
        ]
        self.api = RawApi(f"https://{LOOPBACK}:{port}", authority.certificate, None)
        super().__init__(name, command, folder / f"{name}.log", lambda: self.api.answers("/readyz"))

    def metrics(self) -> str:
        """Its metrics, in the text format of Prometheus."""
        return self.api.get_text("/metrics")


def configure(
    kubeconfig: Path,
    *,
    scheduler_name: str,
    profiles: Sequence[Json] | None,
    percentage: int | None,
    qps: int,
    extenders: Sequence[Json] = (),
) -> Json:
    """Its configuration: one default profile called `scheduler_name`, unless `profiles` are given.

    `percentage` is percentageOfNodesToScore: 100 looks at every node, and None samples as the default does.
    """
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(kubeconfig),
            "qps": qps,
            "burst": 2 * qps,
            "contentType": "application/vnd.kubernetes.protobuf",  # as a cluster's own scheduler is set up
            "acceptContentTypes": "application/vnd.kubernetes.protobuf,application/json",
        },
        "leaderElection": {"leaderElect": False},
        "profiles": list(profiles) if profiles is not None else [{"schedulerName": scheduler_name}],
        **({"extenders": list(extenders)} if extenders else {}),
        **({} if percentage is None else {"percentageOfNodesToScore": percentage}),
    }
