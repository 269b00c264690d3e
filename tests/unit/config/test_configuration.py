"""Profiles from a KubeSchedulerConfiguration: what is switched on, off and weighted, and which words a mistake gets."""

from __future__ import annotations

import pytest

from bayplan.config.configuration import ConfigurationError, configuration_of
from bayplan.plugins.node_resource_topology_args import FilterMode
from bayplan.plugins.registry import DEFAULT_WEIGHTS, FILTER_ORDER
from bayplan.scheduling.profile import Profile
from tests.builders.bodies import Json
from tests.builders.clusters import cluster, decide
from tests.builders.numatopologies import policy_pod
from tests.builders.objects import topology, zone

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def profile_with(plugins: Json | None = None, config: list[Json] | None = None) -> Profile:
    written = {"schedulerName": "numa", "plugins": plugins or {}, "pluginConfig": config or []}
    return configuration_of({**HEADER, "profiles": [written]}).profiles["numa"]


def filters(profile: Profile) -> list[str]:
    return [plugin.name for plugin in profile.filters]


def weights(profile: Profile) -> dict[str, int]:
    return {plugin.name: weight for plugin, weight in profile.scores}


def names(*plugins: str) -> list[Json]:
    return [{"name": plugin} for plugin in plugins]


def test_an_empty_file_is_the_default_profile() -> None:
    (profile,) = configuration_of(HEADER).profiles.values()
    expected = {**DEFAULT_WEIGHTS, "LeastNUMANodes": 10}
    assert (profile.name, filters(profile), weights(profile)) == ("bayplan", list(FILTER_ORDER), expected)


@pytest.mark.parametrize(
    "arguments, fewer_zones_first",
    [
        ({}, True),
        ({"filterMode": "Kubelet"}, True),
        ({"filterMode": "Upstream"}, False),
        ({"scoringStrategy": {"type": "LeastAllocated"}}, False),
        ({"scoringStrategy": {"type": "LeastNUMANodes"}}, False),
    ],
)
def test_fewer_zones_come_first_unless_a_strategy_is_chosen(arguments: Json, *, fewer_zones_first: bool) -> None:
    profile = profile_with(config=[{"name": "NodeResourceTopologyMatch", "args": arguments}])
    assert ("LeastNUMANodes" in weights(profile)) is fewer_zones_first


