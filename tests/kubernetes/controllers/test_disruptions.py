"""Disruptions with the real controllers: deleted and NotReady nodes, deleted pods, and gangs
that are released or kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.controllers.bodies import IN_ONE_RACK, deployment, job, stateful_set
from tests.kubernetes.controllers.cluster import GANG, RANK, Json, Space, is_ready, rank_of
from tests.kubernetes.controllers.test_jobs import conditions_of, index_of
from tests.kubernetes.running_scheduler import running_scheduler

IGNORES_DISRUPTIONS = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
STANDBY = "standby"
TOO_MANY = 10  # a rack has room for nine pods of 2 CPUs


def test_pods_of_a_deleted_node_come_back_in_their_rack_with_their_ranks(space: Space) -> None:
    space.apply(job("train", 4, backoffLimit=20))
    before = space.wait_for_pods(4)
    rack, name = space.racks_of(before), before[0]["spec"]["nodeName"]
    with without_node(space, name):
        space.wait(lambda: all(pod["spec"].get("nodeName") != name for pod in space.pods()), "its pods are collected")
        pods = space.wait_for_pods(4)
        assert space.racks_of(pods) == rack
        assert {index_of(pod): rank_of(pod) for pod in pods} == {index: index for index in range(4)}
        assert not space.half_bound()


def test_a_deleted_node_writes_no_reports(space: Space) -> None:
    name, before = space.cluster.node_list()[0]["metadata"]["name"], reports_written(space)
    report = f"/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{name}"
    with without_node(space, name):
        wait_until(lambda: not space.plane.api.exists(report), "the report is garbage-collected")
        # Told with the next summary, so seconds after the deletion. Twenty reports a second were written here.
        wait_until(lambda: name in str(space.cluster.nodes.told("trouble")), "the deletion is told")
        assert reports_written(space) - before < 20
        assert not space.plane.api.exists(report)
    wait_until(lambda: space.plane.api.exists(report), "the new node reports")


def test_a_node_that_was_not_ready_recovers_with_its_pods(space: Space) -> None:
    space.apply(stateful_set("db", 1))
    (pod,) = space.wait_for_pods(1)
    path = f"/api/v1/nodes/{pod['spec']['nodeName']}"
    unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
    space.plane.api.patch(f"{path}/status", unknown, kind="strategic-merge-patch")
    # The node lifecycle controller taints the node and marks its pods; both must be taken back.
    wait_until(lambda: is_ready(space.plane.get(path)), "the node is ready and without taints", timeout=90)
    wait_until(lambda: is_ready_pod(space.pods()[0]), "the pod is ready", timeout=90)
    assert space.pods()[0]["metadata"]["uid"] == pod["metadata"]["uid"]


def test_a_deleted_pod_is_replaced_where_replacements_wait_for_its_end(space: Space) -> None:
    space.apply(job("train", 3, podReplacementPolicy="Failed", backoffLimit=20))
    uids = {pod["metadata"]["uid"] for pod in space.wait_for_pods(3)}
    space.kubectl("delete", "pod", space.running()[0]["metadata"]["name"], "--wait=false")
    space.wait(lambda: len({pod["metadata"]["uid"] for pod in space.running()} - uids) == 1, "a replacement runs")
    space.wait_for_pods(3)


def test_a_released_gang_costs_its_job_nothing_if_it_ignores_disruptions(space: Space) -> None:
    space.apply(job("train", TOO_MANY, backoffLimit=0, podFailurePolicy=IGNORES_DISRUPTIONS))
    bound = bind_two(space)
    space.wait(lambda: not {pod["metadata"]["uid"] for pod in space.alive()} & bound, "the bound pods are released")
    space.wait(lambda: len(space.alive()) == TOO_MANY, "the Job has created them again")
    assert not [pod for pod in space.alive() if pod["spec"].get("nodeName")]
    assert len(space.events(reason="GangReleased")) == 2
    assert "Failed" not in conditions_of(space, "train")
    assert not space.get("batch/v1/jobs/train")["status"].get("failed")


def test_a_gang_is_kept_if_its_release_would_fail_the_job(space: Space) -> None:
    space.apply(job("train", TOO_MANY, backoffLimit=0))
    bound = bind_two(space)
    space.wait(lambda: len(space.events(reason="GangNotReleased")) == 2, "the pods are told that they stay")
    assert all("backoffLimit 0" in text for text in space.events(reason="GangNotReleased"))
    assert {pod["metadata"]["uid"] for pod in space.running()} == bound
    assert not conditions_of(space, "train")


@pytest.mark.parametrize("annotations", [{}, IN_ONE_RACK], ids=["single pods", "a gang"])
def test_pods_that_lose_their_owner_while_a_standby_waits_are_placed(
    space: Space, tmp_path: Path, annotations: dict[str, str]
) -> None:
    with waiting_for_the_lease(space, tmp_path) as leads:
        space.apply(job("train", 3, annotations=annotations, pod={"scheduler": STANDBY}))
        space.wait(lambda: len(space.pods()) == 3, "the Job has created its pods")
        space.kubectl("delete", "job/train", "--cascade=orphan")
        space.wait(lambda: not any(owners_of(pod) for pod in space.pods()), "the garbage collector has released them")
        leads()
        space.wait_for_pods(3)


def test_a_gang_is_told_which_nodes_taints_close_to_it(space: Space) -> None:
    racks = space.cluster.racks()
    open_nodes = {min(node for node in racks if racks[node] == rack) for rack in set(racks.values())}
    closed = sorted(set(racks) - open_nodes)
    space.kubectl("taint", "nodes", *closed, "dedicated=db:NoSchedule")
    try:
        space.apply(job("train", 6))
        space.wait(lambda: len(list(filter(None, space.why_waiting().values()))) == 6, "all are told why they wait")
        why = next(iter(space.why_waiting().values()))
        assert f"{len(closed)} of {len(racks)} nodes are closed to its pods" in why, why
        assert "untolerated taint" in why, why
    finally:
        space.kubectl("taint", "nodes", *closed, "dedicated-")
    assert len(space.racks_of(space.wait_for_pods(6))) == 1


def test_churn_under_changing_taints_is_refused_by_no_kubelet(space: Space) -> None:
    # Short pods of three shapes come and go, pods of a Deployment move, and most nodes are closed, others each time.
    nodes = sorted(space.cluster.racks())
    space.apply(deployment("web", 4, 1))
    names: list[str] = []
    closed: list[str] = []
    try:
        for turn in range(4):
            closed = [node for number, node in enumerate(nodes) if number % 4 != turn]
            space.kubectl("taint", "nodes", *closed, "dedicated=db:NoSchedule", "--overwrite")
            for cpu in (1, 2, 3):
                names.append(f"short-{turn}-{cpu}")
                space.apply(job(names[-1], 8, cpu, annotations={}, runs_for=f"{cpu}s", parallelism=4))
            space.kubectl("rollout", "restart", "deployment/web")
            wait_until_complete(space, f"short-{turn}-2")
            space.kubectl("taint", "nodes", *closed, "dedicated-")
            closed = []
    finally:
        if closed:
            space.kubectl("taint", "nodes", *closed, "dedicated-")
    wait_until_complete(space, *names)
    space.wait_for_pods(4, "app=web")


# -- steps
# ---------------------------------------------------------------------------------------------------------------


def wait_until_complete(space: Space, *names: str) -> None:
    space.wait(lambda: all("Complete" in conditions_of(space, name) for name in names), f"{names} are complete")


def bind_two(space: Space) -> set[str]:
    """Bind two members of a gang that does not fit, as a scheduler that died would have left them; their uids."""
    space.wait(
        lambda: sum(GANG in (pod["metadata"].get("labels") or {}) for pod in space.alive()) == TOO_MANY, "a gang"
    )
    rack = space.cluster.racks()["virtual-0"]
    nodes = [name for name, where in space.cluster.racks().items() if where == rack]
    pods = space.alive()[:2]
    for number, (pod, node) in enumerate(zip(pods, nodes, strict=False)):
        metadata = {"name": pod["metadata"]["name"], "annotations": {RANK: str(number)}}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        space.plane.post(f"/api/v1/namespaces/{space.namespace}/pods/{pod['metadata']['name']}/binding", body)
    return {pod["metadata"]["uid"] for pod in pods}


@contextmanager
def without_node(space: Space, name: str) -> Iterator[None]:
    """Delete a node; afterwards create it again, as its kubelet does when it restarts."""
    node = space.plane.get(f"/api/v1/nodes/{name}")
    space.kubectl("delete", "node", name)
    try:
        yield
    finally:
        metadata = {"name": name, "labels": node["metadata"]["labels"]}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": node["status"]}
        space.plane.post("/api/v1/nodes", body)
        wait_until(lambda: is_ready(space.plane.get(f"/api/v1/nodes/{name}")), "the node is back", timeout=90)


def reports_written(space: Space) -> int:
    return max((news["reports"] for news in space.cluster.nodes.told("summary")), default=0)


def is_ready_pod(pod: Json) -> bool:
    return any((each["type"], each["status"]) == ("Ready", "True") for each in pod["status"].get("conditions", []))


@contextmanager
def waiting_for_the_lease(space: Space, folder: Path) -> Iterator[Callable[[], None]]:
    """A scheduler of its own name that waits for a lease which another one holds; the function lets it lead."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{space.namespace}/leases"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    held = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": STANDBY}, "spec": held}
    space.plane.post(leases, lease)
    configuration = folder / "standby.yaml"
    configuration.write_text(f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaseDuration: 3s
  renewDeadline: 2s
  retryPeriod: 500ms
  resourceNamespace: {space.namespace}
  resourceName: {STANDBY}
profiles:
- schedulerName: {STANDBY}
""")
    with running_scheduler(space.plane, "--config", str(configuration)) as scheduler:

        def leads() -> None:
            assert scheduler.metric("leader_election_master_status") == 0
            space.plane.delete(f"{leases}/{STANDBY}")
            scheduler.wait_until_leading()

        yield leads


def owners_of(pod: Json) -> list[Json]:
    owners: list[Json] = pod["metadata"].get("ownerReferences", [])
    return owners
