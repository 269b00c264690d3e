"""What tests of the node agent on a real API server share: nodes and reports there, and the agent as the program that users run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers import Json
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.deployed import DEPLOY
from tests.kubernetes.running_scheduler import RunningScheduler
from tests.virtual_node import VirtualNode

NODES = "/api/v1/nodes"
REPORTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
REPORT_KIND = DEPLOY / "crds/noderesourcetopologies.topology.node.k8s.io.yaml"


def install_reports(plane: ControlPlane) -> None:
    """Let the API server know NodeResourceTopologies."""
    plane.apply(REPORT_KIND)
    wait_until(lambda: plane.api.exists(REPORTS), "reports are known")


def register(plane: ControlPlane, name: str) -> str:
    """Make a Node; its uid."""
    (made,) = plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    uid: str = made["metadata"]["uid"]
    return uid


def report_of(plane: ControlPlane, name: str = "n1") -> Json | None:
    """A node's report; None if there is none."""
    try:
        return plane.get(f"{REPORTS}/{name}")
    except ApiRefused as refused:
        if refused.status != 404:
            raise
        return None


@contextmanager
def agent_program(virtual: VirtualNode, kubeconfig: Path, *more: str) -> Iterator[RunningScheduler]:
    """`bayplan agent` on the virtual node, started and not waited for."""
    arguments = (
        f"--node-name={virtual.name}",
        f"--sysfs-root={virtual.sysfs}",
        f"--kubelet-state-dir={virtual.state_folder}",
        f"--kubelet-config={virtual.config_file}",
        f"--podresources-socket={virtual.socket}",
        *more,
    )
    program = RunningScheduler(kubeconfig, arguments, program="agent")
    try:
        yield program
    finally:
        program.close()


def trouble(agent: RunningScheduler, kind: str) -> float:
    """How many things of this kind are wrong, as the agent's metrics tell."""
    return agent.metric(f'bayplan_agent_trouble{{kind="{kind}"}}')
