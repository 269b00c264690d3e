"""What pods hold: who holds anything alone, which pods a pattern means, which CPUs are shared."""

from __future__ import annotations

import pytest

from bayplan.services.agent.sources.pod_resources import (
    ContainerResources,
    DeviceGroup,
    MemoryBlock,
    PodPattern,
    matches_any,
    shared_pool_of,
    without_cpus,
)
from tests.conformance.node_agents.rte import holds_exclusively
from tests.unit.services.agent.nodes import container, pod


@pytest.mark.parametrize(
    "held, alone",
    [
        (ContainerResources("c"), False),
        (ContainerResources("c", cpus=(1,)), True),
        (ContainerResources("c", memory=(MemoryBlock("memory", 1, (0,)),)), True),
        (ContainerResources("c", memory=(MemoryBlock("memory", 1, ()),)), False),
        (ContainerResources("c", devices=(DeviceGroup("v/gpu", ("x",), (1,)),)), True),
        (ContainerResources("c", devices=(DeviceGroup("v/gpu", (), (1,)),)), False),
        (ContainerResources("c", devices=(DeviceGroup("v/gpu", ("x",), (-1,)),)), False),
        (ContainerResources("c", claims=("ns/claim",)), False),
    ],
)
def test_a_pod_holds_something_alone_if_it_has_cpus_or_a_thing_in_a_zone(held: ContainerResources, alone: bool) -> None:
    assert holds_exclusively(pod("a", container(name="other"), held)) is alone


@pytest.mark.parametrize(
    "namespace, name, meant",
    [
        ("ns-1", "web", True),
        ("ns-*", "w?b", True),
        ("*", "db", False),
        ("ns-[^2]", "web", True),
        ("ns-[!1]", "*", False),
    ],
)
def test_patterns_are_those_of_a_shell(namespace: str, name: str, meant: bool) -> None:
    assert matches_any(("ns-1", "web"), [PodPattern("none", "none"), PodPattern(namespace, name)]) is meant


def test_a_container_without_exclusive_cpus_shows_the_shared_pool() -> None:
    pods = [pod("a", container(1, 2)), pod("rte", container(3, 4, name="shared"))]
    pool = shared_pool_of(pods, "default", "rte", "shared")
    assert pool == {3, 4}
    assert [each.cpus for every in without_cpus(pods, pool) for each in every.containers] == [(1, 2), ()]
    assert shared_pool_of(pods, "default", "absent", "shared") == frozenset()
