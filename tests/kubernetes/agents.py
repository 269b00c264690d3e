"""What tests of the node agent on a real API server share: nodes and reports there, and the agent as the program that
users run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayplan.cluster.state import ClusterState
from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES
from tests.builders.bodies import Json
from tests.builders.objects import node
from tests.closed_loop import ZoneAmounts, free_of, zones_in
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


def columns_at(plane: ControlPlane) -> ZoneAmounts | None:
    """What a scheduler that reads the report of n1 now has in its columns; None if there is no report."""
    document = report_of(plane)
    if document is None:
        return None
    state = ClusterState()
    state.set_node(node("n1", {}))
    state.set_topology(asyncio.run(_typed(plane)))
    return zones_in(state, "n1", document)


def shows(plane: ControlPlane, virtual: VirtualNode) -> bool:
    """Whether a scheduler that reads the report now has the kubelet's free state."""
    return columns_at(plane) == free_of(virtual.kubelet)


async def _typed(plane: ControlPlane) -> Any:
    async with KubeClient(find_access(str(plane.kubeconfig))) as client:
        return await client.get(NODE_RESOURCE_TOPOLOGIES, "n1")


@contextmanager
def allowed(plane: ControlPlane, user: str, role: str) -> Iterator[None]:
    """A user has one of the roles in deploy/agent, for a while."""
    for file in ("agent-role.yaml", "watch-pods-role.yaml"):
        plane.apply(DEPLOY / "agent" / file)
    binding = f"test-{role}"
    plane.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": binding},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
    )
    try:
        yield
    finally:
        plane.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{binding}")


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
