"""StatefulSets with claims, bound by the real controller for volumes to static local volumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.builders.storage import storage_class, volume
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.controllers.bodies import IN_ONE_RACK, stateful_set
from tests.kubernetes.controllers.cluster import Cluster, Space

Json = dict[str, Any]
CLASS = "local"
VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture
def local(cluster: Cluster, space: Space) -> Iterator[Space]:
    """A class of local volumes; its volumes are gone after the test."""
    cluster.plane.apply(storage_class(CLASS))
    yield space
    wait_until(lambda: not _delete_volumes(cluster), "the volumes are gone")


def _delete_volumes(cluster: Cluster) -> list[Json]:
    """Delete all volumes, which their controller would protect; those that are still there."""
    found: list[Json] = cluster.plane.get(VOLUMES)["items"]
    for each in found:
        path = f"{VOLUMES}/{each['metadata']['name']}"
        with suppress(ApiRefused):  # gone in the meantime
            cluster.plane.api.patch(path, {"metadata": {"finalizers": None}})
            cluster.plane.api.delete(path)
    return found


def add_volumes(space: Space, *nodes: str) -> None:
    """One local volume for each mention of a node, seen by its controller;
    a pod that waits for it may have it already.
    """
    mentions: Counter[str] = Counter()
    names = []
    for node in nodes:
        mentions[node] += 1
        names.append(f"{space.namespace}-{node}-{mentions[node]}")
        space.plane.apply(volume(names[-1], "10Gi", cls=CLASS, on=node))
    seen = ("Available", "Bound")
    space.wait(lambda: all(phase_of(space, name) in seen for name in names), f"{names} are available")


def phase_of(space: Space, name: str) -> str:
    return str(space.plane.get(f"{VOLUMES}/{name}").get("status", {}).get("phase", ""))


def with_claims(name: str, replicas: int, **spec: Any) -> Json:
    template = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }
    body = stateful_set(name, replicas, volumeClaimTemplates=[template], **spec)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return body


def claims(space: Space) -> dict[str, str]:
    """The volume of each claim; empty as long as it has none."""
    items = space.get("v1/persistentvolumeclaims")["items"]
    return {each["metadata"]["name"]: each["spec"].get("volumeName", "") for each in items}


def nodes_of(pods: list[Json]) -> list[str]:
    return [pod["spec"]["nodeName"] for pod in pods]


def racks(space: Space) -> list[list[str]]:
    """The nodes of each rack."""
    by_rack: dict[str, list[str]] = {}
    for node, rack in sorted(space.cluster.racks().items()):
        by_rack.setdefault(rack, []).append(node)
    return [by_rack[rack] for rack in sorted(by_rack)]


def test_pods_go_to_their_volumes_and_come_back_to_them(local: Space) -> None:
    first, second = racks(local)[0][:2]
    add_volumes(local, first, second, second)
    local.apply(with_claims("db", 3))
    before = local.wait_for_pods(3)
    assert Counter(nodes_of(before)) == {first: 1, second: 2}
    bound = claims(local)
    assert sorted(bound) == ["data-db-0", "data-db-1", "data-db-2"]
    local.kubectl("delete", "pod", "db-1", "--wait=false")
    uid = before[1]["metadata"]["uid"]
    local.wait(lambda: all(pod["metadata"]["uid"] != uid for pod in local.pods()), "db-1 is gone")
    assert nodes_of(local.wait_for_pods(3)) == nodes_of(before)
    local.kubectl("scale", "statefulset/db", "--replicas=1")
    local.wait_for_pods(1)
    local.kubectl("scale", "statefulset/db", "--replicas=3")
    assert nodes_of(local.wait_for_pods(3)) == nodes_of(before)
    assert claims(local) == bound


def test_a_gang_starts_in_the_rack_that_has_a_volume_for_each_member(local: Space) -> None:
    scarce, rich = racks(local)[:2]
    add_volumes(local, *scarce[:2], *rich[:3])
    local.apply(with_claims("ring", 3, annotations=IN_ONE_RACK, podManagementPolicy="Parallel"))
    assert sorted(nodes_of(local.wait_for_pods(3))) == rich[:3]
    assert all(claims(local).values())


def test_a_gang_without_enough_volumes_binds_none_until_there_are(local: Space) -> None:
    scarce, other = racks(local)[:2]
    add_volumes(local, *scarce[:2], other[0])
    local.apply(with_claims("ring", 3, annotations=IN_ONE_RACK, podManagementPolicy="Parallel"))
    local.wait(lambda: len(local.why_waiting()) == 3 and all(local.why_waiting().values()), "all are told why")
    assert set(claims(local).values()) == {""}
    add_volumes(local, scarce[2])
    assert sorted(nodes_of(local.wait_for_pods(3))) == scarce[:3]
    assert local.half_bound() == {}
