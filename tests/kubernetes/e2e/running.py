"""The cluster that the specs run against, and the program that runs them.

Nodes are virtual and aligned to nothing (`policy=none`), as a default kubelet is: the specs were written for such
nodes. Everything of bayplan runs as deploy/ ships it with preemption, except that its profile is `default-scheduler`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import yaml

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.controllers.catalogue import MANAGER, Controller
from tests.kubernetes.controllers.cluster import is_ready
from tests.kubernetes.deployed import NAMESPACE, POD_GROUPER, arguments_of, deployed, scheduler_arguments
from tests.kubernetes.running_scheduler import running_pod_grouper, running_scheduler
from tests.kubernetes.virtual_nodes import virtual_nodes

GO = Path(__file__).parent / "go"
NAME = "default-scheduler"
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": True, "resourceNamespace": NAMESPACE, "resourceName": "bayplan"},
    "profiles": [{"schedulerName": NAME, "preemption": "On"}],
}
NODES = (
    *("--nodes", "4", "--tree", "zone:2", "--machine", "pack:2 numa:1 core:4 pu:2 mem:16Gi", "--heartbeat", "4s"),
    *("--kubelet", "policy=none,cpu=none,memory=None"),
)
# The specs about Workloads and PodGroups need these kinds, and the controller that lets go of them.
GATES = ("--feature-gates=GenericWorkload=true,GangScheduling=true",)
API_SERVER = (*GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true")


def specs() -> Controller:
    """The program, named by its source: a changed one is built anew."""
    source = b"".join((GO / name).read_bytes() for name in ("go.mod", "main.go"))
    name = f"scheduling-specs-{blake2b(source, digest_size=4).hexdigest()}"
    return Controller(name, ".", "k8s.io/kubernetes", GO)


def run_specs(report: Path, *, focus: str = "", stock: bool = False, say: Path | None = None) -> int:
    """Run the specs whose names `focus` matches and write Ginkgo's report; the exit code of the program.

    With `stock`, kube-scheduler takes bayplan's place: what it does not pass here cannot be passed here.
    """
    with (
        ControlPlane(apiserver_arguments=API_SERVER, manager_program=MANAGER.find(), manager_arguments=GATES) as plane,
        _nodes(plane),
        plane.start_stock_scheduler() if stock else _bayplan(plane),
        (say or report.with_suffix(".log")).open("w", encoding="utf-8") as log,
    ):
        command = [
            str(specs().find()),
            f"--kubeconfig={plane.kubeconfig}",
            "--provider=skeleton",
            "--dump-logs-on-failure=false",
            f"--ginkgo.json-report={report}",
            "--ginkgo.timeout=2h",
            "--ginkgo.seed=1",
            "--ginkgo.v",
            "--ginkgo.label-filter=!Flaky",  # without a filter, specs about features are left out
            *([f"--ginkgo.focus={focus}"] if focus else []),
        ]
        return subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode


@contextmanager
def _nodes(plane: ControlPlane) -> Iterator[None]:
    with virtual_nodes(plane, *NODES):
        wait_until(lambda: all(is_ready(each) for each in plane.get("/api/v1/nodes")["items"]), "nodes are ready")
        yield


@contextmanager
def _bayplan(plane: ControlPlane) -> Iterator[None]:
    arguments = scheduler_arguments(plane.folder)
    (plane.folder / "config.yaml").write_text(yaml.safe_dump(CONFIGURATION))
    of_grouper = [*arguments_of(POD_GROUPER, "--health-address="), f"--scheduler-name={NAME}"]
    with (
        deployed(plane, "preemption") as account,
        running_pod_grouper(plane, *of_grouper, kubeconfig=account.pod_grouper.kubeconfig),
        running_scheduler(plane, *arguments, kubeconfig=account.kubeconfig) as scheduler,
    ):
        # The Deployments in deploy/ need images; what is under test are the processes that were started here.
        plane.delete(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")
        plane.delete(f"/api/v1/namespaces/{NAMESPACE}/pods")
        scheduler.wait_until_leading()
        yield
