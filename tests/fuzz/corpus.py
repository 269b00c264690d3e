"""What is spoiled: every object, configuration, scenario and rule file of examples/, and pods for the gangs in them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec

from bayplan.kube.documents import read_documents

Json = Any
EXAMPLES = Path(__file__).parents[2] / "examples"
DEPLOY = Path(__file__).parents[2] / "deploy"

# How a pod names its gang, by the kind of PodGroup.
MEMBERSHIP = {
    "bayplan.io": ("labels", "bayplan.io/pod-group"),
    "scheduling.run.ai": ("annotations", "pod-group-name"),
    "scheduling.volcano.sh": ("annotations", "scheduling.k8s.io/group-name"),
    "scheduling.x-k8s.io": ("labels", "scheduling.x-k8s.io/pod-group"),
}


@functools.cache
def documents(*patterns: str) -> tuple[Json, ...]:
    """All documents of the files that match, lists taken apart."""
    files = sorted({file for pattern in patterns for file in EXAMPLES.glob(pattern)})
    found = [msgspec.json.decode(document.json) for file in files for document in read_documents(file)]
    return tuple(
        item
        for each in found
        for item in (each["items"] if isinstance(each, dict) and each.get("kind") == "List" else [each])
    )


@functools.cache
def objects() -> tuple[Json, ...]:
    """Kubernetes objects of every kind that examples have."""
    found = documents(
        "cluster/*.yaml", "gangs/*.yaml", "dialects/*.yaml", "pods/*.yaml", "volcano/*.yaml", "workloads/*.yaml"
    )
    known = [each for each in found if isinstance(each, dict) and each.get("kind") and each.get("metadata")]
    return (*known, *(member for each in known if each["kind"] == "PodGroup" for member in _members(each)))


@functools.cache
def by_kind() -> dict[tuple[str, str], tuple[Json, ...]]:
    """The same by `apiVersion` and `kind`."""
    found: dict[tuple[str, str], list[Json]] = {}
    for each in objects():
        found.setdefault((each["apiVersion"], each["kind"]), []).append(each)
    return {key: tuple(items) for key, items in found.items()}


def _members(group: Json) -> list[Json]:
    field, key = MEMBERSHIP.get(group["apiVersion"].partition("/")[0], ("", ""))
    if not field:
        return []
    namespace, name = group["metadata"].get("namespace", "default"), group["metadata"]["name"]
    resources = {"limits": {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1"}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{rank}", "namespace": namespace, field: {key: name}, "uid": f"{name}-{rank}"},
            "spec": {"schedulerName": "bayplan", "containers": [{"name": "c", "image": "i", "resources": resources}]},
        }
        for rank in range(4)
    ]
