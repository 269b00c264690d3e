"""`bayplan.io/max-numa-zones`: a pod goes only where its kubelet keeps it within so many zones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.engine.slots.slots import slots
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.clusters import cluster, decide
from tests.builders.objects import Amounts, container, node, pod, topology, zone

KEY = "bayplan.io/max-numa-zones"


def limited(most: str, *amounts: Amounts) -> Pod:
    made = pod(*(container(each, f"c{number}") for number, each in enumerate(amounts)))
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations={KEY: most}))


def four_zones(policy: str, cpus: int = 4, **more: Any) -> NodeResourceTopology:
    return topology(*(zone(number, {"cpu": cpus, "memory": "8Gi"}) for number in range(4)), policy=policy, **more)


SIX: Amounts = {"cpu": 6, "memory": "10Gi"}
FOUR: Amounts = {"cpu": 4, "memory": "1Gi"}


@pytest.mark.parametrize(
    "policy, most, amounts, fits",
    [
        ("best-effort", "1", [FOUR], True),
        ("best-effort", "1", [SIX], False),
        ("best-effort", "2", [SIX], True),
        ("restricted", "1", [SIX], False),
        ("restricted", "2", [SIX], True),
        ("best-effort", "1", [FOUR, FOUR], False),
        ("best-effort", "2", [FOUR, FOUR], True),
        ("single-numa-node", "1", [FOUR, FOUR], False),
        ("none", "3", [FOUR], False),
        ("none", "4", [FOUR], True),
    ],
    ids=[
        "one zone holds it",
        "two are needed",
        "two are allowed",
        "restricted: two are needed",
        "restricted: two are allowed",
        "zones of all containers count",
        "both containers are within two",
        "even if each is in one zone",
        "policy none may use all four",
        "all four are allowed",
    ],
)
def test_zones_that_the_kubelet_would_use_are_counted(
    policy: str, most: str, amounts: list[Amounts], *, fits: bool
) -> None:
    assert decide(cluster(four_zones(policy)), limited(most, *amounts)).placed is fits


def test_the_node_that_keeps_the_limit_is_chosen_and_others_say_why() -> None:
    state = cluster(
        topology(
            *(zone(number, {"cpu": 4, "memory": "8Gi"}) for number in range(4)), name="small", policy="best-effort"
        ),
        topology(
            *(zone(number, {"cpu": 8, "memory": "8Gi"}) for number in range(2)), name="large", policy="best-effort"
        ),
    )
    assert decide(state, limited("1", {"cpu": 6, "memory": "1Gi"})).node == "large"
    refused = decide(state, limited("1", {"cpu": 9, "memory": "1Gi"}))
    assert refused.shortfall is not None
    assert [cause.cause for cause in refused.shortfall.causes] == [
        f"the kubelet would use more NUMA zones than allowed ({KEY}: 1)"
    ]


def test_a_node_without_a_report_is_refused() -> None:
    refused = decide(cluster(nodes=[node("n1", {"cpu": 8, "memory": "8Gi"})]), limited("2", FOUR))
    assert refused.shortfall is not None
    assert [cause.cause for cause in refused.shortfall.causes] == [f"NUMA zones are unknown ({KEY}: 2)"]


def test_a_pod_that_nothing_is_pinned_for_may_use_all_zones() -> None:
    shares: Amounts = {"cpu": "500m"}
    assert not decide(cluster(four_zones("single-numa-node")), limited("3", shares)).placed
    assert decide(cluster(four_zones("single-numa-node")), limited("4", shares)).placed


@pytest.mark.parametrize("most, count", [("1", 0), ("2", 2), ("4", 2)])
def test_slots_of_gangs_keep_the_limit(most: str, count: int) -> None:
    """Two pods of two times four CPUs fit on four zones of four, each in two of them."""
    state = cluster(four_zones("best-effort"))
    pod_class = state.classes.of(limited(most, FOUR, FOUR))
    assert slots(state, pod_class, Assumptions(), slice(0, 1), 10).tolist() == [count]


def test_slots_end_where_the_next_pod_would_spread_wider() -> None:
    """Zones of six CPUs: each holds one pod of four, and what is left of them would take a third one in two zones."""
    state = cluster(
        topology(zone(0, {"cpu": 6, "memory": "8Gi"}), zone(1, {"cpu": 6, "memory": "8Gi"}), policy="best-effort")
    )
    free, kept = (
        slots(state, state.classes.of(waiting), Assumptions(), slice(0, 1), 10).tolist()
        for waiting in (pod(container(FOUR)), limited("1", FOUR))
    )
    assert (free, kept) == ([3], [2])


@pytest.mark.parametrize("value", ["0", "-1", "two", "", "1.5", "65", " 2"])
def test_anything_but_a_number_of_zones_is_refused(value: str) -> None:
    with pytest.raises(InvalidObject, match="must be a whole number from 1 to 64") as caught:
        cluster().classes.of(limited(value, FOUR))
    assert f'metadata.annotations["{KEY}"]' in str(caught.value)
