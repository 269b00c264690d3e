"""What a scheduler has to know about the kubelet, told as nodes and pods: each test is one surprise.

Most statements are those of the project's kubelet reference, section 5, verified there on the real kubelet.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayplan.cluster.pods.request import QoS, Role
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.engine.kubelet import MemoryBlock, NearestMiss, admit
from tests.unit.engine.kubelet.builders import GI, GPU, container, node, pod, settings


class TestRestricted:
    """Preferred means: as few zones as the request could ever be served from, not as few as now."""

    @pytest.mark.parametrize(
        "cpus, admitted", [(14, True), (15, False), (16, False), (17, True), (28, True), (29, False)]
    )
    def test_is_not_monotonic_where_cpus_are_reserved(self, *, cpus: int, admitted: bool) -> None:
        """2 zones of 16 CPUs, 2 reserved on each: 15 and 16 count as one zone's worth but no zone has them."""
        empty = node(settings(Policy.RESTRICTED, memory_manager=False), reserved=(0, 1, 16, 17))
        assert admit(empty, pod(container(cpu=cpus))).admitted is admitted

    def test_refuses_an_empty_node_if_memory_needs_more_zones_than_cpu(self) -> None:
        empty = node(settings(Policy.RESTRICTED), memory=32 * GI)
        verdict = admit(empty, pod(container(cpu=4, memory=40 * GI)))
        assert verdict.reason == "TopologyAffinityError"
        assert verdict.nearest_miss == NearestMiss("memory", zone=0, have=32 * GI, want=40 * GI)

    @pytest.mark.parametrize(
        "cpus, admitted",
        [
            pytest.param(4, False, id="whole CPUs that fit one zone disagree"),
            pytest.param(0.5, True, id="a fraction shares the pool and does not care"),
            pytest.param(17, True, id="more than one zone's CPUs agree"),
        ],
    )
    def test_two_gpus_in_different_zones(self, *, cpus: float, admitted: bool) -> None:
        apart = node(settings(Policy.RESTRICTED, memory_manager=False), gpus=((0,), (1,)))
        assert admit(apart, pod(container(cpu=cpus, gpus=2))).admitted is admitted


class TestSingleNumaNode:
    def test_names_the_zone_that_came_closest(self) -> None:
        busy = node(settings(Policy.SINGLE_NUMA_NODE), reserved=(0, 1, 16), taken=(2, 3))
        verdict = admit(busy, pod(container(cpu=16)))
        assert (verdict.reason, verdict.stage, verdict.container) == ("TopologyAffinityError", "topology", "main")
        assert verdict.message == "Resources cannot be allocated with Topology locality"
        assert verdict.nearest_miss == NearestMiss("cpu", zone=1, have=15_000, want=16_000)

    def test_takes_the_zone_where_everything_is_free(self) -> None:
        verdict = admit(
            node(settings(Policy.SINGLE_NUMA_NODE), taken=tuple(range(14)), gpus=((0,), (1,))),
            pod(container(cpu=4, gpus=1)),
        )
        (placed,) = verdict.containers
        assert placed.zones == (1,)
        assert placed.cpus == (16, 17, 18, 19)
        assert placed.devices == {GPU: ("gpu-1",)}
        assert placed.memory == (MemoryBlock("memory", GI, (1,)),)

    def test_has_no_affinity_to_tell_on_a_machine_with_one_zone(self) -> None:
        verdict = admit(node(settings(Policy.SINGLE_NUMA_NODE), zones=1), pod(container(cpu=4)))
        assert verdict.admitted
        assert verdict.containers[0].zones is None


