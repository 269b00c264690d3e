"""The scheduler end to end on a real API server, beside the stock kube-scheduler: `make bench`, 1,000 and 5,000 nodes.

For each size and each scheduler (`scheduler_contestants.py`), on the same control plane and the same empty nodes:

* *backlog*: it starts with 2,000 pods waiting. Pods bound per second between its first bind and the last, as a watch
  sees them; CPU seconds of the scheduler per 1,000 pods; how much of the machine the API server took meanwhile; how
  many events were written until then. The middle of the rounds in which the schedulers take turns.
* *arrivals*: it has nothing to do, and pods come, 100 a second. Milliseconds from the API server's answer to the
  creation until the watch shows the node, p50 and p99. A scheduler that is slower than the pods come shows its queue
  here.

*bare binds* is the ceiling: a client that decides nothing and only binds. At last, *start*: with 50,000 pods on the
nodes, how long until the scheduler is ready, and until it has bound a pod that waits. `scheduler_perf.py` follows:
kube-scheduler's own performance cases.

    BENCH_QUICK=1 python -m benchmarks scheduler     # small sizes, once: does it run?
    BENCH_NODES=1000 python -m benchmarks scheduler  # this many nodes; several with commas
    python -m benchmarks scheduler-start             # the start alone
    BENCH_CASES=SchedulingBasic,TopologySpreading python -m benchmarks scheduler-cases   # these cases alone
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod
from benchmarks.measure import report
from benchmarks.scheduler_contestants import (
    BAYPLAN,
    BAYPLAN_ALL_EVENTS,
    BAYPLAN_NUMA,
    STOCK,
    STOCK_ALL,
    Contestant,
    Program,
)
from benchmarks.scheduler_load import (
    Load,
    create_nodes,
    create_reports,
    created,
    node_name,
    several_at_once,
    start_creating,
)
from benchmarks.scheduler_perf import UNPROTECTED, PerfArena
from benchmarks.scheduler_watch import BindWatch
from benchmarks.scheduler_workloads import chosen_workloads
from tests.kubernetes.control_plane.objects import remove_namespace
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import NoControlPlane, find_programs
from tests.kubernetes.deployed import deployed

# In this order, because reports come last: the stock scheduler does not read them, but the API server would keep them.
CONTESTANTS = (STOCK, STOCK_ALL, BAYPLAN, BAYPLAN_NUMA, BAYPLAN_ALL_EVENTS)
BINDS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    nodes: tuple[int, ...] = (1_000, 5_000)
    backlog: int = 2_000
    rounds: int = 2
    arrivals: int = 2_000
    arrivals_a_second: float = 100.0
    standing: int = 50_000
    starts: int = 3


QUICK = Sizes(nodes=(100, 300), backlog=300, rounds=1, arrivals=200, standing=1_000, starts=1)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What came of one backlog."""

    pods_per_second: float
    cpu_per_thousand: float
    server_cores: float
    events: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class Start:
    """How one start went: seconds until the scheduler was ready and until its first bind."""

    ready: float
    first_bind: float
    cpu: float
    megabytes: float


def run() -> None:
    """Print all figures of this group."""
    try:
        find_programs()
    except NoControlPlane as problem:
        print(f"bench scheduler on a real API server: left out: {problem}")
        return
    sizes = chosen_sizes()
    _report_load()
    for nodes in sizes.nodes:
        with ControlPlane() as plane, deployed(plane, "preemption") as account:
            Arena(plane, account.kubeconfig, nodes, sizes).measure()
    run_start()
    run_cases()


def run_start() -> None:
    """Print how long schedulers take to their first bind, on the largest number of nodes."""
    sizes = chosen_sizes()
    _report_load()
    with ControlPlane() as plane, deployed(plane, "preemption") as account:
        Arena(plane, account.kubeconfig, sizes.nodes[-1], sizes).starts()


def run_cases() -> None:
    """Print the figures of kube-scheduler's own performance cases, or of those that BENCH_CASES names."""
    cases = chosen_workloads(os.environ.get("BENCH_CASES", ""))
    for nodes in chosen_sizes().nodes:
        _report_load()
        with ControlPlane(apiserver_arguments=UNPROTECTED) as plane, deployed(plane, "preemption") as account:
            PerfArena(plane, account.kubeconfig, nodes).measure(cases)


