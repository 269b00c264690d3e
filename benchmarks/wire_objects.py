"""Nodes of 16 KB and pods of 5 KB as clusters have them: most of the bytes are images, managed fields and probes that
no scheduler reads.
"""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]

IMAGES = 50
CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
SINCE = "2026-01-31T12:00:00Z"


def wire_node(name: str) -> Json:
    """A node with the images that it holds."""
    amounts = {
        "cpu": "128",
        "memory": "1056500Mi",
        "ephemeral-storage": "1843019Mi",
        "pods": "250",
        "nvidia.com/gpu": "8",
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "zone-a",
        **{f"feature.node.kubernetes.io/cpu-feature-{index}": "true" for index in range(40)},
    }
    reason = "the kubelet has sufficient resources of this kind available"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"example.com/features": "avx512," * 60, "csi.volume.kubernetes.io/nodeid": "x" * 200},
        },
        "spec": {"podCIDR": "10.1.0.0/24", "providerID": f"example:///{name}", "taints": []},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": reason,
                    "lastHeartbeatTime": SINCE,
                }
                for kind in CONDITIONS
            ],
            "images": [
                {
                    "names": [
                        f"registry.example.com/team/image-{index}@sha256:{index:064x}",
                        f"registry.example.com/i:{index}",
                    ],
                    "sizeBytes": 10**9 + index,
                }
                for index in range(IMAGES)
            ],
        },
    }


def wire_pod(name: str, namespace: str = "default") -> Json:
    """A pod of two containers with their variables, mounts and probes."""
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "failureThreshold": 3}
    containers = [
        {
            "name": container,
            "image": f"registry.example.com/team/{container}@sha256:{7:064x}",
            "args": [f"--option-{index}=some value" for index in range(8)],
            "env": [{"name": f"VARIABLE_{index}", "value": f"value {index}"} for index in range(4)],
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            "volumeMounts": [{"name": f"volume-{index}", "mountPath": f"/mnt/{index}"} for index in range(3)],
            "livenessProbe": probe,
            "readinessProbe": probe,
        }
        for container in ("main", "proxy")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": "web", "pod-template-hash": "5d59d67564"},
            "annotations": {"example.com/checksum": "x" * 64},
        },
        "spec": {
            "schedulerName": "another",
            "containers": containers,
            "volumes": [{"name": f"volume-{index}", "emptyDir": {}} for index in range(3)],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
    }


def as_served(thing: Json, *, kilobytes: int) -> Json:
    """The object with what the API server adds: identity, and who set which field, until it has its usual size."""
    metadata = {**thing["metadata"], "uid": "6d6c0a3e-7c7c-4a3e-9d0e-0a3e7c7c4a3e", "resourceVersion": "4711"}
    missing = max(kilobytes * 1000 - len(json.dumps(thing, separators=(",", ":"))), 0)
    fields: Json = {
        f'k:{{"name":"VARIABLE_{index}"}}': {".": {}, "f:name": {}, "f:value": {}} for index in range(missing // 60)
    }
    manager = {"manager": "kube-controller-manager", "operation": "Update", "time": SINCE, "fieldsV1": fields}
    return {**thing, "metadata": {**metadata, "managedFields": [manager]}}
