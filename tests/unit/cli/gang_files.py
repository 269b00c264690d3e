"""PodGroups for tests, written in a few words."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.conftest import EXAMPLES

GANGS = EXAMPLES / "gangs"
CLUSTER = GANGS / "cluster.yaml"
WORKER = "{resources: {cpu: 16, memory: 160Gi, nvidia.com/gpu: 4}}"


def gang_file(folder: Path, *fields: str, pod: str = WORKER, topology: str = "network") -> Path:
    """A PodGroup `ml/g`; each field is a line of its spec."""
    file = folder / "gang.yaml"
    lines = [f"topology: {topology}", *fields, f"pod: {pod}"]
    head = "apiVersion: bayplan.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g, namespace: ml}\nspec:\n"
    file.write_text(head + "".join(f"  {line}\n" for line in lines))
    return file


def kai_gang(folder: Path, *, pods: int, on: str = "", spec: str = "minMember: 1", label: str = "") -> Path:
    """A KAI PodGroup `ml/k` with its pods, all of them on a node if one is named."""
    group = (
        "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: k, "
        f"namespace: ml}}\nspec: {{{spec}}}\n"
    )
    labels = f", labels: {{kai.scheduler/subgroup-name: {label}}}" if label else ""
    node = f"nodeName: {on}, " if on else ""
    members = [
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: k-{number}, namespace: ml, "
        f"annotations: {{pod-group-name: k}}{labels}}}\nspec: {{{node}containers: [{{name: c, image: i}}]}}\n"
        for number in range(pods)
    ]
    file = folder / "kai.yaml"
    file.write_text("---\n".join([group, *members]))
    return file
