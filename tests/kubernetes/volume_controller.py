"""The controller for volumes and a provisioner, played: what a kube-controller-manager and a CSI driver would do with
claims.

It completes binds that a scheduler began (`claimRef`), and provisions claims whose node a scheduler has selected. Tests
choose nodes on which provisioning fails, or stop it altogether.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.builders.storage import volume
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused, Json

SELECTED = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"
LOOK_EVERY = 0.05


@contextmanager
def volume_controller(
    plane: ControlPlane, namespace: str, fails_on: Callable[[str], bool] = lambda _: False
) -> Iterator[list[tuple[str, str]]]:
    """Plays until the end of the block; yields the claims and nodes that it was told to provision, in order."""
    asked: list[tuple[str, str]] = []
    ended = threading.Event()

    def play() -> None:
        while not ended.wait(LOOK_EVERY):
            try:
                _look(plane, namespace, fails_on, asked)
            except ApiRefused as refused:
                if refused.status not in (404, 409):
                    raise

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        ended.set()
        thread.join()


def _look(plane: ControlPlane, namespace: str, fails_on: Callable[[str], bool], asked: list[tuple[str, str]]) -> None:
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    volumes = plane.get("/api/v1/persistentvolumes")["items"]
    kept = {each["spec"]["claimRef"]["uid"]: each for each in volumes if each["spec"].get("claimRef", {}).get("uid")}
    for claim in plane.get(claims)["items"]:
        metadata = claim["metadata"]
        node = metadata.get("annotations", {}).get(SELECTED, "")
        if claim["spec"].get("volumeName"):
            continue
        if metadata["uid"] in kept:
            _complete(plane, claims, claim, kept[metadata["uid"]]["metadata"]["name"])
        elif node:
            asked.append((metadata["name"], node))
            if fails_on(node):
                plane.api.patch(f"{claims}/{metadata['name']}", {"metadata": {"annotations": {SELECTED: None}}})
            else:
                _provision(plane, claim, node)


def _provision(plane: ControlPlane, claim: Json, node: str) -> None:
    metadata = claim["metadata"]
    body = volume(f"pvc-{metadata['uid']}", claim["spec"]["resources"]["requests"]["storage"], on=node)
    body["spec"]["storageClassName"] = claim["spec"]["storageClassName"]
    reference = {key: metadata[key] for key in ("name", "namespace", "uid")}
    body["spec"]["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference}
    plane.api.post("/api/v1/persistentvolumes", body)


def _complete(plane: ControlPlane, claims: str, claim: Json, name: str) -> None:
    at = f"{claims}/{claim['metadata']['name']}"
    plane.api.patch(at, {"metadata": {"annotations": {COMPLETED: "yes"}}, "spec": {"volumeName": name}})
    plane.api.patch(f"{at}/status", {"status": {"phase": "Bound"}})
    plane.api.patch(f"/api/v1/persistentvolumes/{name}/status", {"status": {"phase": "Bound"}})
