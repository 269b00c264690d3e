"""bayplan and the stock kube-scheduler agree about random pods; `python -m tests.kubernetes.differential` compares
more.
"""

from __future__ import annotations

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import kubernetes_version
from tests.kubernetes.differential.comparing import compare
from tests.kubernetes.differential.scoring import compare_scores

PODS = 200
SCORED_PODS = 100


def test_a_pod_is_schedulable_for_both_or_for_neither(control_plane: ControlPlane) -> None:
    tally = compare(control_plane, PODS, seed=0)
    assert (tally.pods, tally.differences) == (PODS, [])
    assert min(tally.placed, PODS - tally.placed) > PODS // 10, tally


# docs/configuration.md
@pytest.mark.skipif(
    kubernetes_version().startswith("v1.34."), reason="1.34 has an older formula of NodeResourcesBalancedAllocation"
)
def test_every_feasible_node_has_the_stock_schedulers_score(control_plane: ControlPlane) -> None:
    tally = compare_scores(control_plane, SCORED_PODS, seed=0)
    assert (tally.pods, tally.differences) == (SCORED_PODS, [])
    assert tally.reasons["best node of several"] > SCORED_PODS // 4, tally
