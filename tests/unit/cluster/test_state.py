"""The life of nodes, reports and pods in the cluster's state, told as short stories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from bayplan.cluster.columns.columns import NO_TOPOLOGY, TOPOLOGY_INVALID, TOPOLOGY_STALE, TOPOLOGY_USABLE, Columns
from bayplan.cluster.loading import load_state
from bayplan.cluster.reports.fingerprint import fingerprint_of
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.kube.errors import InvalidObject
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.clusters import cluster, free_in_zones, free_on, place
from tests.builders.numatopologies import machine, numatopology
from tests.builders.objects import GI, GPU, Amounts, bound, container, cpu_zones, node, pod, simple_pod, topology, zone

FOUR_CPUS: Amounts = {"cpu": 4, "memory": "1Gi"}


def two_zones(available: int = 8, *, name: str = "n1") -> NodeResourceTopology:
    """Two zones of 8 CPUs, of which so many are left in zone 0."""
    return topology(*cpu_zones(available, 8), name=name)


def one_node() -> ClusterState:
    return cluster(two_zones(), nodes=[node("n1", {"cpu": 16, "memory": "32Gi"})])


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
        state.remove_node("missing")
        assert list(state.rows) == ["n1"]

    def test_a_wrong_amount_leaves_the_old_node_as_it_was(self) -> None:
        state = one_node()
        with pytest.raises(InvalidObject, match=r"Node n1: status\.allocatable\.cpu: \"-1\" is negative"):
            state.set_node(node("n1", {"cpu": -1}))
        assert free_on(state, "n1", "cpu") == 16_000


class TestManyResources:
    """The ninth and the seventeenth column make all of them grow while they are written to."""

    @pytest.mark.parametrize("known", [8, 16])
    def test_a_bound_pod_may_be_the_first_to_name_a_resource(self, known: int) -> None:
        names = [f"example.com/d{number}" for number in range(known - len(Columns().resource_names))]
        state = cluster(nodes=[node("n1", dict.fromkeys(names, 2))])
        assert len(state.columns.resource_names) == known
        state.set_pod(bound(simple_pod({"example.com/new": 1, "cpu": 1}), "n1"))
        assert len(state.columns.resource_names) == known
        state.set_node(node("n1", dict.fromkeys((*names, "example.com/new"), 2)))
        assert free_on(state, "n1", "example.com/new") == 1
        assert free_on(state, "n1", names[-1]) == 2
        state.remove_pod("default/pod")
        assert free_on(state, "n1", "example.com/new") == 2


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

    def test_a_report_without_its_node_is_noted_and_ignored(self) -> None:
        state = ClusterState()
        state.set_topology(two_zones(name="ghost"))
        assert [str(problem) for problem in state.remarks] == [
            'NodeResourceTopology ghost: "ghost" is not a known Node: the topology data is ignored'
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
        state.remove_topology("missing")

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

    def test_on_an_unknown_node_it_is_noted_and_ignored(self) -> None:
        state = cluster(pods=[bound(simple_pod(FOUR_CPUS), "ghost")])
        assert [str(problem) for problem in state.remarks] == [
            'Pod default/pod: spec.nodeName: "ghost" is not a known Node: the pod is ignored'
        ]
        assert state.pods == {}

    def test_seen_on_another_node_it_moves_with_everything_it_holds(self) -> None:
        state = cluster(nodes=[node("a", {"cpu": 8}), node("b", {"cpu": 8})])
        web = pod(container(FOUR_CPUS, ports=[{"containerPort": 80, "hostPort": 80}]))
        state.set_pod(bound(web, "a"))
        state.set_pod(bound(web, "b"))
        assert (free_on(state, "a", "cpu"), free_on(state, "b", "cpu")) == (8000, 4000)
        assert list(state.bookings.port_users["TCP", 80]) == [state.rows["b"]]
        assert list(state.bound) == ["default/pod"]

    def test_a_host_port_is_held_until_the_pod_goes(self) -> None:
        state = cluster(nodes=[node("a")])
        state.set_pod(bound(pod(container(ports=[{"containerPort": 80, "hostPort": 80}])), "a"))
        assert len(state.bookings.port_users["TCP", 80]) == 1
        state.remove_pod("default/pod")
        assert state.bookings.port_users["TCP", 80] == {}

    def test_a_wrong_amount_leaves_no_trace(self) -> None:
        state = one_node()
        with pytest.raises(InvalidObject):
            state.set_pod(bound(simple_pod({"cpu": -1}), "n1"))
        assert (state.pods, state.bound, free_on(state, "n1", "cpu")) == ({}, {}, 16_000)

    def test_removing_an_unknown_pod_changes_nothing(self) -> None:
        state = one_node()
        end = state.usage_log.end
        state.remove_pod("default/missing")
        assert state.usage_log.end == end


class TestLedger:
    """Promises count in zones until a report made after the confirmation shows them."""

    def test_a_promise_is_taken_at_once_and_given_back_when_forgotten(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        assert (free_in_zones(state, "n1", "cpu"), free_on(state, "n1", "cpu")) == ([4000, 8000], 12_000)
        state.forget("default/pod")
        assert (free_in_zones(state, "n1", "cpu"), free_on(state, "n1", "cpu")) == ([8000, 8000], 16_000)

    def test_nothing_is_promised_twice(self) -> None:
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

    def test_a_report_that_is_identical_in_use_may_be_older_than_the_pod(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.set_pod(bound(simple_pod(FOUR_CPUS), "n1"))
        state.set_topology(two_zones(8))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]
        state.set_topology(two_zones(4))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]

    def test_a_report_that_shows_a_pod_before_its_confirmation_does_not_count_it_twice(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.set_topology(two_zones(4))
        assert free_in_zones(state, "n1", "cpu") == [0, 8000], "still only a promise"
        state.set_pod(bound(simple_pod(FOUR_CPUS), "n1"))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]

    def test_a_report_that_shows_another_pod_confirms_nothing(self) -> None:
        """Two pods of 4 CPUs; the report that comes between their confirmations shows the first one only."""
        state = one_node()
        place(state, simple_pod(FOUR_CPUS, "first"))
        place(state, simple_pod(FOUR_CPUS, "second"))
        state.set_pod(bound(simple_pod(FOUR_CPUS, "first"), "n1"))
        state.set_topology(two_zones(4))
        state.set_pod(bound(simple_pod(FOUR_CPUS, "second"), "n1"))
        assert free_in_zones(state, "n1", "cpu") == [0, 8000]

    def test_nothing_is_given_back_to_a_report_that_is_gone(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.remove_topology("n1")
        state.forget("default/pod")
        assert not state.columns.zone_available.any()
        assert not state.columns.zone_available_sum.any()

    def test_forgetting_a_pod_that_is_gone_changes_nothing(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.remove_node("n1")
        state.forget("default/pod")
        assert (state.pods, state.waiting) == ({}, {})

    def test_a_binding_that_seemed_to_fail_but_is_seen_counts(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.set_pod(bound(simple_pod(FOUR_CPUS), "n1"))
        state.forget("default/pod")
        assert (list(state.pods), free_on(state, "n1", "cpu")) == (["default/pod"], 12_000)

    def test_no_report_drives_a_zone_below_zero(self) -> None:
        state = one_node()
        place(state, simple_pod(FOUR_CPUS))
        state.set_topology(two_zones(1))
        assert free_in_zones(state, "n1", "cpu") == [0, 8000]

    def test_a_promise_survives_a_report_that_shows_too_little(self) -> None:
        """Another pod had 7 CPUs for a moment; when they are free again, the promise of 4 still counts in full."""
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

    def test_nodes_change_what_is_kept_per_node(self) -> None:
        state = one_node()
        changes: list[Callable[[], object]] = [
            lambda: state.set_node(node("n1", {"cpu": 16})),
            lambda: state.remove_node("n1"),
        ]
        for change in changes:
            end = state.node_log.end
            change()
            assert state.node_log.end > end

    def test_reports_change_what_is_kept_per_use(self) -> None:
        """No filter that looks at node objects looks at reports: those that do are asked about use."""
        state = one_node()
        changes: list[Callable[[], object]] = [
            lambda: state.set_topology(two_zones()),
            lambda: state.set_fresh("n1", fresh=False),
            lambda: state.remove_topology("n1"),
        ]
        for change in changes:
            nodes, usage = state.node_log.end, state.usage_log.end
            change()
            assert state.node_log.end == nodes
            assert state.usage_log.end > usage


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

    def test_a_node_that_returns_has_its_pods_and_its_report_again(self) -> None:
        state = one_node()
        state.set_pod(bound(simple_pod(FOUR_CPUS), "n1"))
        state.remove_node("n1")
        assert (state.pods, state.bound, state.rows) == ({}, {}, {})
        state.set_node(node("n1", {"cpu": 16, "memory": "32Gi"}))
        assert (free_on(state, "n1", "cpu"), list(state.bound)) == (12_000, ["default/pod"])
        assert (topology_of(state, "n1"), free_in_zones(state, "n1", "cpu")) == (TOPOLOGY_USABLE, [8000, 8000])

    def test_a_pod_that_ended_while_its_node_was_gone_is_gone(self) -> None:
        state = one_node()
        state.set_pod(bound(simple_pod(FOUR_CPUS), "n1"))
        state.remove_node("n1")
        state.remove_pod("default/pod")
        state.set_node(node("n1", {"cpu": 16}))
        assert (free_on(state, "n1", "cpu"), state.pods) == (16_000, {})

    def test_a_report_that_came_before_its_node_is_used_when_the_node_appears(self) -> None:
        state = ClusterState()
        state.set_topology(two_zones(3, name="late"))
        state.set_node(node("late", {"cpu": 16}))
        assert (topology_of(state, "late"), free_in_zones(state, "late", "cpu")) == (TOPOLOGY_USABLE, [3000, 8000])

    def test_a_report_that_was_removed_before_its_node_appeared_is_not_used(self) -> None:
        state = ClusterState()
        state.set_topology(two_zones(3, name="late"))
        state.remove_topology("late")
        state.set_node(node("late", {"cpu": 16}))
        assert topology_of(state, "late") == NO_TOPOLOGY

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


class TestProblems:
    def test_are_kept_once(self) -> None:
        state = ClusterState()
        for _ in range(3):
            state.set_topology(two_zones(name="ghost"))
        assert len(state.remarks) == 1

    def test_are_only_the_latest_of_very_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bayplan.cluster.remarks.MOST_REMARKS", 5)
        state = ClusterState()
        for number in range(8):
            state.set_topology(two_zones(name=f"ghost-{number}"))
        assert [problem.at.subject[-7:] for problem in state.remarks] == [f"ghost-{number}" for number in range(3, 8)]

    def test_a_second_report_of_a_node_in_one_dump(self) -> None:
        state = load_state(ObjectSet(nodes=[node("n1")], topologies=[two_zones(8), two_zones(3)]))
        assert free_in_zones(state, "n1", "cpu") == [3000, 8000]
        assert [str(problem) for problem in state.remarks] == [
            "NodeResourceTopology n1: appears twice: the last one counts"
        ]

    def test_a_second_numatopology_of_a_node_in_one_dump(self) -> None:
        reports = [numatopology("n1", machine(2, 4), free=free, reserved="1") for free in ("0-7", "0-3")]
        state = load_state(ObjectSet(nodes=[node("n1", {"cpu": 8})], numatopologies=reports))
        assert free_in_zones(state, "n1", "cpu") == [3000, 0]
        assert [str(problem) for problem in state.remarks] == ["Numatopology n1: appears twice: the last one counts"]


def capacity_alone(policy: str = "single-numa-node") -> NodeResourceTopology:
    """Two zones of 8 CPUs and a GPU, of which the report says only that they exist."""
    resources = [{"name": "cpu", "capacity": 8}, {"name": GPU, "capacity": 1}]
    return topology(*({**zone(number, {}), "resources": resources} for number in (0, 1)), policy=policy)


def without_available(left: int = 8, *, keyed: bool = False, fingerprint: str = "") -> NodeResourceTopology:
    """Two zones of 8 CPUs in the forms before `available`, lists or maps: `left` CPUs of zone 0 are not in use."""
    amounts = {0: {"capacity": "8", "allocatable": str(left)}, 1: {"capacity": "8", "allocatable": "8"}}
    zones: Any = [
        {"name": f"node-{number}", "type": "Node", "resources": [{"name": "cpu", **each}]}
        for number, each in amounts.items()
    ]
    if keyed:
        zones = {f"node-{number}": {"type": "Node", "resources": {"cpu": each}} for number, each in amounts.items()}
    annotations = {"topology.node.k8s.io/fingerprint": fingerprint} if fingerprint else {}
    return msgspec.convert(
        {
            "metadata": {"name": "n1", "annotations": annotations},
            "topologyPolicies": ["SingleNumaNode"],
            "zones": zones,
        },
        NodeResourceTopology,
    )


def annotated(running: Pod, zones: str) -> Pod:
    metadata = msgspec.structs.replace(running.metadata, annotations={"bayplan.io/numa-zones": zones})
    return msgspec.structs.replace(running, metadata=metadata)


class TestReportsThatShowNoUse:
    """Of a capacity alone, what pods hold is known from here and from their annotations, or not at all."""

    AMOUNTS: ClassVar[Amounts] = {"cpu": 16, GPU: 2, "memory": "32Gi"}
    PINNED = bound(simple_pod(FOUR_CPUS), "n1")

    def state(self, *pods: Pod, policy: str = "single-numa-node") -> ClusterState:
        return cluster(capacity_alone(policy), nodes=[node("n1", self.AMOUNTS)], pods=pods)

    def test_what_was_promised_here_stays_whatever_is_reported(self) -> None:
        state = self.state()
        place(state, simple_pod(FOUR_CPUS))
        state.set_pod(self.PINNED)
        state.set_topology(capacity_alone())
        assert (free_in_zones(state, "n1", "cpu"), topology_of(state, "n1")) == ([4000, 8000], TOPOLOGY_USABLE)
        state.remove_pod("default/pod")
        assert free_in_zones(state, "n1", "cpu") == [8000, 8000]

    @pytest.mark.parametrize("report_last", [False, True])
    def test_the_annotation_tells_where_others_stand(self, report_last: bool) -> None:
        state = self.state(annotated(self.PINNED, '{"main": [1]}'))
        if report_last:
            state.set_topology(capacity_alone())
        assert (free_in_zones(state, "n1", "cpu"), topology_of(state, "n1")) == ([8000, 4000], TOPOLOGY_USABLE)
        assert not list(state.remarks)
        state.remove_pod("default/pod")
        assert free_in_zones(state, "n1", "cpu") == [8000, 8000]

    @pytest.mark.parametrize("zones", ["{}", '{"main": [0, 1]}', '{"main": [7]}', "nonsense"])
    def test_a_pod_in_unknown_zones_spoils_the_data_until_it_goes(self, zones: str) -> None:
        state = self.state(annotated(self.PINNED, zones))
        assert topology_of(state, "n1") == TOPOLOGY_INVALID
        assert str(next(iter(state.remarks))).startswith(
            "NodeResourceTopology n1: zones: zones report neither `available` nor `allocatable`, and where pod "
            "default/pod stands is unknown"
        )
        state.set_topology(capacity_alone())
        assert topology_of(state, "n1") == TOPOLOGY_INVALID
        end = state.usage_log.end
        state.remove_pod("default/pod")
        assert topology_of(state, "n1") == TOPOLOGY_USABLE
        assert state.usage_log.end > end

    def test_devices_of_any_pod_stand_somewhere(self) -> None:
        state = self.state(bound(pod(container(limits={GPU: 1})), "n1"))
        assert topology_of(state, "n1") == TOPOLOGY_INVALID

    def test_pods_that_hold_nothing_in_zones_do_no_harm(self) -> None:
        state = self.state(bound(pod(container(requests={"cpu": 4})), "n1"))
        assert (free_in_zones(state, "n1", "cpu"), topology_of(state, "n1")) == ([8000, 8000], TOPOLOGY_USABLE)

    @pytest.mark.parametrize("policy", ["none", "best-effort"])
    def test_a_kubelet_that_never_refuses_may_be_asked_nevertheless(self, policy: str) -> None:
        assert topology_of(self.state(self.PINNED, policy=policy), "n1") == TOPOLOGY_USABLE

    def test_a_report_that_shows_use_is_enough_again(self) -> None:
        state = self.state(self.PINNED)
        state.set_topology(two_zones(4))
        assert (free_in_zones(state, "n1", "cpu"), topology_of(state, "n1")) == ([4000, 8000], TOPOLOGY_USABLE)


@pytest.mark.parametrize("keyed", [False, True], ids=["list form", "map form"])
class TestReportsWithoutAvailable:
    """Their daemon has subtracted use from `allocatable` already."""

    AMOUNTS: ClassVar[Amounts] = {"cpu": 16, "memory": "32Gi"}
    PINNED = bound(simple_pod(FOUR_CPUS), "n1")

    def test_what_running_pods_use_is_not_subtracted_twice(self, keyed: bool) -> None:
        running = annotated(self.PINNED, '{"main": [0]}')
        state = cluster(without_available(4, keyed=keyed), nodes=[node("n1", self.AMOUNTS)], pods=[running])
        assert (free_in_zones(state, "n1", "cpu"), topology_of(state, "n1")) == ([4000, 8000], TOPOLOGY_USABLE)
        state.set_topology(without_available(4, keyed=keyed))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]

    def test_what_was_promised_stays_until_the_report_shows_it(self, keyed: bool) -> None:
        state = cluster(without_available(keyed=keyed), nodes=[node("n1", self.AMOUNTS)])
        place(state, simple_pod(FOUR_CPUS))
        state.set_pod(self.PINNED)
        state.set_topology(without_available(keyed=keyed))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]
        state.set_topology(without_available(4, keyed=keyed))
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]
        state.remove_pod("default/pod")
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]

    def test_a_pod_that_a_report_shows_by_fingerprint_is_not_subtracted_twice(self, keyed: bool) -> None:
        state = cluster(without_available(keyed=keyed), nodes=[node("n1", self.AMOUNTS)])
        place(state, simple_pod(FOUR_CPUS))
        state.set_pod(self.PINNED, at=100.0)
        shown = fingerprint_of([("default", "pod")])
        state.set_topology(without_available(4, keyed=keyed, fingerprint=shown), at=101.0)
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]

    def test_a_pod_just_bound_that_a_report_does_not_show_yet_stays_subtracted(self, keyed: bool) -> None:
        state = cluster(without_available(keyed=keyed), nodes=[node("n1", self.AMOUNTS)])
        place(state, simple_pod(FOUR_CPUS))
        state.set_pod(self.PINNED, at=100.0)
        state.set_topology(without_available(keyed=keyed), at=101.0)
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]
        state.set_topology(without_available(4, keyed=keyed), at=200.0)
        assert free_in_zones(state, "n1", "cpu") == [4000, 8000]

    def test_the_total_is_the_capacity(self, keyed: bool) -> None:
        """`restricted` judges by totals: use must not make the machine smaller."""
        state = cluster(without_available(2, keyed=keyed), nodes=[node("n1", self.AMOUNTS)])
        assert state.columns.zone_total[0, :, 0].tolist() == [8000, 8000]
