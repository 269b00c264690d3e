"""A cluster under churn in virtual time: dispatcher and virtual kubelets, and an API server between them whose watches
lag.

Each watch delivers in order, but at its own pace: a kubelet may know of a deletion that the scheduler has not seen, and
a report may overtake the pods that it is about. Pods come, end, are deleted gracefully and by force; nodes are tainted
and untainted. Out: what kubelets refused.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from bayplan.cluster.state import pod_key
from bayplan.dispatch.actions import Bind
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.profile import default_profile
from bayplan.services.kubelets.fleet import Fleet
from bayplan.services.kubelets.layout import NodeGroup, lay_out
from bayplan.services.kubelets.model import (
    RUNS_FOR_ANNOTATION,
    DeletePod,
    KubeletsSettings,
    PublishTopology,
    RejectedPod,
    SetPodStatus,
    Write,
)
from bayplan.services.kubelets.objects import node_body, time_text
from bayplan.services.scheduler.binding.annotations import annotations_of

START = 1_700_000_000.0
TAINT = {"key": "example.com/maintenance", "effect": "NoSchedule"}
Act = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Churn:
    """How a run is drawn: machines, the slowest watch in seconds, and the share of pods with init containers."""

    seed: int
    machine: str = "pack:2 numa:1 core:4 pu:1 mem:16Gi"
    kubelet: str = ""
    nodes: int = 6
    pods: int = 200
    slowest: float = 1.0
    report_delay: float = 0.0
    complete: bool = True
    with_init: float = 0.3


class _Stream:
    """A watch: events in order, each some time after the one before it."""

    def __init__(self, world: ChurnRun, slowest: float) -> None:
        self._world, self._slowest, self._last = world, slowest, 0.0

    def send(self, act: Act) -> None:
        world = self._world
        self._last = max(self._last, world.now + world.random.random() ** 3 * self._slowest)
        world.at(self._last, act)


class ChurnRun:
    """One run; `refused` are the pods that kubelets refused, `placed` counts those that they admitted."""

    def __init__(self, churn: Churn) -> None:
        self._churn, self.random, self.now = churn, random.Random(churn.seed), START
        self._acts: list[tuple[float, int, Act]] = []
        self._ticket = count()
        self._settings = KubeletsSettings(
            lay_out([NodeGroup(churn.machine, churn.nodes, churn.kubelet)]),
            report_delay=churn.report_delay,
            complete=churn.complete,
        )
        self._fleet = Fleet(self._settings)
        self._scheduler = Dispatcher({"bayplan": default_profile()})
        self._pods: dict[str, Pod] = {}
        self._tainted: set[str] = set()
        self._to_kubelets = _Stream(self, churn.slowest)
        self._to_scheduler = _Stream(self, churn.slowest)
        self._nodes_to_scheduler = _Stream(self, churn.slowest)
        self._reports_to_scheduler = _Stream(self, churn.slowest)
        # When the last bind to each node was answered: binds to one node keep the order of decisions.
        self._answered: dict[str, float] = {}
        self._created = 0
        self.refused: list[RejectedPod] = []

    @property
    def placed(self) -> int:
        """The number of admitted pods."""
        return self._fleet.tally.admitted

    def at(self, moment: float, act: Act) -> None:
        """Do something then."""
        heapq.heappush(self._acts, (moment, next(self._ticket), act))

    def run(self) -> None:
        """Run until all pods were created and no event is left."""
        for name in self._fleet.agents:
            self._send_node(name)
        self._fleet.reports.listed([], self.now)
        self._write(self._fleet.due(self.now))
        self.at(self.now + 2 * self._churn.slowest + 1, self._churn_on)
        self.at(self.now, self._tick)
        self.at(self.now, self._resync)
        end = None
        while self._acts:
            self.now, _, act = heapq.heappop(self._acts)
            act()
            if end is None and self._created >= self._churn.pods:
                end = self.now + 30.0
            if end is not None and self.now > end:
                return

    # -- what happens --------------------------------------------------------------------------------------------------

    def _churn_on(self) -> None:
        draw, alive = self.random.random(), [pod for pod in self._pods.values() if pod.spec.node_name]
        if draw < 0.62:
            self._create()
        elif draw < 0.82 and alive:
            self._delete(pod_key(self.random.choice(alive)), by_force=self.random.random() < 0.3)
        elif draw < 0.9:
            names = self.random.sample(list(self._fleet.agents), self.random.randint(1, self._churn.nodes - 1))
            self._taint(set(names) if self.random.random() < 0.5 else set())
        else:
            for pod in self.random.sample(alive, min(len(alive), 5)):
                self._delete(pod_key(pod), by_force=False)
        self.at(self.now + self.random.expovariate(4.0), self._churn_on)

    def _create(self) -> None:
        self._created += 1
        draw = self.random
        name, cpus = f"p{self._created}", draw.choice((1, 1, 2, 2, 3, 4))
        amounts = {"cpu": str(cpus), "memory": f"{draw.choice((256, 512, 1024))}Mi"}
        container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
        spec: dict[str, Any] = {"schedulerName": "bayplan", "containers": [container]}
        if draw.random() < self._churn.with_init:
            first = {"cpu": str(draw.choice((1, 2, 3, 4))), "memory": "256Mi"}
            spec["initContainers"] = [{"name": "first", "resources": {"requests": first, "limits": first}}]
        notes = {RUNS_FOR_ANNOTATION: f"{draw.uniform(0.2, 20):.3f}s"} if draw.random() < 0.6 else {}
        metadata = {"name": name, "namespace": "ml", "uid": f"u-{name}", "annotations": notes}
        metadata["creationTimestamp"] = time_text(self.now)
        status = {"phase": "Pending", "qosClass": "Guaranteed"}
        self._set(msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod))

    def _delete(self, key: str, *, by_force: bool) -> None:
        pod = self._pods.get(key)
        if pod is None:
            return
        if by_force or not pod.spec.node_name:
            self._drop(key)
        elif not pod.metadata.deletion_timestamp:
            metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=time_text(self.now))
            self._set(msgspec.structs.replace(pod, metadata=metadata))

    def _taint(self, names: set[str]) -> None:
        changed, self._tainted = names ^ self._tainted, names
        for name in sorted(changed):
            self._send_node(name)

    # -- the API server ------------------------------------------------------------------------------------------------

    def _set(self, pod: Pod) -> None:
        self._pods[pod_key(pod)] = pod
        self._to_scheduler.send(lambda: self._scheduler.set_pod(pod, self.now))
        if pod.spec.node_name:
            self._to_kubelets.send(lambda: self._write(self._fleet.pod_changed(pod, self.now)))

    def _drop(self, key: str) -> None:
        if self._pods.pop(key, None) is not None:
            self._to_scheduler.send(lambda: self._scheduler.remove_pod(key, self.now))
            self._to_kubelets.send(lambda: self._fleet.pod_gone(key, self.now))

    def _send_node(self, name: str) -> None:
        node = next(each for each in self._settings.nodes if each.name == name)
        body = node_body(self._fleet.agents[name], node, self.now)
        body["spec"]["taints"] = [TAINT] if name in self._tainted else []
        body["metadata"]["uid"] = f"u-{name}"
        made = msgspec.convert(body, Node)
        self._nodes_to_scheduler.send(lambda: self._scheduler.state.set_node(made, at=self.now))

    def _write(self, writes: Iterable[Write]) -> None:
        """Requests of the kubelets, each of which takes a moment."""
        for write in writes:
            if isinstance(write, SetPodStatus) and write.refusal is not None:
                self.refused.append(write.refusal)
            took = self.random.random() ** 3 * self._churn.slowest
            if isinstance(write, PublishTopology):
                self._publish(write)
            else:
                self.at(self.now + took, lambda write=write: self._answer(write))  # type: ignore[misc]

    def _publish(self, write: PublishTopology) -> None:
        report = msgspec.convert(write.report, NodeResourceTopology)
        self._fleet.reports.appeared(write.node)
        self._reports_to_scheduler.send(lambda: self._scheduler.reports.topology(report, self.now))

    def _answer(self, write: SetPodStatus | DeletePod) -> None:
        pod = self._pods.get(f"{write.namespace}/{write.name}")
        if pod is None or pod.metadata.uid != write.uid:
            return
        if isinstance(write, DeletePod):
            self._drop(pod_key(pod))
        else:
            status = msgspec.convert({"qosClass": "Guaranteed", **write.status}, type(pod.status or None), strict=False)
            self._set(msgspec.structs.replace(pod, status=status))

    # -- the scheduler -------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._write(self._fleet.due(self.now))
        self._scheduler.wake(self.now)
        while (action := self._scheduler.decide(self.now)) is not None:
            if isinstance(action, Bind):
                self._bind(action)
        self.at(self.now + 0.05, self._tick)

    def _resync(self) -> None:
        self._scheduler.resync(self.now)
        self.at(self.now + self._scheduler.reports.resync_period, self._resync)

    def _bind(self, action: Bind) -> None:
        (assignment,) = action.assignments
        notes = annotations_of(assignment, self._scheduler.state)
        took = self.random.random() ** 3 * self._churn.slowest

        def bind() -> None:
            pod = self._pods.get(pod_key(assignment.pod))
            if pod is None or pod.metadata.deletion_timestamp or pod.spec.node_name:
                self.at(self.now + took, lambda: self._scheduler.not_bound(action, [assignment], self.now))
                return
            metadata = msgspec.structs.replace(pod.metadata, annotations={**(pod.metadata.annotations or {}), **notes})
            spec = msgspec.structs.replace(pod.spec, node_name=assignment.node)
            self._set(msgspec.structs.replace(pod, metadata=metadata, spec=spec))
            self.at(self.now + took, lambda: self._scheduler.bound(action, self.now))

        begins = max(self._answered.get(assignment.node, 0.0), self.now) + took
        self._answered[assignment.node] = begins + took
        self.at(begins, bind)
