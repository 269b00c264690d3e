"""Volcano's "NUMA Aware Plugin": fewer zones, higher score; 750, 500 and 0 for one, two and four zones."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.cluster.pods.request import CPU
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.least_numa import narrowest_sets, relative_width_scores
from bayplan.scheduling.answers import ClassAnswers, score_in
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.relations import answer_for
from tests.builders.clusters import cluster
from tests.builders.numatopologies import machine, numa_aware_profile, numatopology, policy_pod, volcano_cluster
from tests.builders.objects import topology, zone


def test_the_priority_function() -> None:
    """A pod of 8 CPUs needs one zone on Node-A, two on Node-B, all four on Node-C."""
    cpus_per_zone = {"Node-A": 8, "Node-B": 4, "Node-C": 2}
    state = cluster(
        *(
            topology(*(zone(number, {"cpu": cpus}) for number in range(4)), name=name, policy="best-effort")
            for name, cpus in cpus_per_zone.items()
        )
    )
    (hardware_class,) = set(state.columns.hardware_class[:3].tolist())
    index = state.columns.resource_index[CPU]
    needed = narrowest_sets(
        state.hardware_classes[hardware_class],
        {CPU: state.columns.zone_available[index][:, :3]},
        {CPU: state.columns.zone_reported[index][:3]},
        {CPU: 8000},
        guaranteed=True,
    )
    zones_of = {
        name: [number for number in range(4) if int(bits) >> number & 1]
        for name, bits in zip(state.names, needed.bits, strict=True)
    }
    assert zones_of == {"Node-A": [0], "Node-B": [0, 1], "Node-C": [0, 1, 2, 3]}

    scores = dict(zip(state.names, relative_width_scores(needed.width, weight=10).tolist(), strict=True))
    assert scores == {"Node-A": 750, "Node-B": 500, "Node-C": 0}
    assert max(scores, key=lambda name: scores[name]) == "Node-A"


def test_the_widest_of_the_filtered_nodes_sets_the_scale() -> None:
    """maxNumaNodeNum is "the maximum NUMA node number in all filtered nodes": without Node-C,
    Node-B is at the bottom.
    """
    assert relative_width_scores(np.array([1, 2]), weight=10).tolist() == [500, 0]


def three_nodes() -> ClusterState:
    """As Volcano's agent reports them. On Node-C the other CPUs of each zone are in use."""
    return volcano_cluster(
        numatopology("Node-C", machine(4, 8), policy="best-effort", free="0-1,8-9,16-17,24-25"),
        numatopology("Node-B", machine(4, 4), policy="best-effort"),
        numatopology("Node-A", machine(4, 8), policy="best-effort"),
    )


@pytest.mark.parametrize("compatibility", ["kubelet", "volcano"])
def test_the_three_nodes_end_to_end(compatibility: str) -> None:
    """From three Numatopology objects, an annotated pod and a configuration with weight 10 to the decision and its
    score.
    """
    state = three_nodes()
    waiting = policy_pod("best-effort", 8)
    profile = numa_aware_profile(weight=10, compatibility=compatibility)
    answer = answer_for(state, waiting, state.classes.of(waiting), profile, ClassAnswers(state))
    scores = {name: score_in(rank) for name, rank in zip(state.names, answer.total_score.tolist(), strict=True)}
    assert scores == {"Node-A": 750, "Node-B": 500, "Node-C": 0}

    decision = schedule_one(state, waiting, profile, ClassAnswers(state))
    assert (decision.node, decision.score) == ("Node-A", 750)
    assert decision.containers[0].zones == (0,)


def test_where_every_zone_is_needed() -> None:
    """Without Node-A, Node-B with its two zones is best: 10 * (100 - 100 * 2 / 4)."""
    state = three_nodes()
    state.remove_node("Node-A")
    decision = schedule_one(state, policy_pod("best-effort", 8), numa_aware_profile(weight=10), ClassAnswers(state))
    assert (decision.node, decision.score, decision.containers[0].zones) == ("Node-B", 500, (0, 1))
