"""The life of nodes, reports and pods in the cluster's state, told as short stories."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from bayplan.cluster.columns import NO_TOPOLOGY, TOPOLOGY_INVALID, TOPOLOGY_STALE, TOPOLOGY_USABLE
from bayplan.cluster.kubelet_settings import Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.kube.core_v1 import Pod
from bayplan.kube.errors import InvalidObject
from bayplan.kube.files import ObjectSet
from bayplan.kube.topology_v1alpha2 import NodeResourceTopology
from tests.helpers import (
    GI,
    GPU,
    Amounts,
    ZoneAmounts,
    cluster,
    container,
    free_in_zones,
    free_on,
    node,
    place,
    pod,
    simple_pod,
    topology,
    zone,
)

FOUR_CPUS: Amounts = {"cpu": 4, "memory": "1Gi"}


def two_zones(available: int = 8, *, name: str = "n1") -> NodeResourceTopology:
    """Two zones of 8 CPUs, of which so many are left in zone 0."""
    cpus: ZoneAmounts = {"cpu": (8, 8, available)}
    return topology(zone(0, cpus), zone(1, {"cpu": 8}), name=name)


def one_node() -> ClusterState:
    return cluster(two_zones(), nodes=[node("n1", {"cpu": 16, "memory": "32Gi"})])


def bound(waiting: Pod, to: str) -> Pod:
    return msgspec.structs.replace(waiting, spec=msgspec.structs.replace(waiting.spec, node_name=to))


def topology_of(state: ClusterState, name: str) -> int:
    return int(state.columns.topology[state.rows[name]])


class TestNodes:
    def test_new_amounts_keep_what_pods_use(self) -> None:
        state = cluster(nodes=[node("n1", {"cpu": 8})], pods=[bound(simple_pod({"cpu": 3}), "n1")])
        state.set_node(node("n1", {"cpu": 16, GPU: 2}))
        assert (free_on(state, "n1", "cpu"), free_on(state, "n1", GPU)) == (13_000, 2)

    def test_a_resource_that_the_node_lost_is_overdrawn_not_free(self) -> None:
        state = cluster(nodes=[node("n1", {GPU: 2})], pods=[bound(simple_pod({GPU: 1}), "n1")])
        state.set_node(node("n1", {}))
        assert free_on(state, "n1", GPU) == -1

    def test_every_pod_takes_a_place(self) -> None:
        state = cluster(nodes=[node("n1", {"pods": 3})], pods=[bound(pod(name="a"), "n1"), bound(pod(name="b"), "n1")])
        assert free_on(state, "n1", "pods") == 1

    def test_the_row_of_a_removed_node_is_used_again_and_clean(self) -> None:
        state = cluster(
            topology(zone(0, {"cpu": 8, GPU: 4}), name="old", policy="restricted", scope="pod"),
            two_zones(name="other"),
            pods=[bound(simple_pod(FOUR_CPUS), "old")],
        )
        row = state.rows["old"]
        state.remove_node("old")
        assert "old" not in state.rows
        assert state.pods == {}
        assert not state.columns.present[row]

        state.set_node(node("new", {"cpu": 2}))
        assert state.rows["new"] == row
        assert state.columns.size == 2
        columns = state.columns
        assert (topology_of(state, "new"), columns.zone_count[row]) == (NO_TOPOLOGY, 0)
        assert (columns.policy[row], columns.scope[row]) == (Policy.NONE, Scope.CONTAINER)
        assert not columns.zone_available[:, :, row].any()
        assert (free_on(state, "new", "cpu"), free_on(state, "new", GPU), state.pods_on(row)) == (2000, 0, [])

    def test_removing_an_unknown_node_changes_nothing(self) -> None:
        state = one_node()
        state.remove_node("nobody")
        assert list(state.rows) == ["n1"]

    def test_a_wrong_amount_leaves_the_old_node_as_it_was(self) -> None:
        state = one_node()
        with pytest.raises(InvalidObject, match=r"Node n1: status\.allocatable\.cpu: \"-1\" is negative"):
            state.set_node(node("n1", {"cpu": -1}))
        assert free_on(state, "n1", "cpu") == 16_000

    def test_a_dump_with_the_same_node_twice_is_refused(self) -> None:
        with pytest.raises(InvalidObject, match="Node n1: appears twice"):
            ClusterState.load(ObjectSet(nodes=[node("n1"), node("n1")]))


class TestManyResources:
    """The ninth and the seventeenth name of a resource make the columns grow while somebody writes to them."""

    @pytest.mark.parametrize("known", [8, 16])
    def test_a_bound_pod_may_be_the_first_to_name_a_resource(self, known: int) -> None:
        names = [f"example.com/d{number}" for number in range(known - 3)]  # cpu, memory and pods are always there
        state = cluster(nodes=[node("n1", dict.fromkeys(names, 2))])
        assert len(state.columns.resource_names) == known
        state.set_pod(bound(simple_pod({"example.com/new": 1, "cpu": 1}), "n1"))
        assert free_on(state, "n1", "example.com/new") == -1
        assert free_on(state, "n1", names[-1]) == 2
        state.remove_pod("default/pod")
        assert free_on(state, "n1", "example.com/new") == 0


class TestReports:
    def test_fill_zones_in_ascending_id_and_settings(self) -> None:
        state = cluster(topology(zone(5, {"cpu": 2}), zone(1, {"cpu": 1}), policy="restricted", scope="pod"))
        columns = state.columns
        assert free_in_zones(state, "n1", "cpu") == [1000, 2000]
        assert (columns.policy[0], columns.scope[0], topology_of(state, "n1")) == (
            Policy.RESTRICTED,
            Scope.POD,
            TOPOLOGY_USABLE,
        )
        assert state.hardware_classes[columns.hardware_class[0]].zone_ids == (1, 5)

    def test_the_total_of_a_zone_is_capacity_except_for_memory(self) -> None:
        """The kubelet counts reserved CPUs as part of a zone, but not reserved memory."""
        state = cluster(topology(zone(0, {"cpu": (16, 14, 3), "memory": ("8Gi", "7Gi", "1Gi")})))
        assert state.columns.zone_total[:2, 0, 0].tolist() == [16_000, 7 * GI]

    def test_a_smaller_report_leaves_nothing_of_the_larger_one(self) -> None:
        state = cluster(topology(zone(0, {"cpu": 8, GPU: 1}), zone(1, {"cpu": 8, GPU: 1})))
        state.set_topology(topology(zone(0, {"cpu": 4})))
        assert free_in_zones(state, "n1", "cpu") == [4000]
        assert state.columns.zone_available.sum() == 4000
        assert not state.columns.zone_reported[state.columns.resource_index[GPU]].any()

    def test_equal_machines_share_a_hardware_class(self) -> None:
        state = cluster(two_zones(name="a"), two_zones(2, name="b"), topology(zone(0, {"cpu": 8}), name="c"))
        first, second, third = state.columns.hardware_class[:3].tolist()
        assert first == second != third

    def test_a_report_without_its_node_is_noted_and_left_aside(self) -> None:
        state = ClusterState()
        state.set_topology(two_zones(name="ghost"))
        assert [str(problem) for problem in state.problems] == [
            'NodeResourceTopology ghost: "ghost" is not a known Node: the topology data is left aside until it is'
        ]
        assert state.columns.size == 0

    def test_contradicting_zones_make_the_data_invalid(self) -> None:
        state = cluster(topology(zone(0, {"cpu": 8}), zone(0, {"cpu": 4})))
        assert topology_of(state, "n1") == TOPOLOGY_INVALID
        assert not state.columns.zone_available.any()

    def test_a_removed_report_leaves_a_node_that_never_had_one(self) -> None:
        state = one_node()
        state.remove_topology("n1")
        assert topology_of(state, "n1") == NO_TOPOLOGY
        assert not state.columns.zone_available.any()
        state.remove_topology("nobody")

    def test_staleness_comes_and_goes(self) -> None:
        state = one_node()
        state.set_fresh("n1", fresh=False)
        assert topology_of(state, "n1") == TOPOLOGY_STALE
        state.set_fresh("n1", fresh=True)
        assert topology_of(state, "n1") == TOPOLOGY_USABLE

    def test_a_wrong_amount_leaves_the_old_report_as_it_was(self) -> None:
        state = one_node()
        with pytest.raises(InvalidObject):
            state.set_topology(topology(zone(0, {"cpu": 4}), zone(1, {"cpu": -1})))
        assert free_in_zones(state, "n1", "cpu") == [8000, 8000]


class TestPods:
    def test_without_a_node_it_waits(self) -> None:
        state = cluster(nodes=[node("n1", {"cpu": 8})], pods=[simple_pod(FOUR_CPUS, "web")])
        assert (list(state.waiting), state.pods) == (["default/web"], {})

    def test_with_a_node_it_takes_from_the_nodes_sum_but_not_from_zones(self) -> None:
        """What a running pod holds in zones is part of the node's report already."""
        state = one_node()
        state.set_pod(bound(simple_pod(FOUR_CPUS), "n1"))
        assert free_on(state, "n1", "cpu") == 12_000
        assert free_in_zones(state, "n1", "cpu") == [8000, 8000]

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_when_it_ends_its_amounts_are_free_again(self, phase: str) -> None:
        state = one_node()
        running = bound(simple_pod(FOUR_CPUS), "n1")
        state.set_pod(running)
        ended = msgspec.structs.replace(running, status=msgspec.convert({"phase": phase}, type(running.status)))
        state.set_pod(ended)
        assert (free_on(state, "n1", "cpu"), state.pods, state.bound) == (16_000, {}, {})

    def test_on_an_unknown_node_it_is_noted_and_left_aside(self) -> None:
        state = cluster(pods=[bound(simple_pod(FOUR_CPUS), "ghost")])
        assert [str(problem) for problem in state.problems] == [
            'Pod default/pod: spec.nodeName: "ghost" is not a known Node: the pod is left aside until it is'
        ]
        assert state.pods == {}

    def test_seen_on_another_node_it_moves_with_everything_it_holds(self) -> None:
        state = cluster(nodes=[node("a", {"cpu": 8}), node("b", {"cpu": 8})])
        web = pod(container(FOUR_CPUS, ports=[{"containerPort": 80, "hostPort": 80}]))
        state.set_pod(bound(web, "a"))
        state.set_pod(bound(web, "b"))
        assert (free_on(state, "a", "cpu"), free_on(state, "b", "cpu")) == (8000, 4000)
        assert list(state.port_users["TCP", 80]) == [state.rows["b"]]
        assert list(state.bound) == ["default/pod"]

    def test_a_host_port_is_held_until_the_pod_goes(self) -> None:
        state = cluster(nodes=[node("a")])
        state.set_pod(bound(pod(container(ports=[{"containerPort": 80, "hostPort": 80}])), "a"))
        assert len(state.port_users["TCP", 80]) == 1
        state.remove_pod("default/pod")
        assert state.port_users["TCP", 80] == {}

    def test_a_wrong_amount_leaves_no_trace(self) -> None:
        state = one_node()
        with pytest.raises(InvalidObject):
            state.set_pod(bound(simple_pod({"cpu": -1}), "n1"))
        assert (state.pods, state.bound, free_on(state, "n1", "cpu")) == ({}, {}, 16_000)

    def test_removing_an_unknown_pod_changes_nothing(self) -> None:
        state = one_node()
        end = state.usage_log.end
        state.remove_pod("default/nobody")
        assert state.usage_log.end == end


