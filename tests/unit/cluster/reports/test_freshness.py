"""Nodes whose report cannot be judged by at the moment: told stale, or unsettled until the next report.

One node under policy restricted has two zones of 8 CPUs and 8Gi each (less a reserved core and 1Gi), a kubelet and an
agent. The state waits for reports, unless a story says otherwise. Nothing is reported before `report` is called.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from bayplan.cluster.columns.columns import NO_TOPOLOGY, TOPOLOGY_INVALID, TOPOLOGY_STALE, TOPOLOGY_USABLE
from bayplan.cluster.reports.inventory import MADE_AT
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.cluster.reports.ledger import REPORTS_WITHIN
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.simulate.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.configuration import KubeletConfiguration
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.machine_text import machine_of
from tests.builders.clusters import decide, free_in_zones, place
from tests.builders.objects import GI, container, pod, simple_pod, topology, zone

WIDE = simple_pod({"cpu": 12, "memory": "12Gi"}, "wide")
NARROW = simple_pod({"cpu": 2, "memory": "1Gi"}, "narrow")
SHARING = pod(container(requests={"cpu": 1}, limits={"cpu": 2}), name="sharing")
PREPARED = pod(
    container({"cpu": 2, "memory": "1Gi"}), init=[container({"cpu": 2, "memory": "4Gi"}, "prepare")], name="prepared"
)


class OneNode:
    """The node as it is, and the node as the state knows it."""

    def __init__(self, *, waits: bool = True, complete: bool = True, pod_level: bool = False) -> None:
        settings = KubeletSettings(
            policy=Policy.RESTRICTED,
            scope=Scope.POD if pod_level else Scope.CONTAINER,
            cpu_static=True,
            memory_static=True,
            pod_level_managers=pod_level,
        )
        configuration = KubeletConfiguration(settings, frozenset({0, 8}), reserved_memory={0: {"memory": GI}})
        self.kubelet = VirtualKubelet(machine_of("pack:2 core:4 pu:2 mem:8Gi"), configuration)
        self.agent = NodeAgent("n1", self.kubelet)
        self.complete = complete
        self.state = ClusterState()
        self.state.freshness.waits_for_reports = waits
        self.state.set_node(self.agent.node)
        self.report()

    def report(self) -> None:
        self.state.set_topology(self.agent.topology(complete=self.complete))

    def admit(self, waiting: Pod) -> None:
        """Decided here, bound and admitted."""
        place(self.state, waiting)
        self.admit_elsewhere(waiting)

    def admit_elsewhere(self, waiting: Pod) -> None:
        """Bound by another scheduler and admitted."""
        bound = msgspec.structs.replace(waiting, spec=msgspec.structs.replace(waiting.spec, node_name="n1"))
        assert self.kubelet.admit(pod_key(waiting), self.state.classes.request_of(waiting)).admitted
        self.state.set_pod(bound)

    def end(self, running: Pod) -> None:
        self.kubelet.remove(pod_key(running))
        self.state.remove_pod(pod_key(running))

    @property
    def topology(self) -> int:
        return int(self.state.columns.topology[0])


class TestAPodWhoseZonesWereReplayed:
    """It spans zones. Which CPUs and how much of which zone's memory it gets, only the node's next report will say."""

    def test_makes_its_node_wait_for_the_report_that_lists_it(self) -> None:
        node = OneNode()
        node.admit(WIDE)
        assert node.topology == TOPOLOGY_STALE
        node.report()
        assert node.topology == TOPOLOGY_USABLE

    def test_is_not_in_a_report_from_before(self) -> None:
        node = OneNode()
        older = node.agent.topology(complete=True)
        node.admit(WIDE)
        node.state.set_topology(older)
        assert node.topology == TOPOLOGY_STALE

    @pytest.mark.parametrize("waiting, placed", [(NARROW, False), (SHARING, True)])
    def test_keeps_only_pods_away_that_want_something_of_zones(self, waiting: Pod, placed: bool) -> None:
        node = OneNode()
        node.admit(WIDE)
        assert decide(node.state, waiting).placed is placed

    @pytest.mark.parametrize("forgotten", [True, False])
    def test_that_is_gone_before_its_node_knows_it_leaves_nothing_to_wait_for(self, forgotten: bool) -> None:
        node = OneNode()
        place(node.state, WIDE)
        assert node.topology == TOPOLOGY_STALE
        (node.state.forget if forgotten else node.state.remove_pod)("default/wide")
        assert node.topology == TOPOLOGY_USABLE

    def test_whose_zone_amounts_tell_is_another_matter(self) -> None:
        node = OneNode()
        node.admit(NARROW)
        assert node.topology == TOPOLOGY_USABLE


class TestInitContainersThatStillHoldMemory:
    def test_make_their_node_wait_until_they_have_ended_and_a_report_says_so(self) -> None:
        node = OneNode()
        node.admit(PREPARED)
        node.report()
        assert node.topology == TOPOLOGY_STALE, "4Gi are held, 3Gi of them will be free in a moment"
        node.kubelet.start("default/prepared")
        assert node.topology == TOPOLOGY_STALE
        node.report()
        assert node.topology == TOPOLOGY_USABLE
        assert free_in_zones(node.state, "n1", "memory") == [6 * GI, 8 * GI]

    def test_of_a_pod_that_ended_meanwhile_hold_nothing(self) -> None:
        node = OneNode()
        node.admit(PREPARED)
        node.report()
        node.end(PREPARED)
        assert node.topology == TOPOLOGY_USABLE

    def test_are_none_where_a_pod_holds_more_than_its_containers(self) -> None:
        node = OneNode(pod_level=True)
        lot = pod(container(), name="lot", resources={"limits": {"cpu": 2, "memory": "2Gi"}})
        node.admit_elsewhere(lot)
        node.report()
        assert node.topology == TOPOLOGY_USABLE


class TestAPodThatEnded:
    def test_and_whose_memory_spanned_zones_makes_its_node_wait(self) -> None:
        """In which shares its memory comes back, the list cannot say."""
        node = OneNode()
        node.admit(WIDE)
        node.report()
        older = node.agent.topology(complete=True)
        node.end(WIDE)
        assert node.topology == TOPOLOGY_STALE
        node.state.set_topology(older)
        assert node.topology == TOPOLOGY_STALE
        node.report()
        assert node.topology == TOPOLOGY_USABLE

    def test_before_a_late_report_lists_it_makes_its_node_wait_for_one_without_it(self) -> None:
        node = OneNode()
        node.admit(WIDE)
        late = node.agent.topology(complete=True)
        node.end(WIDE)
        assert node.topology == TOPOLOGY_STALE, "what it gave back, and where, is unknown"
        node.state.set_topology(late)
        assert node.topology == TOPOLOGY_STALE
        node.report()
        assert node.topology == TOPOLOGY_USABLE

    @pytest.mark.parametrize("made_at, standing", [(9.0, TOPOLOGY_STALE), (10.0, TOPOLOGY_USABLE)])
    def test_and_that_no_report_ever_lists_is_over_with_one_made_after_its_end(
        self, made_at: float, standing: int
    ) -> None:
        node = OneNode()
        node.admit(WIDE)
        node.kubelet.remove("default/wide")
        node.state.remove_pod("default/wide", at=10.0)
        node.state.set_topology(node.agent.topology(complete=True, at=made_at))
        assert node.topology == standing

    def test_between_two_reports_is_not_waited_for_endlessly(self) -> None:
        """Nothing has changed since the last report, so the agent does not write another one."""
        node = OneNode()
        node.admit(WIDE)
        node.kubelet.remove("default/wide")
        node.state.remove_pod("default/wide", at=1000.0)
        standings = {}
        for now in (1001.0, 1000.0 + REPORTS_WITHIN - 1, 1000.0 + REPORTS_WITHIN):
            node.state.promises.settle_in_time(now)
            standings[now] = node.topology
        assert list(standings.values()) == [TOPOLOGY_STALE, TOPOLOGY_STALE, TOPOLOGY_USABLE]
        assert decide(node.state, NARROW).placed

    def test_between_two_reports_wakes_those_that_wait_for_its_node(self) -> None:
        node = OneNode()
        node.admit(WIDE)
        node.kubelet.remove("default/wide")
        node.state.remove_pod("default/wide", at=1000.0)
        before = node.state.usage_log.end
        node.state.promises.settle_in_time(1001.0)
        assert node.state.usage_log.end == before
        node.state.promises.settle_in_time(1000.0 + REPORTS_WITHIN)
        assert node.state.usage_log.end > before

    def test_and_came_again_under_its_name_is_waited_for(self) -> None:
        node = OneNode()
        node.admit(WIDE)
        node.kubelet.remove("default/wide")
        node.state.remove_pod("default/wide", at=1000.0)
        node.admit_elsewhere(WIDE)
        node.state.promises.settle_in_time(1000.0 + REPORTS_WITHIN)
        assert node.topology == TOPOLOGY_STALE
        node.report()
        assert node.topology == TOPOLOGY_USABLE

    def test_in_one_zone_leaves_nothing_to_wait_for(self) -> None:
        node = OneNode()
        node.admit(NARROW)
        node.report()
        node.end(NARROW)
        assert node.topology == TOPOLOGY_USABLE


class TestAPodThatAnotherSchedulerBound:
    def test_makes_its_node_wait_until_it_is_listed(self) -> None:
        node = OneNode()
        node.admit_elsewhere(NARROW)
        assert node.topology == TOPOLOGY_STALE
        node.report()
        assert node.topology == TOPOLOGY_USABLE

    def test_and_that_owns_nothing_in_zones_changes_nothing(self) -> None:
        node = OneNode()
        node.admit_elsewhere(SHARING)
        assert node.topology == TOPOLOGY_USABLE


class TestToldStale:
    def test_until_told_fresh(self) -> None:
        node = OneNode()
        node.state.set_fresh("n1", fresh=False)
        assert node.topology == TOPOLOGY_STALE
        node.state.set_fresh("n1", fresh=True)
        assert node.topology == TOPOLOGY_USABLE

    def test_until_the_next_report(self) -> None:
        node = OneNode()
        node.state.set_fresh("n1", fresh=False)
        node.report()
        assert node.topology == TOPOLOGY_USABLE

    def test_fresh_does_not_calm_a_restless_node(self) -> None:
        node = OneNode()
        node.admit(WIDE)
        node.state.set_fresh("n1", fresh=True)
        assert node.topology == TOPOLOGY_STALE

    def test_a_node_without_a_report(self) -> None:
        node = OneNode()
        node.state.remove_topology("n1")
        assert node.topology == NO_TOPOLOGY
        node.state.set_fresh("n1", fresh=False)
        assert node.topology == TOPOLOGY_STALE

    def test_a_report_that_contradicts_itself_is_worse_than_stale(self) -> None:
        node = OneNode()
        node.state.set_topology(topology(zone(0, {"cpu": 8}), zone(0, {"cpu": 8})))
        node.state.set_fresh("n1", fresh=False)
        assert node.topology == TOPOLOGY_INVALID


def replayed(node: OneNode) -> None:
    node.admit(WIDE)


def preparing(node: OneNode) -> None:
    node.admit(PREPARED)
    node.report()


def ended_over_zones(node: OneNode) -> None:
    node.admit(WIDE)
    node.report()
    node.end(WIDE)


def bound_elsewhere(node: OneNode) -> None:
    node.admit_elsewhere(NARROW)


EVERYTHING_RESTLESS = [replayed, preparing, ended_over_zones, bound_elsewhere]


class TestWhoHasNothingToWaitFor:
    @pytest.mark.parametrize("story", EVERYTHING_RESTLESS)
    def test_who_does_not_wait_goes_on_with_what_is_known(self, story: Callable[[OneNode], None]) -> None:
        node = OneNode(waits=False)
        story(node)
        assert node.topology == TOPOLOGY_USABLE

    @pytest.mark.parametrize("story", EVERYTHING_RESTLESS)
    def test_a_node_that_does_not_list_its_pods_would_be_waited_for_in_vain(
        self, story: Callable[[OneNode], None]
    ) -> None:
        node = OneNode(complete=False)
        story(node)
        assert node.topology == TOPOLOGY_USABLE

    @pytest.mark.parametrize("story", EVERYTHING_RESTLESS)
    def test_a_node_that_went_and_came_back_begins_anew(self, story: Callable[[OneNode], None]) -> None:
        node = OneNode()
        story(node)
        assert node.topology == TOPOLOGY_STALE
        node.state.remove_node("n1")
        node.state.set_node(node.agent.node)
        node.report()
        assert node.topology == (TOPOLOGY_STALE if story is preparing else TOPOLOGY_USABLE)


def test_no_promise_waits_endlessly_for_a_report_without_moments() -> None:
    node = OneNode()
    node.admit(WIDE)
    node.end(WIDE)
    standings = []
    for _ in range(3):
        node.state.set_topology(without_moment(node.agent.topology(complete=True)))
        standings.append(node.topology)
    assert standings == [TOPOLOGY_STALE, TOPOLOGY_STALE, TOPOLOGY_USABLE]


def without_moment(report: NodeResourceTopology) -> NodeResourceTopology:
    kept = [attribute for attribute in report.attributes or () if attribute.name != MADE_AT]
    return msgspec.structs.replace(report, attributes=kept)
