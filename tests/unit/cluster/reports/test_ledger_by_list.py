"""The ledger where a node's report lists the pods it shows: nothing is inferred, whatever comes late.

The stories have one node of two zones with 8 CPUs each. A report is written as the pods it lists: `{"web": {0: 4}}`
says that web holds 4 CPUs of zone 0. At the end, a kubelet and its agent tell what is true, and the state must believe
just that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.dry_run import without
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.cycle import assume
from bayplan.simulate.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.configuration import KubeletConfiguration
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.machine_text import machine_of
from tests.builders.clusters import cluster, decide, free_in_zones, free_on, place
from tests.builders.objects import (
    GI,
    GPU,
    Amounts,
    bound,
    container,
    cpu_pod,
    cpu_zones,
    node,
    pod,
    simple_pod,
    topology,
    zone,
)

Listed = Mapping[str, Mapping[int, int]]


def report(listed: Listed | None, *, available: tuple[int, int] | None = None) -> NodeResourceTopology:
    """What the node says; without `available`, what its pods leave."""
    used = [sum(held.get(number, 0) for held in (listed or {}).values()) for number in (0, 1)]
    left = available or (8 - used[0], 8 - used[1])
    pods = {
        f"default/{name}": {"cpu": {str(number): 1000 * held for number, held in in_zones.items()}}
        for name, in_zones in (listed or {}).items()
    }
    attributes = {} if listed is None else {"bayplan.io/pods": msgspec.json.encode(pods).decode()}
    return topology(*cpu_zones(*left), attributes=attributes)


def one_node(listed: Listed | None = None) -> ClusterState:
    allocatable: Amounts = {"cpu": 16, "memory": "64Gi"}
    return cluster(report(listed or {}), nodes=[node("n1", allocatable)])


def left(state: ClusterState) -> list[int]:
    """CPUs left in the two zones."""
    return [amount // 1000 for amount in free_in_zones(state, "n1", "cpu")]


def run(state: ClusterState, *waiting: Pod) -> None:
    """Decide about pods here and see them bound."""
    for each in waiting:
        place(state, each)
        state.set_pod(bound(each))


def test_a_promise_that_is_short_takes_nothing_that_a_dry_run_frees() -> None:
    """Room is kept for `next` while `victim` leaves; meanwhile another plan tries out who else could go there."""
    state = one_node({"victim": {0: 8}, "other": {1: 8}})
    for name in ("victim", "other"):
        state.set_pod(bound(cpu_pod(8, name)))
    with without(state, ["default/victim"]):
        decision = decide(state, cpu_pod(4, "next"))
    assume(state, decision, cpu_pod(4, "next"))
    with without(state, ["default/victim"]):
        assert left(state) == [4, 0]
        place(state, cpu_pod(4, "tried"))
        state.forget("default/tried")
        assert left(state) == [4, 0]
    assert left(state) == [0, 0]
    state.remove_pod("default/victim")
    assert left(state) == [4, 0]


class TestZonesInDoubt:
    """A kubelet frees zones before the scheduler hears of it, perhaps before it admits a pod that was decided
    meanwhile.
    """

    def live(self, listed: Listed) -> ClusterState:
        state = one_node(listed)
        state.freshness.waits_for_reports = state.freshness.hears_late = True
        return state

    def test_a_promise_above_freed_zones_counts_in_every_zone_until_a_report_lists_it(self) -> None:
        state = self.live({"old": {0: 8}})
        state.set_pod(bound(cpu_pod(8, "old")))
        run(state, cpu_pod(4, "new"))
        assert left(state) == [0, 4]
        state.remove_pod("default/old")
        assert left(state) == [4, 4]
        assert not decide(state, cpu_pod(1, "next")).placed
        state.set_topology(report({"new": {0: 4}}))
        assert left(state) == [4, 8]
        assert decide(state, cpu_pod(1, "next")).placed

    def test_also_if_the_last_report_no_longer_lists_the_pod_that_ended(self) -> None:
        state = self.live({"old": {0: 8}})
        state.set_pod(bound(cpu_pod(8, "old")))
        state.set_topology(report({}))
        run(state, cpu_pod(4, "new"))
        state.remove_pod("default/old")
        assert left(state) == [4, 4]

    def test_a_promise_below_freed_zones_stays_where_it_is(self) -> None:
        state = self.live({"old": {1: 8}})
        state.set_pod(bound(cpu_pod(8, "old")))
        run(state, cpu_pod(4, "new"))
        state.remove_pod("default/old")
        assert left(state) == [4, 8]
        assert decide(state, cpu_pod(1, "next")).placed


class TestAPromise:
    def test_is_kept_until_the_report_lists_the_pod(self) -> None:
        state = one_node()
        run(state, cpu_pod(4))
        assert left(state) == [4, 8]
        state.set_topology(report({}))
        assert left(state) == [4, 8], "the report is older than the pod"
        state.set_topology(report({"web": {0: 4}}))
        assert left(state) == [4, 8]

    def test_is_not_dropped_because_something_else_is_in_use(self) -> None:
        """A report with other use than the last one settles all promises where pods are not listed.

        Here it does not.
        """
        state = one_node()
        run(state, cpu_pod(4))
        state.set_topology(report({"stranger": {1: 2}}))
        assert left(state) == [4, 6]

    def test_is_dropped_although_the_report_shows_the_same_use_as_the_last_one(self) -> None:
        """One pod of 4 CPUs ended and another began; no amount tells, the names do."""
        state = one_node({"old": {0: 4}})
        state.set_pod(bound(cpu_pod(4, "old")))
        state.remove_pod("default/old")
        run(state, cpu_pod(4, "new"))
        state.set_topology(report({"new": {0: 4}}))
        assert left(state) == [4, 8]
        assert not state.is_ahead_of_report(0)

    def test_follows_the_pod_to_where_the_report_shows_it(self) -> None:
        state = one_node()
        run(state, cpu_pod(4))
        state.set_topology(report({"web": {1: 4}}))
        assert left(state) == [8, 4]

    def test_is_dropped_before_the_binding_was_confirmed(self) -> None:
        state = one_node()
        place(state, cpu_pod(4))
        state.set_topology(report({"web": {0: 4}}))
        assert left(state) == [4, 8]
        state.set_pod(bound(cpu_pod(4)))
        assert left(state) == [4, 8]

    def test_is_given_back_when_forgotten(self) -> None:
        state = one_node()
        place(state, cpu_pod(4))
        state.forget("default/web")
        assert (left(state), free_on(state, "n1", "cpu")) == ([8, 8], 16_000)
        state.set_topology(report({}))
        assert left(state) == [8, 8]

    def test_that_seemed_to_fail_counts_because_the_report_lists_the_pod(self) -> None:
        """Binding timed out, but it had been done: the kubelet has the pod."""
        state = one_node()
        place(state, cpu_pod(4))
        state.set_topology(report({"web": {0: 4}}))
        state.forget("default/web")
        assert left(state) == [4, 8]
        state.set_pod(bound(cpu_pod(4)))
        assert left(state) == [4, 8]
        state.set_topology(report({"web": {0: 4}}))
        assert (left(state), state.is_ahead_of_report(0)) == ([4, 8], False)


class TestAPodThatEnded:
    def test_is_added_back_until_the_list_drops_it(self) -> None:
        state = one_node({"web": {1: 4}})
        state.set_pod(bound(cpu_pod(4)))
        assert left(state) == [8, 4]
        state.remove_pod("default/web")
        assert left(state) == [8, 8]
        state.set_topology(report({"web": {1: 4}}))
        assert left(state) == [8, 8], "a report from before its end"
        state.set_topology(report({}))
        assert left(state) == [8, 8]
        assert not state.is_ahead_of_report(0)

    def test_before_any_report_listed_it_is_added_back_when_one_does(self) -> None:
        """It lived shorter than a report travels. What the late report shows is over."""
        state = one_node()
        run(state, cpu_pod(4))
        state.remove_pod("default/web")
        assert (left(state), state.is_ahead_of_report(0)) == ([8, 8], False)
        for listed, ahead in (({}, False), ({"web": {0: 4}}, True), ({}, False)):
            state.set_topology(report(listed))
            assert (left(state), state.is_ahead_of_report(0)) == ([8, 8], ahead)

    def test_is_added_back_with_what_the_latest_report_shows(self) -> None:
        """Its init container had more.

        That report was the last one before the end was told, and a smaller one came after.
        """
        state = one_node({"web": {0: 6}})
        state.set_pod(bound(cpu_pod(4)))
        state.remove_pod("default/web")
        state.set_topology(report({"web": {0: 4}}))
        assert left(state) == [8, 8]

    def test_after_the_report_dropped_it_is_not_added_back(self) -> None:
        state = one_node({"web": {0: 4}})
        state.set_pod(bound(cpu_pod(4)))
        state.set_topology(report({}))
        assert left(state) == [4, 8], "its end was not reported: perhaps the list is not complete"
        state.remove_pod("default/web")
        assert left(state) == [8, 8]
        state.set_topology(report({}))
        assert left(state) == [8, 8]

    def test_never_lifts_a_zone_above_its_total(self) -> None:
        """A report that contradicts itself: everything is available, and a pod holds half of it."""
        state = cluster(report({"web": {0: 4}}, available=(8, 8)), nodes=[node("n1", {"cpu": 16, "memory": "64Gi"})])
        state.set_pod(bound(cpu_pod(4)))
        state.remove_pod("default/web")
        assert left(state) == [8, 8]

    def test_and_that_held_nothing_leaves_nothing_to_wait_for(self) -> None:
        state = one_node({"web": {}})
        state.set_pod(bound(pod(container(requests={"cpu": 1}, limits={"cpu": 2}), name="web")))
        state.remove_pod("default/web")
        assert not state.is_ahead_of_report(0)

    def test_that_was_unknown_changes_nothing(self) -> None:
        state = one_node({"stranger": {0: 4}})
        state.remove_pod("default/stranger")
        assert left(state) == [4, 8]

    def test_is_remembered_only_as_one_of_the_latest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bayplan.cluster.reports.ended_pods.MOST_NEVER_LISTED", 2)
        state = one_node()
        for number in range(3):
            run(state, cpu_pod(4, f"web-{number}"))
            state.remove_pod(f"default/web-{number}")
        state.set_topology(report({"web-0": {0: 4}}))
        assert left(state) == [4, 8]
        state.set_topology(report({"web-2": {0: 4}}))
        assert left(state) == [8, 8]


class TestTheSameNameAgain:
    """A StatefulSet's pod comes back under its name. Which of the two does the report list?"""

    def restarted(self, cpus_then: int, cpus_now: int) -> ClusterState:
        """The old pod stood in zone 0 and is listed there; the new one is promised to the lowest zone that holds it."""
        state = one_node({"web": {0: cpus_then}, "other": {0: 8 - cpus_then}})
        state.set_pod(bound(cpu_pod(cpus_then)))
        state.remove_pod("default/web")
        run(state, cpu_pod(cpus_now))
        return state

    def test_another_entry_than_the_promise_is_the_old_pod(self) -> None:
        state = self.restarted(2, 4)
        assert left(state) == [2, 4]
        state.set_topology(report({"web": {0: 2}, "other": {0: 6}}))
        assert left(state) == [2, 4]
        state.set_topology(report({"other": {0: 6}}))
        assert left(state) == [2, 4]
        state.set_topology(report({"web": {1: 4}, "other": {0: 6}}))
        assert (left(state), state.is_ahead_of_report(0)) == ([2, 4], False)

    def test_an_entry_like_the_promise_is_as_good_as_the_new_pod(self) -> None:
        state = self.restarted(4, 4)
        assert left(state) == [0, 8]
        state.set_topology(report({"web": {0: 4}, "other": {0: 4}}))
        assert (left(state), state.is_ahead_of_report(0)) == ([0, 8], False)
        state.set_topology(report({"other": {0: 4}}))
        assert left(state) == [0, 8], "it was the old one after all"

    def test_the_old_one_may_have_ended_before_any_report_listed_it(self) -> None:
        state = one_node()
        run(state, cpu_pod(3))
        state.remove_pod("default/web")
        run(state, cpu_pod(6))
        for listed in ({}, {"web": {0: 3}}, {}, {"web": {0: 6}}):
            state.set_topology(report(listed))
            assert left(state) == [2, 8], listed

    def test_memory_over_two_zones_is_compared_in_sum(self) -> None:
        """In which shares a group of zones holds it, the kubelet does not know; a list of even
        shares is no other pod.
        """
        zones = [
            zone(number, {"cpu": (8, 8, left), "memory": ("8Gi", "8Gi", f"{left}Gi")})
            for number, left in ((0, 0), (1, 4))
        ]
        held = {"default/web": {"cpu": {"0": 8000, "1": 4000}, "memory": {"0": 6 * GI, "1": 6 * GI}}}
        listing = topology(
            *zones, policy="restricted", attributes={"bayplan.io/pods": msgspec.json.encode(held).decode()}
        )
        state = cluster(listing)
        wide = simple_pod({"cpu": 12, "memory": "12Gi"}, "web")
        state.set_pod(bound(wide))
        state.remove_pod("default/web")
        run(state, wide)
        assert state.is_ahead_of_report(0)
        state.set_topology(listing)
        assert not state.is_ahead_of_report(0)

    def test_the_new_one_may_end_as_well(self) -> None:
        state = self.restarted(2, 4)
        state.remove_pod("default/web")
        assert left(state) == [2, 8]
        state.set_topology(report({"web": {0: 2}, "other": {0: 6}}))
        assert left(state) == [2, 8]
        state.set_topology(report({"other": {0: 6}}))
        assert left(state) == [2, 8]

    def test_a_pod_that_shares_cpus_adds_nothing_back_for_the_second_time(self) -> None:
        state = one_node({"web": {0: 4}})
        state.set_pod(bound(cpu_pod(4)))
        state.remove_pod("default/web")
        state.set_pod(bound(pod(container(requests={"cpu": 1}, limits={"cpu": 2}), name="web")))
        state.remove_pod("default/web")
        assert left(state) == [8, 8]

    def test_bound_by_another_scheduler_it_counts_in_every_zone_beside_the_old_one(self) -> None:
        state = one_node({"web": {0: 4}})
        state.set_pod(bound(cpu_pod(4)))
        state.remove_pod("default/web")
        state.set_pod(bound(cpu_pod(4)))
        assert left(state) == [0, 4]
        state.set_topology(report({"web": {1: 4}}))
        assert (left(state), state.is_ahead_of_report(0)) == ([8, 4], False)

    def test_resized_in_place_it_counts_for_more_until_the_next_report(self) -> None:
        state = one_node({"web": {0: 4}})
        state.set_pod(bound(cpu_pod(4)))
        state.set_pod(bound(cpu_pod(6)))
        assert left(state) == [0, 2]
        state.set_topology(report({"web": {0: 6}}))
        assert (left(state), state.is_ahead_of_report(0)) == ([2, 8], False)


