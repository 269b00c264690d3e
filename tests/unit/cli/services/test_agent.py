"""`bayplan agent --oneshot --no-publish` beside a kubelet: the report, and what is said where no API server tells which
pods live.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.builders.kubeconfigs import kubeconfig
from tests.closed_loop import columns_of, free_of
from tests.unit.cli.conftest import Bayplan
from tests.unit.simulate.kubelet.nodes import guaranteed, kubelet, machine
from tests.virtual_node import VirtualNode

NOBODY_LISTENS = {"server": "https://127.0.0.1:1"}
UNREACHABLE = "pods of this node are unknown, reporting without them: GET /api/v1/pods at https://127.0.0.1:1: "


@pytest.fixture
def virtual(tmp_path: Path) -> Iterator[VirtualNode]:
    with VirtualNode(tmp_path / "n1", kubelet(machine())) as found:
        found.admit("ml/a", guaranteed({"cpu": 2, "memory": "1Gi"}))
        yield found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a kubeconfig."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def look(virtual: VirtualNode, *more: str) -> list[str]:
    """The arguments of one look at this node."""
    return [
        "agent",
        "--oneshot",
        "--no-publish",
        "--node-name=n1",
        f"--sysfs-root={virtual.sysfs}",
        f"--kubelet-state-dir={virtual.state_folder}",
        f"--podresources-socket={virtual.socket}",
        *more,
    ]


def test_without_a_cluster_the_report_is_made_and_one_line_says_what_it_may_lack(
    bayplan: Bayplan, virtual: VirtualNode
) -> None:
    result = bayplan(*look(virtual), cluster=None)
    assert result.code == 0
    assert columns_of(yaml.safe_load(result.out)) == free_of(virtual.kubelet)
    assert result.err.startswith("warning: pods of this node are not known (no cluster: there is no kubeconfig")
    assert result.err.count("\n") == 1


def test_an_api_server_that_does_not_answer_is_one_line_too(bayplan: Bayplan, virtual: VirtualNode, home: Path) -> None:
    kubeconfig(home / ".kube/config", NOBODY_LISTENS)
    result = bayplan(*look(virtual), cluster=None)
    assert result.code == 0
    assert columns_of(yaml.safe_load(result.out)) == free_of(virtual.kubelet)
    assert UNREACHABLE in result.err
    assert result.err.count("\n") == 1


def test_a_listener_without_pods_is_told_nothing(bayplan: Bayplan, virtual: VirtualNode) -> None:
    result = bayplan(*look(virtual, "--no-watch-pods"), cluster=None)
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize(
    "asked, message",
    [
        ("--podresources-socket=", "there is no podresources socket: CPUs and memory come from state files"),
        (
            "--reference-container=web/a/main",
            "reference container web/a/main: is not on this node, so the shared CPUs are unknown",
        ),
    ],
)
def test_what_the_report_lacks_is_said(bayplan: Bayplan, virtual: VirtualNode, asked: str, message: str) -> None:
    result = bayplan(*look(virtual, "--no-watch-pods", asked), cluster=None)
    assert result.code == 0
    assert result.err.startswith(f"warning: {message}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "asked, message",
    [
        ("--kubeconfig=nowhere", "kubeconfig nowhere"),
        ("--context=prod", 'context "prod": there is no kubeconfig'),
        ("--watch-pods", "no cluster: there is no kubeconfig"),
    ],
)
def test_a_cluster_that_was_asked_for_must_be_there(
    bayplan: Bayplan, virtual: VirtualNode, asked: str, message: str
) -> None:
    result = bayplan(*look(virtual, asked), cluster=None)
    assert result.code == 2
    assert message in result.err
