"""News about a cluster comes in any order; whatever the order, no amount appears out of nothing and none is lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.bodies import Json
from tests.builders.clusters import decide
from tests.builders.objects import bound, cpu_pod, cpu_zones, node, topology, zone

NODES = ("a", "b")
PODS = ("p", "q", "r")

EVENTS = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NODES)),
    st.tuples(st.just("no node"), st.sampled_from(NODES)),
    st.tuples(st.just("report"), st.sampled_from(NODES), st.integers(0, 8), st.integers(0, 8)),
    st.tuples(st.just("silent report"), st.sampled_from(NODES)),
    st.tuples(st.just("no report"), st.sampled_from(NODES)),
    st.tuples(st.just("decide"), st.sampled_from(PODS)),
    st.tuples(st.just("bind"), st.sampled_from(PODS), st.sampled_from(NODES), st.sampled_from([None, 0, 1])),
    st.tuples(st.just("confirm"), st.sampled_from(PODS)),
    st.tuples(st.just("forget"), st.sampled_from(PODS)),
    st.tuples(st.just("end"), st.sampled_from(PODS)),
)


def waiting(name: str) -> Pod:
    return cpu_pod(3, name)


def running(name: str, on: str, in_zone: int | None) -> Pod:
    annotations = {} if in_zone is None else {"bayplan.io/numa-zones": f'{{"main": [{in_zone}]}}'}
    return bound(waiting(name), on, annotations=annotations)


def report(name: str, *left: int) -> NodeResourceTopology:
    return topology(*cpu_zones(*left), name=name)


def silent(name: str) -> NodeResourceTopology:
    resources: list[Json] = [{"name": "cpu", "capacity": 8}]
    return topology(*({**zone(number, {}), "resources": resources} for number in (0, 1)), name=name)


def happens(state: ClusterState, event: tuple[object, ...]) -> None:
    match event:
        case ("node", str(name)):
            state.set_node(node(name, {"cpu": 16, "memory": "64Gi"}))
        case ("no node", str(name)):
            state.remove_node(name)
        case ("report", str(name), int(first), int(second)):
            state.set_topology(report(name, first, second))
        case ("silent report", str(name)):
            state.set_topology(silent(name))
        case ("no report", str(name)):
            state.remove_topology(name)
        case ("decide", str(name)) if f"default/{name}" not in state.pods:
            decision = decide(state, waiting(name))
            if decision.placed:
                state.assume(decision.pod, decision.row, state.classes.of(waiting(name)), decision.charges)
        case ("bind", str(name), str(on), in_zone):
            state.set_pod(running(name, on, in_zone if isinstance(in_zone, int) else None))
        case ("confirm", str(name)) if f"default/{name}" in state.pods:
            state.set_pod(running(name, state.names[state.pods[f"default/{name}"].row], None))
        case ("forget", str(name)):
            state.forget(f"default/{name}")
        case ("end", str(name)):
            state.remove_pod(f"default/{name}")


def check(state: ClusterState) -> None:
    columns = state.columns
    assert np.array_equal(columns.zone_available_sum, columns.zone_available.sum(axis=1))
    for name, row in state.rows.items():
        on_it = [state.pods[key] for key in state.pods_on(row)]
        used = sum(placed.request.total["cpu"] for placed in on_it)
        assert columns.free[0, row] == 16_000 - used, name
        reported = state.reports[row]
        for position in range(2):
            most = 0 if reported is None else reported.zones[position].resources["cpu"].available
            charged = sum(
                charge.amount
                for placed in on_it
                for charge in placed.charges
                if charge.zone == position and columns.resource_names[charge.resource] == "cpu"
            )
            assert columns.zone_available[0, position, row] == most - charged >= 0
    assert {placed.row for placed in state.pods.values()} <= set(state.rows.values())
    assert set(state.bound) <= set(state.pods)


@given(events=st.lists(EVENTS, max_size=30))
def test_every_amount_is_accounted_for_after_every_event(events: list[tuple[object, ...]]) -> None:
    state = ClusterState()
    for event in events:
        happens(state, event)
        check(state)
    for name in PODS:
        state.remove_pod(f"default/{name}")
    check(state)
    for row in state.rows.values():
        if state.reports[row] is not None:
            assert state.columns.topology[row] == TOPOLOGY_USABLE
