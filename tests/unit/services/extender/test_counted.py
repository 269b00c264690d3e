"""Nodes on which amounts decided are remembered by class until they change."""

from __future__ import annotations

from dataclasses import replace

from bayplan.cluster.state import ClusterState
from bayplan.scheduling.profile import default_profile
from bayplan.services.extender.counted import CountedRows
from tests.builders.objects import node, simple_pod


def test_rows_are_kept_by_class_and_profile_until_their_node_changes() -> None:
    state = ClusterState()
    for name in ("n1", "n2"):
        state.set_node(node(name, {"cpu": 8}))
    counted, profile = CountedRows(state), default_profile()
    small, large = (state.classes.of(simple_pod({"cpu": cpus, "memory": "1Gi"})) for cpus in (1, 4))
    counted.of(small, profile).update((0, 1))
    assert counted.of(small, profile) == {0, 1}
    assert counted.of(large, profile) == counted.of(small, replace(profile, name="other")) == set()
    state.set_node(node("n2", {"cpu": 4}))
    assert counted.of(small, profile) == {0}
