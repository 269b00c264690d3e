"""Numbers for kinds of machines: equal for equal machines, never used again, and bounded."""

from __future__ import annotations

import pytest

from bayplan.engine.slots import reports
from bayplan.engine.slots.reports import reports_of
from tests.builders.clusters import cluster
from tests.builders.objects import node, topology, zone


def test_equal_machines_share_a_number_and_no_number_is_used_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may describe another machine in each of its reports: counts that are kept by
    number must not mix them up.
    """
    monkeypatch.setattr(reports, "MOST_KINDS", 4)
    state = cluster(*(topology(zone(0, {"cpu": 8}), name=name) for name in "ab"), nodes=[node("a"), node("b")])
    assert reports_of(state).kind(0) == reports_of(state).kind(1)
    seen = [reports_of(state).kind(0)]
    for cpus in range(9, 30):
        state.set_topology(topology(zone(0, {"cpu": cpus}), name="a"))
        seen.append(reports_of(state).kind(0))
    assert len(set(seen)) == len(seen)
    assert len(reports_of(state)._kind_numbers) <= 4