class TestAPodBoundByAnotherScheduler:
    def test_counts_in_every_zone_until_the_report_lists_it(self) -> None:
        state = one_node()
        state.set_pod(bound(cpu_pod(6)))
        assert left(state) == [2, 2]
        state.set_topology(report({}))
        assert left(state) == [2, 2]
        state.set_topology(report({"web": {1: 6}}))
        assert left(state) == [8, 2]

    def test_is_in_the_report_already(self) -> None:
        state = one_node({"web": {1: 6}})
        state.set_pod(bound(cpu_pod(6)))
        assert left(state) == [8, 2]

    def test_ends_before_the_report_lists_it(self) -> None:
        state = one_node()
        state.set_pod(bound(cpu_pod(6)))
        state.remove_pod("default/web")
        assert left(state) == [8, 8]

    @pytest.mark.parametrize(
        "shared",
        [
            pytest.param(container(requests={"cpu": 2}, limits={"cpu": 4}), id="burstable"),
            pytest.param(container({"cpu": "1500m", "memory": "1Gi"}), id="a broken number of CPUs"),
        ],
    )
    def test_that_owns_nothing_in_zones_counts_in_none(self, shared: dict[str, Any]) -> None:
        state = one_node()
        state.set_pod(bound(pod(shared, name="web")))
        assert (left(state), state.is_ahead_of_report(0)) == ([8, 8], False)

    def test_that_the_list_no_longer_has_stays_where_it_stood(self) -> None:
        """A kubelet that restarts may list nothing for a moment."""
        state = one_node({"web": {1: 6}})
        state.set_pod(bound(cpu_pod(6)))
        state.set_topology(report({}))
        assert left(state) == [8, 2]
        state.set_topology(report({"web": {1: 6}}))
        assert left(state) == [8, 2]


