"""Deployments and StatefulSets with the real controller manager: scaling, rolling updates, and
what is left afterwards.
"""

from __future__ import annotations

from tests.kubernetes.controllers.bodies import IN_ONE_RACK, deployment, stateful_set
from tests.kubernetes.controllers.cluster import Space, label_of, rank_of

NEW_IMAGE = '{"spec": {"template": {"metadata": {"annotations": {"example.com/release": "2"}}}}}'


def test_a_deployment_scales_up_and_down(space: Space) -> None:
    space.apply(deployment("web", 6))
    space.wait_for_pods(6)
    space.kubectl("scale", "deployment/web", "--replicas=20")
    space.wait_for_pods(20)
    space.kubectl("scale", "deployment/web", "--replicas=3")
    space.wait_for_pods(3)


def test_a_rolling_update_replaces_every_pod(space: Space) -> None:
    space.apply(deployment("web", 8))
    before = {pod["metadata"]["uid"] for pod in space.wait_for_pods(8)}
    space.kubectl("patch", "deployment/web", "--patch", NEW_IMAGE)
    space.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    after = {pod["metadata"]["uid"] for pod in space.wait_for_pods(8)}
    assert not before & after


def test_a_rolling_update_stays_in_the_rack_that_is_required(space: Space) -> None:
    body = deployment("web", 4)
    body["metadata"]["annotations"] = IN_ONE_RACK
    space.apply(body)
    first = space.racks_of(space.wait_for_pods(4))
    space.kubectl("patch", "deployment/web", "--patch", NEW_IMAGE)
    space.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    second = space.racks_of(space.wait_for_pods(4))
    assert len(first) == 1
    assert second == first


def test_a_full_cluster_places_the_rest_when_pods_go(space: Space) -> None:
    # A node takes three pods of 2 CPUs: one in its first zone, two in the second.
    space.apply(deployment("web", 40))
    space.wait(lambda: len(space.running()) == 36, "the cluster is full")
    space.wait(lambda: len(space.why_waiting()) == 4 and all(space.why_waiting().values()), "all others are told why")
    assert all("CPUs" in why or "cpu" in why for why in space.why_waiting().values()), space.why_waiting()
    space.apply(deployment("other", 0))
    space.kubectl("scale", "deployment/web", "--replicas=30")
    space.wait_for_pods(30)


def test_a_stateful_set_starts_in_order_and_keeps_names(space: Space) -> None:
    space.apply(stateful_set("db", 4))
    pods = space.wait_for_pods(4)
    assert [pod["metadata"]["name"] for pod in pods] == ["db-0", "db-1", "db-2", "db-3"]
    uid = pods[2]["metadata"]["uid"]
    space.kubectl("delete", "pod", "db-2", "--wait=false")
    space.wait(
        lambda: any(pod["metadata"]["name"] == "db-2" and pod["metadata"]["uid"] != uid for pod in space.running()),
        "db-2 is back",
    )
    space.kubectl("scale", "statefulset/db", "--replicas=2")
    assert [pod["metadata"]["name"] for pod in space.wait_for_pods(2)] == ["db-0", "db-1"]


def test_a_parallel_stateful_set_is_a_gang_with_ranks(space: Space) -> None:
    space.apply(stateful_set("ring", 6, annotations=IN_ONE_RACK, podManagementPolicy="Parallel"))
    pods = space.wait_for_pods(6)
    assert len(space.racks_of(pods)) == 1
    assert [rank_of(pod) for pod in pods] == [int(label_of(pod, "apps.kubernetes.io/pod-index")) for pod in pods]
    space.kubectl("delete", "statefulset/ring")
    space.wait_until_empty()
