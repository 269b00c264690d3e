"""Reading a node's report: settings by precedence, zones in order, and a list of what could not
be used as written.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.cluster.reports.kubelet_settings import Assumptions, KubeletSettings, Policy, Scope
from bayplan.cluster.reports.topology_report import TopologyReport, read_report
from bayplan.cluster.reports.zone_reports import ZoneAmounts
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.bodies import Json
from tests.builders.objects import GI, GPU, zone


def read(**written: Any) -> TopologyReport:
    """A report of one zone, unless `zones` says otherwise."""
    return read_report(_object(**written))


def _object(**written: Any) -> NodeResourceTopology:
    one_zone = [zone(0, {"cpu": 1})]
    return msgspec.convert({"metadata": {"name": "n1"}, "zones": one_zone, **written}, NodeResourceTopology)


def attributes(**values: str) -> list[Json]:
    return [{"name": name, "value": value} for name, value in values.items()]


def problems(report: TopologyReport) -> list[str]:
    return [str(problem).removeprefix("NodeResourceTopology n1: ") for problem in report.remarks]


class TestPolicyAndScope:
    @pytest.mark.parametrize(
        "policies, given, expected",
        [
            pytest.param([], {}, (Policy.NONE, Scope.CONTAINER), id="nothing said"),
            pytest.param(
                ["SingleNUMANodePodLevel"], {}, (Policy.SINGLE_NUMA_NODE, Scope.POD), id="topologyPolicies name both"
            ),
            pytest.param(
                ["Restricted"], {}, (Policy.RESTRICTED, Scope.CONTAINER), id="without a level at container scope"
            ),
            pytest.param(
                ["BestEffortPodLevel", "RestrictedPodLevel"], {}, (Policy.BEST_EFFORT, Scope.POD), id="the first counts"
            ),
            pytest.param(
                ["SingleNUMANodePodLevel"],
                {"topologyManagerPolicy": "restricted"},
                (Policy.RESTRICTED, Scope.POD),
                id="an attribute overrides its own field only",
            ),
            pytest.param(
                ["RestrictedPodLevel"],
                {"topologyManagerPolicy": "strict", "topologyManagerScope": "container"},
                (Policy.RESTRICTED, Scope.CONTAINER),
                id="an invalid attribute leaves the field as it was",
            ),
        ],
    )
    def test_precedence(self, policies: list[str], given: dict[str, str], expected: tuple[Policy, Scope]) -> None:
        settings = read(topologyPolicies=policies, attributes=attributes(**given)).settings
        assert (settings.policy, settings.scope) == expected

    def test_the_last_valid_of_equal_attributes_wins(self) -> None:
        written = [
            {"name": "topologyManagerPolicy", "value": value} for value in ("restricted", "best-effort", "strictest")
        ]
        assert read(attributes=written).settings.policy is Policy.BEST_EFFORT


SINGLE = Policy.SINGLE_NUMA_NODE


class TestSpelling:
    """Every known name counts in any spelling, in `topologyPolicies` and in attributes; scheduler-plugins' own reading
    stays exact.
    """

    @pytest.mark.parametrize(
        "text, policy, scope",
        [
            ("None", Policy.NONE, Scope.CONTAINER),
            ("BestEffort", Policy.BEST_EFFORT, Scope.CONTAINER),
            ("Restricted", Policy.RESTRICTED, Scope.CONTAINER),
            ("SingleNumaNode", SINGLE, Scope.CONTAINER),
            ("SingleNUMANode", SINGLE, Scope.CONTAINER),
            ("single-numa-node", SINGLE, Scope.CONTAINER),
            ("SINGLE_NUMA_NODE", SINGLE, Scope.CONTAINER),
            ("best-effort", Policy.BEST_EFFORT, Scope.CONTAINER),
            ("SingleNUMANodeContainerLevel", SINGLE, Scope.CONTAINER),
            ("single-numa-node-pod-level", SINGLE, Scope.POD),
            ("restrictedPodLevel", Policy.RESTRICTED, Scope.POD),
            ("BESTEFFORTPODLEVEL", Policy.BEST_EFFORT, Scope.POD),
        ],
    )
    def test_means_what_it_says(self, text: str, policy: Policy, scope: Scope) -> None:
        for written in ({"topologyPolicies": [text]}, {"attributes": attributes(topologyManagerPolicy=text)}):
            report = read(**written)
            assert (report.settings.policy, report.settings.scope, problems(report)) == (policy, scope, [])

    @pytest.mark.parametrize(
        "name, value, setting, expected",
        [
            ("topologyManagerScope", "Pod", "scope", Scope.POD),
            ("cpuManagerPolicy", "Static", "cpu_static", True),
            ("memoryManagerPolicy", "static", "memory_static", True),
            ("topologyManagerOptionPreferClosestNumaNodes", "True", "prefer_closest", True),
        ],
    )
    def test_of_other_attributes(self, name: str, value: str, setting: str, expected: object) -> None:
        report = read(attributes=attributes(**{name: value}))
        assert (getattr(report.settings, setting), problems(report)) == (expected, [])

    @pytest.mark.parametrize("text", ["SingleNumaNode", "Restricted", "single-numa-node", "singleNUMAnodePodLevel"])
    def test_scheduler_plugins_ignores_other_spellings(self, text: str) -> None:
        in_policies, in_attributes = (
            read(topologyPolicies=[text]),
            read(attributes=attributes(topologyManagerScope="Pod")),
        )
        assert (in_policies.upstream_settings, in_attributes.upstream_settings) == (
            KubeletSettings(),
            KubeletSettings(),
        )


class TestUnknownPolicy:
    """A name that no kubelet has never excludes the node: attributes count, else the
    assumption, and a note says which.
    """

    @pytest.mark.parametrize(
        "policies, given, policy, scope, note",
        [
            (["Strict"], {}, SINGLE, Scope.POD, "(assume.topologyManagerPolicy and assume.topologyManagerScope)"),
            ([], {"topologyManagerPolicy": "strict"}, SINGLE, Scope.CONTAINER, "(assume.topologyManagerPolicy)"),
            (
                [],
                {"topologyManagerPolicy": "restricted", "topologyManagerScope": "machine"},
                Policy.RESTRICTED,
                Scope.POD,
                "(assume.topologyManagerScope)",
            ),
            (
                ["Strict"],
                {"topologyManagerPolicy": "restricted", "topologyManagerScope": "container"},
                Policy.RESTRICTED,
                Scope.CONTAINER,
                ", which the object states elsewhere",
            ),
            (
                ["RestrictedPodLevel"],
                {"topologyManagerPolicy": "strict"},
                Policy.RESTRICTED,
                Scope.POD,
                ", which the object states elsewhere",
            ),
        ],
    )
    def test_is_replaced_and_told(
        self, policies: list[str], given: dict[str, str], policy: Policy, scope: Scope, note: str
    ) -> None:
        report = read(topologyPolicies=policies, attributes=attributes(**given))
        assert (report.settings.policy, report.settings.scope) == (policy, scope)
        (problem,) = problems(report)
        judged = (
            f"is not known: the node is judged as {policy.text}, scope "
            f"{scope.text}{' ' if note[0] == '(' else ''}{note}"
        )
        assert judged in problem

    def test_the_configured_assumption_counts_for_unknown_and_for_silent_reports(self) -> None:
        assumed = Assumptions(policy=Policy.RESTRICTED, scope=Scope.POD)
        for written in ({"topologyPolicies": ["Strict"]}, {}):
            settings = read_report(_object(**written), assumed).settings
            assert (settings.policy, settings.scope) == (Policy.RESTRICTED, Scope.POD)


class TestSettings:
    @pytest.mark.parametrize(
        "name, value, setting, expected",
        [
            ("topologyManagerMaxNUMANodes", "16", "max_numa_nodes", 16),
            ("topologyManagerMaxNUMANodes", "+9", "max_numa_nodes", 9),
            ("topologyManagerMaxNUMANodes", "99999", "max_numa_nodes", 1024),
            ("topologyManagerOptionPreferClosestNumaNodes", "true", "prefer_closest", True),
            ("cpuManagerPolicy", "static", "cpu_static", True),
            ("cpuManagerPolicy", "none", "cpu_static", False),
            ("memoryManagerPolicy", "Static", "memory_static", True),
            ("memoryManagerPolicy", "None", "memory_static", False),
            (
                "cpuManagerPolicyOptions",
                "full-pcpus-only=true,distribute-cpus-across-numa=false",
                "cpu_options",
                frozenset({"full-pcpus-only"}),
            ),
        ],
    )
    def test_attribute(self, name: str, value: str, setting: str, expected: object) -> None:
        report = read(attributes=attributes(**{name: value}))
        assert getattr(report.settings, setting) == expected
        assert report.remarks == []

    @pytest.mark.parametrize(
        "name, value, problem",
        [
            ("topologyManagerMaxNUMANodes", "1", "expected an integer above 1"),
            ("topologyManagerMaxNUMANodes", " 8", "expected an integer above 1"),
            ("topologyManagerMaxNUMANodes", "8.0", "expected an integer above 1"),
            ("topologyManagerOptionPreferClosestNumaNodes", "yes", "expected true, false"),
            ("cpuManagerPolicy", "dynamic", "expected none, static"),
            ("memoryManagerPolicy", "on", "expected None, Static"),
        ],
    )
    def test_a_value_that_is_not_allowed_is_reported_and_changes_nothing(
        self, name: str, value: str, problem: str
    ) -> None:
        report = read(attributes=attributes(**{name: value}))
        assert report.settings == KubeletSettings()
        assert problems(report) == [f'attributes.{name}: "{value}" is ignored: {problem}']

    @pytest.mark.parametrize("name", ["topologyManagerPolicyy", "topologManagerScope"])
    def test_a_misspelt_attribute_is_told_from_one_about_something_else(self, name: str) -> None:
        (problem,) = problems(read(attributes=attributes(**{name: "none"})))
        assert problem.startswith(f"attributes.{name}: is not known and has no effect; did you mean topologyManager")

    @pytest.mark.parametrize("name", ["TopologyManagerPolicy", "topology-manager-policy", "topology_manager_policy"])
    def test_names_of_attributes_count_in_any_spelling(self, name: str) -> None:
        report = read(attributes=attributes(**{name: "restricted"}))
        assert (report.settings.policy, report.upstream_settings.policy) == (Policy.RESTRICTED, Policy.NONE)

    @pytest.mark.parametrize(
        "policies, told",
        [
            (
                ["Restricted", "RESTRICTED", "None"],
                'topologyPolicies[2]: "None" is ignored: only the first entry counts',
            ),
            (
                ["HyperThreading", "Restricted"],
                'topologyPolicies[0]: "HyperThreading" is ignored: it names no policy of a kubelet',
            ),
        ],
    )
    def test_the_first_policy_that_kubelets_have_counts_and_the_others_are_told(
        self, policies: list[str], told: str
    ) -> None:
        report = read(topologyPolicies=policies)
        assert (report.settings.policy, problems(report)) == (Policy.RESTRICTED, [told])

    def test_an_empty_scope_is_the_kubelets_default(self) -> None:
        report = read(attributes=attributes(topologyManagerPolicy="restricted", topologyManagerScope=""))
        assert report.settings.scope is Scope.CONTAINER
        assert problems(report) == ["attributes.topologyManagerScope: is empty: the kubelet's default counts"]

    def test_other_attributes_do_not_matter_here(self) -> None:
        report = read(attributes=attributes(cpu_core="0-7", nodeTopologyPodsFingerprint="pfp0v001ef46db3751d8e999"))
        assert (report.settings, report.remarks) == (KubeletSettings(), [])

    def test_what_a_node_does_not_say_is_assumed_openly(self) -> None:
        silent = read().settings
        assert (silent.cpu_static, silent.memory_static) == (None, None)
        assumed = silent.resolved(Assumptions(cpu_manager_static=True, memory_manager_static=False))
        assert (assumed.cpu_static, assumed.memory_static) == (True, False)

    def test_what_a_node_says_beats_every_assumption(self) -> None:
        outspoken = read(attributes=attributes(cpuManagerPolicy="none", memoryManagerPolicy="Static")).settings
        assumed = outspoken.resolved(Assumptions(cpu_manager_static=True, memory_manager_static=False))
        assert (assumed.cpu_static, assumed.memory_static) == (False, True)


class TestZones:
    def test_come_in_ascending_id_whatever_their_order_in_the_object(self) -> None:
        report = read(zones=[zone(8, {"cpu": 3}), zone(0, {"cpu": 1}), zone(2, {"cpu": 2})])
        assert [(each.id, each.resources["cpu"].available) for each in report.zones] == [
            (0, 1000),
            (2, 2000),
            (8, 3000),
        ]

    def test_distances_are_kept_by_id(self) -> None:
        report = read(zones=[zone(0, {}, distances={0: 10, 3: 21}), zone(3, {})])
        assert [each.costs for each in report.zones] == [{0: 10, 3: 21}, {}]

    @pytest.mark.parametrize("name", ["", "numa-0", "node-", "node-1x", "node--1", "node-64", "node-99999", "Node-1"])
    def test_a_name_that_is_no_numa_zone_is_ignored(self, name: str) -> None:
        report = read(zones=[zone(0, {"cpu": 1}), {**zone(1, {"cpu": 1}), "name": name}])
        assert [each.id for each in report.zones] == [0]
        assert problems(report) == [
            f'zones[1].name: "{name}" is not a NUMA zone name; expected node-0 to node-63: zone ignored'
        ]

    def test_sockets_and_dies_are_not_zones(self) -> None:
        report = read(zones=[{"name": "socket-0", "type": "Socket"}, zone(0, {"cpu": 1})])
        assert ([each.id for each in report.zones], report.remarks) == ([0], [])

    def test_a_zone_that_appears_twice_makes_the_report_unusable(self) -> None:
        report = read(zones=[zone(1, {"cpu": 1}), zone(1, {"cpu": 2})])
        assert not report.usable
        assert problems(report) == ['zones[1].name: "node-1" appears twice: the node\'s topology data cannot be used']

    @pytest.mark.parametrize("distance", [-1, 65_536, 10**40])
    def test_an_impossible_distance_counts_as_unknown(self, distance: int) -> None:
        report = read(zones=[zone(0, {}, distances={0: 10, 1: distance}), zone(1, {})])
        assert report.zones[0].costs == {0: 10}
        assert problems(report) == [f"zones[0].costs.node-1: {distance} is no distance: taken as unknown"]

    @pytest.mark.parametrize(
        "text, group",
        [
            ("0,1", (0, 1)),
            (" 1 , 0", (0, 1)),
            ("2", (2,)),
            ("", None),
            ("both", None),
            ("\u00b2", None),
            ("0,99", None),
        ],
    )
    def test_memory_group(self, text: str, group: tuple[int, ...] | None) -> None:
        written = {**zone(0, {}), "attributes": [{"name": "bayplan.io/memory-group", "value": text}]}
        assert read(zones=[written]).zones[0].memory_group == group


class TestAmounts:
    @pytest.mark.parametrize(
        "written, amounts",
        [
            pytest.param(
                {"capacity": "16", "allocatable": 14, "available": "6500m"},
                ZoneAmounts(16000, 14000, 6500),
                id="v1alpha2",
            ),
            pytest.param(
                {"capacity": 16, "allocatable": 14},
                ZoneAmounts(16000, 16000, 14000),
                id="the KEP: allocatable is what is left",
            ),
            pytest.param({"capacity": 16}, ZoneAmounts(16000, 16000, 16000), id="capacity alone"),
            pytest.param({"available": 6}, ZoneAmounts(6000, 6000, 6000), id="available alone"),
        ],
    )
    def test_missing_amounts_follow_from_the_others(self, written: Json, amounts: ZoneAmounts) -> None:
        report = read(zones=[{**zone(0, {}), "resources": [{"name": "cpu", **written}]}])
        assert report.zones[0].resources == {"cpu": amounts}

    def test_memory_is_counted_in_bytes_and_devices_by_piece(self) -> None:
        (found,) = read(zones=[zone(0, {"memory": "1Gi", GPU: 2})]).zones
        assert [found.resources[name].available for name in ("memory", GPU)] == [GI, 2]

    def test_the_first_of_equal_resources_counts(self) -> None:
        written = {
            **zone(0, {"cpu": 1}),
            "resources": [*zone(0, {"cpu": 1})["resources"], *zone(0, {"cpu": 2})["resources"]],
        }
        report = read(zones=[written])
        assert report.zones[0].resources["cpu"].available == 1000
        assert problems(report) == ['zones[0].resources[1].name: "cpu" appears twice in the zone: the first one counts']

    def test_a_nameless_resource_is_ignored(self) -> None:
        report = read(zones=[zone(0, {"": 1, "cpu": 2})])
        assert list(report.zones[0].resources) == ["cpu"]
        assert problems(report) == ["zones[0].resources[0].name: is missing: resource ignored"]

    @pytest.mark.parametrize(
        "written, message",
        [
            ({"available": "-2"}, 'zones[0].resources[0].available: "-2" is negative: must be 0 or more'),
            ({"capacity": "many"}, 'zones[0].resources[0].capacity: invalid quantity "many"'),
            ({"allocatable": "9Ei"}, 'zones[0].resources[0].allocatable: "9Ei" is too large'),
            ({}, 'zones[0].resources[0]: resource "cpu" has none of capacity, allocatable, available'),
        ],
    )
    def test_a_wrong_amount_is_never_read_as_zero(self, written: Json, message: str) -> None:
        with pytest.raises(InvalidObject) as caught:
            read(zones=[{**zone(0, {}), "resources": [{"name": "cpu", **written}]}])
        assert str(caught.value).startswith(f"NodeResourceTopology n1: {message}")


class TestWarnings:
    """What has no effect, or cannot be meant as it stands, is said."""

    @pytest.mark.parametrize(
        "text, problem",
        [
            ("full-pcpus-only", '"full-pcpus-only" is ignored: expected full-pcpus-only=true or full-pcpus-only=false'),
            ("full-pcpus=true", '"full-pcpus" has no effect; these have: full-pcpus-only, distribute-cpus-across-numa'),
        ],
    )
    def test_cpu_options_without_effect(self, text: str, problem: str) -> None:
        (found,) = problems(read(attributes=attributes(cpuManagerPolicyOptions=text)))
        assert found.startswith(f"attributes.cpuManagerPolicyOptions: {problem}")

    def test_a_memory_group_that_is_no_list_of_zones(self) -> None:
        written = {**zone(0, {}), "attributes": [{"name": "bayplan.io/memory-group", "value": "0;1"}]}
        assert problems(read(zones=[written])) == [
            'zones[0].attributes["bayplan.io/memory-group"]: "0;1" is ignored: expected zone ids such as 0,1'
        ]

    def test_more_available_than_allocatable_is_used_as_written(self) -> None:
        report = read(zones=[zone(0, {"cpu": (8, 6, 7)})])
        assert report.zones[0].resources["cpu"].available == 7000
        assert problems(report) == ['zones[0].resources[0].available: "7" is above allocatable "6": used as written']

    @pytest.mark.parametrize("zones", [[], {}, None, [{"name": "socket-0", "type": "Socket"}]])
    def test_a_report_without_numa_zones(self, zones: object) -> None:
        (problem,) = problems(read(zones=zones))
        assert problem.startswith("zones: holds no NUMA zone")


class TestUse:
    """By which sign a report tells what is in use."""

    @pytest.mark.parametrize(
        "resource, left, total, shown",
        [
            ({"capacity": 8, "allocatable": 6, "available": 2}, 2000, 8000, True),
            ({"capacity": 8, "allocatable": 6}, 6000, 8000, True),
            ({"allocatable": "6"}, 6000, 6000, True),
            ({"capacity": "8"}, 8000, 8000, False),
        ],
        ids=["available", "allocatable and capacity", "allocatable alone", "capacity alone"],
    )
    @pytest.mark.parametrize("keyed", [False, True], ids=["list form", "map form"])
    def test_sign(self, resource: Json, left: int, total: int, shown: bool, keyed: bool) -> None:
        zones = (
            {"node-0": {"type": "Node", "resources": {"cpu": resource}}}
            if keyed
            else [{**zone(0, {}), "resources": [{"name": "cpu", **resource}]}]
        )
        report = read(zones=zones)
        amounts = report.zones[0].resources["cpu"]
        assert (amounts.available, amounts.total_of("cpu"), report.shows_use) == (left, total, shown)
        assert problems(report) == []

    def test_an_object_of_both_forms_is_told(self) -> None:
        resources = [
            {"name": "cpu", "capacity": 8, "allocatable": 8, "available": 4},
            {"name": GPU, "capacity": 2, "allocatable": 1},
        ]
        report = read(zones=[{**zone(0, {}), "resources": resources}])
        assert report.zones[0].resources[GPU].available == 1
        assert problems(report) == [
            f"zones: {GPU} has no available, other resources have: allocatable counts as what is left"
        ]

    def test_paths_into_the_map_form_are_its_keys(self) -> None:
        zones = {"node-1": {"type": "Node", "resources": {"cpu": {"capacity": "1q"}}}}
        with pytest.raises(InvalidObject, match=r'zones\["node-1"\]\.resources\.cpu\.capacity: invalid quantity "1q"'):
            read(zones=zones)
