"""Heartbeats: every node once in each, evenly spread."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from bayplan.services.kubelets.registration import turns


@pytest.mark.parametrize("nodes", [1, 3, 40, 5000])
def test_every_node_has_its_turn_once_in_a_heartbeat(nodes: int) -> None:
    names = [f"virtual-{number}" for number in range(nodes)]
    ticks = list(islice(turns(names, 1 / 40), 40 * 3))
    assert Counter(name for tick in ticks for name in tick) == dict.fromkeys(names, 3)
    assert max(map(len, ticks)) - min(map(len, ticks)) <= 1
