"""DaemonSets with their real controller: a pod for each node, and what the pod of a full node is told."""

from __future__ import annotations

from tests.kubernetes.controllers.bodies import job, template
from tests.kubernetes.controllers.cluster import NODES, Json, Space

HOST = "kubernetes.io/hostname"


def daemon_set(name: str, cpu: int | str) -> Json:
    labels = {"app": name}
    spec = {"selector": {"matchLabels": labels}, "template": template(cpu, labels=labels)}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


def test_every_node_has_its_pod_and_pods_are_no_gang(space: Space) -> None:
    space.apply(daemon_set("agent", 1))
    pods = space.wait_for_pods(NODES)
    assert {pod["spec"]["nodeName"] for pod in pods} == set(space.cluster.racks())
    assert not space.pod_groups()
    space.kubectl("rollout", "restart", "daemonset/agent")
    space.kubectl("rollout", "status", "daemonset/agent", "--timeout=180s")
    assert len(space.wait_for_pods(NODES)) == NODES


def test_the_pod_of_a_full_node_is_told_about_that_node_only(space: Space) -> None:
    full = min(space.cluster.racks())
    space.apply(job("filler", 3, annotations={}, pod={"nodeSelector": {HOST: full}}))
    space.wait_for_pods(3)
    space.apply(daemon_set("agent", 2))
    space.wait(lambda: len(space.running("app=agent")) == NODES - 1, "all other nodes have their pod")
    space.wait(lambda: any(space.why_waiting().values()), "the pod of the full node is told why it waits")
    (why,) = space.why_waiting().values()
    assert why.startswith(f"node {full}, the only one that its node affinity allows, refuses it: "), why
    space.kubectl("delete", "job", "filler")
    space.wait_for_pods(NODES)
