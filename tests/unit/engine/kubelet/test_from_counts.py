"""A node rebuilt from what a topology report says: counts per zone, nothing else."""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.engine.kubelet import NearestMiss, ZoneCounts, admit, from_counts
from tests.unit.engine.kubelet.builders import GI, GPU, container, pod, settings


def test_counts_decide_like_the_real_thing() -> None:
    reported = from_counts(
        [
            ZoneCounts(3, cpus=(16, 14), memory={"memory": (64 * GI, 60 * GI)}, devices={GPU: (2, 1)}),
            ZoneCounts(0, cpus=(16, 2), memory={"memory": (64 * GI, 64 * GI)}, devices={GPU: (2, 2)}),
        ],
        settings(Policy.SINGLE_NUMA_NODE),
    )
    assert reported.zone_ids == (0, 3)
    assert admit(reported, pod(container(cpu=14, memory=60 * GI, gpus=1))).containers[0].zones == (3,)
    refused = admit(reported, pod(container(cpu=14, gpus=2)))
    assert refused.nearest_miss == NearestMiss(GPU, zone=3, have=1, want=2)


def test_what_no_zone_reports_does_not_matter() -> None:
    reported = from_counts([ZoneCounts(0, cpus=(4, 4)), ZoneCounts(1, cpus=(4, 4))], settings(Policy.SINGLE_NUMA_NODE))
    assert admit(reported, pod(container(cpu=4, memory=10**15, gpus=3))).admitted


def test_without_any_counts_everything_passes() -> None:
    empty = from_counts([ZoneCounts(0), ZoneCounts(1)], settings(Policy.SINGLE_NUMA_NODE))
    assert admit(empty, pod(container(cpu=4))).admitted


@pytest.mark.parametrize("strict, admitted", [(False, True), (True, False)])
def test_unknown_memory_groups(*, strict: bool, admitted: bool) -> None:
    """A report does not say how memory in use is grouped: hope for the best, or expect the worst."""
    half_used = [ZoneCounts(zone, cpus=(4, 4), memory={"memory": (8 * GI, 6 * GI)}) for zone in (0, 1)]
    reported = from_counts(half_used, settings(Policy.BEST_EFFORT), strict_memory_groups=strict)
    assert admit(reported, pod(container(memory=9 * GI))).admitted is admitted