class TestNodesAndReportsThatComeAndGo:
    def test_a_node_that_returns_has_its_list_again(self) -> None:
        state = one_node({"web": {1: 6}})
        state.set_pod(bound(cpu_pod(6)))
        state.remove_node("n1")
        state.set_node(node("n1", {"cpu": 16, "memory": "64Gi"}))
        assert left(state) == [8, 2]
        state.remove_pod("default/web")
        assert left(state) == [8, 8]

    def test_a_pod_unlisted_when_its_node_went_can_be_anywhere_when_it_returns(self) -> None:
        state = one_node()
        run(state, cpu_pod(6))
        state.remove_node("n1")
        state.set_node(node("n1", {"cpu": 16, "memory": "64Gi"}))
        assert left(state) == [2, 2]

    def test_a_pod_that_ended_with_its_node_counts_until_the_next_report(self) -> None:
        state = one_node({"web": {1: 6}})
        state.set_pod(bound(cpu_pod(6)))
        state.remove_node("n1")
        state.remove_pod("default/web")
        state.set_node(node("n1", {"cpu": 16, "memory": "64Gi"}))
        assert left(state) == [8, 2], "only the report knows that pod"
        state.set_topology(report({}))
        assert left(state) == [8, 8]

    def test_a_report_that_is_gone_takes_its_list_along(self) -> None:
        state = one_node({"web": {1: 6}})
        state.set_pod(bound(cpu_pod(6)))
        state.remove_pod("default/web")
        state.remove_topology("n1")
        assert not state.columns.zone_available.any()
        state.set_topology(report({}))
        assert left(state) == [8, 8]

    def test_a_report_without_a_list_after_one_with_a_list(self) -> None:
        """The agent was replaced by one that lists no pods: from now on the ledger has to infer again."""
        state = one_node({"old": {1: 4}})
        state.set_pod(bound(cpu_pod(4, "old")))
        state.remove_pod("default/old")
        run(state, cpu_pod(2))
        state.set_topology(report(None, available=(8, 4)))
        assert left(state) == [6, 4], (
            "what is not listed is not added back, and a report like the last one settles nothing"
        )
        state.set_topology(report(None, available=(6, 8)))
        assert left(state) == [6, 8]

    def test_a_report_with_a_list_after_one_without(self) -> None:
        state = cluster(report(None, available=(8, 8)), nodes=[node("n1", {"cpu": 16, "memory": "64Gi"})])
        run(state, cpu_pod(4))
        state.set_topology(report({"web": {0: 4}}))
        assert left(state) == [4, 8]
        state.remove_pod("default/web")
        assert left(state) == [8, 8]


