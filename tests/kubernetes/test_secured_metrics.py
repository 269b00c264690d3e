"""`bayplan scheduler --authenticate-metrics` on a real API server: metrics over TLS, for tokens that may read them."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import RunningScheduler

RBAC = "rbac.authorization.k8s.io/v1"
READER = {
    "apiVersion": RBAC,
    "kind": "ClusterRole",
    "metadata": {"name": "test-metrics-reader"},
    "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
}


def answered(plane: ControlPlane, port: int, path: str, token: str = "") -> int:
    """The status of an answer; 0 if there is none."""
    trust = ssl.create_default_context(cafile=str(plane.authority.certificate))
    trust.check_hostname = False  # the certificate is the API server's
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[RunningScheduler]:
    certificate = ("--tls-cert-file", str(control_plane.serving.certificate))
    key = ("--tls-private-key-file", str(control_plane.serving.key))
    started = RunningScheduler(control_plane.kubeconfig, (*certificate, *key, "--authenticate-metrics"))
    wait_until(
        lambda: answered(control_plane, started.port, "/readyz") == 200, "ready, and health is open", timeout=120
    )
    yield started
    started.close()


def test_only_tokens_that_may_read_metrics_get_them(
    control_plane: ControlPlane, namespace: str, scheduler: RunningScheduler
) -> None:
    for name in ("prometheus", "stranger"):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        control_plane.apply(account)
    control_plane.apply(READER)
    subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "test-metrics-reader"}
    binding = {"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "test-metrics-reader"}}
    control_plane.apply({**binding, "roleRef": role, "subjects": [subject]})

    tokens = {name: control_plane.token_for(namespace, name) for name in ("prometheus", "stranger")}
    wait_until(
        lambda: answered(control_plane, scheduler.port, "/metrics", tokens["prometheus"]) == 200,
        "the role holds",
        timeout=60,
    )
    assert answered(control_plane, scheduler.port, "/metrics", tokens["stranger"]) == 403
    assert answered(control_plane, scheduler.port, "/metrics", "made-up") == 401
    assert answered(control_plane, scheduler.port, "/metrics") == 401
    assert answered(control_plane, scheduler.port, "/livez") == 200
