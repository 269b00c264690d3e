"""Arguments of plugins that have only a few: what is taken, and what is refused with the field's name."""

from __future__ import annotations

import pytest

from bayplan.plugins.base import FilterPlugin
from bayplan.plugins.inter_pod_affinity import InterPodAffinity
from bayplan.plugins.node_affinity import NodeAffinity
from bayplan.plugins.node_resource_topology_args import ArgumentError
from bayplan.plugins.node_resources_fit import NodeResourcesFit
from bayplan.plugins.pod_topology_spread import SYSTEM_DEFAULTS, DefaultConstraint, PodTopologySpread
from bayplan.plugins.registry import build_plugin
from bayplan.plugins.resource_scores import Strategy
from tests.builders.bodies import Json

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1"}


@pytest.mark.parametrize(
    "name, arguments, plugin",
    [
        ("InterPodAffinity", None, InterPodAffinity(1, ignore_preferred_terms_of_existing_pods=False)),
        (
            "InterPodAffinity",
            {**HEADER, "hardPodAffinityWeight": 40, "ignorePreferredTermsOfExistingPods": True},
            InterPodAffinity(40, ignore_preferred_terms_of_existing_pods=True),
        ),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}, NodeResourcesFit(most_allocated=True)),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "resources": [{"name": "example.com/gpu", "weight": 5}, {"name": "cpu"}],
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                    },
                },
                "ignoredResources": ["example.com/fpga"],
                "ignoredResourceGroups": ["example.org"],
            },
            NodeResourcesFit(
                strategy=Strategy(
                    "RequestedToCapacityRatio", (("example.com/gpu", 5), ("cpu", 1)), ((0, 0), (100, 10))
                ),
                ignored=frozenset({"example.com/fpga"}),
                ignored_groups=frozenset({"example.org"}),
            ),
        ),
        ("NodeAffinity", {"addedAffinity": {}}, NodeAffinity()),
        ("PodTopologySpread", None, PodTopologySpread()),
        ("PodTopologySpread", {**HEADER, "defaultingType": "List", "defaultConstraints": []}, PodTopologySpread()),
        ("PodTopologySpread", {"defaultingType": "System"}, PodTopologySpread(SYSTEM_DEFAULTS)),
        (
            "PodTopologySpread",
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {
                        "maxSkew": 2,
                        "topologyKey": "rack",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "nodeTaintsPolicy": "Honor",
                    }
                ],
            },
            PodTopologySpread((DefaultConstraint("rack", 2, honors_taints=True),)),
        ),
    ],
)
def test_kube_schedulers_arguments_are_taken(name: str, arguments: Json | None, plugin: FilterPlugin) -> None:
    assert build_plugin(name, arguments) == plugin


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("InterPodAffinity", {"weight": 1}, "weight: InterPodAffinity takes no such argument"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.requestedToCapacityRatio.shape: at least one point must be specified",
        ),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 50, "score": 0}, {"utilization": 50, "score": 11}]
                    },
                }
            },
            "scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: 11: must be 0 to 10",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources[0].weight: Invalid value: 101: must be 1 to 100",
        ),
        ("NodeAffinity", {"addedAffinity": [1]}, "addedAffinity: must be a mapping, not a list"),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": 0},
            "bindTimeoutSeconds: Invalid value: 0: must be a whole number of 1 or more",
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 101},
            "hardPodAffinityWeight: Invalid value: 101: must be a whole number from 0 to 100",
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": True},
            "hardPodAffinityWeight: Invalid value: True: must be a whole number from 0 to 100",
        ),
        (
            "InterPodAffinity",
            {"ignorePreferredTermsOfExistingPods": "yes"},
            "ignorePreferredTermsOfExistingPods: Invalid value: 'yes': must be true or false",
        ),
        ("PodTopologySpread", {"skew": 1}, "skew: PodTopologySpread takes no such argument"),
        (
            "PodTopologySpread",
            {"defaultingType": "None"},
            'defaultingType: Invalid value: "None": must be System or List',
        ),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]},
            (
                'defaultConstraints[0].whenUnsatisfiable: Invalid value: "DoNotSchedule": must be ScheduleAnyway;'
                " set other constraints on the pods"
            ),
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "System", "defaultConstraints": [{"maxSkew": 1}]},
            "defaultConstraints: must be empty if defaultingType is System",
        ),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"maxSkew": 0, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}]},
            "defaultConstraints[0].maxSkew: Required value: a label of nodes and a skew of 1 or more",
        ),
    ],
)
def test_others_are_refused(name: str, arguments: Json, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        build_plugin(name, arguments)
    assert str(caught.value) == message