class TestOddLists:
    def test_zones_and_resources_that_the_report_does_not_have_are_passed_over(self) -> None:
        held = '{"default/web": {"cpu": {"0": 4000, "7": 4000}, "example.com/fpga": {"0": 1}}}'
        state = cluster(
            topology(zone(0, {"cpu": (8, 8, 4)}), attributes={"bayplan.io/pods": held}),
            nodes=[node("n1", {"cpu": 8, "memory": "64Gi"})],
        )
        state.set_pod(bound(cpu_pod(8)))
        state.remove_pod("default/web")
        assert state.columns.zone_available.sum() == 8000

    def test_a_pod_without_an_entry_for_a_resource_holds_none_of_it(self) -> None:
        state = cluster(
            topology(zone(0, {"cpu": (8, 8, 8)}), attributes={"bayplan.io/pods": '{"default/web": {}}'}),
            nodes=[node("n1", {"cpu": 8, "memory": "64Gi"})],
        )
        state.set_pod(bound(cpu_pod(4)))
        assert free_in_zones(state, "n1", "cpu") == [8000]
        state.remove_pod("default/web")
        assert free_in_zones(state, "n1", "cpu") == [8000]


# -- any sequence -----------------------------------------------------------------------------------------------------

SIZES = st.tuples(st.sampled_from([1, 2, 3, 4, 6]), st.sampled_from([1, 2, 6, 10]), st.sampled_from([0, 0, 1]))
HAPPENINGS = st.lists(
    st.one_of(
        st.tuples(st.just("a pod comes"), SIZES),
        st.tuples(st.just("a pod ends"), st.integers(0, 9)),
        st.tuples(st.just("a report arrives"), st.just(0)),
    ),
    max_size=30,
)


