"""Claims, volumes, classes and CSI objects in one line each, as dictionaries for an API server and as structs for the
core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bayplan.kube.object_set import StorageObject, kind_in_set

Json = dict[str, Any]
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
LATE, NOW = "WaitForFirstConsumer", "Immediate"


def struct(body: Json) -> StorageObject:
    """The struct of a body."""
    known = kind_in_set(body["apiVersion"], body["kind"])
    assert known is not None
    found: StorageObject = msgspec.convert(body, known[0])
    return found


def claim(
    name: str = "data",
    size: str = "10Gi",
    *,
    cls: str | None = "local",
    volume: str = "",
    modes: Sequence[str] = ("ReadWriteOnce",),
    annotations: Mapping[str, str] | None = None,
    namespace: str = "default",
    **metadata: Any,
) -> Json:
    """A claim; with a `volume` it is bound to it."""
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    spec: Json = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, "volumeName": volume}
    if cls is not None:
        spec["storageClassName"] = cls
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "annotations": {**bound, **(annotations or {})},
            **metadata,
        },
        "spec": spec,
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def volume(
    name: str = "pv",
    size: str = "10Gi",
    *,
    cls: str = "local",
    on: str = "",
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    claim: str = "",
    modes: Sequence[str] = ("ReadWriteOnce",),
    **spec: Any,
) -> Json:
    """A volume that the node `on`, or the nodes of a `zone`, can reach; bound to or kept for a
    `claim`, else available.
    """
    wanted = {HOSTNAME: on, ZONE: zone}
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items() if value]
    source = {} if any(key in spec for key in ("csi", "awsElasticBlockStore")) else {"local": {"path": "/data"}}
    written: Json = {
        "capacity": {"storage": size},
        "accessModes": list(modes),
        "storageClassName": cls,
        "persistentVolumeReclaimPolicy": "Retain",
        **source,
        **spec,
    }
    if terms:
        written["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
    if claim:
        namespace, _, claim_name = claim.rpartition("/")
        reference = {"namespace": namespace or "default", "name": claim_name}
        written["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": written,
        "status": {"phase": "Bound" if claim else "Available"},
    }


def storage_class(
    name: str = "local", provisioner: str = "kubernetes.io/no-provisioner", mode: str = LATE, **fields: Any
) -> Json:
    """A class, without a provisioner unless one is named."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **fields,
    }


def csi_node(name: str, driver: str, limit: int, migrated: str = "", topology: Sequence[str] = ()) -> Json:
    """A node that attaches at most `limit` volumes of a driver."""
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    drivers = [{"name": driver, "nodeID": name, "topologyKeys": list(topology), "allocatable": {"count": limit}}]
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}}


def csi_driver(name: str) -> Json:
    """A driver that reports its capacity."""
    spec = {"storageCapacity": True, "attachRequired": False}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec}


def attachment(volume: str, node: str, driver: str = "csi.example.com") -> Json:
    """A volume that is attached to a node, with or without a pod that uses it."""
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
    metadata = {"name": f"{volume}-on-{node}"}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": metadata, "spec": spec}


def capacity(name: str, cls: str, size: str, namespace: str = "default", **labels: str) -> Json:
    """What can still be provisioned on the nodes with these labels."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": namespace},
        "storageClassName": cls,
        "nodeTopology": {"matchLabels": {key.replace("__", "/"): value for key, value in labels.items()}},
        "capacity": size,
    }


def uses(*claims: str) -> list[Json]:
    """The volumes of a pod that uses these claims."""
    return [{"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}} for number, name in enumerate(claims)]
