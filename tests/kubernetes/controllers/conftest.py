"""One cluster with real controllers for all tests here, a namespace for each, and operators that start when a test
first asks for one.

A test that needs a program which is not built is skipped, with one line for each program. No kubelet may refuse a pod
of any test.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

from tests.builders.bodies import topology_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.process import Process
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.controllers.catalogue import (
    JOB_SET,
    KUBECTL,
    KUEUE,
    LEADER_WORKER_SET,
    MANAGER,
    MPI,
    RAY,
    TRAINING,
    NoController,
)
from tests.kubernetes.controllers.cluster import Cluster, Space, running_cluster
from tests.kubernetes.controllers.operators import (
    running_job_set,
    running_kueue,
    running_leader_worker_set,
    running_mpi_operator,
    running_ray_operator,
    running_training_operator,
)

NEEDED_BY_ALL = (MANAGER, KUBECTL)
NEEDS = {
    "job_set": (JOB_SET,),
    "leader_worker_set": (LEADER_WORKER_SET,),
    "kueue": (KUEUE,),
    "mpi_operator": (MPI,),
    "training_operator": (TRAINING,),
    "ray_operator": (RAY,),
}
"""What each fixture starts."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "controllers: needs controllers that `make controllers` builds")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker("controllers")


def pytest_runtest_setup(item: pytest.Item) -> None:
    # Here and not in the fixtures: a skip is listed by where it was raised, so all tests that lack a program are one
    # line.
    if isinstance(item, pytest.Function):
        by_fixture = (NEEDS[name] for name in NEEDS.keys() & set(item.fixturenames))
        for controller in chain(NEEDED_BY_ALL, *by_fixture):
            try:
                controller.find()
            except NoController as problem:
                pytest.skip(str(problem))


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd, kube-apiserver and kube-controller-manager."""
    with ControlPlane(manager_program=MANAGER.find()) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster(control_plane: ControlPlane) -> Iterator[Cluster]:
    """Twelve nodes in four racks, and bayplan, which releases partially bound gangs after ten seconds."""
    with running_cluster(control_plane, "--gangs-complete-in=10") as running:
        yield running


@pytest.fixture
def space(cluster: Cluster) -> Iterator[Space]:
    """A new namespace on the cluster that tests share. Afterwards it is gone, and no kubelet has refused a pod."""
    cluster.refusals()
    with new_space(cluster) as made:
        yield made
        assert cluster.refusals() == []


@contextmanager
def new_space(cluster: Cluster) -> Iterator[Space]:
    """A namespace with its service account. Afterwards its pods are gone; the namespace controller removes the rest."""
    plane, name = cluster.plane, f"test-{secrets.token_hex(4)}"
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    path = f"/api/v1/namespaces/{name}"
    wait_until(lambda: plane.api.exists(f"{path}/serviceaccounts/default"), "the namespace has its service account")
    try:
        yield cluster.space(name)
    finally:
        plane.delete(path)
        plane.delete(f"{path}/pods")  # where a node is gone, nothing else ends their grace period
        wait_until(lambda: not plane.get(f"{path}/pods")["items"], f"the pods of {name} are gone")


@pytest.fixture(scope="session")
def job_set(control_plane: ControlPlane) -> Iterator[Process]:
    """JobSet."""
    with running_job_set(control_plane) as process:
        yield process


@pytest.fixture(scope="session")
def leader_worker_set(control_plane: ControlPlane) -> Iterator[Process]:
    """LeaderWorkerSet."""
    with running_leader_worker_set(control_plane) as process:
        yield process


@pytest.fixture(scope="session")
def kueue(cluster: Cluster) -> Iterator[Process]:
    """Kueue, whose own Topology kind takes the place of the one in deploy/.

    Topologies come after it: those that are there could not be listed in its older version before it converts them.
    """
    cluster.plane.delete("/apis/kueue.x-k8s.io/v1beta2/topologies/network")
    try:
        with running_kueue(cluster.plane) as process:
            cluster.plane.apply(topology_body())
            yield process
    except NoController as problem:
        cluster.plane.apply(topology_body())
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def mpi_operator(control_plane: ControlPlane) -> Iterator[Process]:
    """The MPI operator."""
    try:
        running = running_mpi_operator(control_plane)
        with running as process:
            yield process
    except NoController as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def training_operator(control_plane: ControlPlane) -> Iterator[Process]:
    """The training operator."""
    with running_training_operator(control_plane) as process:
        yield process


@pytest.fixture(scope="session")
def ray_operator(control_plane: ControlPlane) -> Iterator[Process]:
    """KubeRay."""
    with running_ray_operator(control_plane) as process:
        yield process
