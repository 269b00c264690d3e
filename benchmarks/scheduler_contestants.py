"""Who is measured: the stock kube-scheduler in two modes, bayplan without and with NUMA; each a program of its own.

All of them serve pods that ask for the scheduler `measured`, under a user with no more rights than it needs, without
leader election; they write events and may send as many requests as they like. What a program costs is read from the
kernel.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.scheduler_load import SCHEDULER
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.running_scheduler import running_scheduler

QPS = 5000
"""More requests a second than the API server can take."""


@dataclass(frozen=True, slots=True)
class Program:
    """A process, by what it costs."""

    pid: int

    def cpu_seconds(self) -> float:
        """Processor time so far, of all its threads."""
        # After the name in brackets, which may contain blanks: state is field 3 of proc(5), utime 14 and stime 15.
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def most_megabytes(self) -> float:
        """The most memory that it ever had resident."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        kibibytes = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return int(kibibytes) * 1024 / 1e6


@dataclass(frozen=True, slots=True)
class Contestant:
    """A scheduler with its settings; `running` is a context in which it is ready, given a kubeconfig of bayplan's
    service account.
    """

    name: str
    running: Callable[[ControlPlane, Path], AbstractContextManager[Program]]
    reads_reports: bool = False


@contextmanager
def _stock(percentage: int | None, plane: ControlPlane, name: str = SCHEDULER) -> Iterator[Program]:
    with plane.start_stock_scheduler(scheduler_name=name, percentage=percentage, qps=QPS) as scheduler:
        yield Program(scheduler.pid)


@contextmanager
def _bayplan(
    plane: ControlPlane, kubeconfig: Path, plugins: dict[str, Any], *options: str, name: str = SCHEDULER
) -> Iterator[Program]:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": QPS, "burst": 2 * QPS},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name, "plugins": plugins}],
    }
    file = plane.folder / "bayplan.configuration.json"
    file.write_text(json.dumps(configuration), encoding="utf-8")
    # As installed, where pip has compiled all modules: 800 that are compiled at each start take a CPU second.
    environment = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(plane.folder / "bytecode")}
    with running_scheduler(
        plane, "--config", str(file), *options, kubeconfig=kubeconfig, environment=environment
    ) as scheduler:
        yield Program(scheduler.process.pid)


WITHOUT_NUMA = {"multiPoint": {"disabled": [{"name": "NodeResourceTopologyMatch"}]}}
STOCK = Contestant("stock", lambda plane, _: _stock(None, plane))
STOCK_ALL = Contestant("stock-all-nodes", lambda plane, _: _stock(100, plane))
BAYPLAN = Contestant("bayplan", lambda plane, account: _bayplan(plane, account, WITHOUT_NUMA))
BAYPLAN_NUMA = Contestant("bayplan-numa", lambda plane, account: _bayplan(plane, account, {}), reads_reports=True)
# By default bayplan writes 50 events a second and lets the others wait; the stock scheduler writes as many as it binds
# pods.
BAYPLAN_ALL_EVENTS = Contestant(
    "bayplan-numa-all-events",
    lambda plane, account: _bayplan(plane, account, {}, "--events-per-second", str(QPS)),
    reads_reports=True,
)

# Both with every default plugin of kube-scheduler, preemption included.
DEFAULT = "default-scheduler"
PREEMPTING = {"postFilter": {"enabled": [{"name": "DefaultPreemption"}]}}
DEFAULT_STOCK = Contestant("stock", lambda plane, _: _stock(None, plane, DEFAULT))
DEFAULT_BAYPLAN = Contestant("bayplan", lambda plane, account: _bayplan(plane, account, PREEMPTING, name=DEFAULT))


def with_page(address: str) -> Contestant:
    """bayplan with NUMA that also serves its page."""
    return Contestant(
        "bayplan-numa-with-page",
        lambda plane, account: _bayplan(plane, account, {}, "--web-address", address),
        reads_reports=True,
    )
