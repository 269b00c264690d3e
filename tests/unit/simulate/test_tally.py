"""Counting while time passes: shares over time, the time line, refusals, and how far pods are spread over zones."""

from __future__ import annotations

import pytest

from bayplan.simulate.kubelet.machine import Machine, MachineZone
from bayplan.simulate.run import KubeletRefusal
from bayplan.simulate.scenario.machine_text import machine_of
from bayplan.simulate.tally import MOMENTS, MOST_REFUSALS, Tally
from tests.builders.objects import GI

HALF = {"cpu": 8000, "memory": 16 * GI}


def tally(lasts: float = 240.0) -> Tally:
    """One node with 16 CPUs and 64Gi; a moment of the time line each second."""
    return Tally(lasts, [{"cpu": 16_000, "memory": 64 * GI}])


def refusal(number: int = 0, reason: str = "TopologyAffinityError", node: str = "n1") -> KubeletRefusal:
    return KubeletRefusal(float(number), f"default/web-{number}", "web", node, reason, "no")


class TestShares:
    def test_are_means_over_the_time_that_has_passed(self) -> None:
        """Half of the CPUs for a quarter of the time."""
        counted = tally()
        counted.pass_to(60)
        counted.started(HALF)
        counted.pass_to(120)
        counted.ended(HALF)
        counted.pass_to(240)
        assert (counted.mean_share("cpu"), counted.mean_share("memory")) == (0.125, 0.0625)
        assert counted.peak_cpu_share == 0.5

    def test_are_zero_before_any_time_has_passed(self) -> None:
        counted = tally()
        counted.started(HALF)
        assert (counted.mean_share("cpu"), counted.peak_cpu_share) == (0.0, 0.5)

    def test_of_a_cluster_without_nodes_are_zero(self) -> None:
        counted = Tally(10.0, [])
        counted.pass_to(10)
        assert (counted.mean_share("cpu"), counted.moment(10).memory_share) == (0.0, 0.0)

    def test_count_nodes_together(self) -> None:
        counted = Tally(10.0, [{"cpu": 8000}, {"cpu": 24_000}])
        counted.started({"cpu": 8000})
        counted.pass_to(10)
        assert counted.mean_share("cpu") == 0.25

    def test_a_pod_that_asks_for_nothing_takes_nothing(self) -> None:
        counted = tally()
        counted.started({})
        counted.pass_to(1)
        assert counted.mean_share("cpu") == 0.0


class TestTheTimeLine:
    def test_has_a_moment_for_every_part_of_the_time(self) -> None:
        counted = tally(240.0)
        counted.pass_to(240)
        assert [moment.at for moment in counted.timeline] == list(range(240))

    @pytest.mark.parametrize("lasts", [0.5, 1.0, 60.0, 100.0, 599.7, 3600.0, 86_400.0, 1e7])
    def test_has_as_many_moments_whatever_the_time(self, lasts: float) -> None:
        counted = tally(lasts)
        for part in range(1, 1001):
            counted.pass_to(lasts * part / 1000)
        assert len(counted.timeline) == MOMENTS
        assert counted.timeline[-1].at < lasts

    def test_shows_how_it_stood_before_what_happens_at_that_moment(self) -> None:
        counted = tally()
        counted.waiting = 1
        counted.pass_to(2.0)
        counted.started(HALF)
        counted.pass_to(4.0)
        assert [moment.running for moment in counted.timeline] == [0, 0, 1, 1]
        assert [moment.waiting for moment in counted.timeline] == [1, 1, 0, 0]
        assert [moment.cpu_share for moment in counted.timeline] == [0.0, 0.0, 0.5, 0.5]

    def test_counts_refused_and_finished_pods_from_the_beginning(self) -> None:
        counted = tally()
        counted.started(HALF)
        counted.ended(HALF)
        counted.refuse(refusal())
        counted.refuse(refusal(1, "OutOfcpu"))
        moment = counted.moment(1.0)
        assert (moment.running, moment.finished, moment.refused) == (0, 1, 2)


