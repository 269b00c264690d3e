"""What the scheduler knows comes through watches.

They break, fall silent, or cannot be resumed; nothing may be missed for good.
"""

from __future__ import annotations

from pathlib import Path

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.aftermath import Witness, check_books, check_cluster, check_placed
from tests.kubernetes.faults.inside import inside_scheduler
from tests.kubernetes.faults.meddler import Kind, Meddler, refused, until
from tests.kubernetes.faults.workload import add_gang, add_nodes, add_pods, pod, wait_until_bound
from tests.kubernetes.workloads import pods_in


def come_and_go(plane: ControlPlane, namespace: str, rounds: range) -> None:
    """In each round a pod comes; every second one goes again, and so does a node."""
    for number in rounds:
        add_nodes(plane, f"extra{number}")
        add_pods(plane, namespace, [pod(f"p{number}")])
        if number % 2:
            plane.delete(f"/api/v1/namespaces/{namespace}/pods/p{number}")
            plane.delete(f"/api/v1/nodes/extra{number}")


def test_watches_that_break_again_and_again(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", cpus=8)
    with inside_scheduler(kubeconfig) as scheduler:
        for number in range(10):
            come_and_go(plane, namespace, range(number, number + 1))
            meddler.cut_watches()
        add_gang(plane, namespace, "gang", 3)
        check_placed(plane, namespace, 5 + 3)
        check_books(scheduler)
    check_cluster(plane, namespace, witness)


def test_watches_that_look_alive_and_bring_nothing(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", cpus=8)
    with inside_scheduler(kubeconfig) as scheduler:
        add_pods(plane, namespace, [pod("before")])
        wait_until_bound(plane, namespace, 1)
        meddler.mute_watches()
        come_and_go(plane, namespace, range(6))
        plane.delete(f"/api/v1/namespaces/{namespace}/pods/before")
        check_placed(plane, namespace, 3)
        check_books(scheduler)
    check_cluster(plane, namespace, witness)


def test_watches_whose_past_is_forgotten_begin_with_a_list(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", cpus=8)
    with inside_scheduler(kubeconfig) as scheduler:
        add_pods(plane, namespace, (pod(f"old{number}") for number in range(4)))
        wait_until_bound(plane, namespace, 4)
        meddler.decide(Kind.WATCH, until(30, refused(410)))
        meddler.cut_watches()
        # All of this happens while no watch is open; that pods are gone is only seen by their absence from a list.
        come_and_go(plane, namespace, range(6))
        for number in range(3):
            plane.delete(f"/api/v1/namespaces/{namespace}/pods/old{number}")
        wait_until(lambda: meddler.counts[Kind.WATCH] > 30, "watches work again")
        check_placed(plane, namespace, 4)
        check_books(scheduler)
    check_cluster(plane, namespace, witness)


def test_a_list_that_cannot_be_had_is_waited_for(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", cpus=8)
    meddler.decide(Kind.OTHER, until(10, refused(503)))
    with inside_scheduler(kubeconfig) as scheduler:
        add_pods(plane, namespace, [pod("p0"), pod("p1")])
        check_placed(plane, namespace, 2)
        check_books(scheduler)
    assert len(pods_in(plane, namespace)) == 2
    check_cluster(plane, namespace, witness)
