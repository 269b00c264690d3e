"""A whole cluster for tests: control plane, controller manager, bayplan as the scheduler and virtual kubelets as nodes.

    with running_cluster(plane) as cluster:
        space = cluster.space("test-1")            # a namespace, with everything that a test does in it
        space.apply(deployment("web", 6, cpu=2))
        space.wait_for_pods(6)
        space.kubectl("scale", "deployment/web", "--replicas=2")

Scheduler and pod grouper run as deploy/ ships them: their arguments, their rights. Nodes refuse pods as kubelets do.
Next: the fixtures in conftest.py.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.builders.bodies import RACK, topology_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.controllers.catalogue import KUBECTL
from tests.kubernetes.deployed import NAMESPACE as SYSTEM
from tests.kubernetes.deployed import POD_GROUPER, arguments_of, deployed, scheduler_arguments
from tests.kubernetes.running_scheduler import RunningScheduler, running_pod_grouper, running_scheduler
from tests.kubernetes.virtual_nodes import VirtualNodes, virtual_nodes
from tests.kubernetes.workloads import CRDS

Json = dict[str, Any]
MACHINE = "pack:2 numa:1 core:4 pu:1 mem:16Gi"
TREE = "block:2 rack:2"
NODES = 12
"""Four racks of three nodes. A node has two zones: with one CPU reserved, 3 and 4 CPUs are for pods."""
POD_GROUPS = "/apis/bayplan.io/v1alpha1/namespaces/{}/podgroups"
RANK, PATH = "bayplan.io/rank", "bayplan.io/path"
GANG = "bayplan.io/pod-group"
ENDED = ("Succeeded", "Failed")


@dataclass
class Cluster:
    """What runs, and the nodes by rack."""

    plane: ControlPlane
    nodes: VirtualNodes
    scheduler: RunningScheduler
    grouper: RunningScheduler
    _refusals_before: int = field(default=0, init=False)

    def space(self, namespace: str) -> Space:
        """A namespace that exists."""
        return Space(self, self.plane, namespace)

    def node_list(self) -> list[Json]:
        """All nodes."""
        items: list[Json] = self.plane.get("/api/v1/nodes")["items"]
        return items

    def racks(self) -> dict[str, str]:
        """The rack of every node."""
        return {each["metadata"]["name"]: each["metadata"]["labels"][RACK] for each in self.node_list()}

    def refusals(self) -> list[Json]:
        """What kubelets have refused since the last call."""
        told = self.nodes.told("refused")
        new = told[self._refusals_before :]
        self._refusals_before = len(told)
        return new


@dataclass(frozen=True)
class Space:
    """One test's namespace."""

    cluster: Cluster
    plane: ControlPlane
    namespace: str

    # -- acting --------------------------------------------------------------------------------------------------------

    def apply(self, *bodies: Mapping[str, Any]) -> list[Json]:
        """Create or replace objects in this namespace; as the server has them."""
        return [created for body in bodies for created in self.plane.apply(body, namespace=self.namespace)]

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What a user would type; its output. Fails with what kubectl says."""
        command = [
            str(KUBECTL.find()),
            f"--kubeconfig={self.plane.kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
        ]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=180)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    # -- looking -------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Json:
        """An object of this namespace, or a list of them: `batch/v1/jobs/train`, `v1/events`."""
        group, _, rest = path.partition("/")
        root = "/api/v1" if group == "v1" else f"/apis/{group}/{rest.partition('/')[0]}"
        rest = rest if group == "v1" else rest.partition("/")[2]
        return self.plane.get(f"{root}/namespaces/{self.namespace}/{rest}")

    def pods(self, selector: str = "") -> list[Json]:
        """Pods, those that are going included, by name."""
        items = self.get(f"v1/pods?labelSelector={selector}")["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))

    def alive(self, selector: str = "") -> list[Json]:
        """Pods that neither have ended nor are going."""
        return [
            pod
            for pod in self.pods(selector)
            if pod["status"].get("phase") not in ENDED and "deletionTimestamp" not in pod["metadata"]
        ]

    def running(self, selector: str = "") -> list[Json]:
        """Pods that run, and stay."""
        return [pod for pod in self.alive(selector) if pod["status"].get("phase") == "Running"]

    def racks_of(self, pods: list[Json]) -> set[str]:
        """The racks that pods are in."""
        racks = self.cluster.racks()
        return {racks[pod["spec"]["nodeName"]] for pod in pods}

    def pod_groups(self) -> list[Json]:
        """bayplan's PodGroups."""
        items: list[Json] = self.plane.get(POD_GROUPS.format(self.namespace))["items"]
        return items

    def events(self, name: str = "", reason: str = "") -> list[str]:
        """Messages of events about an object, or with a reason."""
        items = self.get("v1/events")["items"]
        return [
            str(each.get("message", ""))
            for each in items
            if name in ("", each["involvedObject"]["name"]) and reason in ("", each.get("reason"))
        ]

    def why_waiting(self) -> dict[str, str]:
        """For each pod without a node the message of its condition PodScheduled."""
        return {
            pod["metadata"]["name"]: scheduled_message(pod) for pod in self.alive() if not pod["spec"].get("nodeName")
        }

    # -- waiting -------------------------------------------------------------------------------------------------------

    def wait_for_pods(self, number: int, selector: str = "", *, timeout: float = 120.0) -> list[Json]:
        """Until so many pods run and no other one is alive; these pods."""

        def is_so() -> bool:
            alive = self.alive(selector)
            return len(alive) == number and all(pod["status"].get("phase") == "Running" for pod in alive)

        self.wait(is_so, f"{number} pods of {selector or 'all'} run", timeout=timeout)
        return self.running(selector)

    def wait(self, question: Callable[[], bool], what: str, *, timeout: float = 120.0) -> None:
        """Until something is so; says what the pods do if it never is."""
        try:
            wait_until(question, what, timeout=timeout)
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n{self.describe()}") from None

    def describe(self) -> str:
        """What the pods do, in one line each."""
        lines = [
            f"{pod['metadata']['name']}: {pod['status'].get('phase')} on {pod['spec'].get('nodeName', '-')} "
            f"{pod['status'].get('reason', '')}"
            f"{scheduled_message(pod)}"
            for pod in self.pods()
        ]
        return "\n".join(
            [*lines, *(f"PodGroup {each['metadata']['name']}: {each.get('status')}" for each in self.pod_groups())]
        )

    def wait_until_empty(self, *, timeout: float = 120.0) -> None:
        """Until neither pods nor PodGroups are left."""
        self.wait(
            lambda: not self.pods() and not self.pod_groups(), "no pods and no PodGroups are left", timeout=timeout
        )

    # -- judging -------------------------------------------------------------------------------------------------------

    def half_bound(self) -> dict[str, list[str]]:
        """Gangs of which some members have a node and some have not."""
        gangs: dict[str, list[Json]] = defaultdict(list)
        for pod in self.alive():
            gang = pod["metadata"].get("labels", {}).get(GANG)
            if gang:
                gangs[gang].append(pod)
        return {
            gang: [f"{pod['metadata']['name']} on {pod['spec'].get('nodeName', '-')}" for pod in pods]
            for gang, pods in gangs.items()
            if len({bool(pod["spec"].get("nodeName")) for pod in pods}) > 1
        }

    def exists(self, path: str) -> bool:
        """Whether there is an object of this namespace at a path."""
        try:
            self.get(path)
        except ApiRefused as refused:
            if refused.status != 404:
                raise
            return False
        return True


