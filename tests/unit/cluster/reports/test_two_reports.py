"""A node with a NodeResourceTopology and a Numatopology: which of them counts, and what happens when one falls silent
or goes away.
"""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.node_resource_topology_v1alpha2 import Attribute, NodeResourceTopology
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology
from tests.builders.clusters import free_in_zones
from tests.builders.numatopologies import machine, numatopology
from tests.builders.objects import node, topology, zone

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


# -- moments
# -------------------------------------------------------------------------------------------------------------

NOON = 1_760_000_000
MINUTE = 60


def with_moment(made_at: float, *, marked: str | None = None) -> NodeResourceTopology:
    """The richer report, as bayplan's agent writes it: it is renewed every five minutes, whatever happens."""
    moment = Attribute(name="bayplan.io/made-at", value=f"{made_at:.6f}")
    made = msgspec.structs.replace(WITH_MEMORY, attributes=[*(WITH_MEMORY.attributes or []), moment])
    annotations = {} if marked is None else {"bayplan.io/stale-since": marked}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=annotations))


def with_timestamp(moment: float | None) -> Numatopology:
    """Volcano's agent writes only when something changes."""
    return numatopology("n1", EIGHT, annotations={} if moment is None else {"timestamp": str(int(moment))})


@pytest.mark.parametrize("numatopology_first", [False, True])
@pytest.mark.parametrize(
    "age, others_age, now, left",
    [
        pytest.param(60, 0, NOON, [4, 4], id="an agent that died an hour ago"),
        pytest.param(60, 0, None, [4, 4], id="the same in a dump"),
        pytest.param(60, 50, NOON, [4, 4], id="both are old, but the other one is written on changes only"),
        pytest.param(60, None, NOON, [4, 4], id="the other does not say when"),
        pytest.param(60, None, None, [2, 2], id="the time is unknown"),
        pytest.param(60, 70, NOON, [2, 2], id="the other is older still"),
        pytest.param(14, 0, NOON, [2, 2], id="a heartbeat or two may be late"),
        pytest.param(0, 60, NOON, [2, 2], id="a fresh one, and one that had nothing to say"),
    ],
)
def test_a_report_that_is_not_renewed_is_dead(
    age: float, others_age: float | None, now: float | None, left: list[int], *, numatopology_first: bool
) -> None:
    """Ages in minutes at noon. It is the first that is heard of both, as by a scheduler that has just started."""
    other = with_timestamp(None if others_age is None else NOON - others_age * MINUTE)
    state = a_node()
    if numatopology_first:
        state.set_numatopology(other, at=now)
    state.set_topology(with_moment(NOON - age * MINUTE), at=now)
    if not numatopology_first:
        state.set_numatopology(other, at=now)
    assert cpus(state) == left


@pytest.mark.parametrize(
    "marked, left",
    [
        pytest.param("2025-10-09T08:53:20Z", [4, 4], id="this very report"),
        pytest.param("2025-10-09T07:53:20Z", [2, 2], id="renewed since, and agent-gc has not been round yet"),
    ],
)
def test_a_report_that_agent_gc_has_marked_is_dead(marked: str, left: list[int]) -> None:
    state = a_node()
    state.set_topology(with_moment(NOON, marked=marked))
    state.set_numatopology(with_timestamp(None))
    assert cpus(state) == left


def test_it_counts_again_once_it_is_renewed() -> None:
    state = a_node()
    state.set_topology(with_moment(NOON - 60 * MINUTE), at=NOON)
    state.set_numatopology(with_timestamp(NOON), at=NOON)
    assert cpus(state) == [4, 4]
    state.set_topology(with_moment(NOON + 1), at=NOON + 1)
    assert cpus(state) == [2, 2]


# -- coming and going
# ----------------------------------------------------------------------------------------------------


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
