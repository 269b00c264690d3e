"""What every fault test begins with: a plane that knows our kinds, a tree, a witness, and a meddler where one is asked
for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.faults.aftermath import Witness, witness_of
from tests.kubernetes.faults.meddler import Meddler, meddler_before
from tests.kubernetes.faults.workload import add_levels

DEFINITIONS = Path(__file__).parents[3] / "deploy" / "crds"


@pytest.fixture(scope="session")
def plane_with_kinds(control_plane: ControlPlane) -> ControlPlane:
    control_plane.apply(DEFINITIONS)
    return control_plane


@pytest.fixture
def plane(plane_with_kinds: ControlPlane, namespace: str) -> ControlPlane:
    """A control plane with our kinds and a tree of racks; `namespace` clears away what a test adds."""
    add_levels(plane_with_kinds)
    return plane_with_kinds


@pytest.fixture
def witness(plane: ControlPlane, namespace: str) -> Iterator[Witness]:
    with witness_of(plane, namespace) as looking_on:
        yield looking_on


@pytest.fixture
def meddled(plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Meddler, Path]]:
    """A meddler, and the kubeconfig of those that it meddles with."""
    with meddler_before(plane.kubeconfig, tmp_path) as both:
        yield both