class TestRefusals:
    def test_are_counted_by_reason_workload_and_node(self) -> None:
        counted = tally()
        for number, (reason, node) in enumerate((("Topology", "n1"), ("Topology", "n2"), ("OutOfcpu", "n2"))):
            counted.refuse(refusal(number, reason, node))
        assert counted.refused == {"Topology": 2, "OutOfcpu": 1}
        assert counted.refused_by_workload == {"web": 3}
        assert counted.refused_by_node == {"n1": 1, "n2": 2}

    def test_are_all_counted_and_the_first_ones_kept(self) -> None:
        counted = tally()
        for number in range(MOST_REFUSALS + 5):
            counted.refuse(refusal(number))
        assert (counted.refused.total(), len(counted.refusals)) == (MOST_REFUSALS + 5, MOST_REFUSALS)
        assert counted.refusals[-1].pod == f"default/web-{MOST_REFUSALS - 1}"


class TestZones:
    MACHINE = machine_of("pack:2 numa:2 core:4 mem:8Gi distance:12,32")

    @pytest.mark.parametrize(
        "zones, number, distance",
        [
            ([0], 1.0, 10.0),
            ([3, 3], 1.0, 10.0),
            pytest.param([0, 1], 2.0, 11.0, id="a pair counts both ways, and each zone itself"),
            ([0, 2], 2.0, 21.0),
            ([0, 1, 2, 3], 4.0, 21.5),
        ],
    )
    def test_number_and_distance_of_one_pod(self, zones: list[int], number: float, distance: float) -> None:
        counted = tally()
        counted.stands_in(zones, self.MACHINE)
        assert (counted.zones_per_pod, counted.distance) == (number, distance)

    def test_are_means_over_pods(self) -> None:
        counted = tally()
        for zones in ([0], [0, 1], [0, 2]):
            counted.stands_in(zones, self.MACHINE)
        assert (counted.zones_per_pod, counted.distance) == (1.6667, 14.0)

    @pytest.mark.parametrize(
        "decided, held, counts",
        [
            pytest.param({"cpu": {0}}, {"cpu": {0: 4000}}, (1, 0), id="as decided"),
            pytest.param({"cpu": {0}}, {"cpu": {1: 4000}}, (1, 1), id="in another zone"),
            pytest.param({"cpu": {0}}, {"cpu": {0: 3000, 1: 1000}}, (1, 1), id="in part"),
            pytest.param({"cpu": {0}, "memory": {0}}, {"cpu": {0: 4000}, "memory": {1: 8}}, (1, 1), id="one of two"),
            pytest.param({"cpu": {0}}, {"cpu": {0: 4000}, "memory": {1: 8}}, (1, 0), id="memory not mentioned"),
            pytest.param({"memory": {0}}, {"memory": {0: 4, 1: 4}}, (1, 0), id="memory of two zones in one block"),
            pytest.param({"cpu": {0}}, {}, (0, 0), id="the kubelet gives no CPUs of its own"),
            pytest.param({}, {"cpu": {0: 4000}}, (0, 0), id="nothing was decided"),
        ],
    )
    def test_that_were_decided_are_compared_with_those_given(
        self, decided: dict[str, set[int]], held: dict[str, dict[int, int]], counts: tuple[int, int]
    ) -> None:
        counted = tally()
        counted.was_decided(decided, held)
        assert (counted.zones_decided, counted.zones_not_as_decided) == counts

    def test_pods_that_own_nothing_in_zones_do_not_count(self) -> None:
        counted = tally()
        counted.stands_in([], self.MACHINE)
        assert (counted.zones_per_pod, counted.distance) == (None, None)

    def test_are_found_by_their_id(self) -> None:
        odd = Machine((MachineZone(2, GI, {}, (10, 40)), MachineZone(5, GI, {}, (40, 10))), ())
        counted = tally()
        counted.stands_in([2, 5], odd)
        assert counted.distance == 25.0
