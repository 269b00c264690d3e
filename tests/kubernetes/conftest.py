"""A control plane for each test run (each worker of it), a namespace for each test, the mark
`kubernetes` for all here.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.bodies import topology_body
from tests.kubernetes.control_plane.objects import remove_namespace, remove_nodes
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import NoControlPlane, find_programs
from tests.kubernetes.workloads import CRDS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, default=400, help="random pods to compare with the API server's verdict")
    parser.addoption("--first-seed", type=int, default=0, help="the seed of the first of them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker("kubernetes")


def pytest_runtest_setup(item: pytest.Item) -> None:
    # Here and not in the fixture: a skip is listed by where it was raised, and so all of them are one line.
    if isinstance(item, pytest.Function) and "control_plane" in item.fixturenames:
        try:
            find_programs()
        except NoControlPlane as problem:
            pytest.skip(str(problem))


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver. A test that stops or pauses one of them sets it going again."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a new namespace. After the test it is gone with all that was in it, and so are all nodes."""
    name = f"test-{secrets.token_hex(4)}"
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    remove_namespace(control_plane.api, name)
    remove_nodes(control_plane.api)


@pytest.fixture
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with all kinds that bayplan knows, and a Topology called `network`."""
    for crd in CRDS:
        control_plane.apply(crd)
    control_plane.apply(topology_body())
    return control_plane
