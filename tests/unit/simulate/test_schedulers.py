"""The schedulers that are compared differ in what they look at: reports, zones, and their own promises."""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.intake import LEDGER, OVER_RESERVE
from bayplan.plugins.node_resource_topology_args import FilterMode
from bayplan.plugins.node_resource_topology_match import NAME, NodeResourceTopologyMatch
from bayplan.simulate.schedulers import (
    BAYPLAN,
    BLIND,
    ON_REQUEST,
    SCHEDULERS,
    UNCACHED,
    UNORDERED,
    UPSTREAM,
    VOLCANO,
    scheduler_named,
)
from tests.builders.clusters import cluster, decide
from tests.builders.objects import Amounts, simple_pod, topology, zone

HALF: Amounts = {"cpu": 4, "memory": "4Gi"}


@pytest.mark.parametrize(
    "name, reads_reports, keeps_ledger, knows_gangs",
    [(BLIND, False, False, False), (UPSTREAM, True, False, False), (BAYPLAN, True, True, True)],
)
def test_what_each_looks_at(name: str, reads_reports: bool, keeps_ledger: bool, knows_gangs: bool) -> None:
    scheduler = scheduler_named(name)
    assert scheduler.name == name
    looks_at = (scheduler.reads_reports, scheduler.keeps_ledger, scheduler.knows_gangs)
    assert looks_at == (reads_reports, keeps_ledger, knows_gangs)


@pytest.mark.parametrize("name", [*SCHEDULERS, *ON_REQUEST])
def test_whose_binds_reach_kubelets_together(name: str) -> None:
    assert (scheduler_named(name).session > 0) is (name in (VOLCANO, UNORDERED))


def test_each_is_described_in_one_line() -> None:
    assert list(SCHEDULERS) == [BLIND, UPSTREAM, BAYPLAN]
    assert all(text and "\n" not in text for text in (*SCHEDULERS.values(), *ON_REQUEST.values()))


@pytest.mark.parametrize("name, books, period", [(UPSTREAM, OVER_RESERVE, 5.0), (UNCACHED, LEDGER, 5.0)])
def test_upstream_runs_as_its_readme_configures_it_and_without_its_cache_on_request(
    name: str, books: str, period: float
) -> None:
    scheduler = scheduler_named(name)
    assert scheduler.profile.topology is not None
    arguments = scheduler.profile.topology.arguments
    assert (arguments.reports.accounting, arguments.reports.resync_period) == (books, period)
    assert arguments.strategy.type == "LeastAllocated"
    assert not scheduler.keeps_ledger


def test_blind_has_every_plugin_but_the_one_for_zones() -> None:
    blind, bayplan = (scheduler_named(name).profile for name in (BLIND, BAYPLAN))
    assert [plugin.name for plugin in blind.filters] == [
        plugin.name for plugin in bayplan.filters if plugin.name not in (NAME, "numa-aware", "NUMAZoneLimit")
    ]
    assert [(plugin.name, weight) for plugin, weight in blind.scores] == [
        (plugin.name, weight) for plugin, weight in bayplan.scores if plugin.name not in (NAME, "LeastNUMANodes")
    ]
    assert blind.topology is None


@pytest.mark.parametrize("name, mode", [(UPSTREAM, FilterMode.UPSTREAM), (BAYPLAN, FilterMode.KUBELET)])
def test_upstream_and_bayplan_differ_in_the_verdict_about_zones(name: str, mode: FilterMode) -> None:
    found = scheduler_named(name).profile.topology
    assert isinstance(found, NodeResourceTopologyMatch)
    assert found.arguments.mode is mode


@pytest.mark.parametrize("name, placed", [(BLIND, True), (UPSTREAM, False), (BAYPLAN, False)])
def test_blind_sends_a_pod_where_no_zone_holds_it(name: str, placed: bool) -> None:
    small = [zone(number, {"cpu": 4, "memory": "8Gi"}) for number in (0, 1)]
    state = cluster(topology(*small))
    assert decide(state, simple_pod({"cpu": 6, "memory": "4Gi"}), scheduler_named(name).profile).placed is placed


@pytest.mark.parametrize("name, placed", [(UPSTREAM, True), (BAYPLAN, False)])
def test_upstream_does_not_judge_policy_restricted(name: str, placed: bool) -> None:
    """Three CPUs are left in each zone: four of them would span zones without need, which the kubelet refuses."""
    fragmented = [zone(number, {"cpu": (8, 8, 3), "memory": "8Gi"}) for number in (0, 1)]
    state = cluster(topology(*fragmented, policy="restricted"))
    assert decide(state, simple_pod(HALF), scheduler_named(name).profile).placed is placed
