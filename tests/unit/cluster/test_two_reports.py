"""A node with a NodeResourceTopology and a Numatopology: which of them counts, and what happens when one falls silent or goes away."""

from __future__ import annotations

import pytest

from bayplan.cluster.state import ClusterState
from tests.helpers import free_in_zones, node, topology, zone
from tests.numatopologies import machine, numatopology

EIGHT = machine(2, 4)
CPUS_ONLY = topology(zone(0, {"cpu": 3}), zone(1, {"cpu": 3}))
WITH_MEMORY = topology(zone(0, {"cpu": 2, "memory": "8Gi"}), zone(1, {"cpu": 2, "memory": "8Gi"}))
USELESS = topology()


def a_node() -> ClusterState:
    state = ClusterState()
    state.set_node(node("n1", {"cpu": 8, "memory": "16Gi"}))
    return state


def cpus(state: ClusterState) -> list[int]:
    return [amount // 1000 for amount in free_in_zones(state, "n1", "cpu")]


@pytest.mark.parametrize("numatopology_first", [False, True])
@pytest.mark.parametrize(
    "other, left",
    [
        pytest.param(WITH_MEMORY, [2, 2], id="memory is more than CPU numbers"),
        pytest.param(CPUS_ONLY, [4, 4], id="CPU numbers are more than CPUs"),
        pytest.param(USELESS, [4, 4], id="one that cannot be used is nothing"),
    ],
)
def test_the_richer_report_counts(other: object, left: list[int], *, numatopology_first: bool) -> None:
    state = a_node()
    if numatopology_first:
        state.set_numatopology(numatopology("n1", EIGHT))
    state.set_topology(other)  # type: ignore[arg-type]
    if not numatopology_first:
        state.set_numatopology(numatopology("n1", EIGHT))
    assert cpus(state) == left


def test_news_of_the_one_that_does_not_count_changes_nothing() -> None:
    state = a_node()
    state.set_topology(WITH_MEMORY, at=0)
    state.set_numatopology(numatopology("n1", EIGHT), at=1)
    state.set_numatopology(numatopology("n1", EIGHT, free="0-1"), at=2)
    assert cpus(state) == [2, 2]


def test_an_agent_that_says_nothing_while_the_other_shows_changes_is_dead() -> None:
    state = a_node()
    state.set_topology(WITH_MEMORY, at=0)
    state.set_numatopology(numatopology("n1", EIGHT), at=1)
    state.set_numatopology(numatopology("n1", EIGHT, free="0-2"), at=100)
    assert cpus(state) == [2, 2], "it may be late"
    state.set_numatopology(numatopology("n1", EIGHT, free="0-1"), at=121)
    assert cpus(state) == [2, 0]
    state.set_topology(WITH_MEMORY, at=130)
    assert cpus(state) == [2, 2], "it lives"


def test_age_alone_means_nothing() -> None:
    """Agents write when something changes; on a quiet node that may be long ago."""
    state = a_node()
    state.set_topology(WITH_MEMORY, at=0)
    for moment in (1, 1000, 2000):
        state.set_numatopology(numatopology("n1", EIGHT), at=moment)
    assert cpus(state) == [2, 2]


def test_when_one_is_deleted_the_other_counts() -> None:
    state = a_node()
    state.set_topology(WITH_MEMORY)
    state.set_numatopology(numatopology("n1", EIGHT))
    state.remove_topology("n1")
    assert cpus(state) == [4, 4]
    state.remove_numatopology("n1")
    assert state.reports[state.rows["n1"]] is None


def test_both_may_come_before_their_node() -> None:
    state = ClusterState()
    state.set_numatopology(numatopology("n1", EIGHT))
    state.set_topology(WITH_MEMORY)
    state.set_node(node("n1", {"cpu": 8, "memory": "16Gi"}))
    assert cpus(state) == [2, 2]
