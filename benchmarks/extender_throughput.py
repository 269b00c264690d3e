"""Pods per second of the stock scheduler: without an extender, with one that does nothing, and with bayplan's.

The same backlog on the same nodes and reports for each (`scheduler.py`), in one run. The stock scheduler samples nodes
as by default. The no-op extender leaves binds to the scheduler; bayplan's is measured with and without binding.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bayplan.services.extender.stanza import Stanza
from benchmarks.measure import report
from benchmarks.scheduler import QUICK, Arena, Sizes
from benchmarks.scheduler_contestants import QPS, STOCK, Contestant, Program
from benchmarks.scheduler_load import SCHEDULER, create_nodes, create_reports
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import NoControlPlane, find_programs
from tests.kubernetes.deployed import deployed
from tests.kubernetes.running_extender import WEIGHT, running_extender

YARDSTICK = "no-op-extender"


def run() -> None:
    """All sizes."""
    try:
        find_programs()
    except NoControlPlane as problem:
        print(f"bench extender on a real API server: left out: {problem}")
        return
    sizes = QUICK if os.environ.get("BENCH_QUICK") else Sizes(backlog=1_000)
    for nodes in sizes.nodes:
        with ControlPlane() as plane, deployed(plane) as account:
            create_nodes(plane.kubeconfig, nodes)
            create_reports(plane.kubeconfig, nodes)
            rates = Arena(plane, account.kubeconfig, nodes, sizes, "extender").backlogs(CONTESTANTS)
            for contestant in CONTESTANTS:
                ratio = rates[contestant.name] / rates[YARDSTICK]
                report(f"extender {nodes}/{contestant.name}/against/{YARDSTICK}", ratio, "times as many pods/s")


@contextmanager
def server_process(kind: str, nodes: int) -> Iterator[tuple[int, int]]:
    """A server of `extender_servers.py`: its process and its port."""
    command = [sys.executable, "-m", "benchmarks.extender_servers", kind, str(nodes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.pid, int(server.stdout.readline())
        finally:
            server.kill()


@contextmanager
def _with_noop(plane: ControlPlane, _kubeconfig: Path) -> Iterator[Program]:
    with server_process("noop", 0) as (_, port):
        stanza = Stanza(f"http://127.0.0.1:{port}", WEIGHT, binds=False, preempts=False)
        with _stock(plane, stanza.document()["extenders"]) as program:
            yield program


@contextmanager
def _with_bayplan(plane: ControlPlane, kubeconfig: Path, *, binds: bool) -> Iterator[Program]:
    with (
        running_extender(plane, kubeconfig=kubeconfig) as extender,
        _stock(plane, [extender.stanza(binds=binds)]) as program,
    ):
        yield program


@contextmanager
def _stock(plane: ControlPlane, extenders: list[dict[str, Any]]) -> Iterator[Program]:
    with plane.start_stock_scheduler(scheduler_name=SCHEDULER, qps=QPS, extenders=extenders) as scheduler:
        yield Program(scheduler.pid)


CONTESTANTS = (
    STOCK,
    Contestant(YARDSTICK, _with_noop),
    Contestant("bayplan-extender", partial(_with_bayplan, binds=True)),
    Contestant("bayplan-extender-no-bind", partial(_with_bayplan, binds=False)),
)
