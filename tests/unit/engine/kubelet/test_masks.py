"""Subsets of zones: their order, and where their number is bounded."""

from __future__ import annotations

from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.engine.kubelet import admit
from bayplan.engine.kubelet.masks import MOST_SUBSETS, badness, subsets, sums_over, zones_in
from tests.unit.engine.kubelet.builders import GI, container, node, pod, settings


def test_subsets_come_by_size_and_then_like_words() -> None:
    assert [zones_in(mask) for mask in subsets((0, 2, 5)).masks] == [
        (0,), (2,), (5,), (0, 2), (0, 5), (2, 5), (0, 2, 5)
    ]  # fmt: skip


def test_sums_over_subsets() -> None:
    assert sums_over(subsets((0, 2)).masks, {0: 3, 2: 4}) == {0: 0, 0b001: 3, 0b100: 4, 0b101: 7}


def test_fewer_zones_beat_lower_ids() -> None:
    assert sorted([0b011, 0b100, 0b001], key=badness((0, 1, 2))) == [0b001, 0b100, 0b011]


def test_distance_is_averaged_over_all_ordered_pairs() -> None:
    key = badness((0, 1), ((10, 21), (21, 10)))
    assert key(0b11) == (2, 15.5, 3)


class TestManyZones:
    """Above twelve zones only the smaller subsets are looked at, and what depends on others is refused as such."""

    def test_enumeration_stops_at_a_whole_size(self) -> None:
        some = subsets(tuple(range(64)))
        assert not some.complete
        assert len(some.masks) == 64 + 2016 <= MOST_SUBSETS

    def test_small_pods_are_judged_exactly(self) -> None:
        large = node(settings(Policy.RESTRICTED, memory_manager=False), zones=64, cpus=4, taken=tuple(range(8)))
        verdict = admit(large, pod(container(cpu=6)))
        assert verdict.admitted
        assert verdict.containers[0].zones == (2, 3)

    def test_pods_that_would_take_forever_are_refused(self) -> None:
        large = node(settings(Policy.RESTRICTED), zones=64, cpus=4)
        assert admit(large, pod(container(cpu=12))).reason == "TooManyZoneCombinations"
        without_policy = node(settings(Policy.NONE), zones=64, memory=GI)
        assert admit(without_policy, pod(container(memory=3 * GI))).reason == "TooManyZoneCombinations"

    def test_a_single_zone_is_always_decided(self) -> None:
        large = node(settings(Policy.SINGLE_NUMA_NODE), zones=64, cpus=4)
        assert admit(large, pod(container(cpu=5))).reason == "TopologyAffinityError"
