"""`bayplan web`: what a new state of the cluster costs the server, how large the map is, and when Chromium shows it."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from bayplan.cli.shared.reading import read_cluster_files
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.web_answers.answers import ClusterAnswers
from bayplan.cli.web_answers.scene import Scene
from bayplan.cluster.state import ClusterState
from bayplan.kube.object_set import ObjectSet
from bayplan.scheduling.profile import default_profile
from bayplan.services.web.answers import Question
from benchmarks.clusters import node, topology
from benchmarks.measure import report
from tests.web.chromium import browser_program, opened_page
from tests.web.running_web import running_web

SIZES = (500, 5_000, 20_000)
LEVELS = ("example.com/block", "example.com/rack", "kubernetes.io/hostname")
IN_A_RACK, IN_A_BLOCK = 16, 512


def cluster_file(nodes: int, folder: Path, *, reports: bool) -> Path:
    """A dump: blocks of 32 racks of 16 nodes, each with a report of its zones if asked for."""
    items: list[dict[str, Any]] = []
    for number in range(nodes):
        place = {LEVELS[0]: f"b{number // IN_A_BLOCK}", LEVELS[1]: f"r{number // IN_A_RACK % 32}"}
        name = f"{place[LEVELS[0]]}-{place[LEVELS[1]]}-n{number % IN_A_RACK}"
        made: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", **node(name)}
        made["metadata"] = {"name": name, "labels": {**place, LEVELS[2]: name}}
        zones = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", **topology(name)}
        items += [made, zones] if reports else [made]
    levels = [{"nodeLabel": level} for level in LEVELS]
    head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "network"}}
    items.append({**head, "spec": {"levels": levels}})
    file = folder / f"cluster-{nodes}.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


def run() -> None:
    """Print the figures for each size; those of the browser only where there is one."""
    program = browser_program()
    with tempfile.TemporaryDirectory() as name:
        for nodes in SIZES:
            _server(nodes, read_cluster_files([cluster_file(nodes, Path(name), reports=True)]))
            if program is not None:
                # The page draws the same boxes without reports, and such a dump is read in seconds.
                _browser(nodes, cluster_file(nodes, Path(name), reports=False), program)


def _server(nodes: int, objects: ObjectSet) -> None:
    profile = default_profile()

    def opened(objects: ObjectSet, *, owners: bool, state: ClusterState | None = None) -> ClusterSession:
        return ClusterSession(objects, None, {profile.name: profile}, owners=owners, state=state)

    context = click.Context(click.Command("web"))
    began = time.process_time()
    answers = ClusterAnswers(context, Scene(objects, opened))
    report(f"web/{nodes} nodes/new state, CPU", (time.process_time() - began) * 1e3, "ms")
    began = time.process_time()
    document = json.dumps(answers.answer(Question("map"))).encode()
    report(f"web/{nodes} nodes/map, CPU", (time.process_time() - began) * 1e3, "ms")
    report(f"web/{nodes} nodes/map, zipped", len(gzip.compress(document, 5)) / 1024, "KiB")


def _browser(nodes: int, file: Path, program: str) -> None:
    """Wall time from the address to the drawn map, and of choosing another node."""
    with running_web("--cluster", str(file)) as web, opened_page(program) as page:
        began = time.perf_counter()
        page.open(f"{web.url}/")
        report(f"web/{nodes} nodes/first picture", (time.perf_counter() - began) * 1e3, "ms")
        key = "new KeyboardEvent('keydown', {key: 'ArrowRight'})"
        script = (
            "(() => { const began = performance.now();"
            f" document.querySelector('canvas').dispatchEvent({key}); return performance.now() - began; }})()"
        )
        page.run(script)
        report(f"web/{nodes} nodes/choose a node", page.run(script), "ms")
