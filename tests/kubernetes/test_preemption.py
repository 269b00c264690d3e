"""Preemption on a real API server with virtual kubelets: who is evicted, who is spared, and what everybody is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import RACK, Json, gang_body, pod_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.deployed import deployed
from tests.kubernetes.running_scheduler import RunningScheduler, running_scheduler
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.kubernetes.workloads import why_it_waits

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- {schedulerName: bayplan, preemption: "On"}
"""
PRIORITIES = {"low": 10, "middle": 20, "high": 1000}
# Two zones of 8 CPUs, or one.
TWO_ZONES = ("--machine", "pack:2 numa:1 core:8 pu:1 mem:32Gi", "--heartbeat", "0")
ONE_ZONE = ("--machine", "core:8 pu:1 mem:32Gi", "--heartbeat", "0")
ALONE = "--no-pod-grouper"


@pytest.fixture
def prioritized(plane: ControlPlane) -> ControlPlane:
    for name, value in PRIORITIES.items():
        plane.apply(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    return plane


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIGURATION)
    return f"--config={file}"


class Pods:
    """The pods of one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str, scheduler: str = "bayplan") -> None:
        self.plane, self.namespace, self.scheduler = plane, namespace, scheduler
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def add(self, name: str, cpus: int, priority: str, *, on: str = "", gang: str = "", **metadata: Any) -> None:
        """Create a pod; with `on` it runs before this returns. Only its kubelet can end it before its grace period."""
        spec: Json = {
            "priorityClassName": priority,
            "terminationGracePeriodSeconds": 600,
            **({"nodeName": on} if on else {}),
        }
        amounts: dict[str, str | int] = {"cpu": cpus, "memory": "1Gi"}
        body = pod_body(name, self.namespace, amounts, scheduler=self.scheduler, gang=gang, **spec)
        body["metadata"].update(metadata)
        self.plane.post(self.path, body)
        if on:
            self.wait_until_runs(name)

    def all(self) -> dict[str, Json]:
        return {pod["metadata"]["name"]: pod for pod in self.plane.get(self.path)["items"]}

    def phases(self) -> dict[str, str]:
        return {name: pod["status"]["phase"] for name, pod in self.all().items()}

    def wait_until_runs(self, *names: str) -> None:
        def run() -> bool:
            phases = self.phases()
            assert not any(phases[name] == "Failed" for name in names), self.all()
            return all(phases[name] == "Running" for name in names)

        wait_until(run, f"{', '.join(names)} run")

    def events(self, reason: str) -> dict[str, str]:
        found = self.plane.get(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")["items"]
        return {each["regarding"]["name"]: each["note"] for each in found if each["reason"] == reason}


def zones_are_mixed(pods: Pods) -> None:
    """Each zone of the node holds a less important pod p and a more important pod q."""
    for name, cpus, priority in (("p0", 5, "low"), ("p1", 5, "low"), ("q0", 3, "middle"), ("q1", 1, "middle")):
        pods.add(name, cpus, priority, on="virtual-0")


def test_the_stock_scheduler_evicts_in_vain_for_an_aligned_pod(prioritized: ControlPlane, namespace: str) -> None:
    pods = Pods(prioritized, namespace, "default-scheduler")
    with virtual_nodes(prioritized, *TWO_ZONES), prioritized.start_stock_scheduler():
        zones_are_mixed(pods)
        pods.add("aligned", 8, "high")
        wait_until(lambda: pods.phases()["aligned"] == "Failed", "the kubelet has refused the pod")
        assert pods.all()["aligned"]["status"]["reason"] == "TopologyAffinityError"
        # One pod of each zone is gone, and neither zone is free.
        assert set(pods.phases()) == {"q0", "q1", "aligned"}


def test_bayplan_evicts_the_pods_of_one_zone_and_the_kubelet_admits_the_pod(
    prioritized: ControlPlane, namespace: str, config: str
) -> None:
    pods = Pods(prioritized, namespace)
    without_kubelets(prioritized, lambda: zones_are_mixed(pods), *TWO_ZONES)
    with (
        deployed(prioritized, "preemption") as account,
        running_scheduler(prioritized, config, ALONE, kubeconfig=account.kubeconfig) as scheduler,
    ):
        pods.add("aligned", 8, "high")
        wait_until(lambda: nominated(pods, "aligned") == "virtual-0", "the pod is nominated")
        assert {name[0] for name in evicted(pods)} == {"p", "q"}
        wait_until(lambda: len(pods.events("Preempted")) == 2, "their events are written")
        check_told(pods, evicted(pods))
        with virtual_nodes(prioritized, *TWO_ZONES) as nodes:
            pods.wait_until_runs("aligned")
            assert len(pods.phases()) == 3
            assert nodes.told("refused") == []
        assert scheduler.metric("bayplan_preemption_in_vain_total") == 0
        assert scheduler.metric("scheduler_preemption_victims_sum") == 2
        assert scheduler.metric("scheduler_preemption_attempts_total") >= 1
        assert 'bayplan_preemption_evictions_total{result="evicted"} 2.0' in scheduler.get("/metrics")


def without_kubelets(plane: ControlPlane, story: Callable[[], None], *nodes: str) -> None:
    """Let a story happen on virtual nodes and end their kubelets: evicted pods then stay until others take over."""
    with virtual_nodes(plane, *nodes) as running:
        story()
        running.kill()


def evicted(pods: Pods) -> set[str]:
    return {name for name, pod in pods.all().items() if "deletionTimestamp" in pod["metadata"]}


def nominated(pods: Pods, name: str) -> str:
    return str(pods.all()[name]["status"].get("nominatedNodeName", ""))


def check_told(pods: Pods, victims: set[str]) -> None:
    (zone,) = {note.partition("in zone ")[2][0] for note in pods.events("Preempted").values()}
    cpus = {"p0": 5, "p1": 5, "q0": 3, "q1": 1}
    for name in victims:
        note = (
            f"preempted by {pods.namespace}/aligned (priority 1000): frees in zone {zone}: cpu {cpus[name]}, memory 1Gi"
        )
        assert pods.events("Preempted")[name] == note
        wait_until(lambda: condition(pods, name) == ("PreemptionByScheduler", note), "it is told")  # noqa: B023
    wait_until(lambda: "aligned" in pods.events("Preempting"), "the preemptor has its event")
    assert "; nominated to virtual-0" in pods.events("Preempting")["aligned"]


def condition(pods: Pods, name: str) -> tuple[str, str] | None:
    """Reason and message of DisruptionTarget."""
    found = pods.all()[name]["status"].get("conditions", ())
    return next(((each["reason"], each["message"]) for each in found if each["type"] == "DisruptionTarget"), None)


def test_a_gang_preempts_a_gang_as_a_whole(prioritized: ControlPlane, namespace: str, config: str) -> None:
    pods = Pods(prioritized, namespace)
    with (
        virtual_nodes(prioritized, *ONE_ZONE, "--nodes", "4", "--tree", "block:1 rack:2"),
        running_scheduler(prioritized, config, ALONE),
    ):
        racks = {
            each["metadata"]["name"]: each["metadata"]["labels"][RACK]
            for each in prioritized.get("/api/v1/nodes")["items"]
        }
        first = min(racks.values())
        for name in sorted(node for node, rack in racks.items() if rack == first):
            pods.add(f"important-{name}", 6, "high", on=name)
        add_gang(pods, "batch", "low")
        pods.wait_until_runs("batch-0", "batch-1")
        add_gang(pods, "train", "high")
        pods.wait_until_runs("train-0", "train-1")
        assert {name for name in pods.all() if name.startswith("batch")} == set()
        assert {racks[pods.all()[f"train-{rank}"]["spec"]["nodeName"]] for rank in range(2)} == {max(racks.values())}


def add_gang(pods: Pods, name: str, priority: str) -> None:
    pods.plane.apply(gang_body(name, pods.namespace, 2, topology="network", required=RACK))
    for rank in range(2):
        pods.add(f"{name}-{rank}", 6, priority, gang=name)


def test_the_next_scheduler_keeps_the_room_and_evicts_no_other_pod(
    prioritized: ControlPlane, namespace: str, config: str
) -> None:
    pods, nodes = Pods(prioritized, namespace), (*ONE_ZONE, "--nodes", "2")

    def running() -> None:
        pods.add("web", 6, "low", on="virtual-0")
        pods.add("log", 6, "middle", on="virtual-1")

    without_kubelets(prioritized, running, *nodes)
    with running_scheduler(prioritized, config, ALONE) as first:
        pods.add("db", 6, "high")
        wait_until(lambda: nominated(pods, "db") == "virtual-0", "the pod is nominated")
        first.kill()
    with running_scheduler(prioritized, config, ALONE) as second:
        pods.add("late", 6, "middle")
        wait_until(lambda: "No preemption victims" in why_it_waits(prioritized, namespace, "late"), "it is told")
        assert evicted(pods) == {"web"}
        with virtual_nodes(prioritized, *nodes):
            pods.wait_until_runs("db")
            assert pods.all()["db"]["spec"]["nodeName"] == "virtual-0"
            assert pods.phases() == {"db": "Running", "log": "Running", "late": "Pending"}
        assert 'result="evicted"' not in second.get("/metrics")


def test_two_preemptors_of_one_node_evict_no_more_than_both_need(
    prioritized: ControlPlane, namespace: str, config: str
) -> None:
    pods = Pods(prioritized, namespace)
    with virtual_nodes(prioritized, *ONE_ZONE, "--nodes", "2"), running_scheduler(prioritized, config, ALONE) as found:
        pods.add("web", 6, "low", on="virtual-0")
        pods.add("log", 6, "middle", on="virtual-1")
        pods.add("db", 3, "high")
        pods.add("cache", 3, "high")
        pods.wait_until_runs("db", "cache")
        assert {pods.all()[name]["spec"]["nodeName"] for name in ("db", "cache")} == {"virtual-0"}
        assert pods.phases() == {"db": "Running", "cache": "Running", "log": "Running"}
        assert found.metric("bayplan_preemption_in_vain_total") == 0


# -- bad input --------------------------------------------------------------------------------------------------------


def budget(namespace: str) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {}},
    }


def asked_for_evictions(scheduler: RunningScheduler) -> float:
    return scheduler.metric("bayplan_preemption_evictions_total")


def test_a_budget_holds_and_the_pod_is_told_which(prioritized: ControlPlane, namespace: str, config: str) -> None:
    pods = Pods(prioritized, namespace)
    with virtual_nodes(prioritized, *ONE_ZONE), running_scheduler(prioritized, config, ALONE) as scheduler:
        pods.add("web", 6, "low", on="virtual-0")
        prioritized.apply(budget(namespace))
        pods.add("db", 6, "high")
        wait_until(
            lambda: f"but {namespace}/keep forbids that" in why_it_waits(prioritized, namespace, "db"), "it is told"
        )
        assert pods.phases() == {"web": "Running", "db": "Pending"}
        assert asked_for_evictions(scheduler) == 0


def test_a_budget_that_no_controller_has_processed_spares_its_pod(
    prioritized: ControlPlane, namespace: str, config: str
) -> None:
    """The API server would refuse by this budget, although its status allows a disruption: another pod is evicted, and
    nothing is refused.
    """
    pods = Pods(prioritized, namespace)
    with virtual_nodes(prioritized, *ONE_ZONE, "--nodes", "2"), running_scheduler(prioritized, config, ALONE):
        pods.add("web", 6, "low", on="virtual-0", labels={"app": "web"})
        pods.add("log", 6, "middle", on="virtual-1")
        written = budget(namespace)
        written["spec"]["selector"] = {"matchLabels": {"app": "web"}}
        prioritized.apply(written)
        status = {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/keep/status"
        prioritized.api.patch(path, {"status": status})
        wait_until(lambda: prioritized.get(path)["status"].get("disruptionsAllowed") == 1, "the status is written")
        pods.add("db", 6, "high")
        pods.wait_until_runs("db")
        assert pods.phases() == {"web": "Running", "db": "Running"}
        assert pods.events("PreemptionFailed") == {}


def test_without_the_right_to_evict_nothing_is_disturbed(
    prioritized: ControlPlane, namespace: str, config: str
) -> None:
    pods = Pods(prioritized, namespace)
    with virtual_nodes(prioritized, *ONE_ZONE), deployed(prioritized) as account:
        pods.add("web", 6, "low", on="virtual-0")
        with running_scheduler(prioritized, config, ALONE, kubeconfig=account.kubeconfig):
            pods.add("db", 6, "high")
            wait_until(lambda: "db" in pods.events("PreemptionFailed"), "the refusal is told")
            assert 'cannot create resource "pods/eviction"' in pods.events("PreemptionFailed")["db"]
            assert pods.phases() == {"web": "Running", "db": "Pending"}


def test_a_deleted_priority_class_changes_nothing_for_pods_that_have_their_priority(
    prioritized: ControlPlane, namespace: str, config: str
) -> None:
    pods = Pods(prioritized, namespace)
    with virtual_nodes(prioritized, *ONE_ZONE):
        pods.add("web", 6, "low", on="virtual-0")
        pods.add("db", 6, "high")
        for name in PRIORITIES:
            prioritized.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
        with running_scheduler(prioritized, config, ALONE):
            pods.wait_until_runs("db")
            assert set(pods.phases()) == {"db"}


def test_victims_of_another_scheduler_are_evicted_like_any_other(
    prioritized: ControlPlane, namespace: str, config: str
) -> None:
    others, pods = Pods(prioritized, namespace, "default-scheduler"), Pods(prioritized, namespace)
    with virtual_nodes(prioritized, *TWO_ZONES), prioritized.start_stock_scheduler():
        others.add("web", 6, "low")
        others.add("log", 6, "low")
        others.wait_until_runs("web", "log")
        with running_scheduler(prioritized, config, ALONE):
            pods.add("db", 6, "high")
            pods.wait_until_runs("db")
            assert len(pods.phases()) == 2
