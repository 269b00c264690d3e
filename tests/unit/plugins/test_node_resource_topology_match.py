"""Arguments of NodeResourceTopologyMatch: scheduler-plugins' own pass unchanged, ours are checked, wrong ones are
named.
"""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.plugins.node_resource_topology_args import ArgumentError, FilterMode, read_arguments
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, topology_match
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, container, pod, simple_pod, topology, zone

UPSTREAM_FILE: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "NodeResourceTopologyMatchArgs",
    "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}]},
    "cacheResyncPeriodSeconds": 5,
    "discardReservedNodes": False,
    "cache": {"foreignPodsDetect": "OnlyExclusiveResources", "resyncMethod": "OnlyExclusiveResources"},
}


def test_an_upstream_file_is_taken_as_it_is() -> None:
    arguments = read_arguments(UPSTREAM_FILE)
    assert arguments.strategy.type == "MostAllocated"
    assert [(entry.name, entry.weight) for entry in arguments.strategy.resources] == [("cpu", 3), ("memory", 1)]
    assert arguments.cache_implementation == "OverReserve"


def test_without_arguments_the_kubelet_decides_and_roomy_zones_win() -> None:
    arguments = read_arguments(None)
    assert (arguments.mode, arguments.strategy.type) == (FilterMode.KUBELET, "LeastAllocated")
    assert arguments.assumptions == Assumptions(cpu_manager_static=True, memory_manager_static=True)
    assert arguments.cache_implementation == "Passthrough"


@pytest.mark.parametrize(
    "assume, expected",
    [
        ({}, Assumptions()),
        ({"cpuManagerPolicy": "none"}, Assumptions(cpu_manager_static=False)),
        ({"memoryManagerPolicy": "None"}, Assumptions(memory_manager_static=False)),
        ({"memoryGroups": "Strict"}, Assumptions(strict_memory_groups=True)),
    ],
)
def test_assumptions_about_silent_kubelets(assume: Json, expected: Assumptions) -> None:
    assert read_arguments({"assume": assume}).assumptions == expected


@pytest.mark.parametrize(
    "raw, message",
    [
        ({"filterMode": "Both"}, 'filterMode: "Both" is not allowed: must be Kubelet or Upstream'),
        ({"scoring": {}}, "scoring: there is no such field"),
        (
            {"scoringStrategy": {"type": "Fastest"}},
            (
                'scoringStrategy.type: Invalid value: "Fastest": invalid ScoringStrategyType: '
                "must be MostAllocated, BalancedAllocation, LeastAllocated or LeastNUMANodes"
            ),
        ),
        (
            {"scoringStrategy": {"resources": [{"weight": 1}]}},
            "scoringStrategy.resources[0].name: is missing",
        ),
        (
            {"preemptionMode": "Sometimes"},
            'preemptionMode: Invalid value: "Sometimes": invalid PreemptionMode: must be Disabled or Enabled',
        ),
        (
            {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 2**31}]}},
            "scoringStrategy.resources[0].weight: 2147483648 is not allowed: must be at most 2147483647",
        ),
        (
            {"assume": {"cpuManagerPolicy": "Static"}},
            'assume.cpuManagerPolicy: Invalid value: "Static": must be static or none',
        ),
        (
            {"assume": {"memoryManagerPolicy": "off"}},
            'assume.memoryManagerPolicy: Invalid value: "off": must be Static or None',
        ),
        ({"assume": {"memoryGroups": "?"}}, 'assume.memoryGroups: Invalid value: "?": must be Ignore or Strict'),
        ({"cacheResyncPeriodSeconds": -5}, "cacheResyncPeriodSeconds: -5 is not allowed: must be 0 or more"),
        (
            {"cache": {"resyncMethod": "Exclusive"}},
            ('cache.resyncMethod: "Exclusive" is not allowed: must be Autodetect, All or OnlyExclusiveResources'),
        ),
        (
            {"cache": {"informerMode": "dedicated"}},
            'cache.informerMode: "dedicated" is not allowed: must be Dedicated or Shared; did you mean Dedicated?',
        ),
        (
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpus", "weight": 2}]}},
            (
                'scoringStrategy.resources[0].name: "cpus" is not allowed: must be cpu, memory, ephemeral-storage, '
                "hugepages-* or a name with a domain such as nvidia.com/gpu; did you mean cpu?"
            ),
        ),
        ({"cacheResyncPeriodSeconds": "5"}, "cacheResyncPeriodSeconds: must be a whole number, not a string"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_argument_is_named(raw: Json, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_arguments(raw)
    assert str(caught.value) == message


class TestWhenItIsAsked:
    """Pods that no manager would look at cost nothing, except where upstream looks at them."""

    STATE = cluster(topology(zone(0, {"cpu": 8, "memory": "8Gi"})))

    @pytest.mark.parametrize(
        "waiting, asked",
        [
            (simple_pod({"cpu": 2, "memory": "1Gi"}), True),
            (pod(container(requests={"cpu": 2})), False),
            (pod(container(requests={GPU: 1}, limits={GPU: 1})), True),
            (pod(container({GPU: 0})), False),
        ],
        ids=["Guaranteed", "Burstable", "Burstable with a device", "zero devices"],
    )
    def test_filter(self, waiting: object, asked: bool) -> None:
        assert NodeResourceTopologyMatch().applies(self.STATE.classes.of(waiting)) is asked  # type: ignore[arg-type]

    def test_upstream_looks_at_everybody(self) -> None:
        plugin = topology_match(read_arguments({"filterMode": "Upstream"}))
        assert plugin.applies(self.STATE.classes.of(pod(container(requests={"cpu": 2}))))

    def test_only_guaranteed_pods_are_scored(self) -> None:
        plugin = NodeResourceTopologyMatch()
        assert plugin.applies_score(self.STATE.classes.of(simple_pod({"cpu": 2, "memory": "1Gi"})))
        assert not plugin.applies_score(self.STATE.classes.of(pod(container(requests={"cpu": 2}))))
