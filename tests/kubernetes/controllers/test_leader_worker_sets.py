"""LeaderWorkerSets with their real controller: one gang for each replica, scaled, updated, exclusive."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.builders.bodies import RACK
from tests.kubernetes.controllers.bodies import IN_ONE_RACK, leader_worker_set
from tests.kubernetes.controllers.cluster import Json, Space, label_of, rank_of

pytestmark = pytest.mark.usefixtures("leader_worker_set")
GROUP, WORKER = "leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/worker-index"
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def by_group(pods: list[Json]) -> dict[str, list[Json]]:
    """Pods by replica."""
    found: dict[str, list[Json]] = defaultdict(list)
    for pod in pods:
        found[label_of(pod, GROUP)].append(pod)
    return found


def test_each_replica_is_a_gang_in_a_rack_with_its_ranks(space: Space) -> None:
    space.apply(leader_worker_set("serve", 3, 4, annotations=IN_ONE_RACK))
    for members in by_group(space.wait_for_pods(12)).values():
        assert len(space.racks_of(members)) == 1
        assert {int(label_of(pod, WORKER)): rank_of(pod) for pod in members} == {rank: rank for rank in range(4)}
    space.kubectl("delete", "leaderworkerset", "serve")
    space.wait_until_empty()


def test_replicas_are_added_and_removed_whole(space: Space) -> None:
    space.apply(leader_worker_set("serve", 2, 4, annotations=IN_ONE_RACK))
    space.wait_for_pods(8)
    for replicas in (4, 1):
        space.kubectl("scale", "leaderworkerset/serve", f"--replicas={replicas}")
        pods = space.wait_for_pods(4 * replicas)
        assert {len(members) for members in by_group(pods).values()} == {4}
        assert not space.half_bound()
    space.wait(lambda: len(space.pod_groups()) == 1, "only the PodGroup of the replica that is left is there")


def test_a_rolling_update_replaces_whole_replicas(space: Space) -> None:
    body = leader_worker_set("serve", 2, 3, annotations=IN_ONE_RACK)
    space.apply(body)
    before = {pod["metadata"]["uid"] for pod in space.wait_for_pods(6)}
    patch = '{"spec": {"leaderWorkerTemplate": {"workerTemplate": {"metadata": {"labels": {"version": "2"}}}}}}'
    space.kubectl("patch", "leaderworkerset/serve", "--type=merge", "--patch", patch)
    space.wait(
        lambda: len(space.running()) == 6 and not before & {pod["metadata"]["uid"] for pod in space.running()},
        "all pods are new",
        timeout=180,
    )
    assert {len(space.racks_of(members)) for members in by_group(space.running()).values()} == {1}


def test_exclusive_replicas_have_a_rack_each(space: Space) -> None:
    space.apply(leader_worker_set("serve", 3, 5, annotations={EXCLUSIVE: RACK}))
    racks = [space.racks_of(members) for members in by_group(space.wait_for_pods(15)).values()]
    assert [len(each) for each in racks] == [1, 1, 1]
    assert len(set().union(*racks)) == 3


# A rack holds nine such pods, so one replica of five or two of four; there are four racks.
@pytest.mark.parametrize("replicas, size", [(1, 5), (2, 5), (4, 5), (8, 4)])
def test_workers_that_come_after_their_leader_find_room_in_its_rack(space: Space, replicas: int, size: int) -> None:
    space.apply(leader_worker_set("serve", replicas, size, annotations=IN_ONE_RACK, startupPolicy="LeaderReady"))
    groups = by_group(space.wait_for_pods(replicas * size))
    assert {len(space.racks_of(members)) for members in groups.values()} == {1}
    assert not space.half_bound()
