"""bayplan and the stock kube-scheduler agree about random pods; `python -m tests.kubernetes.differential` compares
more.
"""

from __future__ import annotations

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.differential.comparing import compare

PODS = 200


def test_a_pod_is_schedulable_for_both_or_for_neither(control_plane: ControlPlane) -> None:
    tally = compare(control_plane, PODS, seed=0)
    assert (tally.pods, tally.differences) == (PODS, [])
    assert min(tally.placed, PODS - tally.placed) > PODS // 10, tally