def chosen_sizes() -> Sizes:
    """What BENCH_QUICK and BENCH_NODES ask for."""
    sizes = QUICK if os.environ.get("BENCH_QUICK") else Sizes()
    nodes = os.environ.get("BENCH_NODES")
    return replace(sizes, nodes=tuple(map(int, nodes.split(",")))) if nodes else sizes


def _report_load() -> None:
    report("scheduler load of this machine before", os.getloadavg()[0], f"on {os.cpu_count()} cores")


class Arena:
    """A control plane with nodes, on which schedulers are measured one after another."""

    def __init__(self, plane: ControlPlane, account: Path, nodes: int, sizes: Sizes, group: str = "scheduler") -> None:
        self._group = group
        self._plane = plane
        self._account = account
        self._nodes = nodes
        self._sizes = sizes
        self._namespaces = 0

    def measure(self) -> None:
        """Print backlogs and arrivals of this size."""
        create_nodes(self._plane.kubeconfig, self._nodes)
        bare = self._bare_binds()
        self._report("bare-binds", bare, "binds/s")
        rates: dict[str, float] = {}
        # A scheduler that does not read reports is measured before there are any.
        for reads_reports in (False, True):
            contestants = [each for each in CONTESTANTS if each.reads_reports == reads_reports]
            if reads_reports:
                create_reports(self._plane.kubeconfig, self._nodes)
            rates |= self.backlogs(contestants)
            for contestant in contestants:
                if contestant is not BAYPLAN_ALL_EVENTS:
                    self._arrivals(contestant)
        self._compare(rates, bare)

    # -- backlog --------------------------------------------------------------------------------------------------

    def backlogs(self, contestants: Sequence[Contestant]) -> dict[str, float]:
        """Pods per second by contestant."""
        rates: dict[str, float] = {}
        came: dict[str, list[Backlog]] = {each.name: [] for each in contestants}
        for turn in range(self._sizes.rounds):
            for contestant in contestants:
                # The one that takes a minute for a round is so far behind that one round tells.
                if contestant is not STOCK_ALL or turn == 0:
                    came[contestant.name].append(self.backlog(contestant))
        for name, backlogs in came.items():
            middle = Backlog(*(statistics.median(figures) for figures in zip(*map(astuple, backlogs), strict=True)))
            self._report(f"{name}/backlog", middle.pods_per_second, "pods/s")
            self._report(f"{name}/backlog/cpu", middle.cpu_per_thousand, "CPU s per 1,000 pods")
            self._report(f"{name}/backlog/api-server", middle.server_cores, "cores, with etcd")
            self._report(f"{name}/backlog/events", middle.events, "written until the last bind")
            self._report(f"{name}/backlog/memory", middle.megabytes, "MB at most")
            rates[name] = middle.pods_per_second
        return rates

    def backlog(self, contestant: Contestant) -> Backlog:
        """Let one scheduler bind everything that waits."""
        pods = self._sizes.backlog
        servers = [Program(self._plane.apiserver.pid), Program(self._plane.etcd.pid)]
        with self._namespace() as namespace:
            created(start_creating(self._plane.kubeconfig, Load(namespace, pods)))
            with (
                BindWatch(self._plane.kubeconfig, namespace) as binds,
                contestant.running(self._plane, self._account) as program,
            ):
                # It may be busy already when it says that it is ready: what it did before is left out, and so are its
                # first lists.
                binds.wait_for(1)
                began, cpu, server_cpu = time.monotonic(), program.cpu_seconds(), _cpu(servers)
                binds.wait_for(pods)
                cpu, server_cpu = program.cpu_seconds() - cpu, _cpu(servers) - server_cpu
                done = sum(moment > began for moment in binds.times.values())
                seconds = max(binds.times.values()) - began
                return Backlog(
                    done / seconds,
                    cpu / done * 1000,
                    server_cpu / seconds,
                    self._events(namespace),
                    program.most_megabytes(),
                )

    def _events(self, namespace: str) -> int:
        answer = self._plane.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events?limit=1")
        return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount", 0))

    def _bare_binds(self) -> float:
        """Binds a second of a client that has nothing else to do."""
        with self._namespace() as namespace:
            created(start_creating(self._plane.kubeconfig, Load(namespace, self._sizes.backlog)))
            return asyncio.run(self._bind_all(namespace))

    async def _bind_all(self, namespace: str) -> float:
        async with KubeClient(find_access(str(self._account)), connections=BINDS_AT_ONCE) as client:
            pods = (await client.list(PODS, namespace)).items

            async def bind(numbered: tuple[int, Pod]) -> None:
                number, pod = numbered
                node = node_name(number % self._nodes)
                await client.bind(namespace, pod.metadata.name, pod.metadata.uid, node, {})

            began = time.monotonic()
            await several_at_once(bind, enumerate(pods), BINDS_AT_ONCE)
            return len(pods) / (time.monotonic() - began)

    # -- arrivals -------------------------------------------------------------------------------------------------

    def _arrivals(self, contestant: Contestant) -> None:
        pods = self._sizes.arrivals
        with (
            self._namespace() as namespace,
            contestant.running(self._plane, self._account),
            BindWatch(self._plane.kubeconfig, namespace) as binds,
        ):
            load = Load(namespace, pods, rate=self._sizes.arrivals_a_second)
            answered = created(start_creating(self._plane.kubeconfig, load))
            binds.wait_for(pods)
        # A bind can be seen before the answer to the creation has been read.
        waited = sorted(max(binds.times[name] - moment, 0.0) for name, moment in answered.items())
        for percent in (50, 99):
            self._report(f"{contestant.name}/arrivals/p{percent}", waited[len(waited) * percent // 100] * 1e3, "ms")

    # -- start ----------------------------------------------------------------------------------------------------

    def starts(self) -> None:
        """On nodes without reports the stock scheduler and bayplan in turns, then bayplan with a report of each node:
        the middle of each.
        """
        create_nodes(self._plane.kubeconfig, self._nodes)
        came: dict[str, list[Start]] = {}
        with self._namespace() as namespace:
            created(start_creating(self._plane.kubeconfig, Load(namespace, self._sizes.standing, on_nodes=self._nodes)))
            for contestants in ((STOCK, BAYPLAN), (BAYPLAN_NUMA,)):
                if BAYPLAN_NUMA in contestants:
                    create_reports(self._plane.kubeconfig, self._nodes)
                for _ in range(self._sizes.starts):
                    for contestant in contestants:
                        came.setdefault(contestant.name, []).append(self._start(contestant))
        for who, starts in came.items():
            middle = Start(*(statistics.median(figures) for figures in zip(*map(astuple, starts), strict=True)))
            name = f"{who}/start-with-{self._sizes.standing}-pods"
            self._report(f"{name}/ready", middle.ready, "s")
            self._report(f"{name}/first-bind", middle.first_bind, "s")
            self._report(f"{name}/cpu", middle.cpu, "CPU s until the first bind")
            self._report(f"{name}/memory", middle.megabytes, "MB at most")

    def _start(self, contestant: Contestant) -> Start:
        with self._namespace() as namespace:
            created(start_creating(self._plane.kubeconfig, Load(namespace, 1)))
            with BindWatch(self._plane.kubeconfig, namespace) as binds:
                began = time.monotonic()
                with contestant.running(self._plane, self._account) as program:
                    ready = time.monotonic()
                    binds.wait_for(1)
                    cpu = program.cpu_seconds()
                    first_bind = max(binds.times.values())
                    return Start(ready - began, first_bind - began, cpu, program.most_megabytes())

    # -- both -----------------------------------------------------------------------------------------------------

    def _compare(self, rates: dict[str, float], bare: float) -> None:
        """Ratios, which say more than figures of a machine that others use too."""
        yardsticks = {STOCK.name: rates[STOCK.name], STOCK_ALL.name: rates[STOCK_ALL.name], "bare-binds": bare}
        for contestant in (BAYPLAN, BAYPLAN_NUMA, BAYPLAN_ALL_EVENTS):
            for name, yardstick in yardsticks.items():
                ratio = rates[contestant.name] / yardstick
                self._report(f"{contestant.name}/against/{name}", ratio, "times as many pods/s")

    @contextmanager
    def _namespace(self) -> Iterator[str]:
        """A new namespace; it is gone afterwards with all that was in it."""
        self._namespaces += 1
        name = f"round-{self._namespaces}"
        self._plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield name
        remove_namespace(self._plane.api, name)

    def _report(self, name: str, value: float, unit: str) -> None:
        report(f"{self._group} {self._nodes}/{name}", value, unit)


def _cpu(programs: list[Program]) -> float:
    return sum(program.cpu_seconds() for program in programs)