class TestLedger:
    """Promises count in zones until a report made after the confirmation shows them."""

    def test_a_promise_is_taken_at_once_and_given_back_when_forgotten(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        assert (free_in_zones(state, "n1", "cpu"), free_on(state, "n1", "cpu")) == ([4000, 8000], 12_000)
        state.forget("default/pod")
        assert (free_in_zones(state, "n1", "cpu"), free_on(state, "n1", "cpu")) == ([8000, 8000], 16_000)

    def test_nobody_is_promised_twice(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        with pytest.raises(ValueError, match="pod default/pod already occupies node n1"):
            place(state, simple_pod(FOUR_CPUS))

    def test_a_report_before_the_confirmation_does_not_know_the_pod_yet(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.set_topology(two_zones(8))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]

    def test_a_report_after_the_confirmation_knows_the_pod(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.set_pod(bound(simple_pod(FOUR_CPUS), "n1"))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]
        state.set_topology(two_zones(4))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]
        state.remove_pod("default/pod")
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000], "the next report will show it, not we"

    def test_no_report_drives_a_zone_below_zero(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.set_topology(two_zones(1))
        assert free_in_zones(state, "n1", "cpu") == [0, 8000]

    def test_a_promise_survives_a_report_that_shows_too_little(self) -> None:
        """Somebody else had 7 CPUs for a moment; when they are free again, the promise of 4 still counts in full."""
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.set_topology(two_zones(1))
        state.set_topology(two_zones(8))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]
        state.forget("default/pod")
        assert free_in_zones(state, "n1", "cpu") == [8000, 8000]

    def test_a_promise_survives_the_loss_of_the_report(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.remove_topology("n1")
        state.set_topology(two_zones(8))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]

    def test_sums_over_zones_are_kept_beside_the_zones(self) -> None:
        state = one_node()
        for number in range(3):
            place(state, simple_pod(FOUR_CPUS, f"pod-{number}"))
        state.forget("default/pod-1")
        columns = state.columns
        assert np.array_equal(columns.zone_available_sum, columns.zone_available.sum(axis=1))


