"""Volcano's scheduler configuration as a profile: what its plugins become, and what is said about the others."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.config.configuration import Configuration, ConfigurationError, configuration_of
from tests.builders.clusters import decide
from tests.builders.numatopologies import machine, numatopology, policy_pod, volcano_cluster
from tests.builders.objects import container

# As the user guide of the numa-aware plugin has it, beside Volcano's own default.
GUIDE: dict[str, Any] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]},
        {
            "plugins": [
                {"name": "overcommit"},
                {"name": "drf", "enablePreemptable": False},
                {"name": "predicates"},
                {"name": "proportion"},
                {"name": "nodeorder"},
                {"name": "numa-aware", "arguments": {"weight": 10}},
            ]
        },
    ],
}


def read(*plugins: dict[str, Any], actions: str = "allocate") -> Configuration:
    return configuration_of({"actions": actions, "tiers": [{"plugins": list(plugins)}]})


def scores(configuration: Configuration) -> dict[str, int]:
    return {plugin.name: weight for plugin, weight in configuration.profiles["volcano"].scores}


def test_the_guides_file() -> None:
    found = configuration_of(GUIDE)
    profile = found.profiles["volcano"]
    assert [plugin.name for plugin in profile.filters] == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "NodeResourceTopologyMatch",
        "NUMAZoneLimit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "numa-aware",
    ]
    assert scores(found) == {
        "NodeResourcesFit": 1,
        "NodeAffinity": 2,
        "InterPodAffinity": 2,
        "TaintToleration": 3,
        "PodTopologySpread": 2,
        "numa-aware": 10,
    }
    assert found.remarks == (
        (
            "bayplan has no counterpart for the plugins conformance, drf, overcommit, proportion "
            "of Volcano: they have no effect"
        ),
    )


def test_the_config_map_that_holds_it() -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: numa-aware\n    arguments:\n      weight: 3\n"
    assert scores(configuration_of({"kind": "ConfigMap", "data": {"volcano-scheduler.conf": text}})) == {
        "numa-aware": 3
    }


def test_the_kubelet_is_asked_whatever_the_file_says() -> None:
    filters = [plugin.name for plugin in read({"name": "gang"}).profiles["volcano"].filters]
    assert filters == ["NodeResourcesFit", "NodeResourceTopologyMatch", "NUMAZoneLimit", "numa-aware"]


@pytest.mark.parametrize(
    "plugin, honoured",
    [
        ({"name": "gang"}, True),
        ({"name": "numa-aware"}, True),
        ({"name": "numa-aware", "enablePredicate": False}, False),
    ],
    ids=["not in the file", "in the file", "switched off"],
)
def test_the_policy_of_a_pod_is_honoured_unless_the_file_switches_that_off(
    plugin: dict[str, Any], *, honoured: bool
) -> None:
    assert read(plugin).profiles["volcano"].compares_policies is honoured


# -- compatibility: volcano
# ----------------------------------------------------------------------------------------------

TOPOLOGY_MATCH = "NodeResourceTopologyMatch"
REMARK = (
    "numa-aware with compatibility: volcano answers as Volcano does, so NodeResourceTopologyMatch is off:"
    " kubelets may refuse what it admits"
)


def own_profile(compatibility: str, **plugins: Any) -> Configuration:
    """The profile that the guide shows, with further plugins switched on and off."""
    switches = {"multiPoint": {"enabled": [{"name": "numa-aware"}]}, **plugins}
    arguments = [{"name": "numa-aware", "args": {"weight": 10, "compatibility": compatibility}}]
    return configuration_of(
        {"profiles": [{"schedulerName": "volcano", "plugins": switches, "pluginConfig": arguments}]}
    )


def volcanos_file(compatibility: str) -> Configuration:
    arguments = {"weight": 10, "compatibility": compatibility}
    return read({"name": "predicates"}, {"name": "numa-aware", "arguments": arguments})


@pytest.mark.parametrize("compatibility, chosen", [("kubelet", "roomy"), ("volcano", "starved")])
@pytest.mark.parametrize("configured", [own_profile, volcanos_file])
def test_a_starved_best_effort_node_is_best_for_volcano(configured: Any, compatibility: str, chosen: str) -> None:
    """It has 3 CPUs for 4: Volcano admits the pod, counts no zone at all, and finds nothing better.

    Its kubelet would refuse.
    """
    state = volcano_cluster(
        numatopology("roomy", machine(2, 4), policy="best-effort"),
        numatopology("starved", machine(2, 4), policy="best-effort", free="0-2"),
    )
    profile = configured(compatibility).profiles["volcano"]
    assert decide(state, policy_pod("best-effort", 4), profile).node == chosen


@pytest.mark.parametrize("compatibility, fits", [("kubelet", False), ("volcano", True)])
@pytest.mark.parametrize("configured", [own_profile, volcanos_file])
def test_volcano_does_not_look_at_init_containers(configured: Any, compatibility: str, *, fits: bool) -> None:
    state = volcano_cluster(numatopology("n1", machine(2, 4)))
    large = container({"cpu": 5, "memory": "1Gi"}, "larger-than-a-zone")
    waiting = policy_pod("single-numa-node", 2, init=[large])
    assert decide(state, waiting, configured(compatibility).profiles["volcano"]).placed is fits


@pytest.mark.parametrize(
    "found, remarks",
    [
        pytest.param(volcanos_file("volcano"), (REMARK,), id="Volcano's file"),
        pytest.param(volcanos_file("kubelet"), (), id="Volcano's file, as the kubelet does"),
        pytest.param(
            own_profile("volcano"), (f"profiles[0]: {REMARK}; who wants both enables it by name",), id="a profile"
        ),
        pytest.param(
            own_profile("volcano", filter={"disabled": [{"name": TOPOLOGY_MATCH}]}), (), id="switched off in the file"
        ),
    ],
)
def test_who_asks_for_volcanos_answers_is_told_what_is_off(found: Configuration, remarks: tuple[str, ...]) -> None:
    assert found.remarks == remarks


def test_who_wants_both_enables_the_other_by_name() -> None:
    found = own_profile("volcano", filter={"enabled": [{"name": TOPOLOGY_MATCH}]})
    profile = found.profiles["volcano"]
    assert TOPOLOGY_MATCH in [plugin.name for plugin in profile.filters]
    assert TOPOLOGY_MATCH not in [plugin.name for plugin, _ in profile.scores]
    assert found.remarks == ()


# -- scores and remarks
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plugin, weights",
    [
        pytest.param({"name": "binpack", "arguments": {"binpack.weight": 5}}, {"NodeResourcesFit": 5}, id="binpack"),
        pytest.param(
            {"name": "nodeorder", "arguments": {"leastrequested.weight": 0, "podaffinity.weight": 7}},
            {"NodeAffinity": 2, "InterPodAffinity": 7, "TaintToleration": 3, "PodTopologySpread": 2},
            id="weights of nodeorder",
        ),
        pytest.param({"name": "numa-aware", "enableNodeOrder": False}, {}, id="switched off"),
        pytest.param({"name": "numa-aware", "enabledVictim": False}, {"numa-aware": 1}, id="odd spelling"),
    ],
)
def test_scores(plugin: dict[str, Any], weights: dict[str, int]) -> None:
    assert scores(read(plugin)) == weights


@pytest.mark.parametrize(
    "plugin, actions, remark",
    [
        (
            {"name": "numa-aware", "arguments": {"weight": "10"}},
            "allocate",
            "numa-aware: weight: '10' is no whole number: taken as 1, as Volcano does",
        ),
        (
            {"name": "binpack", "arguments": {"binpack.weight": 5, "binpack.cpu": 3, "binpack.resources": "a.b/gpu"}},
            "allocate",
            (
                "bayplan has no counterpart for these arguments, they have no effect: binpack: "
                "binpack.cpu, binpack.resources"
            ),
        ),
        (
            {"name": "nodeorder", "arguments": {"mostrequested.weight": 0, "balancedresource.weight": 2}},
            "allocate",
            "bayplan has no counterpart for these arguments, they have no effect: nodeorder: balancedresource.weight",
        ),
        (
            {"name": "numa-aware", "arguments": {"numa-aware.weight": 5}},
            "allocate",
            "bayplan has no counterpart for these arguments, they have no effect: numa-aware: numa-aware.weight",
        ),
        (
            {"name": "predicates", "enablePredicates": False},
            "allocate",
            (
                "tiers[0].plugins[0].enablePredicates: is no field of a plugin and has no effect, as with Volcano "
                "(perhaps enablePredicate is meant)"
            ),
        ),
        (
            {"name": "gang"},
            "enqueue, allocate, preempt, reclaim",
            (
                "the actions preempt, reclaim have no effect: this profile evicts no pods; a KubeSchedulerConfiguration"
                " with `preemption: On` does"
            ),
        ),
    ],
)
def test_remarks(plugin: dict[str, Any], actions: str, remark: str) -> None:
    assert read(plugin, actions=actions).remarks == (remark,)


@pytest.mark.parametrize(
    "raw, problem",
    [
        ({"tiers": [{"plugins": [{"name": "gang", "enablePredicate": "no"}]}]}, "must be true or false"),
        ({"tiers": [{"plugins": [{}]}]}, "tiers[0].plugins[0].name: is missing"),
        ({"tiers": "gang"}, "tiers: must be a list, not a string"),
        ({"tiers": [], "actions": "allocate, evict"}, 'actions: "evict" is no action; expected enqueue, allocate'),
        ({"tiers": [{"plugins": [{"name": "numa-aware", "arguments": {"weight": -1}}]}]}, "weight: -1 is not allowed"),
        (
            {"tiers": [{"plugins": [{"name": "numa-aware", "arguments": {"matchPolicyless": "yes"}}]}]},
            "numa-aware: matchPolicyless: must be true or false, not a string",
        ),
        ({"data": {"other": ""}}, 'data["volcano-scheduler.conf"]: is missing in the ConfigMap'),
        ({"data": {"volcano-scheduler.conf": "a: ["}}, "is not valid YAML"),
    ],
)
def test_bad_input_is_named(raw: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        configuration_of(raw)
    assert problem in str(raised.value)