class Told:
    """A kubelet, and a state that is told of every pod at once and gets every report late, in order."""

    def __init__(self) -> None:
        settings = KubeletSettings(policy=Policy.SINGLE_NUMA_NODE, cpu_static=True, memory_static=True)
        configuration = KubeletConfiguration(
            settings, reserved_cpus=frozenset({0, 8}), reserved_memory={0: {"memory": GI}}
        )
        self.kubelet = VirtualKubelet(machine_of("pack:2 core:4 pu:2 mem:16Gi gpu:1@0"), configuration)
        self.agent = NodeAgent("n1", self.kubelet)
        self.state = ClusterState()
        self.state.set_node(self.agent.node)
        self.on_the_way = [self.agent.topology(complete=True)]
        self.report_arrives()
        self.came = 0

    def pod_comes(self, size: tuple[int, int, int]) -> None:
        cpu, memory, gpus = size
        amounts: dict[str, int | str] = {"cpu": cpu, "memory": f"{memory}Gi", **({GPU: gpus} if gpus else {})}
        waiting = simple_pod(amounts, f"pod-{self.came}")
        self.came += 1
        decision = decide(self.state, waiting)
        if not decision.placed:
            return
        assume(self.state, decision, waiting)
        admission = self.kubelet.admit(decision.pod, self.state.classes.request_of(waiting))
        assert admission.admitted, admission
        self.state.set_pod(bound(waiting))
        self.on_the_way.append(self.agent.topology(complete=True))

    def pod_ends(self, number: int) -> None:
        if self.kubelet.pods:
            key = sorted(self.kubelet.pods)[number % len(self.kubelet.pods)]
            self.kubelet.remove(key)
            self.state.remove_pod(key)
            self.on_the_way.append(self.agent.topology(complete=True))

    def report_arrives(self) -> None:
        if self.on_the_way:
            self.state.set_topology(self.on_the_way.pop(0))

    def true(self, resource: str) -> list[int]:
        return free_in_zones(cluster(self.agent.topology(complete=False), nodes=[self.agent.node]), "n1", resource)


