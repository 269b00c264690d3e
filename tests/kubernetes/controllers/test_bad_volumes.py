"""Claims that cannot be bound, with the real controllers for volumes: each pod is told in one event, nothing is lost,
and nothing is half-bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders.storage import claim, storage_class, uses, volume
from tests.kubernetes.controllers.bodies import job
from tests.kubernetes.controllers.cluster import Cluster, Json, Space
from tests.kubernetes.controllers.test_stateful_sets import CLASS, VOLUMES, add_volumes, claims, local

__all__ = ["local"]
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SILENT, MISSING = "silent", "missing"
SELECTED = "volume.kubernetes.io/selected-node"


@pytest.fixture
def silent(cluster: Cluster) -> Iterator[str]:
    """A class whose provisioner never answers."""
    cluster.plane.apply(storage_class(SILENT, "csi.example.com"))
    yield SILENT
    cluster.plane.delete(f"{CLASSES}/{SILENT}")


def add_claim(space: Space, name: str, cls: str | None = CLASS) -> None:
    body = claim(name, cls=cls, namespace=space.namespace)
    del body["metadata"]["uid"], body["spec"]["volumeName"]
    space.apply(body)


def pod(name: str, *claims: str) -> Json:
    """A pod without an owner, which would be lost if it were deleted."""
    made = job(name, 1, pod={"volumes": uses(*claims)})["spec"]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": made["spec"]}


def told(space: Space, name: str) -> str:
    return space.why_waiting().get(name, "")


def refusals(space: Space, name: str) -> list[str]:
    return space.events(name, "FailedScheduling")


def node_of(space: Space, name: str) -> str:
    return str(space.get(f"v1/pods/{name}")["spec"].get("nodeName", ""))


@pytest.mark.parametrize(
    "cls, words",
    [
        pytest.param("", "pod has unbound immediate PersistentVolumeClaims", id="a claim without a class"),
        pytest.param(MISSING, f'storageclass.storage.k8s.io "{MISSING}" not found', id="a class that does not exist"),
        pytest.param(CLASS, "didn't find available persistent volumes to bind", id="a class without a provisioner"),
    ],
)
def test_a_claim_that_cannot_be_bound_is_told_in_one_event(local: Space, cls: str, words: str) -> None:
    add_claim(local, "data", cls)
    local.apply(pod("web", "data"))
    local.wait(lambda: words in told(local, "web"), f"the pod is told: {words}")
    local.wait(lambda: len(refusals(local, "web")) == 1, "there is an event")
    assert words in refusals(local, "web")[0]
    # Other pods are placed meanwhile.
    local.apply(pod("other"))
    local.wait(lambda: bool(node_of(local, "other")), "the other pod has a node")
    assert len(refusals(local, "web")) == 1
    assert claims(local) == {"data": ""}


def test_a_volume_that_no_node_reaches_is_left_alone(local: Space) -> None:
    name = f"{local.namespace}-far"
    local.plane.apply(volume(name, "10Gi", cls=CLASS, on="no-such-node"))
    add_claim(local, "data")
    local.apply(pod("web", "data"))
    words = "didn't find available persistent volumes to bind"
    local.wait(lambda: words in told(local, "web"), f"the pod is told: {words}")
    assert "claimRef" not in local.plane.get(f"{VOLUMES}/{name}")["spec"]
    node = min(local.cluster.racks())
    add_volumes(local, node)
    local.wait(lambda: node_of(local, "web") == node, "the pod follows the volume that it can reach")
    assert claims(local) == {"data": f"{local.namespace}-{node}-1"}


def test_a_provisioner_that_never_answers_holds_up_only_its_pod(space: Space, silent: str) -> None:
    add_claim(space, "data", silent)
    space.apply(pod("web", "data"))
    space.wait(lambda: SELECTED in str(space.get("v1/persistentvolumeclaims/data")["metadata"]), "a node is selected")
    space.apply(*(pod(f"other-{number}") for number in range(6)))
    space.wait(lambda: len(space.running()) == 6, "all others run")
    assert node_of(space, "web") == ""


def test_a_claim_deleted_while_it_is_bound_is_told_and_its_successor_used(local: Space, silent: str) -> None:
    add_claim(local, "data", silent)
    local.apply(pod("web", "data"))
    path = "v1/persistentvolumeclaims/data"
    local.wait(lambda: SELECTED in str(local.get(path)["metadata"]), "a node is selected")
    local.kubectl("delete", "pvc", "data", "--wait=false")
    local.wait(lambda: not local.exists(path), "the claim is gone")
    words = 'persistentvolumeclaim "data" not found'
    local.wait(lambda: words in told(local, "web"), f"the pod is told: {words}")
    node = min(local.cluster.racks())
    add_volumes(local, node)
    add_claim(local, "data")
    local.wait(lambda: node_of(local, "web") == node, "the pod is placed with the new claim")
    assert all(claims(local).values())


def test_pods_that_race_for_one_volume_end_with_one_winner(local: Space) -> None:
    first, second = sorted(local.cluster.racks())[:2]
    add_volumes(local, first)
    names = ("a", "b", "c")
    for name in names:
        add_claim(local, name)
    local.apply(*(pod(name, name) for name in names))
    local.wait(lambda: len(local.running()) == 1, "one has the volume")
    (winner,) = (each["metadata"]["name"] for each in local.running())
    losers = [name for name in names if name != winner]
    words = "didn't find available persistent volumes to bind"
    local.wait(lambda: all(words in told(local, name) for name in losers), "the others are told")
    assert {name: bool(bound) for name, bound in claims(local).items()} == {name: name == winner for name in names}
    add_volumes(local, second, second)
    local.wait(lambda: len(local.running()) == 3, "the others run with volumes of their own")
    assert sorted(claims(local).values()) == sorted(f"{local.namespace}-{each}" for each in _made(first, second))


def _made(first: str, second: str) -> tuple[str, ...]:
    return f"{first}-1", f"{second}-1", f"{second}-2"
