"""What a user waits for: start-up of the command, reading a dump, an overview of a large cluster."""

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
from tests.builders.bodies import list_body

WAITING = 2_000
KINDS = 60


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
            file.write_text(json.dumps(list_body(items)))
            seconds = median_seconds(partial(_load, file), seconds=3)
            report(f"load/json-with-8-zones/{nodes}", seconds, "s")
            asked = [str(Path(sys.executable).with_name("bayplan")), "--cluster", str(file)]
            report(f"overview/nodes/{nodes}", _wall_seconds([asked[0], "nodes", *asked[1:]], times=3), "s")
            items += [_waiting(number) for number in range(WAITING)]
            file.write_text(json.dumps(list_body(items)))
            why = _wall_seconds([asked[0], "why", "-A", *asked[1:]], times=3)
            report(f"overview/why-of-{WAITING}-pods/{nodes}", why, "s")


def _waiting(number: int) -> dict[str, object]:
    """A pod that waits; there are many kinds of them, and most are too large for a zone."""
    amounts = {"cpu": 2 + number % KINDS, "memory": f"{1 + number % KINDS}Gi"}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"waiting-{number}", "namespace": "default"},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending"},
    }


def _load(file: Path) -> ClusterState:
    return load_state(read_objects(file))


def _wall_seconds(command: list[str], times: int = 11) -> float:
    """The median of several runs; 1 is an answer too."""
    found = []
    for _ in range(times):
        before = time.perf_counter()
        done = subprocess.run(command, check=False, capture_output=True)
        found.append(time.perf_counter() - before)
        assert done.returncode in (0, 1), done.stderr
    return sorted(found)[times // 2]
