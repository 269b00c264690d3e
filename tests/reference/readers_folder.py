"""A folder in which the commands of the documents work as they stand: the files that they name, with the cluster that
they speak of.

Nodes, pods and gangs are those of the examples; what documents call by other names (`worker-3`, `job/train`) is added.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.reference.written_commands import ROOT

Json = dict[str, Any]
EXAMPLES = ROOT / "examples"
REPORT = "NodeResourceTopology"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
COPIED = {
    "pod.yaml": "pods/upf.yaml",
    "pods": "pods",
    "nodes.yaml": "cluster/nodes.yaml",
    "topology.yaml": "cluster/topology.yaml",
    "podgroup.yaml": "gangs/pretrain.yaml",
    "mpijob.yaml": "workloads/mpijob.yaml",
    "scheduler-config.yaml": "scheduler-config.yaml",
    "scheduler.yaml": "scheduler-config.yaml",
    "FILE": "scheduler-config.yaml",
    "kinds.yaml": "workloads/grouping-rules.yaml",
    "rules.yaml": "workloads/grouping-rules.yaml",
}
"""By their names in documents: the examples that they are."""


def make_folder(folder: Path) -> Path:
    """Fill a folder."""
    for name in ("examples", "deploy"):
        (folder / name).symlink_to(ROOT / name)
    for name, example in COPIED.items():
        source = EXAMPLES / example
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / name)
    (folder / "deployment.yaml").write_text(yaml.safe_dump(_deployment()))
    (folder / "scenario.yaml").write_text(_scenario_of_the_page())
    for name in ("cluster.json", "cluster.yaml"):
        (folder / name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(cluster())}))
    return folder


def cluster() -> Iterator[Json]:
    """The objects of `cluster.json`."""
    for file in (*sorted((EXAMPLES / "cluster").glob("*.yaml")), EXAMPLES / "gangs" / "cluster.yaml"):
        for document in yaml.safe_load_all(file.read_text()):
            yield from document["items"] if document["kind"] == "List" else [document]
    gpu_nodes = yaml.safe_load((EXAMPLES / "gangs" / "cluster.yaml").read_text())["items"]
    first, report = (next(each for each in gpu_nodes if each["kind"] == kind) for kind in ("Node", REPORT))
    for number in (1, 2, 3):
        name = f"worker-{number}"
        labels = {**first["metadata"]["labels"], "kubernetes.io/hostname": name, INSTANCE_TYPE: "c6i.metal"}
        yield {**first, "metadata": {"name": name, "labels": labels}}
        yield {**report, "metadata": {"name": name}}
    for name in ("pretrain", "train"):
        for document in yaml.safe_load_all((EXAMPLES / "gangs" / "pretrain.yaml").read_text()):
            if document["kind"] == "PodGroup":
                yield {**document, "metadata": {"name": name, "namespace": "ml"}}
    yield yaml.safe_load((EXAMPLES / "workloads" / "own-kind.yaml").read_text())
    yield {**_deployment(), "metadata": {"name": "web", "namespace": "shop"}}
    yield {
        **yaml.safe_load((EXAMPLES / "workloads" / "job.yaml").read_text()),
        "metadata": {"name": "train", "namespace": "ml"},
    }
    yield _pod("upf-0", "telco")
    yield {**_pod("upf", "telco"), "metadata": {"name": "upf", "namespace": "telco", "labels": {"app": "upf"}}}
    yield _pod("packet-worker", "default")


def _deployment() -> Json:
    labels = {"app": "web"}
    amounts = {"cpu": "2", "memory": "2Gi"}
    container = {"name": "web", "image": "example.com/web", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"schedulerName": "bayplan", "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 5,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _pod(name: str, namespace: str) -> Json:
    written: Json = yaml.safe_load((EXAMPLES / "pods" / "upf.yaml").read_text())
    return {**written, "metadata": {"name": name, "namespace": namespace}}


def _scenario_of_the_page() -> str:
    found = re.search(r"```yaml\n(nodes:.*?)```", (ROOT / "docs" / "simulate.md").read_text(), re.DOTALL)
    assert found
    return found[1]
