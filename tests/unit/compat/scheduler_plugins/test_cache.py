"""scheduler-plugins' caches, told as stories of a node with two zones.

The recorded ones are under `tests/conformance`.
"""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.pods.request import amount_of
from bayplan.cluster.reports.fingerprint import ATTRIBUTE, METHOD_ATTRIBUTE, METHOD_EXCLUSIVE, fingerprint_of
from bayplan.compat.scheduler_plugins.cache.caches import DiscardReserved, TopologyCache
from bayplan.compat.scheduler_plugins.cache.over_reserve import OverReserve
from bayplan.compat.scheduler_plugins.cache.views import (
    Desynced,
    KnownPod,
    View,
    is_foreign,
    known_pod,
    less,
    pods_by_node,
)
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology, resources_of, zones_of
from tests.builders.objects import GPU, NIC, Amounts, bound, container, pod, simple_pod, topology, zone


def report(
    cpus: int = 8, *, shows: list[str] | None = None, method: str = "all", scope: str = "container"
) -> NodeResourceTopology:
    published = (
        {ATTRIBUTE: fingerprint_of(("default", name) for name in shows), METHOD_ATTRIBUTE: method}
        if shows is not None
        else {}
    )
    zones = [zone(0, {"cpu": (8, 8, cpus), "memory": "8Gi"}), zone(1, {"cpu": (8, 8, cpus), GPU: 2})]
    return topology(*zones, scope=scope, attributes=published)


def exclusive(name: str, amounts: Amounts | None = None) -> Pod:
    return simple_pod(amounts or {"cpu": 2, "memory": "1Gi"}, name)


def sharing(name: str) -> Pod:
    return pod(container(requests={"cpu": 1}, limits={"cpu": 2}), name=name)


def on_node(each: Pod, phase: str | None = "Running", node: str = "n1") -> Pod:
    return bound(each, node, phase=phase)