class TestChangeLogs:
    """Usage changes are told apart from changes of the node itself."""

    def test_a_placement_changes_usage_only(self) -> None:
        state = one_node()
        nodes, usage = state.node_log.end, state.usage_log.end
        place(state, simple_pod(FOUR_CPUS))
        assert (state.node_log.end, state.usage_log.end) == (nodes, usage + 1)

    def test_nodes_and_reports_change_the_node(self) -> None:
        state = one_node()
        for change in (
            lambda: state.set_node(node("n1", {"cpu": 16})),
            lambda: state.set_topology(two_zones()),
            lambda: state.set_fresh("n1", fresh=False),
            lambda: state.remove_topology("n1"),
            lambda: state.remove_node("n1"),
        ):
            end = state.node_log.end
            change()
            assert state.node_log.end > end


class TestLateNews:
    def test_a_pod_seen_before_its_node_takes_its_place_when_the_node_appears(self) -> None:
        state = ClusterState()
        state.set_pod(bound(simple_pod(FOUR_CPUS), "late"))
        state.set_node(node("late", {"cpu": 8}))
        assert free_on(state, "late", "cpu") == 4000

    def test_a_pod_that_ended_before_its_node_appeared_takes_nothing(self) -> None:
        state = ClusterState()
        state.set_pod(bound(simple_pod(FOUR_CPUS), "late"))
        state.remove_pod("default/pod")
        state.set_node(node("late", {"cpu": 8}))
        assert free_on(state, "late", "cpu") == 8000

    def test_a_pod_resized_in_place_counts_with_its_new_amounts(self) -> None:
        state = one_node()
        for cpus in (2, 6):
            state.set_pod(bound(simple_pod({"cpu": cpus}), "n1"))
        assert free_on(state, "n1", "cpu") == 10_000


class TestReportsThatDifferInUse:
    def test_only_what_is_left_is_written(self) -> None:
        state = one_node()
        state.set_topology(two_zones(available=3))
        assert free_in_zones(state, "n1", "cpu") == [3000, 8000]

    def test_another_machine_under_the_same_name_is_taken_over(self) -> None:
        state = one_node()
        state.set_topology(topology(zone(0, {"cpu": 4}), zone(1, {"cpu": 4}), zone(2, {"cpu": 4})))
        assert free_in_zones(state, "n1", "cpu") == [4000, 4000, 4000]
        reach = state.columns.total_reach(state.columns.resource("cpu"))[:, state.rows["n1"]]
        assert reach[:3].tolist() == [4000, 8000, 12000]
