"""The API server, or something before it, does not take a bind as it should: refused, lost on the way, done but the
answer lost.

The scheduler must never be wrong about what came of it: a bind that failed is tried again, one that succeeded counts,
and what was assumed is given back only when it is certain that the pod will not appear.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.aftermath import Witness, check_books, check_cluster, check_placed
from tests.kubernetes.faults.inside import inside_scheduler
from tests.kubernetes.faults.meddler import (
    ANSWER_LOST,
    ANSWER_NEVER_COMES,
    LOST_ON_THE_WAY,
    Fate,
    Kind,
    Meddler,
    at,
    refused,
    until,
)
from tests.kubernetes.faults.workload import add_gang, add_nodes, add_pods, bound, phase_of, pod

TROUBLES = {
    "conflict": refused(409),
    "too many requests": refused(429, retry_after=1),
    "internal error": refused(500),
    "unavailable": refused(503),
    "forbidden": refused(403),
    "lost on the way": LOST_ON_THE_WAY,
    "done, answer lost": ANSWER_LOST,
}


# Exactly enough room for everybody: who counts a pod twice or not at all has too little or too much. A gang that is
# forbidden to bind gives its room back, and others may take it: there must be enough for it beside them.
CPUS = {trouble: 5 if trouble == "forbidden" else 3 for trouble in TROUBLES}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_binds_in_trouble_end_well(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path], trouble: str
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", "a3", cpus=CPUS[trouble], rack="a")
    with inside_scheduler(kubeconfig) as scheduler:
        meddler.decide(Kind.BIND, every_second_of_the_first(8, TROUBLES[trouble]))
        add_gang(plane, namespace, "gang", 3, cpus=2)
        add_pods(plane, namespace, (pod(f"p{number}") for number in range(3)))
        check_placed(plane, namespace, 6)
        wait_until(lambda: phase_of(plane, namespace, "gang") == "Scheduled", "it is noted that the gang is whole")
        check_books(scheduler)
    check_cluster(plane, namespace, witness)


def every_second_of_the_first(number: int, fate: Fate) -> Callable[[int], Fate]:
    return lambda count: fate if count < number and count % 2 == 0 else Fate()


def test_an_answer_that_never_comes_is_not_taken_for_a_no(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", cpus=2)
    with inside_scheduler(kubeconfig) as scheduler:
        meddler.decide(Kind.BIND, at(0, ANSWER_NEVER_COMES))
        add_pods(plane, namespace, [pod("silent", cpus=2)])
        wait_until(lambda: set(bound(plane, namespace)) == {"silent"}, "the bind is done, though its answer was lost")
        # Its node is not given to another pod meanwhile.
        add_pods(plane, namespace, [pod("other", cpus=2)])
        check_placed(plane, namespace, 2)
        check_books(scheduler)
    check_cluster(plane, namespace, witness)


def test_a_pod_that_another_client_binds_first_stays_there(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", cpus=2)

    def somebody_is_faster() -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": "a2"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "wanted"}, "target": target}
        plane.post(f"/api/v1/namespaces/{namespace}/pods/wanted/binding", binding)

    with inside_scheduler(kubeconfig) as scheduler:
        meddler.decide(Kind.BIND, at(0, Fate(before=somebody_is_faster)))
        add_pods(plane, namespace, [pod("wanted", cpus=2)])
        wait_until(lambda: bound(plane, namespace) == {"wanted": "a2"}, "the pod is where another client put it")
        add_pods(plane, namespace, [pod("other", cpus=2)])
        check_placed(plane, namespace, 2)
        check_books(scheduler)
    assert bound(plane, namespace) == {"wanted": "a2", "other": "a1"}
    check_cluster(plane, namespace, witness)


def test_a_gang_one_of_whose_binds_is_refused_for_long_is_completed_where_it_began(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", "a3", rack="a", cpus=2)
    add_nodes(plane, "b1", "b2", "b3", rack="b", cpus=2)
    with inside_scheduler(kubeconfig) as scheduler:
        # The first one passes, so the gang has begun; then no request gets through for a while.
        meddler.decide(Kind.BIND, lambda count: Fate() if count == 0 else until(10, refused(409))(count))
        add_gang(plane, namespace, "gang", 3, cpus=2)
        check_placed(plane, namespace, 3)
        check_books(scheduler)
    check_cluster(plane, namespace, witness)
