"""scheduler-plugins' preemption view on a node with two zones; `test_nrt_preemption.py` has the recorded cases."""

from __future__ import annotations

import pytest

from bayplan.cluster.pods.request import amount_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology, resources_of, zones_of
from tests.builders.objects import GPU, Amounts, container, pod, simple_pod, topology, zone
from tests.conformance.upstream_preemption import (
    REFUSAL,
    CannotSimulate,
    Container,
    after_evictions,
    filter_view,
)

REPORT = topology(zone(0, {"cpu": (8, 8, 1), GPU: (2, 2, 0)}), zone(1, {"cpu": (8, 8, 2), GPU: (2, 2, 0)}))
BURSTABLE = pod(container(requests={"cpu": 2, GPU: 1}, limits={GPU: 1}), name="burst")


def at(name: str, zone_id: int, of: str = "main") -> dict[Container, int]:
    return {("default", name, of): zone_id}


def left(report: NodeResourceTopology | None) -> list[dict[str, int]]:
    assert report is not None
    return [
        {name: amount_of(name, each.available or 0) for name, each in resources_of(zone)} for zone in zones_of(report)
    ]


@pytest.mark.parametrize(
    "victims, placement, after",
    [
        ([simple_pod({"cpu": 4}, "a")], at("a", 0), "no resources to add"),  # no memory limit: not Guaranteed
        ([simple_pod({"cpu": 4, "memory": 1}, "a")], at("a", 0), [{"cpu": 5000, GPU: 0}, {"cpu": 2000, GPU: 0}]),
        ([simple_pod({"cpu": 4, "memory": 1}, "a")], at("a", -1), "no resources to add"),
        ([simple_pod({"cpu": 4, "memory": 1}, "a")], at("b", 0), "no resources to add"),
        ([simple_pod({"cpu": 8, "memory": 1}, "a")], at("a", 0), "exceeds NUMA allocatable"),
        ([BURSTABLE], at("burst", 1), [{"cpu": 1000, GPU: 0}, {"cpu": 2000, GPU: 1}]),
        ([BURSTABLE], {}, "no containers found"),
        ([BURSTABLE], None, "numa placement info not found"),
        ([], at("a", 0), "no victims found"),
    ],
)
def test_victims_give_their_exclusive_amounts_back(
    victims: list[Pod], placement: dict[Container, int] | None, after: list[dict[str, int]] | str
) -> None:
    if isinstance(after, str):
        with pytest.raises(CannotSimulate, match=after):
            after_evictions(REPORT, victims, placement)
    else:
        assert left(after_evictions(REPORT, victims, placement)) == after


def test_sidecars_give_nothing_back() -> None:
    amounts: Amounts = {"cpu": 2, "memory": "1Gi"}
    victim = pod(container(amounts), name="a", init=[container(amounts, "proxy", sidecar=True)])
    placement = at("a", 0) | at("a", 1, "proxy")
    assert left(after_evictions(REPORT, [victim], placement)) == [{"cpu": 3000, GPU: 0}, {"cpu": 2000, GPU: 0}]


@pytest.mark.parametrize(
    "mode, placement, refusal, counts",
    [
        ("Disabled", at("a", 0), "", True),
        ("Enabled", None, "", False),
        ("Enabled", at("a", 0), "", False),
        ("Enabled", at("b", 0), REFUSAL, False),
    ],
)
def test_only_refusals_outside_a_preemption_count_against_the_node(
    mode: str, placement: dict[Container, int] | None, refusal: str, counts: bool
) -> None:
    view = filter_view(REPORT, [simple_pod({"cpu": 4, "memory": 1}, "a")], placement, mode)
    assert view.refusal.startswith(refusal)
    assert bool(view.refusal) == bool(refusal)
    assert view.counts_against_node is counts
