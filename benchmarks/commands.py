"""What a user waits for: start-up of the command, reading a dump."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from bayplan.cluster.loading import load_state
from bayplan.cluster.state import ClusterState
from bayplan.kube.files import read_objects
from benchmarks.clusters import node, topology
from benchmarks.measure import median_seconds, report


def run() -> None:
    """Print all figures of this group."""
    report("start-up/help", _wall_seconds([str(Path(sys.executable).with_name("bayplan")), "--help"]), "s")
    for nodes in (1_000, 5_000):
        items = [
            {"apiVersion": version, "kind": kind, **body(f"node-{row}")}
            for row in range(nodes)
            for version, kind, body in (
                ("v1", "Node", node),
                ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology", topology),
            )
        ]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "cluster.json"
            file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
            seconds = median_seconds(partial(_load, file), seconds=3)
            report(f"load/json-with-8-zones/{nodes}", seconds, "s")


def _load(file: Path) -> ClusterState:
    return load_state(read_objects(file))


def _wall_seconds(command: list[str]) -> float:
    times = []
    for _ in range(11):
        before = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - before)
    return sorted(times)[len(times) // 2]
