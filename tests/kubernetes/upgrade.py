"""A rolling upgrade in the middle of a workload: `python -m tests.kubernetes.upgrade REVISION [--waves N]`.

The wheels of this revision and of another one are built and installed, each into a folder of its own. The other one's
scheduler leads on a real API server with virtual kubelets, whose reports come late. While aligned pods and gangs arrive
and end, this one starts as a standby, the other is stopped, and later the other way round, as a rollout and a roll back
do. Promises must survive both: no kubelet refuses a pod, every gang has all its pods or none, and nothing is left
waiting that has room.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.builders.bodies import RACK, Json, gang_body, pod_body, topology_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.running_scheduler import RunningScheduler
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.kubernetes.workloads import CRDS, ROOT, create_all

NAMESPACE = "upgrade"
MACHINE = "pack:2 numa:1 core:8 pu:1 mem:32Gi"
NODES, GANG = 16, 6
# A wave every two seconds: pods that fill a zone by half, and a gang. They run long enough to meet the next leader.
WAVE, RUNS_FOR, EVERY = 8, "12s", 2.0


def main() -> int:
    """Run it and print what became of the workload; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the other version: a tag, branch or commit")
    parser.add_argument("--waves", type=int, default=24, help="waves of pods and gangs [default: 24]")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other, this = (
            _installed(each, Path(folder) / name) for each, name in ((chosen.revision, "other"), ("HEAD", "this"))
        )
        with ControlPlane() as plane:
            for crd in CRDS:
                plane.apply(crd)
            plane.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            plane.apply(topology_body())
            with virtual_nodes(
                plane, "--nodes", str(NODES), "--machine", MACHINE, "--tree", "block:2 rack:2", "--report-delay", "2s"
            ):
                return _upgrade(plane, other, this, chosen.waves)


def _installed(revision: str, folder: Path) -> Path:
    """The wheel of a revision, built from its files alone and installed as pip does."""
    source, site = folder / "source", folder / "site"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return site


def _upgrade(plane: ControlPlane, other: Path, this: Path, waves: int) -> int:
    turns = _turns(plane, other, this)
    next(turns)
    for wave in range(waves):
        if wave in (waves // 3, 2 * waves // 3):
            next(turns)
        _submit(plane, wave)
        time.sleep(EVERY)
    wait_until(lambda: not _waiting(plane), "every pod has a node or has ended", timeout=120)
    pods = _pods(plane)
    refused = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Failed"]
    bound = Counter(
        (pod["metadata"].get("labels") or {}).get("bayplan.io/pod-group", "")
        for pod in pods
        if pod["spec"].get("nodeName") and pod["metadata"]["name"] not in refused
    )
    partial = [f"g{wave}" for wave in range(waves) if bound[f"g{wave}"] != GANG]
    sys.stdout.write(
        f"{len(pods)} pods and {waves} gangs over an upgrade and a roll back: {len(refused)} refused by kubelets, "
        f"{len(partial)} gangs not whole\n"
    )
    next(turns, None)
    return 1 if refused or partial else 0


def _turns(plane: ControlPlane, other: Path, this: Path) -> Iterator[None]:
    """The other version leads, then this one, then the other one again; each starts before its predecessor ends."""
    leader: RunningScheduler | None = None
    try:
        for version in (other, this, other):
            started = RunningScheduler(plane.kubeconfig, (), {"PYTHONPATH": str(version)})
            started.wait_until_ready()
            if leader is not None:
                leader.stop()
                leader.close()
            leader = started
            leader.wait_until_leading()
            yield
    finally:
        if leader is not None:
            leader.close()


def _submit(plane: ControlPlane, wave: int) -> None:
    runs_for = {"bayplan.io/runs-for": RUNS_FOR}
    plane.apply(gang_body(f"g{wave}", NAMESPACE, GANG, topology="network", required=RACK), namespace=NAMESPACE)
    bodies = [pod_body(f"p{wave}-{each}", NAMESPACE, {"cpu": 4, "memory": "4Gi"}) for each in range(WAVE)]
    bodies += [
        pod_body(f"g{wave}-{each}", NAMESPACE, {"cpu": 2, "memory": "2Gi"}, gang=f"g{wave}") for each in range(GANG)
    ]
    for body in bodies:
        body["metadata"]["annotations"] = runs_for
    create_all(plane.kubeconfig, bodies)


def _pods(plane: ControlPlane) -> list[Json]:
    found: list[Json] = plane.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return found


def _waiting(plane: ControlPlane) -> list[str]:
    return [pod["metadata"]["name"] for pod in _pods(plane) if not pod["spec"].get("nodeName")]


if __name__ == "__main__":
    sys.exit(main())