class TestQualityOfService:
    """CPUs and memory align for Guaranteed pods only, devices for everybody."""

    def test_a_burstable_pod_shares_cpus(self) -> None:
        full = node(settings(Policy.SINGLE_NUMA_NODE), taken=tuple(range(32)))
        assert admit(full, pod(container(cpu=4), qos=QoS.BURSTABLE)).admitted

    def test_a_best_effort_pod_still_needs_its_gpus_in_one_zone(self) -> None:
        apart = node(settings(Policy.SINGLE_NUMA_NODE), gpus=((0,), (1,)))
        verdict = admit(apart, pod(container(gpus=2), qos=QoS.BEST_EFFORT))
        assert verdict.reason == "TopologyAffinityError"
        assert verdict.nearest_miss == NearestMiss(GPU, zone=0, have=1, want=2)


class TestPoliciesThatNeverJudge:
    """none and best-effort let every merged hint pass, and refuse all the same while handing out."""

    @pytest.mark.parametrize("policy", [Policy.NONE, Policy.BEST_EFFORT])
    def test_half_a_core_is_refused(self, policy: Policy) -> None:
        verdict = admit(node(settings(policy, options=("full-pcpus-only",)), threads=2), pod(container(cpu=3)))
        assert (verdict.reason, verdict.stage) == ("SMTAlignmentError", "cpu")
        assert verdict.message == "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"

    @pytest.mark.parametrize("policy", [Policy.NONE, Policy.BEST_EFFORT])
    def test_memory_over_two_zones_is_refused_while_one_serves_alone(self, policy: Policy) -> None:
        in_use = node(settings(policy), memory=32 * GI, free_memory={0: 31 * GI}, groups={0: 0b01})
        verdict = admit(in_use, pod(container(memory=40 * GI)))
        assert (verdict.reason, verdict.stage) == ("UnexpectedAdmissionError", "memory")

    def test_best_effort_spreads_over_zones_rather_than_refuse(self) -> None:
        half_full = node(settings(Policy.BEST_EFFORT), taken=(*range(10), *range(16, 26)))
        verdict = admit(half_full, pod(container(cpu=8)))
        assert verdict.admitted
        assert verdict.containers[0].zones == (0, 1)
        assert not verdict.containers[0].preferred


class TestMemoryGroups:
    """A zone serves alone, or in exactly one group, until nothing is allocated in it any more."""

    GROUP = 0b11

    def test_a_grouped_zone_serves_no_pod_alone(self) -> None:
        grouped = node(settings(Policy.RESTRICTED), groups={0: self.GROUP, 1: self.GROUP})
        verdict = admit(grouped, pod(container(cpu=2)))
        assert not verdict.admitted

    def test_the_group_itself_goes_on_serving(self) -> None:
        grouped = node(
            settings(Policy.BEST_EFFORT), memory=32 * GI, groups={0: self.GROUP, 1: self.GROUP}, free_memory={0: 8 * GI}
        )
        verdict = admit(grouped, pod(container(memory=36 * GI)))
        assert verdict.containers[0].memory == (MemoryBlock("memory", 36 * GI, (0, 1)),)

    def test_the_nearest_miss_counts_closed_memory_as_nothing(self) -> None:
        grouped = node(
            settings(Policy.SINGLE_NUMA_NODE), zones=3, groups={0: 0b11, 1: 0b11}, taken=tuple(range(32, 48))
        )
        verdict = admit(grouped, pod(container(cpu=2)))
        assert verdict.nearest_miss == NearestMiss("memory", zone=0, have=0, want=GI)


class TestContainersInTurn:
    """At container scope each container sees what the earlier ones took; there is no way back."""

    def test_greed_can_fail_where_another_order_would_fit(self) -> None:
        # The small container takes zone 0, the lowest that fits, and with it the room that the large one needs.
        one_roomy_zone = node(settings(Policy.SINGLE_NUMA_NODE), taken=tuple(range(16, 26)))
        small, large = container("small", cpu=2), container("large", cpu=15)
        assert admit(one_roomy_zone, pod(large, small)).admitted
        verdict = admit(one_roomy_zone, pod(small, large))
        assert (verdict.stage, verdict.container) == ("topology", "large")

    def test_pod_scope_wants_the_sum_in_one_place(self) -> None:
        containers = container("one", cpu=10), container("two", cpu=10)
        assert admit(node(settings(Policy.SINGLE_NUMA_NODE)), pod(*containers)).admitted
        assert not admit(node(settings(Policy.SINGLE_NUMA_NODE, Scope.POD)), pod(*containers)).admitted