def scheduled_message(pod: Json) -> str:
    """The message of the condition PodScheduled; empty if there is none."""
    conditions = pod["status"].get("conditions") or []
    return next((str(each.get("message", "")) for each in conditions if each["type"] == "PodScheduled"), "")


def rank_of(pod: Json) -> int:
    """The rank that bayplan gave a pod."""
    return int(pod["metadata"]["annotations"][RANK])


def label_of(pod: Json, key: str) -> str:
    """A label."""
    return str(pod["metadata"]["labels"][key])


def is_ready(node: Json) -> bool:
    """Whether a node is ready and without taints."""
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


@contextmanager
def running_cluster(
    plane: ControlPlane,
    *further: str,
    nodes: int = NODES,
    tree: str = TREE,
    machine: str = MACHINE,
    kubelets: tuple[str, ...] = (),
) -> Iterator[Cluster]:
    """bayplan and its nodes on a control plane with a controller manager, ready; `further` are arguments of the
    scheduler.
    """
    for crd in CRDS:
        plane.apply(crd)
    plane.apply(topology_body())
    arguments = ("--nodes", str(nodes), "--tree", tree, "--machine", machine, *kubelets)
    as_shipped, of_grouper = scheduler_arguments(plane.folder), arguments_of(POD_GROUPER, "--health-address=")
    with (
        deployed(plane) as account,
        virtual_nodes(plane, *arguments) as kubelet,
        running_pod_grouper(plane, *of_grouper, kubeconfig=account.pod_grouper.kubeconfig) as grouper,
        running_scheduler(plane, *as_shipped, *further, kubeconfig=account.kubeconfig) as scheduler,
    ):
        # The Deployments in deploy/ need images; what is under test are the processes that were started here.
        plane.delete(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments")
        cluster = Cluster(plane, kubelet, scheduler, grouper)
        wait_until(lambda: all(is_ready(each) for each in cluster.node_list()), "nodes are ready")
        scheduler.wait_until_leading()
        yield cluster
