"""Different pods on one node: in which order its kubelet admits them, and which mixes it refuses in any order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import build_tree
from bayplan.engine.numa import mixes
from bayplan.engine.numa.mixes import NodeMixes, needs_mixes
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.clusters import cluster, place
from tests.builders.objects import container, node, pod, simple_pod, topology, zone

SMALL = simple_pod({"cpu": 2, "memory": "1Gi"})
LARGE = simple_pod({"cpu": 3, "memory": "1Gi"})
HUGE = simple_pod({"cpu": 6, "memory": "1Gi"})


def zones_of(*cpus: int, name: str = "n1", policy: str = "single-numa-node") -> NodeResourceTopology:
    """The report of a node whose zones have so many free CPUs."""
    zones = (zone(number, {"cpu": amount, "memory": "64Gi"}) for number, amount in enumerate(cpus))
    return topology(*zones, name=name, policy=policy)


def mix(counts: Sequence[int]) -> mixes.Mix:
    return tuple((number, count) for number, count in enumerate(counts) if count)


def mixes_of(state: ClusterState, *pods: Pod) -> NodeMixes:
    classes = [state.classes.of(each) for each in pods]
    return NodeMixes(state, build_tree(state, "", ()), classes, Assumptions())


@pytest.mark.parametrize(
    "cpus, counts, order",
    [
        # The small pod in zone 0 would keep the large one out: the large one must come first.
        ((3, 2), (1, 1), (1, 0)),
        ((5, 2), (2, 1), (1, 0, 0)),
        # Here the large one must come between the small ones: it has to find zone 0 too full, and still leave room
        # there.
        ((4, 3), (2, 1), (0, 1, 0)),
        ((2, 2), (1, 1), None),
        ((4, 4), (1, 2), None),
        ((4, 4), (3, 0), (0, 0, 0)),
        ((4, 4), (0, 0), ()),
    ],
)
def test_an_order_in_which_all_are_admitted(cpus: Sequence[int], counts: tuple[int, int], order: object) -> None:
    assert mixes_of(cluster(zones_of(*cpus)), SMALL, LARGE).order(0, mix(counts)) == order


def test_where_large_ones_first_is_wrong_another_order_is_found() -> None:
    # GPUs hang on zone 0 only. The pod with more CPUs takes zone 0 if it comes first, and the one with a GPU has no
    # place.
    zones = [zone(0, {"cpu": 8, "memory": "64Gi", "example.com/gpu": 1}), zone(1, {"cpu": 6, "memory": "64Gi"})]
    state = cluster(topology(*zones))
    with_gpu = simple_pod({"cpu": 4, "memory": "1Gi", "example.com/gpu": 1})
    without = simple_pod({"cpu": 6, "memory": "60Gi"})
    assert mixes_of(state, without, with_gpu).order(0, mix((1, 1))) == (1, 0)


@pytest.mark.parametrize(
    "policy, counts, admitted",
    [
        ("none", (1, 2), True),
        ("best-effort", (1, 2), True),
        ("restricted", (1, 2), False),
        ("single-numa-node", (1, 2), False),
        ("none", (2, 2), False),
    ],
)
def test_policies_differ(policy: str, counts: tuple[int, int], admitted: bool) -> None:
    state = cluster(zones_of(4, 4, policy=policy))
    assert (mixes_of(state, SMALL, LARGE).refused(0, mix(counts)) is None) is admitted


def test_a_refusal_names_a_smallest_mix_and_every_node_in_the_same_state() -> None:
    state = cluster(zones_of(4, 4), zones_of(4, 4, name="n2"), zones_of(4, 6, name="n3"))
    refusal = mixes_of(state, SMALL, LARGE).refused(0, mix((2, 2)))
    assert refusal is not None
    smallest, positions = refusal
    assert smallest == mix((1, 2))
    assert list(positions) == [0, 1]


def test_pods_that_want_the_same_port_meet_nowhere() -> None:
    state = ClusterState()
    state.set_node(node("n1", {"cpu": 8}))
    state.set_node(node("n2", {"cpu": 8}))
    web, proxy, other = (
        pod(container({"cpu": cpu}, ports=[{"containerPort": 80, "hostPort": port}]))
        for cpu, port in ((1, 80), (2, 80), (3, 81))
    )
    answers = mixes_of(state, web, proxy, other)
    assert answers.refused(0, mix((1, 1, 1))) == (mix((1, 1, 0)), range(2))
    assert answers.refused(0, mix((1, 0, 3))) is None


@pytest.mark.parametrize(
    "state, pods, needed",
    [
        (cluster(nodes=[node("n1", {"cpu": 8})]), (SMALL, LARGE), False),
        (cluster(zones_of(4, 4)), (SMALL, LARGE), True),
        (cluster(zones_of(4, 4)), (SMALL,), False),
    ],
    ids=["no zones", "zones", "one class"],
)
def test_asked_only_where_sums_do_not_say_it_all(state: ClusterState, pods: Sequence[Pod], needed: bool) -> None:
    assert needs_mixes(state, [state.classes.of(each) for each in pods]) is needed


def test_too_many_orders_to_try_are_admitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixes, "MOST_ADMISSIONS", 2)
    answers = mixes_of(cluster(zones_of(4, 4, policy="restricted")), SMALL, LARGE)
    assert answers.order(0, mix((2, 2))) is None
    assert answers.gave_up


def test_while_a_report_is_behind_only_amounts_are_trusted() -> None:
    state = cluster(zones_of(8, 4, policy="best-effort"))
    state.freshness.waits_for_reports = True
    assert mixes_of(state, SMALL, HUGE).order(0, mix((0, 2))) == (1, 1)
    place(state, SMALL)
    answers = mixes_of(state, SMALL, HUGE)
    assert answers.order(0, mix((1, 1))) == (1, 0)
    assert not answers.gave_up
    assert answers.order(0, mix((0, 2))) is None
    assert answers.gave_up
