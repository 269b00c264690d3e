"""No kubelet refuses a pod under churn, although every watch lags by up to a second: deletions, ends and taints at
random.
"""

from __future__ import annotations

import pytest

from tests.properties.churn import Churn, ChurnRun

SEEDS = range(8)
PODS = 80


@pytest.mark.parametrize("seed", SEEDS)
def test_no_pod_is_refused_while_watches_lag(seed: int) -> None:
    # Without init containers: where a pod fits only beside others, as after an init container, it can lose their
    # company at any time.
    run = ChurnRun(Churn(seed, pods=PODS, with_init=0.0))
    run.run()
    assert run.refused == []
    assert run.placed > PODS / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_no_pod_is_refused_while_watches_are_fast(seed: int) -> None:
    run = ChurnRun(Churn(seed, pods=PODS, slowest=0.01))
    run.run()
    assert run.refused == []
    assert run.placed > PODS / 2
