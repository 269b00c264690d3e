"""`bayplan web` on a real API server: two users with different rights, and an open page that follows the cluster."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from tests.kubernetes.control_plane.objects import remove_namespace
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.web.chromium import browser_program, opened_page
from tests.web.running_web import RunningWeb, running_web

RBAC = "rbac.authorization.k8s.io/v1"
QUESTIONS = ("cluster", "map", "nodes", "nodes/web-node", "waiting", "gangs", "search?q=secret", "search?q=web-")


def role(name: str, resource: str) -> dict[str, object]:
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": ["list"]}]
    return {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def binding(name: str, account: str, namespace: str, *, inside: bool = False) -> dict[str, object]:
    """Bind a ClusterRole to an account, everywhere or `inside` its namespace."""
    kind = "RoleBinding" if inside else "ClusterRoleBinding"
    where = {"namespace": namespace} if inside else {}
    return {
        "apiVersion": RBAC,
        "kind": kind,
        "metadata": {"name": f"{name}-{account}", **where},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def pod(namespace: str, name: str, node: str = "") -> dict[str, object]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


@pytest.fixture
def web(control_plane: ControlPlane) -> Iterator[RunningWeb]:
    trust = ssl.create_default_context(cafile=str(control_plane.authority.certificate))
    trust.check_hostname = False  # the certificate is the API server's
    serving = control_plane.serving
    files = ("--tls-cert-file", str(serving.certificate), "--tls-private-key-file", str(serving.key))
    kubeconfig = ("--kubeconfig", str(control_plane.kubeconfig))
    with running_web(*kubeconfig, *files, address="0.0.0.0:0", trust=trust) as started:
        yield started


@pytest.fixture
def hidden(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """A second namespace. It ends with the test, and so do the rights that the test grants."""
    name = f"{namespace}-hidden"
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    remove_namespace(control_plane.api, name)
    for granted in ("web-nodes-everything", "web-nodes-partly", "web-pods-everything"):
        control_plane.delete(f"/apis/{RBAC}/clusterrolebindings/{granted}")


def test_viewers_see_names_only_of_namespaces_that_they_may_read(
    control_plane: ControlPlane, namespace: str, hidden: str, web: RunningWeb
) -> None:
    allocatable = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "web-node"},
        "status": {"allocatable": allocatable},
    }
    control_plane.apply(node)
    for home, name in ((namespace, "web-mine"), (hidden, "secret-name")):
        control_plane.apply(pod(home, name, "web-node"))
        control_plane.apply(pod(home, f"{name}-waits"))
    for account in ("everything", "partly", "nothing"):
        metadata = {"name": account, "namespace": namespace}
        control_plane.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    for each in (role("web-nodes", "nodes"), role("web-pods", "pods")):
        control_plane.apply(each)
    for account in ("everything", "partly"):
        control_plane.apply(binding("web-nodes", account, namespace))
    control_plane.apply(binding("web-pods", "everything", namespace))
    control_plane.apply(binding("web-pods", "partly", namespace, inside=True))
    headers = {
        account: {"Authorization": f"Bearer {control_plane.token_for(namespace, account)}"}
        for account in ("everything", "partly", "nothing")
    }

    def text(account: str, question: str) -> str:
        return web.ask(f"/api/v1/{question}", headers=headers[account]).body.decode()

    wait_until(lambda: "secret-name-waits" in text("everything", "waiting"), "everything is read", timeout=120)
    assert "web-mine-waits" in text("partly", "waiting")
    assert "hidden/pod-" in text("partly", "waiting"), "hidden pods are counted"
    for question in (*QUESTIONS, f"why/{namespace}/pod/web-mine-waits"):
        said = text("partly", question)
        assert "secret-name" not in said, question
        assert hidden not in said, question
    refused = f"/api/v1/why/{hidden}/pod/secret-name"
    assert web.ask(refused, headers=headers["everything"]).status == 200
    # Whether a hidden object exists must not show.
    absent = f"/api/v1/why/{hidden}/pod/no-such-pod"
    assert [web.ask(path, headers=headers["partly"]).status for path in (refused, absent)] == [404, 404]
    assert web.ask("/api/v1/cluster", headers=headers["nothing"]).status == 403
    for wrong in ({}, {"Authorization": "Bearer made-up"}, {"Authorization": "Basic YTpi"}):
        assert web.ask("/api/v1/cluster", headers=wrong).status == 401
        assert web.ask("/api/v1/events", headers=wrong).status == 401
    assert web.ask("/").status == 200, "the page itself is no secret"

    # A manifest of a hidden namespace would tell by its errors what exists there.
    manifest = (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: {hidden}}}\n"
        "spec: {containers: [{name: a, image: a}]}"
    )
    yaml = {"Content-Type": "application/yaml"}
    status = {
        account: web.ask("/api/v1/what-if", manifest.encode(), {**headers[account], **yaml}).status
        for account in ("everything", "partly")
    }
    assert status == {"everything": 200, "partly": 403}

    # Live: a new pod is on the page without a restart.
    control_plane.apply(pod(namespace, "web-late"))
    wait_until(lambda: "web-late" in text("partly", "waiting"), "the page follows the cluster", timeout=60)


def test_an_open_page_follows_the_cluster_without_reload(control_plane: ControlPlane, namespace: str) -> None:
    program = browser_program()
    if program is None:
        pytest.skip("no chromium or google-chrome on this machine")
    kubeconfig = ("--kubeconfig", str(control_plane.kubeconfig))
    with running_web(*kubeconfig) as local, opened_page(program) as page:
        wait_until(lambda: local.ask("/readyz").status == 200, "the cluster is read", timeout=120)
        page.open(f"{local.url}/")
        page.run("window.marker = 'kept'")
        for name in ("web-live-1", "web-live-2"):
            control_plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        page.until("document.querySelector('tbody')?.innerText.includes('web-live-2')")
        control_plane.apply(pod(namespace, "web-waits"))
        page.run("document.querySelector('nav a[href=\"/why\"]').click()")
        page.until(f"document.querySelector('main').innerText.includes('{namespace}/web-waits')")
        control_plane.delete("/api/v1/nodes/web-live-2")
        page.run("document.querySelector('nav a[href=\"/\"]').click()")
        page.until(
            "document.querySelector('tbody') && !document.querySelector('tbody').innerText.includes('web-live-2')"
        )
        assert page.errors == []

        control_plane.apiserver.kill()
        try:
            page.until("document.getElementById('trouble').innerText.includes('the cluster cannot be read')")
            assert "web-live-1" in page.text("tbody"), "the last state stays"
        finally:
            control_plane.apiserver.start()
        page.until("document.getElementById('trouble').hidden")
        assert page.run("window.marker") == "kept"