def shown(view: View) -> list[dict[str, int]] | None:
    """What is left in the zones, in whole CPUs, gibibytes and devices."""
    if view.topology is None:
        return None
    units = {"cpu": 1000, "memory": 2**30}
    return [
        {name: amount_of(name, left.available or 0) // units.get(name, 1) for name, left in resources_of(each)}
        for each in zones_of(view.topology)
    ]


FULL = [{"cpu": 8, "memory": 8}, {"cpu": 8, GPU: 2}]


class TestPassthrough:
    def test_shows_the_latest_report_whatever_happens(self) -> None:
        reports = {"n1": report()}
        cache: TopologyCache = TopologyCache(reports)
        cache.reserve("n1", exclusive("web"))
        cache.filter_rejected("n1")
        cache.foreign_pod("n1")
        reports["n1"] = report(3)
        assert shown(cache.view("n1")) == [{"cpu": 3, "memory": 8}, {"cpu": 3, GPU: 2}]
        assert cache.resync([]) == []
        assert cache.desynced == Desynced([], [])

    def test_has_nothing_to_show_of_a_node_without_a_report(self) -> None:
        assert TopologyCache({}).view("n1") == View(fresh=True, topology=None)


class TestDiscardReserved:
    def test_hides_a_node_while_any_pod_is_on_its_way(self) -> None:
        first, second = (
            msgspec.structs.replace(pod_, metadata=msgspec.structs.replace(pod_.metadata, uid=pod_.metadata.name))
            for pod_ in (exclusive("first"), exclusive("second"))
        )
        cache = DiscardReserved({"n1": report()})
        cache.reserve("n1", first)
        cache.reserve("n1", second)
        cache.post_bind("n1", first)
        assert not cache.view("n1").fresh
        cache.unreserve("n1", second)
        assert shown(cache.view("n1")) == FULL


class TestOverReserve:
    def test_subtracts_from_every_zone_that_has_the_resource(self) -> None:
        cache = OverReserve({"n1": report()})
        cache.reserve("n1", exclusive("web", {"cpu": 2, "memory": "1Gi", GPU: 1}))
        assert shown(cache.view("n1")) == [{"cpu": 6, "memory": 7}, {"cpu": 6, GPU: 1}]
        cache.unreserve("n1", exclusive("web"))
        assert shown(cache.view("n1")) == FULL

    def test_takes_no_notice_of_a_node_without_a_copy(self) -> None:
        cache = OverReserve({})
        cache.reserve("n1", exclusive("web"))
        cache.foreign_pod("n1")
        assert cache.view("n1") == View(fresh=True, topology=None)
        assert cache.desynced == Desynced([], [])

    def test_replaces_a_copy_when_the_report_shows_the_known_pods(self) -> None:
        reports = {"n1": report()}
        cache = OverReserve(reports)
        cache.reserve("n1", exclusive("web"))
        cache.filter_rejected("n1")
        reports["n1"] = report(6, shows=["web"])
        assert cache.resync([on_node(exclusive("web"))]) == ["n1"]
        assert shown(cache.view("n1")) == [{"cpu": 6, "memory": 8}, {"cpu": 6, GPU: 2}]
        assert (cache.view("n1").generation, cache.desynced) == (1, Desynced([], []))

    @pytest.mark.parametrize(
        "latest, pods",
        [
            pytest.param(report(6, shows=["web", "other"]), ["web"], id="another pod"),
            pytest.param(report(6), ["web"], id="no fingerprint"),
            pytest.param(report(6, shows=[]), [], id="no pod on the node"),
            pytest.param(None, ["web"], id="the report is gone"),
        ],
    )
    def test_leaves_a_node_dirty(self, latest: NodeResourceTopology | None, pods: list[str]) -> None:
        reports = {"n1": report()}
        cache = OverReserve(reports)
        cache.filter_rejected("n1")
        if latest is None:
            del reports["n1"]
        else:
            reports["n1"] = latest
        assert cache.resync([on_node(exclusive(name)) for name in pods]) == []
        assert cache.desynced == Desynced(["n1"], [])
        assert shown(cache.view("n1")) == FULL

    def test_hides_a_node_with_foreign_pods_until_its_report_shows_them(self) -> None:
        reports = {"n1": report()}
        cache = OverReserve(reports)
        cache.foreign_pod("n1")
        assert cache.view("n1") == View(fresh=False, topology=None)
        reports["n1"] = report(6, shows=["theirs"])
        cache.resync([on_node(exclusive("theirs"))])
        assert shown(cache.view("n1")) == [{"cpu": 6, "memory": 8}, {"cpu": 6, GPU: 2}]

    def test_counts_generations_for_all_nodes_at_once(self) -> None:
        other = msgspec.structs.replace(report(), metadata=msgspec.structs.replace(report().metadata, name="n2"))
        reports = {"n1": report(shows=["web"]), "n2": other}
        cache = OverReserve(reports)
        cache.filter_rejected("n1")
        cache.resync([on_node(exclusive("web"))])
        assert cache.view("n2").generation == 1

    @pytest.mark.parametrize(
        "method, published, shows, agrees",
        [
            ("Autodetect", "all", ["web", "shares"], True),
            ("Autodetect", METHOD_EXCLUSIVE, ["web"], True),
            ("Autodetect", "all", ["web"], False),
            ("All", METHOD_EXCLUSIVE, ["web", "shares"], True),
            ("OnlyExclusiveResources", "all", ["web"], True),
            ("OnlyExclusiveResources", "all", ["web", "shares"], False),
            ("nonsense", METHOD_EXCLUSIVE, ["web", "shares"], True),
        ],
    )
    @pytest.mark.parametrize("preemption", ["Disabled", "Enabled"])
    def test_methods(self, method: str, published: str, shows: list[str], agrees: bool, preemption: str) -> None:
        reports = {"n1": report(shows=shows, method=published)}
        cache = OverReserve(reports, resync_method=method, preemption_mode=preemption)
        cache.filter_rejected("n1")
        replaced = cache.resync([on_node(exclusive("web")), on_node(sharing("shares"))])
        assert replaced == (["n1"] if agrees else [])

    def test_a_node_configured_otherwise_is_replaced_without_comparing(self) -> None:
        reports = {"n1": report()}
        cache = OverReserve(reports)
        cache.reserve("n1", exclusive("web"))
        reports["n1"] = report(7, scope="pod")
        assert cache.modified(reports["n1"])
        assert cache.desynced == Desynced([], ["n1"])
        assert cache.resync([]) == ["n1"]
        assert shown(cache.view("n1")) == [{"cpu": 7, "memory": 8}, {"cpu": 7, GPU: 2}]

    def test_other_use_is_no_other_configuration(self) -> None:
        cache = OverReserve({"n1": report()})
        assert not cache.modified(report(1))
        assert not cache.modified(topology(zone(0, {"cpu": 8}), name="unheard-of"))

    def test_can_be_told_of_reports_that_appear_and_vanish(self) -> None:
        cache = OverReserve({})
        cache.learn(report())
        cache.learn(report(1))
        assert shown(cache.view("n1")) == FULL
        cache.reserve("n1", exclusive("web"))
        cache.forget("n1")
        cache.learn(report(3))
        assert shown(cache.view("n1")) == [{"cpu": 3, "memory": 8}, {"cpu": 3, GPU: 2}]


class TestKnownPods:
    @pytest.mark.parametrize(
        "phase, node, dedicated, shared",
        [
            ("Running", "n1", True, True),
            ("Pending", "n1", False, False),
            ("Succeeded", "n1", True, False),
            ("Failed", "n1", True, False),
            ("Unknown", "n1", True, False),
            (None, "n1", True, False),
            ("Running", "", False, True),
        ],
    )
    def test_informers_show_different_pods(self, phase: str | None, node: str, dedicated: bool, shared: bool) -> None:
        pods = [on_node(exclusive("web"), phase, node)]
        found = {mode: bool(pods_by_node(pods, mode, "Disabled", {})) for mode in ("Dedicated", "Shared")}
        assert found == {"Dedicated": dedicated, "Shared": shared}

    def test_where_victims_may_be_chosen_containers_are_listed(self) -> None:
        mixed = pod(
            container({"cpu": 2, "memory": "1Gi"}, "main"),
            init=[
                container({"cpu": 4, "memory": "1Gi"}, "prepare"),
                container({"cpu": 1, "memory": "1Gi"}, "proxy", sidecar=True),
            ],
        )
        assert known_pod(mixed, "Enabled", []) == KnownPod("default", "pod", "unknown", ("proxy", "main"))
        assert known_pod(mixed, "Disabled", []) == KnownPod("default", "pod", "alloc")

    def test_devices_count_only_where_the_report_has_them(self) -> None:
        with_nic = pod(container(requests={NIC: 1}, limits={NIC: 1}))
        assert known_pod(with_nic, "Disabled", [NIC]).holds_exclusively
        assert not known_pod(with_nic, "Disabled", [GPU]).holds_exclusively

    @pytest.mark.parametrize(
        "scheduler, node, only_exclusive, foreign",
        [
            ("ours", "n1", False, False),
            ("theirs", "n1", False, True),
            ("theirs", "", False, False),
            ("theirs", "n1", True, False),
            (None, "n1", False, True),
        ],
    )
    def test_foreign_pods(self, scheduler: str | None, node: str, only_exclusive: bool, foreign: bool) -> None:
        pod_ = on_node(pod(container(requests={"cpu": 1}), schedulerName=scheduler), node=node)
        assert is_foreign(pod_, ["ours"], only_exclusive=only_exclusive, reported=[]) is foreign


def test_what_is_no_amount_stays_as_it_is() -> None:
    odd = topology({"name": "socket-0", "type": "Socket", "resources": [{"name": "cpu", "available": "many"}]})
    (left,) = zones_of(less(odd, {"cpu": 1000}))
    assert resources_of(left)[0][1].available == "many"
