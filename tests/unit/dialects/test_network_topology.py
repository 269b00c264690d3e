"""`networkTopology` where a cluster has HyperNodes: tiers are theirs, by number and by name; a PodGroup may still
choose a Topology.
"""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.topology.hyper_nodes import HYPER_NODES, WITH_OTHER_NODES, hierarchy_of
from bayplan.dialects.dialect import TOPOLOGY
from bayplan.dialects.volcano.pod_group import DIALECT
from bayplan.gangs.trees import Topologies
from bayplan.kube.wire.volcano_scheduling_v1beta1 import PodGroup
from tests.builders.gangs import group_object, member
from tests.builders.hyper_nodes import hyper_node, inside, named
from tests.unit.dialects.readings import NETWORK, RACK, gang, wrong

# Tiers need not be neighbours: 2 for switches, 5 for spines.
HIERARCHY = hierarchy_of(
    [
        hyper_node("s0", 2, named("n0"), tier_name="switch"),
        hyper_node("spine", 5, inside("s0"), tier_name="volcano.sh/spine"),
    ]
)
HYPER = Topologies(NETWORK.levels, HIERARCHY)
BROKEN = Topologies(NETWORK.levels, hyper_nodes_problem="HyperNode s0: spec.tier: is missing")
PODS = [member("w0"), member("w1")]


def pod_group(asked: dict[str, Any] | None, annotations: dict[str, str] | None = None, **spec: Any) -> PodGroup:
    return group_object(PodGroup, {"networkTopology": asked, **spec}, annotations=annotations or {})


@pytest.mark.parametrize(
    "asked, required, preferred",
    [
        ({"highestTierAllowed": 2}, "switch", None),
        ({"highestTierAllowed": 4}, "switch", None),  # no HyperNode has it: the smaller ones are allowed
        ({"highestTierAllowed": 5}, "volcano.sh/spine", "switch"),
        ({"highestTierAllowed": 6}, None, None),  # spans the whole cluster
        ({"highestTierName": "switch"}, "switch", None),
        ({"highestTierName": "volcano.sh/spine"}, "volcano.sh/spine", "switch"),
        ({"highestTierName": "tier-5"}, "volcano.sh/spine", "switch"),
        ({"mode": "soft", "highestTierAllowed": 1}, None, "switch"),
        ({"mode": "hard"}, None, None),
    ],
)
def test_tiers_are_those_of_hyper_nodes(asked: dict[str, Any], required: str | None, preferred: str | None) -> None:
    found = gang(DIALECT, pod_group(asked), PODS, HYPER)
    assert (found.root.required, found.root.preferred) == (required, preferred)
    assert found.topology == (HYPER_NODES if required else WITH_OTHER_NODES if preferred else "")


def test_an_annotation_chooses_a_topology_instead() -> None:
    chosen = pod_group({"highestTierAllowed": 1}, {TOPOLOGY: "network"})
    for topologies in (HYPER, BROKEN):
        found = gang(DIALECT, chosen, PODS, topologies)
        assert (found.topology, found.root.required) == ("network", RACK)


@pytest.mark.parametrize(
    "asked, told",
    [
        ({"highestTierAllowed": 1}, "highestTierAllowed: 1 must be 2 or more"),
        ({"highestTierName": "rack"}, 'highestTierName: "rack" is not a level; known: switch, volcano.sh/spine'),
    ],
)
def test_tiers_that_no_hyper_node_has(asked: dict[str, Any], told: str) -> None:
    assert wrong(DIALECT, pod_group(asked), PODS, HYPER) == f"PodGroup ml/pg: spec.networkTopology.{told}"


class TestWhileHyperNodesAreNoTree:
    @pytest.mark.parametrize(
        "spec",
        [
            {"asked": {"highestTierAllowed": 1}},
            {"asked": {"mode": "soft"}},
            {"asked": None, "subGroupPolicy": [{"networkTopology": {"highestTierAllowed": 1}}]},
        ],
        ids=["hard", "soft", "a sub-group"],
    )
    def test_a_gang_that_asks_for_tiers_waits(self, spec: dict[str, Any]) -> None:
        told = wrong(DIALECT, pod_group(**spec), PODS, BROKEN)
        assert told.endswith(
            "networkTopology: waits until the HyperNodes are a tree; HyperNode s0: spec.tier: is missing"
        )

    def test_everybody_else_goes_on(self) -> None:
        assert gang(DIALECT, pod_group(None), PODS, BROKEN).topology == ""
