"""Throughput of preemption on a real API server: kube-scheduler's case `PreemptionBasic`, stock and bayplan in turn.

1,000 nodes are full of unimportant pods, four on each; 1,000 important pods wait, each of which needs the room of
three. `scheduler_perf.py` has the same case among all others.
"""

from __future__ import annotations

import os

from benchmarks.measure import report
from benchmarks.scheduler_perf import UNPROTECTED, PerfArena
from benchmarks.scheduler_workloads import LEAST, WORKLOADS
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import NoControlPlane, find_programs
from tests.kubernetes.deployed import deployed

CASES = [each for each in WORKLOADS if each.name.startswith("Preemption")]
FEW = 100


def run() -> None:
    """Print pods a second of both schedulers, and their ratio."""
    try:
        find_programs()
    except NoControlPlane as problem:
        print(f"bench preemption on a real API server: left out: {problem}")
        return
    report("scheduler load of this machine before", os.getloadavg()[0], f"on {os.cpu_count()} cores")
    nodes = FEW if os.environ.get("BENCH_QUICK") else LEAST
    with ControlPlane(apiserver_arguments=UNPROTECTED) as plane, deployed(plane, "preemption") as account:
        PerfArena(plane, account.kubeconfig, nodes).measure(CASES)
