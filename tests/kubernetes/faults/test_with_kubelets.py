"""Faults where nodes refuse like kubelets: after them the scheduler still knows what is left in every zone, or a pod
would be refused.
"""

from __future__ import annotations

from pathlib import Path

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.aftermath import Witness, check_books, check_cluster, check_placed
from tests.kubernetes.faults.inside import inside_scheduler
from tests.kubernetes.faults.meddler import ANSWER_LOST, Fate, Kind, Meddler, at, refused
from tests.kubernetes.faults.workload import add_pods, pod
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.kubernetes.workloads import pods_in

# Two zones of eight CPUs each; with pods of three CPUs, two fit into a zone and two CPUs are left over.
MACHINE = ("--nodes", "3", "--machine", "pack:2 numa:1 core:8 pu:1 mem:32Gi", "--report-delay", "500ms")
PODS_THAT_FIT = 3 * 2 * 2


def phases(plane: ControlPlane, namespace: str) -> dict[str, str]:
    return {each["metadata"]["name"]: each["status"]["phase"] for each in pods_in(plane, namespace)}


def wait_until_all_run(plane: ControlPlane, namespace: str) -> None:
    wait_until(lambda: set(phases(plane, namespace).values()) == {"Running"}, "all pods run")


def test_binds_in_trouble_take_their_zones_once(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    with virtual_nodes(plane, *MACHINE), inside_scheduler(kubeconfig) as scheduler:
        fates = (ANSWER_LOST, refused(409), refused(500), Fate())
        meddler.decide(Kind.BIND, lambda count: fates[count % len(fates)])
        add_pods(plane, namespace, (pod(f"p{number}", cpus=3) for number in range(PODS_THAT_FIT)))
        check_placed(plane, namespace, PODS_THAT_FIT)
        wait_until_all_run(plane, namespace)
        check_books(scheduler)
        check_cluster(plane, namespace, witness)


def test_the_next_scheduler_knows_zones_that_no_report_shows_yet(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    with virtual_nodes(plane, *MACHINE):
        with running_scheduler(plane, "--no-leader-elect", kubeconfig=kubeconfig) as first:
            meddler.decide(Kind.BIND, at(PODS_THAT_FIT // 2, Fate(after=first.kill)))
            add_pods(plane, namespace, (pod(f"p{number}", cpus=3) for number in range(PODS_THAT_FIT)))
            wait_until(lambda: first.process.poll() is not None, "the scheduler is dead")
        with inside_scheduler(plane.kubeconfig) as second:
            check_placed(plane, namespace, PODS_THAT_FIT)
            wait_until_all_run(plane, namespace)
            check_books(second)
            check_cluster(plane, namespace, witness)
