"""People who only ask: the ClusterRole `bayplan-viewer`, accounts without it, quotas in the API server's words."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.builders.bodies import Json
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.running_scheduler import PROGRAM

ROLES = Path(__file__).parents[2] / "deploy" / "base" / "user-roles.yaml"
RBAC = "rbac.authorization.k8s.io/v1"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "asked-1"},
    "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "20"}},
}
Ask = Callable[..., tuple[int, str, str]]


def bound(user: str, role: str) -> Json:
    """A binding of a ClusterRole to a user."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"test-{user}-asks"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


@pytest.fixture
def ask(control_plane: ControlPlane) -> Ask:
    """`ask("ann", "nodes")`: a command in the name of a user."""

    def asked(user: str, *words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-c", PROGRAM, *words, "--kubeconfig", str(control_plane.kubeconfig_for(user))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return asked


@pytest.fixture
def viewer(control_plane: ControlPlane) -> str:
    """A user who may ask, and nothing else."""
    control_plane.apply(ROLES)
    control_plane.apply(bound("ann", "bayplan-viewer"))
    return "ann"


def pod(namespace: str, name: str, resources: Json) -> Json:
    spec = {"containers": [{"name": "main", "image": "app", "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def test_the_role_is_enough_for_every_question(
    control_plane: ControlPlane, namespace: str, viewer: str, ask: Ask, tmp_path: Path
) -> None:
    control_plane.apply(NODE)
    control_plane.apply(pod(namespace, "waits", {"requests": {"cpu": "1"}}))
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod(namespace, "new", {"requests": {"cpu": "1"}})))
    for words in (
        ("nodes", "-o", "name"),
        ("why", f"{namespace}/waits"),
        ("why", "-n", namespace),
        ("place", "-f", str(file)),
    ):
        code, _, told = ask(viewer, *words)
        assert (code, "forbidden" in told) == (0, False), (words, told)


def test_without_rights_the_answer_is_which_one_is_missing_and_which_role_has_it(ask: Ask) -> None:
    code, out, told = ask("bob", "nodes")
    assert (code, out) == (2, "")
    assert 'forbidden: User "bob" cannot list resource "' in told
    assert told.endswith("; the ClusterRole bayplan-viewer has all rights for asking\n")


@pytest.fixture
def with_little(control_plane: ControlPlane) -> str:
    """A user who may list nodes and pods, and nothing else."""
    rule = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}
    control_plane.apply(
        {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "little"}, "rules": [rule]},
    )
    control_plane.apply(bound("eve", "little"))
    return "eve"


def test_what_cannot_be_read_is_a_remark_and_the_rest_answers(
    control_plane: ControlPlane, namespace: str, with_little: str, ask: Ask, tmp_path: Path
) -> None:
    control_plane.apply(NODE)
    owned = pod(namespace, "owned", {"requests": {"cpu": "1"}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]
    control_plane.apply(owned)
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod(namespace, "new", {"requests": {"cpu": "1"}})))
    for words, remark in (
        (("nodes", "-o", "name"), "not used: "),
        (("why", f"{namespace}/owned"), "not used: "),
        (("place", "-f", str(file)), f"not used: limits and quotas of namespace {namespace}: "),
    ):
        code, out, told = ask(with_little, *words)
        assert (code, bool(out), remark in told) == (0, True, True), (words, out, told)


@pytest.mark.parametrize(
    "thing, resources",
    [
        (
            {"kind": "ResourceQuota", "spec": {"hard": {"requests.nvidia.com/gpu": "4", "pods": "9"}}},
            {"limits": {"nvidia.com/gpu": "8"}},
        ),
        (
            {"kind": "ResourceQuota", "spec": {"hard": {"cpu": "2", "requests.memory": "1Gi"}}},
            {"requests": {"cpu": "2500m", "memory": "2Gi"}},
        ),
        ({"kind": "ResourceQuota", "spec": {"hard": {"limits.cpu": "2", "limits.memory": "2Gi"}}}, {}),
        (
            {"kind": "LimitRange", "spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}}]}},
            {"limits": {"cpu": "8"}},
        ),
        (
            {"kind": "LimitRange", "spec": {"limits": [{"type": "Pod", "max": {"cpu": "4"}, "min": {"cpu": "1"}}]}},
            {"requests": {"cpu": "500m"}},
        ),
        (
            {"kind": "LimitRange", "spec": {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
        ),
    ],
    ids=["devices", "cpu and memory", "must be said", "maximum", "a whole pod", "ratio"],
)
def test_a_pod_that_the_api_server_refuses_is_refused_in_its_words(
    control_plane: ControlPlane,
    namespace: str,
    viewer: str,
    ask: Ask,
    tmp_path: Path,
    thing: Json,
    resources: Json,
) -> None:
    control_plane.apply(NODE)
    control_plane.apply({"apiVersion": "v1", **thing, "metadata": {"name": "team", "namespace": namespace}})
    if thing["kind"] == "ResourceQuota":  # what the quota controller would write
        hard = thing["spec"]["hard"]
        counted = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
        control_plane.api.patch(f"/api/v1/namespaces/{namespace}/resourcequotas/team/status", counted)
    new = pod(namespace, "new", resources)
    with pytest.raises(ApiRefused) as refused:
        control_plane.api.post(f"/api/v1/namespaces/{namespace}/pods", new)
    words = str(refused.value).partition("is forbidden: ")[2].partition('","reason"')[0].replace('\\"', '"')
    assert words, refused.value
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(new))
    code, out, _ = ask(viewer, "place", "-f", str(file))
    assert (code, f"would be refused by the API server: {words}" in out) == (1, True), (out, words)