@given(HAPPENINGS)
def test_what_is_believed_free_is_free_however_late_reports_are(happenings: list[tuple[str, Any]]) -> None:
    told = Told()
    for what, value in happenings:
        match what:
            case "a pod comes":
                told.pod_comes(value)
            case "a pod ends":
                told.pod_ends(value)
            case _:
                told.report_arrives()
        believed = {name: free_in_zones(told.state, "n1", name) for name in ("cpu", "memory", GPU)}
        assert believed == {name: told.true(name) for name in believed}


ANYTHING = st.lists(
    st.one_of(
        st.tuples(st.just("decided"), st.sampled_from("ab"), st.integers(1, 8)),
        st.tuples(st.just("seen bound"), st.sampled_from("abc"), st.integers(1, 8)),
        st.tuples(st.just("ended"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("forgotten"), st.sampled_from("ab"), st.just(0)),
        st.tuples(
            st.just("reported"),
            st.dictionaries(
                st.sampled_from("abcd"), st.dictionaries(st.integers(0, 1), st.integers(0, 8), max_size=2), max_size=3
            ),
            st.tuples(st.integers(0, 8), st.integers(0, 8)),
        ),
        st.tuples(st.just("reported without a list"), st.just(None), st.tuples(st.integers(0, 8), st.integers(0, 8))),
    ),
    max_size=20,
)


@given(ANYTHING)
def test_no_sequence_of_news_drives_a_zone_below_zero_or_above_its_total(news: list[tuple[str, Any, Any]]) -> None:
    """Even if reports contradict each other, themselves and everything that was told."""
    state = one_node()
    for what, name, value in news:
        match what:
            case "decided":
                waiting = cpu_pod(value, name)
                decision = decide(state, waiting)
                if decision.placed and decision.pod not in state.pods:
                    assume(state, decision, waiting)
            case "seen bound":
                state.set_pod(bound(cpu_pod(value, name)))
            case "ended":
                state.remove_pod(f"default/{name}")
            case "forgotten":
                state.forget(f"default/{name}")
            case _:
                state.set_topology(report(name, available=value))
        assert all(0 <= amount <= 8 for amount in left(state)), left(state)
        columns = state.columns
        assert np.array_equal(columns.zone_available_sum, columns.zone_available.sum(axis=1))