def test_each_scheduler_name_has_its_profile() -> None:
    written = [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": {"filter": {"disabled": names("*")}}}]
    profiles = configuration_of({**HEADER, "profiles": written}).profiles
    assert {name: len(profile.filters) for name, profile in profiles.items()} == {"a": len(FILTER_ORDER), "b": 0}


@pytest.mark.parametrize(
    "plugins, left",
    [
        pytest.param(
            {"filter": {"disabled": names("NodePorts", "NodeName")}}, len(FILTER_ORDER) - 2, id="some filters off"
        ),
        pytest.param({"filter": {"disabled": names("*")}}, 0, id="all filters off"),
        pytest.param({"multiPoint": {"disabled": names("*")}}, 0, id="everything off everywhere"),
        pytest.param(
            {"multiPoint": {"disabled": names("*"), "enabled": names("NodeResourceTopologyMatch")}}, 1, id="only ours"
        ),
        pytest.param(
            {"multiPoint": {"disabled": names("*")}, "filter": {"enabled": names("NodePorts", "NodeName")}},
            2,
            id="off everywhere, two on again",
        ),
    ],
)
def test_filters_are_switched_on_and_off(plugins: Json, left: int) -> None:
    assert len(profile_with(plugins).filters) == left


def test_filters_are_asked_in_bayplans_order_however_they_are_listed() -> None:
    plugins = {"filter": {"disabled": names("*"), "enabled": names("NodeResourcesFit", "NodeUnschedulable")}}
    assert filters(profile_with(plugins)) == ["NodeUnschedulable", "NodeResourcesFit"]


def test_weights_are_those_written_or_the_defaults() -> None:
    plugins = {
        "score": {
            "disabled": names("NodeAffinity"),
            "enabled": [{"name": "NodeResourceTopologyMatch", "weight": 7}, {"name": "TaintToleration"}],
        }
    }
    assert weights(profile_with(plugins)) == {
        "TaintToleration": DEFAULT_WEIGHTS["TaintToleration"],
        "NodeResourcesFit": 1,
        "NodeResourceTopologyMatch": 7,
        "LeastNUMANodes": 35,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
    }


@pytest.mark.parametrize(
    "plugins, honoured",
    [
        ({}, True),
        ({"filter": {"enabled": names("numa-aware")}}, True),
        ({"multiPoint": {"disabled": names("numa-aware")}}, False),
        ({"filter": {"disabled": names("*")}}, False),
    ],
    ids=["not named", "enabled", "disabled", "everything disabled"],
)
def test_a_policy_that_a_pod_asks_for_is_honoured_unless_the_plugin_is_disabled(
    plugins: Json, *, honoured: bool
) -> None:
    state = cluster(
        topology(zone(0, {"cpu": 8, "memory": "8Gi"}), name="best-effort", policy="best-effort"),
        topology(zone(0, {"cpu": 4, "memory": "8Gi"}), name="restricted", policy="restricted"),
    )
    profile = profile_with(plugins)
    decision = decide(state, policy_pod("restricted", 2), profile)
    assert (profile.compares_policies, decision.node == "restricted") == (honoured, honoured)


def test_arguments_reach_the_plugin() -> None:
    config = [{"name": "NodeResourceTopologyMatch", "args": {"filterMode": "Upstream"}}]
    topology = profile_with(config=config).topology
    assert topology is not None
    assert topology.arguments.mode is FilterMode.UPSTREAM


def test_extension_points_that_bayplan_does_not_have_are_accepted() -> None:
    """Files written for scheduler-plugins name them."""
    assert profile_with({"reserve": {"enabled": names("NodeResourceTopologyMatch")}, "queueSort": {}}).filters


def topology_match(**arguments: object) -> Json:
    return {"name": "NodeResourceTopologyMatch", "args": arguments}


@pytest.mark.parametrize(
    "raw, message",
    [
        (
            {**HEADER, "kind": "Deployment"},
            (
                "apiVersion, kind: 'kubescheduler.config.k8s.io/v1 Deployment'; "
                "expected kubescheduler.config.k8s.io/v1 KubeSchedulerConfiguration"
            ),
        ),
        ({**HEADER, "profile": []}, "profile: there is no such field; did you mean profiles?"),
        ([], "document: must be a mapping, not a list"),
        (
            {**HEADER, "profiles": [{"schedulerName": 5}]},
            "profiles[0].schedulerName: must be a string, not a whole number",
        ),
        ({**HEADER, "profiles": [{}, {}]}, "profiles[1].schedulerName: 'bayplan' appears twice"),
        ({**HEADER, "profiles": [{"schedulerName": ""}]}, "profiles[0].schedulerName: is empty: no pod can name it"),
    ],
    ids=["another kind", "unknown field", "no object", "wrong type", "same name twice", "no name"],
)
def test_a_wrong_file_is_named_by_field(raw: object, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configuration_of(raw)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "plugins, config, message",
    [
        (
            {"filter": {"enabled": names("CapacityScheduling")}},
            [{"name": "Trimaran"}],
            (
                "profiles[0]: bayplan has no plugin CapacityScheduling, Trimaran; it has ImageLocality, "
                "InterPodAffinity, NUMAZoneLimit, NodeAffinity, NodeDeclaredFeatures, NodeName, NodePorts, "
                "NodeResourceTopologyMatch, NodeResourcesBalancedAllocation, NodeResourcesFit, "
                "NodeUnschedulable, NodeVolumeLimits, PodTopologySpread, TaintToleration, VolumeBinding, "
                "VolumeRestrictions, VolumeZone, numa-aware"
            ),
        ),
        (
            {"score": {"disabled": names("NodeAfinity", "DynamicResources", "*")}},
            [],
            (
                "profiles[0]: bayplan has no plugin NodeAfinity; it has ImageLocality, InterPodAffinity, "
                "NUMAZoneLimit, "
                "NodeAffinity, NodeDeclaredFeatures, NodeName, NodePorts, "
                "NodeResourceTopologyMatch, NodeResourcesBalancedAllocation, NodeResourcesFit, "
                "NodeUnschedulable, NodeVolumeLimits, PodTopologySpread, TaintToleration, VolumeBinding, "
                "VolumeRestrictions, VolumeZone, numa-aware; did you mean NodeAffinity?"
            ),
        ),
        (
            {},
            [{"name": "NodeName"}, {"name": "NodeResourceTopologyMatch", "args": {"filterMode": "Both"}}],
            'profiles[0].pluginConfig[1].args.filterMode: "Both" is not allowed: must be Kubelet or Upstream',
        ),
        (
            {"multiPoint": {"enabled": names("Coscheduling")}},
            [],
            "profiles[0]: Coscheduling: gangs need no plugin; remove it",
        ),
        (
            {},
            [{"name": "NodeResourceTopologyMatch", "args": {"kind": "CoschedulingArgs"}}],
            (
                'profiles[0].pluginConfig[0].args.kind: "CoschedulingArgs" is not allowed: '
                "must be NodeResourceTopologyMatchArgs"
            ),
        ),
        (
            {},
            [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"resources": [{"name": "mem"}]}}}],
            (
                'profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].name: "mem" is not allowed: must be '
                "cpu, memory, ephemeral-storage, hugepages-* or a name with a domain such as nvidia.com/gpu"
            ),
        ),
        (
            {},
            [{"name": "NodePorts", "args": {"range": "80-90"}}],
            "profiles[0].pluginConfig[0].args.range: NodePorts takes no such argument",
        ),
        (
            {},
            [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Tetris"}}}],
            (
                'profiles[0].pluginConfig[0].args.scoringStrategy.type: Invalid value: "Tetris": '
                "must be LeastAllocated, MostAllocated, RequestedToCapacityRatio"
            ),
        ),
        (
            {"score": {"enabled": [{"name": "NodeAffinity", "weight": -1}]}},
            [],
            "profiles[0].plugins.score.enabled[0].weight: -1 is not allowed: must be 0 to 1000000",
        ),
        (
            {"multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 10**12}]}},
            [],
            "profiles[0].plugins.multiPoint.enabled[0].weight: 1000000000000 is not allowed: must be 0 to 1000000",
        ),
    ],
    ids=[
        "unknown plugins",
        "a slip in what is switched off",
        "wrong argument",
        "scheduler-plugins for gangs",
        "arguments of another plugin",
        "unknown resource",
        "needless argument",
        "unknown strategy",
        "negative weight",
        "huge weight",
    ],
)
def test_a_wrong_profile_is_named_by_field(plugins: Json, config: list[Json], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        profile_with(plugins, config)
    assert str(caught.value) == message


def test_a_file_that_switches_everything_off_and_what_it_needs_on_again_is_taken() -> None:
    """Stock files must switch these two on: kube-scheduler does not start without them."""
    plugins = {
        "multiPoint": {
            "disabled": names("*"),
            "enabled": names("PrioritySort", "DefaultBinder", "NodeResourcesFit"),
        }
    }
    assert filters(profile_with(plugins)) == ["NodeResourcesFit"]


@pytest.mark.parametrize(
    "profile, remarks",
    [
        (
            {"pluginConfig": [{"name": "DefaultPreemption", "args": {}}]},
            (
                (
                    "profiles[0]: arguments of DefaultPreemption change nothing: all nodes are looked at, in the order"
                    " of what victims there cost at least"
                ),
            ),
        ),
        (
            {"pluginConfig": [topology_match(cacheResyncPeriodSeconds=5, cache={"informerMode": "Shared"})]},
            (
                (
                    "profiles[0]: cacheResyncPeriodSeconds, cache of NodeResourceTopologyMatch changes nothing:"
                    " only filterMode Upstream has scheduler-plugins' caches"
                ),
            ),
        ),
        ({"pluginConfig": [topology_match(filterMode="Upstream", discardReservedNodes=True)]}, ()),
        ({}, ()),
    ],
    ids=["preemption", "caches without their mode", "caches", "nothing"],
)
def test_what_changes_nothing_is_said(profile: Json, remarks: tuple[str, ...]) -> None:
    assert configuration_of({**HEADER, "profiles": [profile]}).remarks == remarks


def test_an_argument_that_does_not_exist_is_named_by_its_path() -> None:
    with pytest.raises(ConfigurationError) as caught:
        profile_with(config=[topology_match(cache={"informer": "Shared"})])
    assert (
        str(caught.value)
        == "profiles[0].pluginConfig[0].args.cache.informer: there is no such field; did you mean informerMode?"
    )


def test_a_profile_for_the_default_scheduler_has_kube_schedulers_scores() -> None:
    written = [{"schedulerName": "default-scheduler"}, {"schedulerName": "bayplan"}]
    stock, own = configuration_of({**HEADER, "profiles": written}).profiles.values()
    assert weights(stock) == {**weights(own), "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1}
    assert (stock.spread is not None, own.spread is not None) == (True, False)


def test_its_scores_can_be_disabled_and_weighted_like_all_others() -> None:
    heavier = [{"name": "NodeResourcesBalancedAllocation", "weight": 5}]
    plugins = {"score": {"disabled": names("ImageLocality"), "enabled": heavier}}
    spread = {"name": "PodTopologySpread", "args": {"defaultingType": "List"}}
    written = {"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": [spread]}
    (profile,) = configuration_of({**HEADER, "profiles": [written]}).profiles.values()
    assert "ImageLocality" not in weights(profile)
    assert (weights(profile)["NodeResourcesBalancedAllocation"], profile.spread) == (5, None)
