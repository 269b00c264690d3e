"""kube-scheduler's own performance cases (`scheduler_workloads.py`) on a real API server, stock and bayplan in turn.

In: a control plane and a number of nodes. Out: pods a second of each scheduler in each case, their ratio, and at the
end the middle and the worst ratio. Both are `default-scheduler` with all default plugins. A case begins with its pods
waiting; seconds are counted from the first bind to the last, as a watch sees them, and where pods preempt others from
the moment that the scheduler is ready.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bayplan.kube.resources import CSI_NODES, NODES
from benchmarks.measure import report
from benchmarks.scheduler_contestants import DEFAULT_BAYPLAN, DEFAULT_STOCK, Contestant
from benchmarks.scheduler_load import CSI_DRIVER, Load, create_bodies, created, node_name, start_creating
from benchmarks.scheduler_watch import BindWatch
from benchmarks.scheduler_workloads import (
    HIGH_PRIORITY,
    HOSTNAME,
    MEASURED,
    STANDING,
    TOO_LARGE,
    WORKLOADS,
    ZONE,
    Json,
    Workload,
)
from tests.kubernetes.control_plane.objects import remove_all, remove_namespace, remove_nodes
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused

CONTESTANTS = (DEFAULT_STOCK, DEFAULT_BAYPLAN)
AMOUNTS = {"cpu": "4", "memory": "32Gi", "pods": "110"}
VOLUMES_PER_NODE = 39
CHURN_EVERY = 1.0
UNPROTECTED = ("--disable-admission-plugins=StorageObjectInUseProtection",)
"""Without a controller manager nothing would let go of a volume that was in use."""


@dataclass(frozen=True, slots=True)
class Case:
    """What came of one case with one scheduler."""

    pods_per_second: float
    cpu_per_thousand: float


@dataclass(frozen=True, slots=True)
class PerfArena:
    """A control plane without nodes, and a kubeconfig of bayplan's service account."""

    plane: ControlPlane
    account: Path
    nodes: int

    def measure(self, chosen: Sequence[Workload] = WORKLOADS) -> None:
        """Run all cases and print their figures."""
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 10}
        self.plane.apply({**priority, "metadata": {"name": HIGH_PRIORITY}})
        ratios = []
        for zones in dict.fromkeys(tuple(workload.zones) for workload in chosen):
            self._create_nodes(zones)
            for workload in chosen:
                numbers = workload.numbers(self.nodes)
                if tuple(workload.zones) == zones and numbers is not None:
                    ratios.append(self._compare(workload, *numbers))
            remove_nodes(self.plane.api)
            remove_all(self.plane.api, "/apis/storage.k8s.io/v1/csinodes")
        self._report("ratio/median", statistics.median(ratios), "times as many pods/s as stock")
        self._report("ratio/worst", min(ratios), "times as many pods/s as stock")

    def _create_nodes(self, zones: tuple[str, ...]) -> None:
        names = [node_name(index) for index in range(self.nodes)]
        bodies = (_node(name, zones[index % len(zones)]) for index, name in enumerate(names))
        create_bodies(self.plane.kubeconfig, NODES, bodies)
        create_bodies(self.plane.kubeconfig, CSI_NODES, map(_csi_node, names))

    def _compare(self, workload: Workload, standing: int, measured: int) -> float:
        came = {}
        for contestant in CONTESTANTS:
            came[contestant] = case = self._run(workload, contestant, standing, measured)
            self._report(f"{workload.name}/{contestant.name}", case.pods_per_second, "pods/s")
            self._report(f"{workload.name}/{contestant.name}/cpu", case.cpu_per_thousand, "CPU s per 1,000 pods")
        ratio = came[DEFAULT_BAYPLAN].pods_per_second / came[DEFAULT_STOCK].pods_per_second
        self._report(f"{workload.name}/ratio", ratio, "times as many pods/s as stock")
        return ratio

    def _run(self, workload: Workload, contestant: Contestant, standing: int, measured: int) -> Case:
        with self._namespace(STANDING), self._namespace(MEASURED):
            if standing:
                self._create(STANDING, standing, workload.standing, volumes=workload.volumes, on_nodes=self.nodes)
            self._create(MEASURED, measured, workload.measured, volumes=workload.volumes)
            churn = _churning(self.plane) if workload.churns else nullcontext()
            with (
                BindWatch(self.plane.kubeconfig, MEASURED) as binds,
                contestant.running(self.plane, self.account) as program,
                churn,
            ):
                # What it did before it said that it was ready is left out, and so are its first lists. The first
                # preemptor is bound after evictions; a scheduler that evicts for all of them first would gain by it.
                if not workload.preempts:
                    binds.wait_for(1)
                began, cpu = time.monotonic(), program.cpu_seconds()
                binds.wait_for(measured, timeout=900.0)
                cpu = program.cpu_seconds() - cpu
            done = sum(moment > began for moment in binds.times.values())
            return Case(done / (max(binds.times.values()) - began), cpu / done * 1000)

    def _create(self, namespace: str, pods: int, template: Json | None, *, volumes: bool, on_nodes: int = 0) -> None:
        load = Load(namespace, pods, on_nodes=on_nodes, template=template, volumes=volumes)
        created(start_creating(self.plane.kubeconfig, load))

    @contextmanager
    def _namespace(self, name: str) -> Iterator[None]:
        """A namespace; it is gone afterwards with all that was in it, and so are the volumes of its claims."""
        self.plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield
        remove_namespace(self.plane.api, name)
        remove_all(self.plane.api, "/api/v1/persistentvolumes")

    def _report(self, name: str, value: float, unit: str) -> None:
        report(f"scheduler-perf {self.nodes}/{name}", value, unit)


def _node(name: str, zone: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone}},
        "status": {
            "capacity": AMOUNTS,
            "allocatable": AMOUNTS,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _csi_node(name: str) -> Json:
    driver = {"name": CSI_DRIVER, "nodeID": name, "allocatable": {"count": VOLUMES_PER_NODE}}
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}}
    return {**head, "spec": {"drivers": [driver]}}


@contextmanager
def _churning(plane: ControlPlane) -> Iterator[None]:
    """A node without room, a pod that fits nowhere and a Service, created and deleted again once a second."""
    ends = threading.Event()
    thread = threading.Thread(target=_churn, args=(plane, ends), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _churn(plane: ControlPlane, ends: threading.Event) -> None:
    namespace = f"/api/v1/namespaces/{STANDING}"
    node = _node("churn", "zone1")
    node["status"] = {**node["status"], "capacity": {"pods": "0"}, "allocatable": {"pods": "0"}}
    ports = [{"protocol": "TCP", "port": 8080, "targetPort": 8080}]
    service = {"metadata": {"name": "churn"}, "spec": {"selector": {"app": "foo"}, "ports": ports}}
    large = {**TOO_LARGE, "metadata": {"name": "churn"}}
    for turn in count():
        for collection, body in (
            ("/api/v1/nodes", node),
            (f"{namespace}/pods", large),
            (f"{namespace}/services", {"apiVersion": "v1", "kind": "Service", **service}),
        ):
            try:
                if turn % 2:
                    plane.delete(f"{collection}/churn")
                else:
                    plane.post(collection, body)
            except ApiRefused as refused:
                if refused.status not in (404, 409):
                    raise
        if ends.wait(CHURN_EVERY / 2):
            break
    if not turn % 2:
        plane.delete("/api/v1/nodes/churn")
