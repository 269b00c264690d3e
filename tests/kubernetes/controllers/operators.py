"""Operators beside the test control plane: each is a process of its own that acts as the administrator.

    with running_job_set(plane): ...      # its CRDs are served, its webhooks answer

In: a control plane with a controller manager, and what `make controllers` has built. Out: an operator that is ready.
Each is configured as its project's own manifests configure it, apart from what loopback needs: ports, certificates, no
leader election. Next: the fixtures in conftest.py.
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kubernetes.control_plane.objects import read_objects
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.ports import LOOPBACK, free_port
from tests.kubernetes.control_plane.process import Process
from tests.kubernetes.controllers.catalogue import (
    JOB_SET,
    KUEUE,
    LEADER_WORKER_SET,
    MPI,
    RAY,
    TRAINING,
    Controller,
    NoController,
)
from tests.kubernetes.controllers.webhooks import register_webhooks, with_conversion

MPI_HEALTH_PORT = 8080
"""mpi-operator serves its health there and knows no flag for it."""
KUEUE_METRICS_CERTIFICATES = Path("/etc/kueue/metrics/certs")
"""Without certificates of its own making, Kueue reads one for its metrics there, even if it serves none."""
TRAINING_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")
"""The training operator waits until a certificate lies there; the one that it serves with lies below TMPDIR."""


@contextmanager
def running_job_set(plane: ControlPlane) -> Iterator[Process]:
    """JobSet, with webhooks for JobSets and their pods."""
    with _component_config(plane, JOB_SET, "config.jobset.x-k8s.io/v1alpha1", "config/components/crd/bases") as started:
        process, webhook_port = started
        manifests = JOB_SET.manifest("config/components/webhook/manifests.yaml")
        kinds, label = ("jobsets", "pods"), "jobset.sigs.k8s.io/jobset-name"
        register_webhooks(plane, manifests, "jobset", webhook_port, kinds=kinds, pods_with=label)
        yield process


@contextmanager
def running_leader_worker_set(plane: ControlPlane) -> Iterator[Process]:
    """LeaderWorkerSet, with webhooks for LeaderWorkerSets and their pods."""
    with _component_config(plane, LEADER_WORKER_SET, "config.lws.x-k8s.io/v1alpha1", "config/crd/bases") as started:
        process, webhook_port = started
        manifests = LEADER_WORKER_SET.manifest("config/webhook/manifests.yaml")
        kinds, label = ("leaderworkersets", "pods"), "leaderworkerset.sigs.k8s.io/name"
        register_webhooks(plane, manifests, "lws", webhook_port, kinds=kinds, pods_with=label)
        yield process


@contextmanager
def running_kueue(plane: ControlPlane) -> Iterator[Process]:
    """Kueue, which admits Jobs with a queue name. Raises NoController where it cannot have its certificate."""
    try:
        _write_certificates(plane, KUEUE_METRICS_CERTIFICATES)
    except PermissionError:
        raise NoController(f"{KUEUE} reads a certificate in {KUEUE_METRICS_CERTIFICATES}: must be writable") from None
    further = {
        "namespace": "kueue-system",
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False},
    }
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
    crds = "config/components/crd/bases"
    with _component_config(plane, KUEUE, "config.kueue.x-k8s.io/v1beta2", crds, further) as (process, webhook_port):
        manifests = KUEUE.manifest("config/components/webhook/manifests.yaml")
        kinds = ("jobs", "clusterqueues", "cohorts", "localqueues", "resourceflavors", "workloads", "topologies")
        register_webhooks(plane, manifests, "kueue", webhook_port, kinds=kinds)
        yield process


@contextmanager
def running_mpi_operator(plane: ControlPlane) -> Iterator[Process]:
    """The MPI operator. Raises NoController if the only port that it can use is taken."""
    with socket.socket() as attempt:
        if attempt.connect_ex((LOOPBACK, MPI_HEALTH_PORT)) == 0:
            raise NoController(f"port {MPI_HEALTH_PORT} is taken, and {MPI} can use no other one")
    apply_all(plane, MPI.manifest("manifests/base/kubeflow.org_mpijobs.yaml"))
    arguments = [f"--kubeConfig={plane.kubeconfig}", "--lock-namespace=default", "--monitoring-port=0"]
    limits = ["--kube-api-qps=100", "--kube-api-burst=200"]
    with _process(plane, MPI, [*arguments, *limits], MPI_HEALTH_PORT, "/healthz") as process:
        yield process


@contextmanager
def running_training_operator(plane: ControlPlane) -> Iterator[Process]:
    """The training operator for PyTorchJobs, with their webhook."""
    apply_all(plane, TRAINING.manifest("manifests/base/crds/kubeflow.org_pytorchjobs.yaml"))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow"}}
    secret = {"name": "training-operator-webhook-cert", "namespace": "kubeflow"}
    # It renews the authority of every webhook in the configuration that has its name. Ours has another name.
    own = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    plane.apply(namespace)
    plane.apply({"apiVersion": "v1", "kind": "Secret", "metadata": secret})
    plane.apply({**own, "metadata": {"name": "validator.training-operator.kubeflow.org"}, "webhooks": []})
    temporary = Path(tempfile.mkdtemp(dir=plane.folder))
    _write_certificates(plane, temporary / "k8s-webhook-server" / "serving-certs")
    TRAINING_CERTIFICATES.mkdir(parents=True, exist_ok=True)
    (TRAINING_CERTIFICATES / "tls.crt").touch()
    health, webhook_port = free_port(), free_port()
    arguments = [
        f"--kubeconfig={plane.kubeconfig}",
        f"--health-probe-bind-address={LOOPBACK}:{health}",
        "--metrics-bind-address=0",
        f"--webhook-server-port={webhook_port}",
        "--enable-scheme=pytorchjob",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
    ]
    with _process(plane, TRAINING, arguments, health, "/readyz", TMPDIR=str(temporary)) as process:
        manifests = TRAINING.manifest("manifests/base/webhook/manifests.yaml")
        register_webhooks(plane, manifests, "test-training-operator", webhook_port, kinds=["pytorchjobs"])
        yield process


@contextmanager
def running_ray_operator(plane: ControlPlane) -> Iterator[Process]:
    """KubeRay."""
    apply_all(plane, RAY.manifest("config/crd/bases"))
    health = free_port()
    arguments = [
        f"--kubeconfig={plane.kubeconfig}",
        f"--health-probe-bind-address={LOOPBACK}:{health}",
        "--metrics-addr=0",
        "--enable-leader-election=false",
    ]
    with _process(plane, RAY, arguments, health, "/readyz") as process:
        yield process


def apply_all(plane: ControlPlane, manifests: Path) -> None:
    """Apply the objects of a file or folder one by one, so that each definition is served before the next."""
    for written in read_objects(manifests):
        plane.apply(written)


@contextmanager
def _component_config(
    plane: ControlPlane, controller: Controller, api_version: str, crds: str, further: dict[str, Any] | None = None
) -> Iterator[tuple[Process, int]]:
    """An operator that reads a configuration file, as JobSet, LeaderWorkerSet and Kueue do; with the port of its
    webhooks.
    """
    health, webhook_port = free_port(), free_port()
    certificates = plane.folder / f"{controller.name}-certificates"
    _write_certificates(plane, certificates)
    for written in read_objects(controller.manifest(crds)):
        plane.apply(with_conversion(plane, written, webhook_port))
    configuration = {
        "apiVersion": api_version,
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": webhook_port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 300, "burst": 500},
        **(further or {}),
    }
    file = plane.folder / f"{controller.name}.json"
    file.write_text(json.dumps(configuration, indent=1), encoding="utf-8")
    arguments = [f"--config={file}", f"--kubeconfig={plane.kubeconfig}"]
    with _process(plane, controller, arguments, health, "/readyz") as process:
        yield process, webhook_port


@contextmanager
def _process(
    plane: ControlPlane, controller: Controller, arguments: list[str], port: int, path: str, **environment: str
) -> Iterator[Process]:
    variables = ["/usr/bin/env", *(f"{name}={value}" for name, value in environment.items())] if environment else []
    command = [*variables, str(controller.find()), *arguments]
    process = Process(controller.name, command, plane.folder / f"{controller.name}.log", lambda: _answers(port, path))
    with process:
        process.start()
        yield process


def _write_certificates(plane: ControlPlane, folder: Path) -> None:
    """A server's certificate under the names that controller-runtime looks for."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(plane.serving.certificate, folder / "tls.crt")
    shutil.copyfile(plane.serving.key, folder / "tls.key")


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}{path}", timeout=1.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
