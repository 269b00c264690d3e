"""The control plane itself is in trouble: the API server is restarted or dies, etcd stops answering or has forgotten
the past.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.aftermath import Witness, check_books, check_cluster, check_placed
from tests.kubernetes.faults.inside import inside_scheduler
from tests.kubernetes.faults.workload import add_gang, add_nodes, add_pods, pod, wait_until_bound


def restart(plane: ControlPlane) -> None:
    plane.apiserver.restart()


def crash(plane: ControlPlane) -> None:
    plane.apiserver.kill()
    plane.apiserver.start()


def forget_the_past(plane: ControlPlane) -> None:
    """A watch cannot be resumed after this: 410."""
    plane.etcd.compact()
    plane.apiserver.restart()


@pytest.mark.parametrize("trouble", [restart, crash, forget_the_past])
def test_the_api_server_goes_away_under_load_and_comes_back(
    plane: ControlPlane, namespace: str, witness: Witness, trouble: Callable[[ControlPlane], None]
) -> None:
    add_nodes(plane, *(f"n{number}" for number in range(4)), cpus=8)
    with inside_scheduler(plane.kubeconfig) as scheduler:
        add_pods(plane, namespace, (pod(f"p{number}") for number in range(10)))
        add_gang(plane, namespace, "gang", 4)
        trouble(plane)
        plane.delete(f"/api/v1/namespaces/{namespace}/pods/p0")
        add_pods(plane, namespace, (pod(f"q{number}") for number in range(10)))
        check_placed(plane, namespace, 9 + 4 + 10)
        check_books(scheduler)
    check_cluster(plane, namespace, witness)


def test_etcd_stops_answering_for_a_while(plane: ControlPlane, namespace: str, witness: Witness) -> None:
    add_nodes(plane, *(f"n{number}" for number in range(4)), cpus=8)
    with inside_scheduler(plane.kubeconfig) as scheduler:
        add_pods(plane, namespace, (pod(f"p{number}") for number in range(10)))
        add_gang(plane, namespace, "gang", 4)
        wait_until_bound(plane, namespace, 1)
        plane.etcd.pause()
        try:
            # Longer than the scheduler waits for an answer: it cannot know what came of the binds under way.
            with pytest.raises((ApiRefused, TimeoutError)):
                plane.api.post(f"/api/v1/namespaces/{namespace}/pods", pod("late"), timeout=5.0)
        finally:
            plane.etcd.resume()
        wait_until(lambda: plane.api.answers("/readyz"), "the API server is ready again")
        add_pods(plane, namespace, (pod(f"q{number}") for number in range(6)))
        late = plane.api.exists(f"/api/v1/namespaces/{namespace}/pods/late")
        check_placed(plane, namespace, 10 + 4 + 6 + late)
        check_books(scheduler)
    check_cluster(plane, namespace, witness)