class TestInitContainers:
    """What a finished init container had is used again; what a sidecar has stays with it."""

    def test_cpus_are_used_again(self) -> None:
        verdict = admit(
            node(settings(Policy.SINGLE_NUMA_NODE), taken=tuple(range(16, 32))),
            pod(container("prepare", cpu=16, role=Role.INIT), container("main", cpu=16)),
        )
        prepare, main = verdict.containers
        assert prepare.cpus == main.cpus == tuple(range(16))

    def test_memory_is_used_again_and_taken_off_the_init_containers_block(self) -> None:
        verdict = admit(
            node(settings(Policy.SINGLE_NUMA_NODE), zones=1, memory=10 * GI),
            pod(container("prepare", memory=9 * GI, role=Role.INIT), container("main", memory=4 * GI)),
        )
        prepare, main = verdict.containers
        assert prepare.memory == (MemoryBlock("memory", 5 * GI, (0,)),)
        assert main.memory == (MemoryBlock("memory", 4 * GI, (0,)),)

    def test_devices_are_used_again(self) -> None:
        verdict = admit(
            node(settings(Policy.SINGLE_NUMA_NODE), gpus=((0,), (1,))),
            pod(container("prepare", gpus=1, role=Role.INIT), container("main", gpus=1)),
        )
        assert [placed.devices for placed in verdict.containers] == [{GPU: ("gpu-0",)}, {GPU: ("gpu-0",)}]

    def test_later_containers_must_include_the_zones_to_re_use(self) -> None:
        """The init container's CPUs lie in both zones, so a single zone no longer does for the next container."""
        empty = node(settings(Policy.RESTRICTED, memory_manager=False))
        verdict = admit(empty, pod(container("prepare", cpu=20, role=Role.INIT), container("main", cpu=4)))
        assert (verdict.reason, verdict.container) == ("TopologyAffinityError", "main")

    def test_a_sidecar_keeps_what_it_has(self) -> None:
        one_zone = node(settings(Policy.SINGLE_NUMA_NODE), zones=1)
        init = container("prepare", cpu=10, role=Role.INIT)
        sidecar = container("proxy", cpu=10, role=Role.SIDECAR)
        assert admit(one_zone, pod(init, container("main", cpu=10))).admitted
        verdict = admit(one_zone, pod(sidecar, container("main", cpu=10)))
        assert (verdict.stage, verdict.container) == ("topology", "main")


class TestPodLevelResources:
    """Pods with resources of their own: ignored by default, one divided lot with the alpha gate."""

    POD = pod(
        container("owner", cpu=2),
        container("sharer", cpu=0, memory=0),
        pod_level={"cpu": 4000, "memory": 4 * GI},
    )

    def test_without_the_gate_nothing_is_pinned(self) -> None:
        verdict = admit(node(settings(Policy.SINGLE_NUMA_NODE, Scope.POD)), self.POD)
        assert [placed.cpus for placed in verdict.containers] == [(), ()]

    def test_with_the_gate_the_pods_lot_is_divided(self) -> None:
        verdict = admit(node(settings(Policy.SINGLE_NUMA_NODE, Scope.POD, pod_level_managers=True)), self.POD)
        owner, sharer = verdict.containers
        assert (owner.cpus, sharer.cpus) == ((0, 1), (2, 3))
        assert sharer.memory == (MemoryBlock("memory", 3 * GI, (0,)),)

    def test_a_lot_that_leaves_sharers_nothing_is_refused(self) -> None:
        gate_on = node(settings(Policy.BEST_EFFORT, Scope.POD, pod_level_managers=True))
        verdict = admit(gate_on, replace(self.POD, pod_level={"cpu": 2000, "memory": 4 * GI}))
        assert (verdict.reason, verdict.stage) == ("EmptyPodSharedPoolError", "cpu")
